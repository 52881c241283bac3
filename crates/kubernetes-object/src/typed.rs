//! Built-in kinds as the Go types of the release of this process: the values that decoding JSON into these types keeps, and that encoding them writes.
//! Defaults and conversions are elsewhere.
//!
//! A decoded value has no field that Go would hold as nil, or as the zero of a string, boolean or number that is no pointer. A nested
//! object is present if the client wrote it. In lists and maps, `null` becomes its Go value.

mod table;
mod path;
mod decode;
mod scalar;
mod base64;
mod text;
mod cbor;
mod encode;
mod unstructured;
mod rest;

pub use cbor::{TypeMeta, type_meta};
pub use rest::{Rest, Unplaced, has_rest};
pub use unstructured::ConvertError;

use super::decode::Decoded;
use super::{Object, Unwritten};
use crate::kind::GroupVersionKind;
use decode::Decoder;
use serde_json::Value;

/// A decoded object of a built-in kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// The object.
    pub value: Value,
    /// The errors of strict decoding for fields that the kind does not have: `unknown field "spec.foo"`. For text they include duplicate
    /// fields, in the order of the text.
    pub unknown: Vec<String>,
}

/// The reason why a value is no object of its kind, with the text of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

/// Decodes a value. `None` if the kind is not built in.
///
/// # Errors
/// If the value is no object of this kind. Fields are decoded in the order of their names.
pub fn decode(kind: &GroupVersionKind, mut value: Value) -> Option<Result<Typed, DecodeError>> {
    let schema = table::of(kind)?;
    let mut decoder = Decoder::default();
    let result = decoder.document(schema, &mut value);
    Some(result.map(|()| Typed { value, unknown: decoder.into_strict_errors() }))
}

/// Decodes the JSON text of a value. As [`decode()`], but fields are decoded in the order of the text, numbers keep their literal text, and
/// duplicate fields are decoded and reported as in Go.
///
/// # Errors
/// As [`decode()`].
pub fn decode_json(kind: &GroupVersionKind, decoded: Decoded, text: &[u8]) -> Option<Result<Typed, DecodeError>> {
    let schema = table::of(kind)?;
    let Decoded { mut value, duplicates } = decoded;
    let mut decoder = Decoder::default();
    // Nearly all documents give one result by value and by text, and the value is decoded already.
    let is_plain =
        duplicates.is_empty() && decoder.document(schema, &mut value).is_ok() && decoder.is_independent_of_text();
    if is_plain {
        return Some(Ok(Typed { value, unknown: decoder.into_strict_errors() }));
    }
    Some(text::decode(schema, text))
}

/// Decodes CBOR. Reports only the first field that the kind does not have, by its place in its map; [`cbor`](super::cbor) describes the
/// other rules and the errors.
///
/// # Errors
/// As [`decode()`].
pub fn decode_cbor(kind: &GroupVersionKind, bytes: &[u8]) -> Option<Result<Typed, DecodeError>> {
    let schema = table::of(kind)?;
    Some(cbor::decode(schema, bytes).and_then(|(mut value, unknown)| {
        Decoder::default().document(schema, &mut value)?;
        Ok(Typed { value, unknown: unknown.into_iter().collect() })
    }))
}

/// Converts the untyped values of an object as Go's conversion does: numbers that are too large for their field are truncated. Leaves kinds
/// that are not built in alone.
///
/// # Errors
/// If a value cannot be converted.
pub fn from_unstructured(kind: &GroupVersionKind, value: &mut Value) -> Result<(), ConvertError> {
    match (table::of(kind), value) {
        (Some(schema), Value::Object(fields)) => unstructured::convert_fields(schema, fields),
        _ => Ok(()),
    }
}

/// The object with doubles in its `float64` fields, as expressions need it, since a whole number has no type in JSON; `None` for a kind
/// without such fields.
pub fn with_doubles(kind: &GroupVersionKind, object: &Object) -> Option<Object> {
    // CustomResourceDefinitions are the only built-in kind with `float64` fields: in their schemas.
    if (&*kind.group, &*kind.kind) != ("apiextensions.k8s.io", "CustomResourceDefinition") {
        return None;
    }
    let mut object = object.clone();
    unstructured::make_doubles(table::of(kind)?, object.fields_mut());
    Some(object)
}

/// Whether [`decode()`] knows the kind.
pub fn has_type(kind: &GroupVersionKind) -> bool {
    table::of(kind).is_some()
}

/// Whether a kind is built in, including kinds that are served only with `--runtime-config`.
pub fn is_known(kind: &GroupVersionKind) -> bool {
    table::has(kind)
}

/// Adds zero values that Go writes, and removes zero values that Go omits. Returns the removed values that are empty but not nil.
pub fn encode(kind: &GroupVersionKind, value: &mut Value) -> Unwritten {
    table::of(kind).map(|schema| encode::document(schema, value)).unwrap_or_default()
}

/// Changes an encoded value to the one that is read after it was stored as protobuf: an empty list or map is null.
pub fn through_protobuf(kind: &GroupVersionKind, value: &mut Value) {
    if let (Some(schema), Value::Object(fields)) = (table::of(kind), value) {
        encode::without_empty(schema, fields);
    }
}

/// Decodes and encodes a custom resource's metadata by itself, as Go does. Null counts as empty.
///
/// # Errors
/// If the value is no metadata.
pub fn object_meta(mut value: Value) -> Result<Typed, DecodeError> {
    let schema = table::object_meta().ok_or_else(|| DecodeError("the table of types has no metadata".to_owned()))?;
    let mut decoder = Decoder::default();
    decoder.document(schema, &mut value)?;
    encode::document(schema, &mut value);
    Ok(Typed { value, unknown: decoder.into_strict_errors() })
}

#[cfg(test)]
mod tests;
