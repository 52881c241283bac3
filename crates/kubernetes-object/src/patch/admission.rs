//! The JSON patch in a mutating webhook's response: decoding, application, audit annotations.
//!
//! `object::patch` applies the operations. This module adds the error text of each failure.

use crate::Object;
use crate::decode::{self, InvalidJson};
use crate::go_text::{go_type, json};
use crate::normal;
use crate::patch::{Failure, apply_operations, operation_fields};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The reason why bytes are no JSON patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodePatchError {
    /// The bytes are no JSON.
    #[error(transparent)]
    Json(#[from] InvalidJson),
    /// The patch is no list, or one of its operations is no object (`json.UnmarshalTypeError`).
    #[error("json: cannot unmarshal {found} into Go value of type jsonpatch.{expected}")]
    Type {
        /// Go's name for the type of the JSON value.
        found: &'static str,
        /// `Patch` or `Operation`.
        expected: &'static str,
    },
}

/// The reason why an operation of a patch does not apply, with the text of `evanphx/json-patch`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplyPatchError(String);

/// A decoded JSON patch.
#[derive(Debug)]
pub struct Patch(Vec<Value>);

impl Patch {
    /// Decodes a patch (`jsonpatch.DecodePatch`).
    ///
    /// # Errors
    /// If the bytes are no list of JSON objects.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodePatchError> {
        let value = decode::json(bytes)?.value;
        let wrong = |value, expected| Err(DecodePatchError::Type { found: go_type(value), expected });
        match value {
            Value::Null => Ok(Self(Vec::new())),
            Value::Array(operations) => {
                match operations.iter().find(|operation| !operation.is_object() && !operation.is_null()) {
                    Some(other) => wrong(other, "Operation"),
                    None => Ok(Self(operations)),
                }
            }
            other => wrong(&other, "Patch"),
        }
    }

    /// Makes a patch of operations, which are JSON objects.
    pub fn new(operations: Vec<Value>) -> Self {
        Self(operations)
    }

    /// Whether the patch has no operations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The paths that the operations change.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let changes = self.0.iter().filter(|operation| operation.get("op").is_none_or(|op| op != "test"));
        changes.filter_map(|operation| operation.get("path").and_then(Value::as_str))
    }

    /// Applies the patch to an object.
    ///
    /// # Errors
    /// If an operation does not apply.
    pub fn apply(&self, object: &Object) -> Result<Value, ApplyPatchError> {
        let object = normal::as_written(object);
        let mut patched = object.as_value().clone();
        match apply_operations(&mut patched, self.0.iter().map(operation_fields)) {
            Ok(()) => Ok(patched),
            Err(Failure::Operation(at)) => {
                let mut before = object.as_value().clone();
                // The operations before the failing one did apply.
                apply_operations(&mut before, self.0.iter().map(operation_fields).take(at)).ok();
                Err(ApplyPatchError(why(&before, operation_fields(self.0.get(at).unwrap_or(&Value::Null)))))
            }
            Err(Failure::TooMuch) => Err(ApplyPatchError("the patch moves or nests more than is applied".into())),
        }
    }
}

