//! The check of a definition's schema that it is structural (`NewStructural`, `ValidateStructural`).

use super::internal::Fields;
use super::schema::MAX_CAUSES;
use crate::status::fault;
use crate::status::{Cause, invalid};
use crate::structural::validate::Compile;
use serde_json::Value;

/// The level of a schema.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The reason why a schema cannot be converted to a structural one (`NewStructural`).
pub(super) fn unsupported(schema: Fields<'_>) -> Option<String> {
    let is_given = |name: &str| match schema.given(name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(fields)) => name == "additionalItems" || !fields.is_empty(),
        Some(_) => true,
        None => false,
    };
    const UNSUPPORTED: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(name, _)| is_given(name)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    let junctors = schema
        .object("not")
        .into_iter()
        .chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|list| schema.objects(list).map(|(_, child)| child)));
    if let Some(why) = junctors.filter_map(unsupported).next() {
        return Some(why);
    }
    if schema.given("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned());
    }
    if !schema.list("items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let children = schema.object("items").into_iter().chain(schema.map("properties").map(|(_, child)| child));
    children.chain(schema.object("additionalProperties")).filter_map(unsupported).next()
}

/// The errors of a schema that is not structural, sorted by their texts.
pub(super) fn check(schema: Fields<'_>, patterns: &Compile<'_>, path: &str) -> Vec<Cause> {
    let mut checker = Checker { patterns, causes: Vec::new() };
    checker.invariants(schema, Level::Root, path);
    checker.completeness(schema, Some(schema), path, path);
    let mut causes = checker.causes;
    causes.sort_by_cached_key(|cause| format!("{}: {}", cause.field, cause.message));
    causes
}

struct Checker<'a> {
    patterns: &'a Compile<'a>,
    causes: Vec<Cause>,
}

