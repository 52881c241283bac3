//! Built-in objects as kube-apiserver hands them to admission: decoded into their types, defaulted, encoded again.

use super::decode::Decoded;
use super::typed::{self, Typed};
use super::{GroupVersionKind, Object, defaults};
use serde_json::Value;

/// An object in its normal form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normal {
    /// The object.
    pub object: Object,
    /// What strict decoding says of it, one text each: `unknown field "spec.foo"`.
    pub unknown: Vec<String>,
}

/// The normal form of a value of a built-in kind; `None` of others.
///
/// # Errors
/// With the text of Go's decoder, for what no object of this kind holds.
pub fn built_in(kind: &GroupVersionKind, value: Value) -> Option<Result<Normal, String>> {
    Some(typed::decode(kind, value)?.map(|typed| finish(kind, typed)))
}

/// The same of JSON text that was read already; fields that are there twice are among the strict errors, in the order of
/// the text.
///
/// # Errors
/// As [`built_in`].
pub fn built_in_json(kind: &GroupVersionKind, decoded: Decoded, text: &[u8]) -> Option<Result<Normal, String>> {
    Some(typed::decode_json(kind, decoded, text)?.map(|typed| finish(kind, typed)))
}

fn finish(kind: &GroupVersionKind, typed: Typed) -> Normal {
    let Typed { mut value, unknown } = typed;
    defaults::apply(kind, &mut value);
    typed::encode(kind, &mut value);
    Normal { object: Object::from_value(value).unwrap_or_default(), unknown }
}