/// The reason why an operation does not apply. The caller knows that it does not.
fn why(document: &Value, operation: &Map<String, Value>) -> String {
    let text = |field| operation.get(field).and_then(Value::as_str);
    let Some(kind) = text("op") else { return "Unexpected kind: unknown".into() };
    let missing = |field: &str| match (kind, field) {
        ("add" | "remove", _) | ("copy", "path") => format!("{kind} operation failed to decode {field}: missing value"),
        (_, "from") => format!("{kind} operation failed to decode from: operation, missing from field: missing value"),
        _ => format!("{kind} operation failed to decode path: operation missing path field: missing value"),
    };
    match kind {
        "move" | "copy" => {
            let Some(from) = text("from") else { return missing("from") };
            let Some((container, key)) = find(document, from) else {
                return format!("{kind} operation does not apply: doc is missing from path: {from}: missing value");
            };
            let (word, shown) = if kind == "move" { ("path", &*key) } else { ("from", from) };
            if let Some(error) = access(container, &key, kind == "move") {
                return format!("error in {kind} for {word}: '{shown}': {error}");
            }
            let Some(path) = text("path") else { return missing("path") };
            if find(document, path).is_none() {
                return format!(
                    "{kind} operation does not apply: doc is missing destination path: {path}: missing value"
                );
            }
            format!("error in {kind} for path: '{path}': invalid index referenced")
        }
        "add" | "remove" | "replace" | "test" => {
            let Some(path) = text("path") else { return missing("path") };
            if kind == "replace" && path.is_empty() {
                return "replace operation value must be object or array: %!w(<nil>)".into();
            }
            if kind == "test" && path.is_empty() {
                return "testing value  failed: test failed".into();
            }
            let found = find(document, path);
            match (kind, found) {
                ("add" | "remove", None) => {
                    format!("{kind} operation does not apply: doc is missing path: \"{path}\": missing value")
                }
                ("replace", None) => {
                    format!("replace operation does not apply: doc is missing path: {path}: missing value")
                }
                (_, None) => format!("test operation does not apply: is missing path: {path}: missing value"),
                ("replace", Some(_)) => {
                    format!("replace operation does not apply: doc is missing key: {path}: missing value")
                }
                ("test", Some((container, key))) => match access(container, &key, false) {
                    Some(error) => format!("error in test for path: '{path}': {error}"),
                    None => format!("testing value {path} failed: test failed"),
                },
                ("add", Some((_, key))) => {
                    let error = index_error(&key, format!("value was not a proper array index: '{key}': "));
                    format!("error in add for path: '{path}': {error}")
                }
                (_, Some((container, key))) => {
                    let error = access(container, &key, true).unwrap_or_default();
                    format!("error in remove for path: '{path}': {error}")
                }
            }
        }
        other => format!("Unexpected kind: {other}"),
    }
}

/// The container of a path's last part, and that part.
fn find<'a>(document: &'a Value, path: &str) -> Option<(&'a Value, String)> {
    let (_, path) = path.split_once('/')?;
    let mut parts: Vec<String> = path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let last = parts.pop()?;
    let container = parts.iter().try_fold(document, |value, part| match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => items.get(index(part, items.len())?),
        _ => None,
    })?;
    (container.is_object() || container.is_array()).then_some((container, last))
}

fn index(part: &str, length: usize) -> Option<usize> {
    let number: i64 = part.parse().ok()?;
    let number = if number < 0 { number.checked_add_unsigned(length as u64)? } else { number };
    usize::try_from(number).ok()
}

/// The reason why a part of a container cannot be read, or removed; `None` if it can.
fn access(container: &Value, key: &str, remove: bool) -> Option<String> {
    match container {
        Value::Object(fields) if remove && !fields.contains_key(key) => {
            Some(format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        Value::Array(items) if index(key, items.len()).is_none_or(|at| at >= items.len()) => {
            Some(index_error(key, String::new()))
        }
        _ => None,
    }
}

fn index_error(key: &str, before: String) -> String {
    match key.parse::<i64>() {
        Ok(index) => format!("Unable to access invalid index: {index}: invalid index referenced"),
        Err(_) => format!("{before}strconv.Atoi: parsing {}: invalid syntax", crate::go_text::go_quote(key)),
    }
}

/// The JSON fields that name the webhook, in both annotations below.
pub fn of_hook(configuration: &str, webhook: &str) -> String {
    format!("\"configuration\":{},\"webhook\":{}", json::string(configuration), json::string(webhook))
}

/// `MutationAuditAnnotation` as JSON.
pub fn mutation_annotation(of_hook: &str, mutated: bool) -> String {
    format!("{{{of_hook},\"mutated\":{mutated}}}")
}

/// `PatchAuditAnnotation` as JSON: the operations as the hook wrote them, their fields sorted.
pub fn patch_annotation(of_hook: &str, patch: &[u8]) -> Option<String> {
    let operations: Vec<BTreeMap<String, &RawValue>> = serde_json::from_slice(patch).ok()?;
    let operations = json::compact(&serde_json::to_string(&operations).ok()?);
    Some(format!("{{{of_hook},\"patch\":{operations},\"patchType\":\"JSONPatch\"}}"))
}
