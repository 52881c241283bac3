//! The fields of a schema and their combinations (`ValidateCustomResourceDefinitionOpenAPISchema`).

use super::internal::Fields;
use super::{print, rules};
use crate::go_text::go_quote;
use crate::go_text::json;
use crate::status::fault;
use crate::status::{Cause, invalid};
use serde_json::Value;
use std::collections::HashSet;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The number of errors after which no further schema is checked. kube-apiserver has no such limit.
pub(super) const MAX_CAUSES: usize = 4096;

/// The invalid parts of a definition that an update may keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) requires_valid_types: bool,
    pub(super) requires_atomic_sets: bool,
    pub(super) requires_list_keys: bool,
}

/// The place of a schema within the whole one.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    is_root: bool,
    is_in_metadata: bool,
    /// Why defaults are forbidden.
    without_defaults: Option<&'a str>,
}

/// The errors of a whole schema at a path.
pub(super) fn check(schema: Fields<'_>, options: Options, path: &str) -> Vec<Cause> {
    let mut checker = Checker { options, causes: Vec::new() };
    checker.schema(schema, path, Place { is_root: true, ..Place::default() });
    checker.causes
}

/// Whether OpenAPI lacks the type of a schema.
pub(super) fn has_invalid_type(schema: Fields<'_>) -> bool {
    let of = schema.text("type");
    !of.is_empty() && !TYPES.contains(&of)
}

struct Checker {
    options: Options,
    causes: Vec<Cause>,
}

impl Checker {
    fn schema(&mut self, schema: Fields<'_>, path: &str, place: Place<'_>) {
        if self.causes.len() > MAX_CAUSES {
            return;
        }
        self.standard(schema, path, place);
        if schema.flag("uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.causes.push(invalid::forbidden(&format!("{path}.uniqueItems"), why));
        }
        self.children(schema, path, place);
        if let Some(Value::Bool(false)) = schema.given("x-kubernetes-preserve-unknown-fields") {
            let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.causes.push(invalid::invalid(&field, "false", "must be true or undefined"));
        }
        self.map_type(schema, path);
        self.list_type(schema, path);
        if schema.optional_text("x-kubernetes-list-type") == Some("map") {
            self.keyed_list(schema, path);
        }
        if self.options.requires_list_keys {
            self.causes.extend(list_keys(schema, path));
        }
        self.causes.extend(rules::check(schema, path));
    }

