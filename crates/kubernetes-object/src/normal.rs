//! Built-in objects in the form that kube-apiserver hands to admission: decoded into their types, defaulted, converted to the internal
//! version and back, encoded again.

use super::Object;
use super::decode::Decoded;
use super::defaults::{self, Defaulting};
use super::round_trip::{self, InternalValues, RoundTripError};
use super::typed::{self, DecodeError, Typed};
use crate::go_text::numbers;
use crate::kind::{GroupVersionKind, split_api_version};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::convert::Infallible;

/// A decoded object, in its normal form or with its defaults only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normal {
    /// The object.
    pub object: Object,
    /// The errors of strict decoding, one text each: `unknown field "spec.foo"`.
    pub unknown: Vec<String>,
}

/// The reason why a value has no normal form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NormalError {
    /// The value is no object of its kind.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A conversion to the internal version or back refuses the object.
    #[error(transparent)]
    RoundTrip(#[from] RoundTripError),
}

/// Returns the normal form of a value of a built-in kind in 1.36; `None` for other kinds.
///
/// # Errors
/// If the value is no object of this kind, or kube-apiserver's conversions refuse the object.
pub fn built_in(kind: &GroupVersionKind, value: Value) -> Option<Result<Normal, NormalError>> {
    built_in_by(Defaulting::default(), kind, value)
}

/// Returns the normal form of a value of a built-in kind with these defaults; `None` for other kinds.
///
/// # Errors
/// As [`built_in`].
pub fn built_in_by(
    defaulting: Defaulting,
    kind: &GroupVersionKind,
    value: Value,
) -> Option<Result<Normal, NormalError>> {
    Some(normal(defaulting, kind, typed::decode(kind, value)?))
}

/// Returns the normal form of JSON text whose value is decoded already. Duplicate fields are among the strict errors, in the order of the
/// text.
///
/// # Errors
/// As [`built_in`].
pub fn built_in_json(
    defaulting: Defaulting,
    kind: &GroupVersionKind,
    decoded: Decoded,
    text: &[u8],
) -> Option<Result<Normal, NormalError>> {
    Some(normal(defaulting, kind, typed::decode_json(kind, decoded, text)?))
}

/// Returns the normal form of CBOR.
///
/// # Errors
/// As [`built_in`].
pub fn built_in_cbor(
    defaulting: Defaulting,
    kind: &GroupVersionKind,
    bytes: &[u8],
) -> Option<Result<Normal, NormalError>> {
    Some(normal(defaulting, kind, typed::decode_cbor(kind, bytes)?))
}

/// Sets the defaults of a decoded object, but does not convert the object to the internal version and back: see [`round_trip()`].
pub fn defaulted(defaulting: Defaulting, kind: &GroupVersionKind, typed: Typed) -> Normal {
    let Ok(normal) = defaulted_and(defaulting, kind, typed, |_| Ok::<(), Infallible>(()));
    normal
}

/// Converts a defaulted object to the internal version, which has `kept`, and back: to its normal form. An unchanged object is in its
/// normal form already.
///
/// # Errors
/// If kube-apiserver's conversions refuse the object.
pub fn round_trip(kind: &GroupVersionKind, object: &mut Object, kept: &InternalValues) -> Result<(), RoundTripError> {
    if !object.is_changed() && *kept == InternalValues::default() {
        return Ok(());
    }
    round_trip::make(kind, object.fields_mut(), kept)
}

fn normal(
    defaulting: Defaulting,
    kind: &GroupVersionKind,
    typed: Result<Typed, DecodeError>,
) -> Result<Normal, NormalError> {
    Ok(defaulted_and(defaulting, kind, typed?, |fields| round_trip::make(kind, fields, &InternalValues::default()))?)
}

fn defaulted_and<E>(
    defaulting: Defaulting,
    kind: &GroupVersionKind,
    typed: Typed,
    then: impl FnOnce(&mut Map<String, Value>) -> Result<(), E>,
) -> Result<Normal, E> {
    let Typed { mut value, unknown } = typed;
    let shares_labels = defaults::shares_labels(kind, &value);
    defaults::apply(kind, &mut value, defaulting);
    value.as_object_mut().map_or(Ok(()), then)?;
    let mut unwritten = typed::encode(kind, &mut value);
    if shares_labels {
        unwritten.share_labels();
    }
    let mut object = Object::from_value(value).unwrap_or_default();
    object.hold(unwritten);
    if !kind.matches_type(object.api_version(), object.kind()) {
        let fields = object.fields_mut();
        fields.insert("apiVersion".into(), kind.api_version().into());
        fields.insert("kind".into(), kind.kind.clone().into());
    }
    Ok(Normal { object, unknown })
}

/// The object as Go writes it, except that -0 is 0 here. A built-in object is returned unchanged: fractions remain only in values that Go
/// keeps as text.
pub fn as_written(object: &Object) -> Cow<'_, Object> {
    if !object.fields().values().any(has_whole_float) {
        return Cow::Borrowed(object);
    }
    let (group, version) = split_api_version(object.api_version());
    if typed::is_known(&GroupVersionKind::new(group, version, object.kind())) {
        return Cow::Borrowed(object);
    }
    let mut written = object.clone();
    written.fields_mut().values_mut().for_each(numbers::canonicalize);
    Cow::Owned(written)
}

fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(has_whole_float),
        Value::Array(items) => items.iter().any(has_whole_float),
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|float| numbers::whole(float).is_some())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use serde_json::json;

    #[test]
    fn an_object_is_as_kube_apiserver_writes_it() {
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let text = br#"{"metadata":{"name":"a","creationTimestamp":null},"foo":1,"data":{"a":null},"data":{"b":""}}"#;
        let found = built_in_json(Defaulting::default(), &kind, decode::json(text).unwrap(), text).unwrap().unwrap();
        let expected =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "", "b": ""}});
        assert_eq!(found.object.into_value(), expected);
        assert_eq!(found.unknown, [r#"unknown field "foo""#, r#"duplicate field "data""#]);
        let again = built_in(&kind, expected.clone()).unwrap().unwrap();
        assert_eq!((again.object.into_value(), again.unknown.len()), (expected, 0));
    }

    #[test]
    fn other_kinds_have_none() {
        assert!(built_in(&GroupVersionKind::new("example.com", "v1", "Widget"), json!({})).is_none());
    }
}
