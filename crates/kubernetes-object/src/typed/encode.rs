//! Encodes a Go struct as `encoding/json` does: without the fields that `omitempty` and `omitzero` omit.

use super::scalar;
use super::table::{self, Field, Holds, Shape, Type};
use crate::Unwritten;
use crate::unwritten::Within;
use serde_json::{Map, Value};

pub(super) fn document(schema: &'static Type, value: &mut Value) -> Unwritten {
    value.as_object_mut().map(|fields| encode_fields(schema, fields)).unwrap_or_default()
}

fn encode_fields(schema: &'static Type, fields: &mut Map<String, Value>) -> Unwritten {
    let (mut unwritten, mut gone) = (Unwritten::default(), Vec::new());
    for (key, value) in fields.iter_mut() {
        let Some(field) = schema.field(key) else { continue };
        let is_left_out = is_left_out(field, value);
        let within = if is_left_out { not_nil(&field.shape, value) } else { encode(&field.shape, value) };
        within.into_iter().for_each(|within| unwritten.push(key, within));
        if is_left_out {
            gone.push(key.clone());
        }
    }
    for key in gone {
        fields.remove(&key);
    }
    for field in schema.written() {
        if !fields.contains_key(field.name) {
            let mut value = Value::Null;
            encode(&field.shape, &mut value);
            fields.insert(field.name.to_owned(), value);
        }
    }
    unwritten
}

/// Replaces the empty lists and maps that Go writes with null: protobuf does not tell them from nil.
pub(super) fn without_empty(schema: &'static Type, fields: &mut Map<String, Value>) {
    for (key, value) in fields.iter_mut() {
        if let Some(field) = schema.field(key) {
            without_empty_in(&field.shape, value);
        }
    }
}

fn without_empty_in(shape: &'static Shape, value: &mut Value) {
    match (&shape.holds, &mut *value) {
        (Holds::Struct(index), Value::Object(fields)) => {
            table::resolve(*index).into_iter().for_each(|schema| without_empty(schema, fields));
        }
        (Holds::List(_), Value::Array(items)) if items.is_empty() => *value = Value::Null,
        (Holds::Map(..), Value::Object(entries)) if entries.is_empty() => *value = Value::Null,
        (Holds::List(shape), Value::Array(items)) => items.iter_mut().for_each(|item| without_empty_in(shape, item)),
        (Holds::Map(_, shape), Value::Object(entries)) => {
            entries.values_mut().for_each(|entry| without_empty_in(shape, entry));
        }
        _ => {}
    }
}

/// Encodes a value. Returns the empty values in it that are not written.
fn encode(shape: &'static Shape, value: &mut Value) -> Option<Within> {
    if value.is_null() {
        *value = scalar::zero(shape);
    }
    match (&shape.holds, value) {
        (Holds::Struct(index), Value::Object(fields)) => encode_fields(table::resolve(*index)?, fields).into_within(),
        (Holds::List(shape), Value::Array(items)) => {
            let within = items.iter_mut().enumerate().filter_map(|(index, item)| Some((index, encode(shape, item)?)));
            let within: Vec<_> = within.collect();
            (!within.is_empty()).then_some(Within::Items(within))
        }
        (Holds::Map(_, shape), Value::Object(entries)) => {
            let mut unwritten = Unwritten::default();
            for (key, entry) in entries {
                encode(shape, entry).into_iter().for_each(|within| unwritten.push(key, within));
            }
            unwritten.into_within()
        }
        (Holds::SchemaOrBool | Holds::SchemaOrArray | Holds::SchemaOrStrings, value) => {
            let [schema, schemas, _] = table::json_schema();
            match value {
                Value::Object(_) => encode(schema, value),
                Value::Array(items) if items.iter().any(Value::is_object) => encode(schemas, value),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The omitted value, if Go's value is not nil.
fn not_nil(shape: &Shape, value: &mut Value) -> Option<Within> {
    let may_be_nil = matches!(shape.holds, Holds::Bytes | Holds::List(_) | Holds::Map(..));
    (may_be_nil && !value.is_null()).then(|| Within::Here(value.take()))
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
