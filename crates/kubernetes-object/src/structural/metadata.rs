//! `metav1.ObjectMeta` of a custom resource (`pkg/apiserver/schema/objectmeta`).

use crate::typed::{self, DecodeError};
use serde_json::{Map, Value};

/// Decoded metadata.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// The known fields that are not empty.
    pub(super) fields: Map<String, Value>,
    /// Paths of the unknown fields.
    pub(super) unknown: Vec<String>,
}

/// Decodes a `metadata`; null counts as empty (`GetObjectMeta`).
///
/// # Errors
/// If a field has the wrong type.
pub(super) fn decode(value: &Value) -> Result<Metadata, DecodeError> {
    let decoded = typed::object_meta(value.clone())?;
    let fields = match decoded.value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    Ok(Metadata { fields, unknown: decoded.unknown.iter().map(|error| path(error)).collect() })
}

/// Decodes a `metadata` without fields of wrong types; `None` if the value is no object.
pub(super) fn decode_leniently(value: &Value) -> Option<Metadata> {
    let object = match value {
        Value::Object(object) => object,
        Value::Null => return Some(Metadata::default()),
        _ => return None,
    };
    let mut metadata = Metadata::default();
    for (name, value) in object {
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        if let Ok(decoded) = decode(&alone) {
            metadata.fields.extend(decoded.fields);
            metadata.unknown.extend(decoded.unknown);
        }
    }
    Some(metadata)
}

/// The path in `unknown field "a.b"` (`FieldError.FieldPath`).
fn path(error: &str) -> String {
    let quoted = error.strip_prefix("unknown field \"").and_then(|rest| rest.strip_suffix('"'));
    quoted.unwrap_or(error).replace("\\\"", "\"").replace("\\\\", "\\")
}
