//! Custom resource definitions.

use crate::defaults::fields::{Fields, each, is_nil, pointer};
use serde_json::Value;

pub(super) fn make(object: &mut Fields) {
    let Some(spec) = pointer(object, "spec") else { return };
    pointer(spec, "conversion").map(conversion);
    for version in each(spec, "versions") {
        if let Some(schema) = pointer(version, "schema").and_then(|schema| schema.get_mut("openAPIV3Schema")) {
            self::schema(schema);
        }
    }
}

/// Removes an empty webhook: the internal version holds the webhook's parts, not the webhook
/// (`Convert_v1_CustomResourceConversion_To_apiextensions_*`).
fn conversion(conversion: &mut Fields) {
    let Some(webhook) = pointer(conversion, "webhook") else { return };
    if is_nil(webhook, "clientConfig") && is_nil(webhook, "conversionReviewVersions") {
        conversion.remove("webhook");
    }
}

/// Rewrites the numbers of values within a schema, which Go decodes and encodes.
fn schema(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    for (name, value) in fields {
        match name.as_str() {
            "default" | "example" | "enum" => numbers(value),
            "properties" | "patternProperties" | "definitions" | "dependencies" => {
                value.as_object_mut().into_iter().flatten().for_each(|(_, schema)| self::schema(schema));
            }
            "allOf" | "anyOf" | "oneOf" => value.as_array_mut().into_iter().flatten().for_each(self::schema),
            "items" => match value {
                Value::Array(schemas) => schemas.iter_mut().for_each(self::schema),
                schema => self::schema(schema),
            },
            "not" | "additionalProperties" | "additionalItems" => self::schema(value),
            _ => {}
        }
    }
}

/// Rewrites numbers as Go does: integers stay, other numbers lose a fraction of zero.
fn numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21);
            // Go and Rust both write the shortest digits that identify the number, then zeros.
            let whole = float.and_then(|float| format!("{float}").parse::<i64>().ok());
            if let Some(whole) = whole {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(numbers),
        Value::Object(fields) => fields.values_mut().for_each(numbers),
        _ => {}
    }
}
