//! The compiled schema of a version, and the validation of objects by it.

use super::definition::Version;
use crate::cel::Release;
use crate::cel::re2::Regex;
use crate::cel::rules::Rules;
use crate::object::Object;
use crate::object::custom_resource_definition::Default;
use crate::object::structural::validate::{self, Facts, InvalidPattern, PatternMatcher, Validator};
use crate::object::structural::{self, CompileSchemaError, Structural};
use crate::status::{Cause, Status, invalid};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A compiled schema.
#[derive(Debug)]
pub(in crate::embedded) struct Schema {
    pub(in crate::embedded) structural: Structural,
    validator: Validator,
    rules: Rules,
}

/// The state that an object replaces.
#[derive(Clone, Copy)]
pub(in crate::embedded) enum Before<'a> {
    /// None: the object is new.
    Nothing,
    /// The current object.
    Object(&'a Object),
    /// The current object, whose status alone is written.
    Status(&'a Object),
}

impl Schema {
    /// Compiles an `openAPIV3Schema`, with the rules of a release.
    ///
    /// # Errors
    /// If the schema is too large or too deep.
    pub(in crate::embedded) fn compile(
        schema: Option<&Value>,
        preserves: bool,
        release: Release,
    ) -> Result<Self, CompileSchemaError> {
        let none = Value::Object(Map::new());
        let structural = match (schema, preserves) {
            (None, false) => Structural::without_schema(),
            (schema, true) => Structural::compile_preserving(schema.unwrap_or(&none))?,
            (Some(schema), false) => Structural::compile(schema)?,
        };
        let schema = schema.unwrap_or(&none);
        let validator = Validator::compile(schema, &pattern)?;
        Ok(Self { structural, validator, rules: Rules::compile(Arc::new(schema.clone()), release) })
    }

    /// Reads a stored object: drops what the schema does not have, and sets defaults.
    pub(in crate::embedded) fn read(&self, object: &Object) -> Object {
        let whole = || {
            let mut whole = object.clone();
            structural::drop_invalid_metadata(whole.fields_mut());
            whole
        };
        let read = self.structural.normalize(whole().into_value()).map(|normal| normal.object);
        read.unwrap_or_else(|_| whole())
    }

    /// Validates an object of the version, for which `found` are errors already. Warns of what is wrong but unchanged, be the object refused or
    /// not.
    ///
    /// # Errors
    /// 422 with every error.
    pub(in crate::embedded) fn validate(
        &self,
        version: &Version,
        is_namespaced: bool,
        object: &Object,
        before: Before<'_>,
        mut found: Vec<Cause>,
        warn: impl Fn(String),
    ) -> Result<(), Status> {
        let scale = version.scale.as_ref();
        let facts = Facts { kind: &version.kind, is_namespaced, validator: &self.validator, scale };
        let (mut causes, old) = match before {
            Before::Nothing => (validate::validate(facts, object), None),
            Before::Object(old) => (validate::validate_update(facts, object, old), Some(old)),
            Before::Status(old) => (validate::validate_status_update(facts, object, old), Some(old)),
        };
        if !self.rules.is_empty() {
            match validate::without_rules(&causes) {
                Some(cause) => causes.push(cause),
                None => {
                    let found = self.rules.validate(object.as_value(), old.map(Object::as_value));
                    causes.extend(found.causes);
                    found.warnings.into_iter().for_each(warn);
                }
            }
        }
        found.extend(causes);
        invalid::status(&version.kind, object.name(), found).map_or(Ok(()), Err)
    }
}

/// Compiles a pattern in the syntax of Go's `regexp`.
///
/// # Errors
/// Go's error.
pub(in crate::embedded) fn pattern(pattern: &str) -> Result<PatternMatcher, InvalidPattern> {
    let compiled = Regex::compile(pattern).map_err(|error| InvalidPattern(error.to_string()))?;
    Ok(Arc::new(move |text| compiled.is_match(text)))
}

/// The errors that the rules in a schema at a path have in a release. Rules of an unchanged schema are stored already.
pub(in crate::embedded) fn rule_causes(schema: &Value, path: &str, is_unchanged: bool, release: Release) -> Vec<Cause> {
    let release = if is_unchanged { release.stored() } else { release };
    let found = crate::cel::rules::check(schema, path, release).errors;
    let causes = found.iter().map(|text| cause(text));
    // The cost of a single expression is no error of an unchanged schema.
    let counts = |cause: &Cause| {
        let is_of_one = ["estimated rule cost ", "estimated messageExpression cost "]
            .iter()
            .any(|what| cause.message.starts_with(&format!("Forbidden: {what}")));
        !(is_unchanged && is_of_one)
    };
    causes.filter(counts).collect()
}

/// The errors of a default by the rules of its schema, and the cost that is left.
pub(in crate::embedded) fn default_causes(
    default: Default<'_>,
    cost: u64,
    release: Release,
) -> (Vec<Cause>, Option<u64>) {
    let Default { schema, value, path, is_resource } = default;
    crate::cel::rules::validate_default(schema, value, path, is_resource, cost, release)
}

/// The error in a text `field: message`.
fn cause(text: &str) -> Cause {
    const TYPES: [(&str, &str); 6] = [
        (": Invalid value: ", "FieldValueInvalid"),
        (": Forbidden: ", "FieldValueForbidden"),
        (": Required value", "FieldValueRequired"),
        (": Unsupported value: ", "FieldValueNotSupported"),
        (": Duplicate value: ", "FieldValueDuplicate"),
        (": Internal error: ", "InternalError"),
    ];
    let found = TYPES.iter().filter_map(|(mark, reason)| Some((text.find(mark)?, reason)));
    match found.min() {
        Some((at, reason)) => {
            let (field, message) = text.split_at(at);
            Cause {
                reason: (*reason).to_owned(),
                message: message.trim_start_matches(": ").to_owned(),
                field: field.to_owned(),
            }
        }
        None => Cause { reason: "FieldValueInvalid".to_owned(), message: text.to_owned(), field: String::new() },
    }
}
