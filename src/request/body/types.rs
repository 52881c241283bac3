//! Whether a decoded object has the JSON types that its Go type asks for, in the words of Go's `UnmarshalTypeError`.

use crate::object::decode::go_type;
use crate::object::schema::{Scalar, Shape, Type};
use serde_json::{Map, Value};

/// The first type error in an object of a built-in kind.
pub(crate) fn error(schema: &'static Type, object: &Map<String, Value>) -> Option<String> {
    fields_error(schema, object, "")
}

fn fields_error(schema: &'static Type, object: &Map<String, Value>, path: &str) -> Option<String> {
    object.iter().find_map(|(key, value)| {
        let field = schema.field(key)?;
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        value_error(&field.shape, value, schema.go_name(), &path)
    })
}

fn value_error(shape: &'static Shape, value: &Value, owner: &str, path: &str) -> Option<String> {
    let wrong = |found: &str| {
        let expected = go_name(shape);
        Some(format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}"))
    };
    match (shape, value) {
        (_, Value::Null) | (Shape::Any, _) => None,
        (Shape::Object(reference), Value::Object(fields)) => fields_error(reference.resolve()?, fields, path),
        (Shape::List(items), Value::Array(values)) => {
            values.iter().find_map(|value| value_error(items, value, owner, path))
        }
        (Shape::Map(values), Value::Object(fields)) => {
            fields.values().find_map(|value| value_error(values, value, owner, path))
        }
        (Shape::Scalar(scalar), value) => match (scalar, value) {
            (Scalar::String | Scalar::Bytes, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Double, Value::Number(_))
            | (Scalar::Quantity | Scalar::IntOrString, Value::String(_) | Value::Number(_))
            | (Scalar::Time | Scalar::MicroTime, Value::String(_)) => None,
            (Scalar::Int32 | Scalar::Int64, Value::Number(number)) => {
                let fits = match number.as_i64() {
                    Some(number) => *scalar == Scalar::Int64 || i32::try_from(number).is_ok(),
                    None => false,
                };
                if fits { None } else { wrong(&format!("number {number}")) }
            }
            // These types decode themselves, and so do not know where they are.
            (Scalar::Time | Scalar::MicroTime, other) => {
                Some(format!("json: cannot unmarshal {} into Go value of type string", go_type(other)))
            }
            (Scalar::IntOrString, other) => {
                Some(format!("json: cannot unmarshal {} into Go value of type int32", go_type(other)))
            }
            (Scalar::Quantity, _) => Some(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    .to_owned(),
            ),
            (_, other) => wrong(go_type(other)),
        },
        (_, other) => wrong(go_type(other)),
    }
}

fn go_name(shape: &'static Shape) -> String {
    match shape {
        Shape::Any => "interface {}".to_owned(),
        Shape::Object(reference) => match reference.resolve() {
            // `core.v1.Pod` is `v1.Pod`.
            Some(schema) => {
                let version = schema.name.rsplit('.').nth(1).unwrap_or_default();
                format!("{version}.{}", schema.go_name())
            }
            None => "struct".to_owned(),
        },
        Shape::List(items) => format!("[]{}", go_name(items)),
        Shape::Map(values) => format!("map[string]{}", go_name(values)),
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Boolean => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Double => "float64",
            Scalar::Bytes => "[]uint8",
            Scalar::Time => "v1.Time",
            Scalar::MicroTime => "v1.MicroTime",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "intstr.IntOrString",
        }
        .to_owned(),
    }
}