    /// `specStandardValidatorV3`
    fn standard(&mut self, schema: Fields<'_>, path: &str, place: Place<'_>) {
        let of = schema.text("type");
        if self.options.requires_valid_types && has_invalid_type(schema) {
            self.causes.push(fault::not_supported(&format!("{path}.type"), &go_quote(of), TYPES));
        }
        let mut forbidden = |is_set: bool, field: &str, why: &str| {
            self.causes.extend(is_set.then(|| invalid::forbidden(&format!("{path}.{field}"), why)));
        };
        if let Some(why) = place.without_defaults {
            forbidden(schema.given("default").is_some(), "default", &format!("must not be set {why}"));
        }
        let is_given = |field: &str| schema.given(field).is_some();
        for (is_set, field) in [
            (!schema.text("id").is_empty(), "id"),
            (is_given("additionalItems"), "additionalItems"),
            (schema.has_any("patternProperties"), "patternProperties"),
            (schema.has_any("definitions"), "definitions"),
            (is_given("dependencies"), "dependencies"),
            (is_given("$ref"), "$ref"),
        ] {
            forbidden(is_set, field, &format!("{field} is not supported"));
        }
        forbidden(of == "null", "type", "type cannot be set to null, use nullable as an alternative");
        let is_list = !schema.list("items").is_empty();
        forbidden(is_list, "items", "items must be a schema object and not an array");
        let is_embedded = place.is_in_metadata && schema.flag("x-kubernetes-embedded-resource");
        forbidden(is_embedded, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }

    fn children(&mut self, schema: Fields<'_>, path: &str, place: Place<'_>) {
        let below = Place { is_root: false, ..place };
        if let Some(additional) = schema.given("additionalProperties") {
            let field = format!("{path}.additionalProperties");
            if schema.has_any("properties") && *additional != Value::Bool(true) {
                let why = "additionalProperties and properties are mutual exclusive";
                self.causes.push(invalid::forbidden(&field, why));
            }
            let why = "inside additionalProperties applying to object metadata";
            let without_defaults = if place.is_in_metadata { Some(why) } else { place.without_defaults };
            if let Some(additional) = Fields::of(additional) {
                self.schema(additional, &field, Place { without_defaults, ..below });
            }
        }
        for (name, property) in schema.map("properties") {
            let mut below = below;
            let is_meta = matches!(name, "metadata" | "kind" | "apiVersion");
            let why = format!("in top-level {name}");
            if is_meta && (place.is_root || schema.flag("x-kubernetes-embedded-resource")) {
                below.is_in_metadata = true;
                below.without_defaults = if place.is_root { Some(&why) } else { below.without_defaults };
            }
            self.schema(property, &format!("{path}.properties[{name}]"), below);
        }
        if let Some(not) = schema.object("not") {
            self.schema(not, &format!("{path}.not"), below);
        }
        for list in ["allOf", "oneOf", "anyOf"] {
            for (index, child) in schema.objects(list) {
                self.schema(child, &format!("{path}.{list}[{index}]"), below);
            }
        }
        for (name, definition) in schema.map("definitions") {
            self.schema(definition, &format!("{path}.definitions[{name}]"), below);
        }
        if let Some(items) = schema.object("items") {
            self.schema(items, &format!("{path}.items"), below);
        }
        for (index, items) in schema.objects("items") {
            self.schema(items, &format!("{path}.items[{index}]"), below);
        }
        for (name, dependency) in schema.map("dependencies") {
            self.schema(dependency, &format!("{path}.dependencies[{name}]"), below);
        }
    }

    /// Requires a type for an extension.
    fn type_for(&mut self, schema: Fields<'_>, path: &str, expected: &str, extension: &str) -> bool {
        let (of, field) = (schema.text("type"), format!("{path}.type"));
        let why = format!("must be {expected} if {extension} is specified");
        match of {
            "" => self.causes.push(fault::required(&field, &why)),
            of if of == expected => return true,
            of => self.causes.push(fault::invalid_text(&field, of, &why)),
        }
        false
    }

    fn map_type(&mut self, schema: Fields<'_>, path: &str) {
        let Some(of) = schema.optional_text("x-kubernetes-map-type") else { return };
        self.type_for(schema, path, "object", "x-kubernetes-map-type");
        if !matches!(of, "atomic" | "granular") {
            let field = format!("{path}.x-kubernetes-map-type");
            self.causes.push(fault::not_supported(&field, &go_quote(of), ["atomic", "granular"]));
        }
    }

    fn list_type(&mut self, schema: Fields<'_>, path: &str) {
        let of = schema.optional_text("x-kubernetes-list-type");
        let field = format!("{path}.x-kubernetes-list-type");
        if let Some(of) = of {
            let is_array = self.type_for(schema, path, "array", "x-kubernetes-list-type");
            if is_array && self.options.requires_atomic_sets && is_set_of_parts(schema) {
                self.set_of_parts(schema, path);
            }
            if !matches!(of, "atomic" | "set" | "map") {
                self.causes.push(fault::not_supported(&field, &go_quote(of), ["atomic", "set", "map"]));
            }
        }
        if schema.has_any("x-kubernetes-list-map-keys") {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            match of {
                None => self.causes.push(fault::required(&field, why)),
                Some("map") => {}
                Some(of) => self.causes.push(fault::invalid_text(&field, of, why)),
            }
        }
    }

    /// Reports a set whose items are not atomic.
    fn set_of_parts(&mut self, schema: Fields<'_>, path: &str) {
        let Some(items) = schema.object("items") else { return };
        let extension = if items.text("type") == "array" { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
        // kube-apiserver shows the list type in both errors.
        let shown = items.given("x-kubernetes-list-type").map_or_else(|| "null".to_owned(), json::text);
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        self.causes.push(invalid::invalid(&format!("{path}.items.{extension}"), &shown, why));
    }

    fn keyed_list(&mut self, schema: Fields<'_>, path: &str) {
        let keys_field = format!("{path}.x-kubernetes-list-map-keys");
        let keys: Vec<_> = schema.texts("x-kubernetes-list-map-keys").collect();
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            self.causes.push(fault::required(&keys_field, why));
        }
        let field = format!("{path}.items");
        if schema.given("items").is_none() {
            let why = "must have a schema if x-kubernetes-list-type is map";
            self.causes.push(fault::required(&field, why));
            return;
        }
        let Some(items) = schema.object("items") else {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            self.causes.push(invalid::invalid(&field, &print::items(schema), why));
            return;
        };
        if items.text("type") != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.causes.push(fault::invalid_text(&format!("{field}.type"), items.text("type"), why));
            return;
        }
        let shown = json::text(&Value::from(keys.clone()));
        let properties = items.object("properties");
        let mut known = std::collections::HashSet::new();
        for key in keys {
            match properties.and_then(|properties| properties.object(key)) {
                Some(property) if matches!(property.text("type"), "array" | "object") => {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.causes.push(fault::invalid_text(&format!("{field}.properties[{key}].type"), "object", why));
                }
                Some(_) => {}
                None => {
                    let why = "entries must all be names of item properties";
                    self.causes.push(invalid::invalid(&keys_field, &shown, why));
                }
            }
            if !known.insert(key) {
                self.causes.push(invalid::invalid(&keys_field, &shown, "must not contain duplicate entries"));
            }
        }
    }
}

/// Whether a list of type `set` has items that are not atomic (`hasNonAtomicSetType`).
pub(super) fn is_set_of_parts(schema: Fields<'_>) -> bool {
    let Some(items) = schema.object("items") else { return false };
    let extension = |name: &str| items.optional_text(name);
    schema.optional_text("x-kubernetes-list-type") == Some("set")
        && match items.text("type") {
            "array" => extension("x-kubernetes-list-type").is_some_and(|of| of != "atomic"),
            "object" => extension("x-kubernetes-map-type") != Some("atomic"),
            _ => false,
        }
}

/// The errors of items that are null, and of keys that may be missing (`validateMapListKeysMapSet`).
pub(super) fn list_keys(schema: Fields<'_>, path: &str) -> Vec<Cause> {
    let (Some(items), Some(of @ ("set" | "map"))) =
        (schema.object("items"), schema.optional_text("x-kubernetes-list-type"))
    else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    if items.flag("nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {of}");
        causes.push(invalid::forbidden(&format!("{path}.items.nullable"), &why));
    }
    if of == "set" {
        return causes;
    }
    let required: HashSet<&str> = items.texts("required").collect();
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let properties = items.object("properties");
        let Some(property) = properties.and_then(|properties| properties.object(key)) else { continue };
        let field = format!("{path}.items.properties[{key}]");
        if !required.contains(key) && property.given("default").is_none() {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(fault::required(&format!("{field}.default"), why));
        }
        if property.flag("nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(invalid::forbidden(&format!("{field}.nullable"), why));
        }
    }
    causes
}