impl Checker<'_> {
    fn required(&mut self, field: &str, why: &str) {
        self.causes.push(fault::required(field, why));
    }

    fn forbidden(&mut self, is_set: bool, field: String, why: &str) {
        self.causes.extend(is_set.then(|| invalid::forbidden(&field, why)));
    }

    /// `validateStructuralInvariants`
    fn invariants(&mut self, schema: Fields<'_>, level: Level, path: &str) {
        if self.causes.len() > MAX_CAUSES {
            return;
        }
        let of = schema.text("type");
        let items = schema.object("items");
        if of == "array" && items.is_none() {
            self.required(&format!("{path}.items"), "must be specified");
        }
        if let Some(items) = items {
            self.invariants(items, Level::Item, &format!("{path}.items"));
        }
        for (name, property) in schema.map("properties") {
            self.invariants(property, Level::Field, &format!("{path}.properties[{name}]"));
        }
        let additional = format!("{path}.additionalProperties");
        let has_additional = schema.given("additionalProperties").is_some();
        self.forbidden(has_additional && level == Level::Root, additional.clone(), "must not be used at the root");
        if let Some(schema) = schema.object("additionalProperties") {
            self.invariants(schema, Level::Field, &additional);
        }
        let first_of_all = schema.objects("allOf").next().map(|(_, first)| first);
        let skips_any = is_int_or_string(schema);
        let skips_first = first_of_all.is_some_and(is_int_or_string);
        self.validations(schema, skips_any, skips_first, path);
        self.extensions(schema, level, path);
        self.resource(schema, level, path);
    }

    fn extensions(&mut self, schema: Fields<'_>, level: Level, path: &str) {
        let of = schema.text("type");
        let (preserves, is_embedded, is_int_or_string) = (
            schema.flag("x-kubernetes-preserve-unknown-fields"),
            schema.flag("x-kubernetes-embedded-resource"),
            schema.flag("x-kubernetes-int-or-string"),
        );
        for (is_set, name) in [(preserves, "preserve-unknown-fields"), (is_embedded, "embedded-resource")] {
            if is_int_or_string && is_set {
                let field = format!("{path}.x-kubernetes-{name}");
                let why = "must be false if x-kubernetes-int-or-string is true";
                self.causes.push(invalid::invalid(&field, "true", why));
            }
        }
        let field = format!("{path}.type");
        if is_embedded && of != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            self.causes.push(match of {
                "" => fault::required(&field, why),
                of => fault::invalid_text(&field, of, why),
            });
        } else if of.is_empty() && !is_int_or_string && !preserves {
            let place = match level {
                Level::Root => "at the root",
                Level::Item => "for specified array items",
                Level::Field => "for specified object fields",
            };
            self.required(&field, &format!("must not be empty {place}"));
        }
        let has_additional = schema.given("additionalProperties").is_some();
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        self.forbidden(is_embedded && has_additional, format!("{path}.additionalProperties"), why);
        if level == Level::Root && !matches!(of, "" | "object") {
            self.causes.push(fault::invalid_text(&field, of, "must be object at the root"));
        }
        if is_embedded && !preserves && !schema.has_any("properties") {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.required(&format!("{path}.properties"), why);
        }
    }

    /// The type and the metadata of a resource.
    fn resource(&mut self, schema: Fields<'_>, level: Level, path: &str) {
        let is_resource = level == Level::Root || schema.flag("x-kubernetes-embedded-resource");
        let Some(properties) = schema.object("properties") else { return };
        for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            let Some(of) = properties.object(name).map(|property| property.text("type")) else { continue };
            if is_resource && of != expected {
                let field = format!("{path}.properties[{name}].type");
                self.causes.push(fault::invalid_text(&field, of, &format!("must be {expected}")));
            }
        }
        let is_more = properties.object("metadata").is_some_and(has_more_than_names);
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        self.forbidden(level == Level::Root && is_more, format!("{path}.properties[metadata]"), why);
    }

    /// `validateValueValidation`
    fn validations(&mut self, schema: Fields<'_>, skips_any: bool, skips_first: bool, path: &str) {
        for list in ["anyOf", "allOf", "oneOf"] {
            for (index, child) in schema.objects(list) {
                if list == "anyOf" && skips_any {
                    continue;
                }
                let skips_any = list == "allOf" && skips_first && index == 0;
                self.nested(child, skips_any, &format!("{path}.{list}[{index}]"));
            }
        }
        if let Some(not) = schema.object("not") {
            self.nested(not, false, &format!("{path}.not"));
        }
        let pattern = schema.text("pattern");
        if !pattern.is_empty()
            && let Err(why) = (self.patterns)(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {why}");
            self.causes.push(fault::invalid_text(&format!("{path}.pattern"), pattern, &why));
        }
    }

    /// `validateNestedValueValidation`
    fn nested(&mut self, schema: Fields<'_>, skips_any: bool, path: &str) {
        if self.causes.len() > MAX_CAUSES {
            return;
        }
        self.validations(schema, skips_any, false, path);
        if let Some(items) = schema.object("items") {
            self.nested(items, false, &format!("{path}.items"));
        }
        for (name, property) in schema.map("properties") {
            self.nested(property, false, &format!("{path}.properties[{name}]"));
        }
        for field in ["type", "title", "description"] {
            let is_set = !schema.text(field).is_empty();
            self.forbidden(is_set, format!("{path}.{field}"), "must be empty to be structural");
        }
        let has_additional = schema.given("additionalProperties").is_some_and(|value| *value != Value::Bool(false));
        self.forbidden(has_additional, format!("{path}.additionalProperties"), "must be undefined to be structural");
        for field in ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
            self.forbidden(
                schema.given(field).is_some(),
                format!("{path}.{field}"),
                "must be undefined to be structural",
            );
        }
        for field in [
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ] {
            self.forbidden(schema.flag(field), format!("{path}.{field}"), "must be false to be structural");
        }
        for field in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
            self.forbidden(schema.has_any(field), format!("{path}.{field}"), "must be empty to be structural");
        }
        let has_metadata =
            schema.object("properties").is_some_and(|properties| properties.object("metadata").is_some());
        let why = "must not be specified in a nested context";
        self.forbidden(has_metadata, format!("{path}.properties[metadata]"), why);
    }

    /// Requires a structural schema for each part of a nested one (`validateValueValidationCompleteness`).
    fn completeness(&mut self, nested: Fields<'_>, schema: Option<Fields<'_>>, path: &str, nested_path: &str) {
        if let Some(not) = nested.object("not") {
            self.nested_completeness(not, schema, path, &format!("{nested_path}.not"));
        }
        for list in ["allOf", "anyOf", "oneOf"] {
            for (index, child) in nested.objects(list) {
                self.nested_completeness(child, schema, path, &format!("{nested_path}.{list}[{index}]"));
            }
        }
    }

    fn nested_completeness(&mut self, nested: Fields<'_>, schema: Option<Fields<'_>>, path: &str, nested_path: &str) {
        let Some(schema) = schema else {
            self.required(path, &format!("because it is defined in {nested_path}"));
            return;
        };
        if self.causes.len() > MAX_CAUSES {
            return;
        }
        self.completeness(nested, Some(schema), path, nested_path);
        if let Some(items) = nested.object("items") {
            let own = schema.object("items");
            self.nested_completeness(items, own, &format!("{path}.items"), &format!("{nested_path}.items"));
        }
        for (name, property) in nested.map("properties") {
            let own = schema.object("properties").and_then(|properties| properties.object(name));
            let below = format!("properties[{name}]");
            self.nested_completeness(property, own, &format!("{path}.{below}"), &format!("{nested_path}.{below}"));
        }
    }
}

/// Whether `anyOf` is an integer or a string, and nothing else.
fn is_int_or_string(schema: Fields<'_>) -> bool {
    let types: Vec<_> = schema.objects("anyOf").map(|(_, child)| child).collect();
    let is_type = |child: &Fields<'_>, of: &str| {
        child.text("type") == of && child.0.iter().all(|(name, value)| name == "type" || is_zero(name, value))
    };
    matches!(&*types, [first, second] if is_type(first, "integer") && is_type(second, "string"))
}

/// Whether the schema of metadata has anything but a type, a default, and the properties `name` and `generateName`.
fn has_more_than_names(metadata: Fields<'_>) -> bool {
    metadata.0.iter().any(|(name, value)| match (name.as_str(), value) {
        ("type" | "default", _) => false,
        ("properties", Value::Object(properties)) => {
            properties.keys().any(|property| !matches!(property.as_str(), "name" | "generateName"))
        }
        (name, value) => !is_zero(name, value),
    })
}

/// Whether Go holds a field of a schema as its zero value.
fn is_zero(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => name != "additionalProperties" || value.is_null(),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty() && matches!(name, "enum" | "allOf" | "anyOf" | "oneOf"),
        Value::Object(fields) => fields.is_empty() && name == "properties",
        Value::Bool(true) | Value::Number(_) => false,
    }
}
