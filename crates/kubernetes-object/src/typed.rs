//! Built-in kinds as the Go types of Kubernetes 1.36 see them: what decoding JSON into them keeps, and what encoding them
//! writes. Defaults and conversions are not set here.
//!
//! A decoded value has no field that Go would hold as nil, or as the zero of a string, boolean or number that is no pointer.
//! Objects within are there as the client wrote them. In lists and maps, `null` is what Go makes of it.

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

use super::decode::Decoded;
use super::{Object, Unwritten};
use crate::go_text::time;
use crate::kind::GroupVersionKind;
use decode::Decoder;
use serde_json::Value;

/// A decoded object of a built-in kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// The object.
    pub value: Value,
    /// What strict decoding says of fields that the kind does not have: `unknown field "spec.foo"`; of a text, and of
    /// fields that are there twice, in the order of the text.
    pub unknown: Vec<String>,
}

/// Decodes a value. `None` when the kind is not built in.
///
/// # Errors
/// With the text of Go's decoder, for what no object of this kind holds. Fields count in the order of their names.
pub fn decode(kind: &GroupVersionKind, mut value: Value) -> Option<Result<Typed, String>> {
    let schema = table::of(kind)?;
    let mut decoder = Decoder::default();
    let result = decoder.document(schema, &mut value);
    Some(result.map(|()| Typed { value, unknown: decoder.into_strict_errors() }))
}

/// Decodes the JSON text that a value was read from. As [`decode()`], but fields count in the order of the text, numbers are
/// what it says literally, and fields that are there twice are decoded and reported as Go does it.
///
/// # Errors
/// As [`decode()`].
pub fn decode_json(kind: &GroupVersionKind, decoded: Decoded, text: &[u8]) -> Option<Result<Typed, String>> {
    let schema = table::of(kind)?;
    let Decoded { mut value, duplicates } = decoded;
    let mut decoder = Decoder::default();
    // Nearly all documents look the same from both sides, and the value is there already.
    let is_plain =
        duplicates.is_empty() && decoder.document(schema, &mut value).is_ok() && decoder.is_independent_of_text();
    if is_plain {
        return Some(Ok(Typed { value, unknown: decoder.into_strict_errors() }));
    }
    Some(text::decode(schema, text))
}

/// Decodes CBOR. A field that the kind does not have is told by its place in its map, the first one only; the other rules and the
/// errors are those of [`cbor`](super::cbor).
///
/// # Errors
/// As [`decode()`].
pub fn decode_cbor(kind: &GroupVersionKind, bytes: &[u8]) -> Option<Result<Typed, String>> {
    let schema = table::of(kind)?;
    Some(cbor::decode(schema, bytes).and_then(|(mut value, unknown)| {
        Decoder::default().document(schema, &mut value)?;
        Ok(Typed { value, unknown: unknown.into_iter().collect() })
    }))
}

/// What Go writes of a time in RFC 3339, in its own time zone (`Time.MarshalText`).
///
/// # Errors
/// `time.ParseError`
pub fn rfc3339_nano(text: &str) -> Result<String, String> {
    time::rfc3339_nano(text)
}

/// Gives the values of an object, which have no types yet, those that Go's conversion gives them: numbers that are too large for
/// their field are cut off. Whatever is not of a built-in kind stays.
///
/// # Errors
/// With Go's text, for what cannot be converted.
pub fn from_unstructured(kind: &GroupVersionKind, value: &mut Value) -> Result<(), String> {
    match (table::of(kind), value) {
        (Some(schema), Value::Object(fields)) => unstructured::convert_fields(schema, fields),
        _ => Ok(()),
    }
}

/// The object with doubles in its `float64` fields, as expressions see it; `None` of a kind without such fields. In JSON a whole
/// number has no type.
pub fn with_doubles(kind: &GroupVersionKind, object: &Object) -> Option<Object> {
    // The schemas in it have the only such fields of all built-in kinds.
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

/// Whether a kind is built in; also one that is served only where that is asked for (`--runtime-config`).
pub fn is_known(kind: &GroupVersionKind) -> bool {
    table::has(kind)
}

/// Adds what Go writes although it is zero, and takes out what it leaves out because it is. Answers with what of that is
/// empty, but not nil.
pub fn encode(kind: &GroupVersionKind, value: &mut Value) -> Unwritten {
    table::of(kind).map(|schema| encode::document(schema, value)).unwrap_or_default()
}

/// Metadata on its own as Go decodes and writes it, as that of a custom resource. Null is empty.
///
/// # Errors
/// With the text of Go's decoder, for what is no metadata.
pub fn object_meta(mut value: Value) -> Result<Typed, String> {
    let schema = table::object_meta().ok_or("the table of types has no metadata")?;
    let mut decoder = Decoder::default();
    decoder.document(schema, &mut value)?;
    encode::document(schema, &mut value);
    Ok(Typed { value, unknown: decoder.into_strict_errors() })
}

#[cfg(test)]
mod tests;
