//! Default values in a structural schema (`ValidateDefaults`): they are valid, also by the rules of the schema, and have no unknown fields.

use super::internal::Fields;
use super::schema::MAX_CAUSES;
use super::{Default, DefinitionChecks};
use crate::go_text::numbers;
use crate::status::Cause;
use crate::status::fault::{self, shown};
use crate::status::invalid::{self, aggregate};
use crate::structural::Structural;
use crate::structural::validate::{Compile, Validator};
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::rc::Rc;

/// The errors of the defaults in a schema. Unknown fields are errors if `requires_pruned`.
pub(super) fn check(schema: &Value, requires_pruned: bool, checks: DefinitionChecks<'_>, path: &str) -> Vec<Cause> {
    let mut checker = Checker { checks, requires_pruned, causes: Vec::new(), left: Some(u64::MAX) };
    let place = Place::new(schema);
    checker.schema(schema, true, &place, path);
    checker.causes
}

/// Whether a default of a schema has fields that decoding drops (`schemaHasUnprunedDefaults`).
pub(super) fn has_unpruned(schema: &Value) -> bool {
    fn within(schema: Fields<'_>, value: &Value) -> bool {
        let is_unpruned = schema.given("default").is_some_and(|default| {
            let Ok(part) = Structural::compile_part(value) else { return false };
            let mut default = default.clone();
            numbers::canonicalize(&mut default);
            let mut pruned = default.clone();
            part.prune_value(&mut pruned, schema.flag("x-kubernetes-embedded-resource"));
            pruned != default
        });
        let below = |value: &Value| Fields::of(value).is_some_and(|schema| within(schema, value));
        let maps = schema.given("properties").and_then(Value::as_object).into_iter().flatten().map(|(_, value)| value);
        is_unpruned || maps.chain(schema.given("items")).chain(schema.given("additionalProperties")).any(below)
    }
    Fields::of(schema).is_some_and(|fields| within(fields, schema))
}

/// A step from the schema of a resource to one below it.
#[derive(Clone)]
enum Step<'a> {
    Item,
    Field(&'a str),
}

/// The place of a schema within the schema of a resource.
#[derive(Clone)]
struct Place<'a> {
    resource: &'a Value,
    steps: Vec<Step<'a>>,
    /// Whether the schema describes the type or the metadata of the resource.
    is_in_metadata: bool,
    compiled: Rc<OnceCell<Option<(Structural, Validator)>>>,
}

struct Checker<'a> {
    checks: DefinitionChecks<'a>,
    requires_pruned: bool,
    causes: Vec<Cause>,
    /// The cost that is left for rules; `None` once it is spent, which ends the check.
    left: Option<u64>,
}

impl Checker<'_> {
    fn schema<'a>(&mut self, value: &'a Value, is_root: bool, place: &Place<'a>, path: &str) {
        let Some(schema) = Fields::of(value).filter(|_| self.causes.len() <= MAX_CAUSES && self.left.is_some()) else {
            return;
        };
        let is_resource = is_root || schema.flag("x-kubernetes-embedded-resource");
        let mut place = place.clone();
        if is_resource {
            place = Place::new(value);
        }
        if let Some(default) = schema.given("default") {
            let mut default = default.clone();
            numbers::canonicalize(&mut default);
            let path = format!("{path}.default");
            match place.is_in_metadata {
                true => self.in_metadata(value, default, &place, &path),
                false => self.outside_of_metadata(value, default, is_resource, &path),
            }
        }
        if let Some(items) = schema.given("items") {
            place.steps.push(Step::Item);
            self.schema(items, false, &place, &format!("{path}.items"));
            place.steps.pop();
        }
        for (name, property) in schema.given("properties").and_then(Value::as_object).into_iter().flatten() {
            let mut below = place.clone();
            below.steps.push(Step::Field(name));
            below.is_in_metadata |= is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            self.schema(property, false, &below, &format!("{path}.properties[{name}]"));
        }
    }

    fn outside_of_metadata(&mut self, schema: &Value, mut default: Value, is_resource: bool, path: &str) {
        let (Ok(part), Ok(validator)) =
            (Structural::compile_part(schema), Validator::compile_for_defaults(schema, self.checks.patterns))
        else {
            return;
        };
        if self.requires_pruned {
            let mut pruned = default.clone();
            part.prune_value(&mut pruned, is_resource);
            if pruned != default {
                self.causes.push(fault::invalid_value(path, &default, "must not have unknown fields"));
            }
        }
        if let Err(why) = part.coerce_value(&mut default, is_resource) {
            let Cause { field, message, .. } = why.into_cause();
            self.causes.push(fault::cause("FieldValueInvalid", &format!("{path}.{field}"), message));
            return;
        }
        let embedded = validator.embedded_causes_of(&default, is_resource, path);
        let causes = if embedded.is_empty() { validator.causes(&default, path) } else { embedded };
        match causes.is_empty() {
            true => self.rules(Default { schema, value: &default, path, is_resource }),
            false => self.causes.extend(causes),
        }
    }

    fn rules(&mut self, default: Default<'_>) {
        let Some(left) = self.left else { return };
        let (causes, left) = (self.checks.defaults)(default, left);
        self.causes.extend(causes);
        self.left = left;
    }

    fn in_metadata(&mut self, schema: &Value, default: Value, place: &Place<'_>, path: &str) {
        let (Some((part, resource)), Ok(validator)) =
            (place.compiled(self.checks.patterns), Validator::compile_for_defaults(schema, self.checks.patterns))
        else {
            return;
        };
        let mut object = place.around(default.clone());
        let why = match part.coerce_value(&mut object, true) {
            Err(why) => Some(why.to_string()),
            Ok(()) => {
                let causes = resource.embedded_causes_of(&object, true, "");
                aggregate(causes.iter().map(|Cause { field, message, .. }| format!("{field}: {message}")))
            }
        };
        match why {
            Some(why) => {
                let why = format!("must result in valid metadata: {why}");
                self.causes.push(invalid::invalid(path, &shown(&default), &why));
            }
            None => match validator.causes(&default, path) {
                causes if causes.is_empty() => {
                    self.rules(Default { schema, value: &default, path, is_resource: false })
                }
                causes => self.causes.extend(causes),
            },
        }
    }
}

impl<'a> Place<'a> {
    fn new(resource: &'a Value) -> Self {
        Self { resource, steps: Vec::new(), is_in_metadata: false, compiled: Rc::default() }
    }

    /// The schema of the resource, compiled once for all defaults in its metadata.
    fn compiled(&self, patterns: &Compile<'_>) -> Option<&(Structural, Validator)> {
        let compile = || {
            let structural = Structural::compile_part(self.resource).ok()?;
            Some((structural, Validator::compile_for_defaults(self.resource, patterns).ok()?))
        };
        self.compiled.get_or_init(compile).as_ref()
    }

    /// A resource that has the value in this place (`SurroundingObjectFunc`).
    fn around(&self, value: Value) -> Value {
        let around = self.steps.iter().rev().fold(value, |value, step| match step {
            Step::Item => Value::Array(vec![value]),
            Step::Field(name) => Value::Object([((*name).to_owned(), value)].into_iter().collect()),
        });
        let mut fields = match around {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        fields.entry("kind").or_insert_with(|| Value::from("Validation"));
        fields.entry("apiVersion").or_insert_with(|| Value::from("validation/v1"));
        Value::Object(fields)
    }
}
