//! What `encoding/json` writes of a Go struct: all but what `omitempty` and `omitzero` leave out.

use super::scalar;
use super::table::{self, Field, Holds, Shape, Type};
use serde_json::{Map, Value};

pub(super) fn document(schema: &'static Type, value: &mut Value) {
    if let Value::Object(fields) = value {
        encode_fields(schema, fields);
    }
}

fn encode_fields(schema: &'static Type, fields: &mut Map<String, Value>) {
    fields.retain(|key, value| match schema.field(key) {
        Some(field) if is_left_out(field, value) => false,
        Some(field) => {
            encode(&field.shape, value);
            true
        }
        None => true,
    });
    for field in schema.written() {
        if !fields.contains_key(field.name) {
            let mut value = Value::Null;
            encode(&field.shape, &mut value);
            fields.insert(field.name.to_owned(), value);
        }
    }
}

fn encode(shape: &'static Shape, value: &mut Value) {
    if value.is_null() {
        *value = scalar::zero(shape);
    }
    match (&shape.holds, value) {
        (Holds::Struct(index), Value::Object(fields)) => {
            if let Some(schema) = table::resolve(*index) {
                encode_fields(schema, fields);
            }
        }
        (Holds::List(shape), Value::Array(items)) => items.iter_mut().for_each(|item| encode(shape, item)),
        (Holds::Map(_, shape), Value::Object(entries)) => entries.values_mut().for_each(|entry| encode(shape, entry)),
        (Holds::SchemaOrBool | Holds::SchemaOrArray | Holds::SchemaOrStrings, value) => {
            let [schema, schemas, _] = table::json_schema();
            match value {
                Value::Object(_) => encode(schema, value),
                Value::Array(items) if items.iter().any(Value::is_object) => encode(schemas, value),
                _ => (),
            }
        }
        _ => (),
    }
}

fn is_left_out(field: &Field, value: &Value) -> bool {
    if field.omits_zero && value.is_null() {
        return true;
    }
    if !field.omits_empty {
        return false;
    }
    if field.shape.is_pointer {
        return value.is_null() && !field.shape.holds.may_be_null();
    }
    match (&field.shape.holds, value) {
        (Holds::String | Holds::Bytes, Value::String(text)) => text.is_empty(),
        (Holds::Bool, Value::Bool(value)) => !value,
        (Holds::Uint8 | Holds::Int32 | Holds::Int64 | Holds::Float64, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (Holds::List(_), Value::Array(items)) => items.is_empty(),
        (Holds::Map(..), Value::Object(entries)) => entries.is_empty(),
        (
            Holds::String
            | Holds::Bytes
            | Holds::Bool
            | Holds::Uint8
            | Holds::Int32
            | Holds::Int64
            | Holds::Float64
            | Holds::List(_)
            | Holds::Map(..),
            Value::Null,
        ) => true,
        _ => false,
    }
}
