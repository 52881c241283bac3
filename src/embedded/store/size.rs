//! The size of an object: about the bytes of its JSON, counted without writing it.

use crate::go_text::numbers;
use crate::object::{Object, decoded_bytes};
use serde_json::{Map, Value};
use std::ops::Deref;

/// The memory of a decoded object for each byte of its JSON, for which the bound of the history is made ([`crate::config::Limits::memory`]).
const DECODED: usize = 4;

/// An object and its sizes. Whoever takes the lock of the store for a long object counts them before.
#[derive(Clone, Debug)]
pub(in crate::embedded) struct SizedObject {
    object: Object,
    bytes: usize,
    bytes_in_history: usize,
}

impl From<Object> for SizedObject {
    fn from(object: Object) -> Self {
        let bytes = of(&object);
        Self { bytes_in_history: bytes.max(decoded_bytes(object.as_value()) / DECODED), object, bytes }
    }
}

impl Deref for SizedObject {
    type Target = Object;

    fn deref(&self) -> &Object {
        &self.object
    }
}

impl SizedObject {
    /// The size of the object in bytes.
    pub(in crate::embedded) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of the object in the history, which keeps it decoded: an object with many small maps counts as a longer one.
    pub(super) fn bytes_in_history(&self) -> usize {
        self.bytes_in_history
    }

    pub(in crate::embedded) fn into_object(self) -> Object {
        self.object
    }

    /// Sets the resourceVersion.
    pub(super) fn stamp(&mut self, revision: u64) {
        let version = |object: &Object| {
            let field = |version| "resourceVersion".len() + 4 + of_value(version);
            object.get(&["metadata", "resourceVersion"]).map_or(0, field)
        };
        let before = version(&self.object);
        // `set` fails only if the metadata is no object, and such an object has no key.
        let _ = self.object.set(&["metadata", "resourceVersion"], Value::from(revision.to_string()));
        self.bytes = self.bytes - before + version(&self.object);
        self.bytes_in_history = self.bytes_in_history.max(self.bytes);
    }
}

/// The size of an object in bytes.
pub(in crate::embedded) fn of(object: &Object) -> usize {
    of_fields(object.fields())
}

fn of_fields(fields: &Map<String, Value>) -> usize {
    // Two braces; and for each field a comma, a colon, and the quotes of its key.
    2 + fields.iter().map(|(key, value)| key.len() + 4 + of_value(value)).sum::<usize>()
}

/// The size of a value in bytes.
pub(in crate::embedded) fn of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.as_i64().map_or(8, digits),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + of_value(item)).sum::<usize>(),
        Value::Object(fields) => of_fields(fields),
    }
}

/// The bytes of a value in Go's JSON, which `json.NewEncoder` writes with escapes for HTML.
pub(in crate::embedded) fn in_go_json(value: &Value) -> usize {
    let text = |text: &str| text.len() + escapes(text) + 2;
    // Commas stand between the items.
    let within = |count: usize, bytes: usize| 2 + count.saturating_sub(1) + bytes;
    match value {
        Value::String(value) => text(value),
        Value::Number(number) => numbers::text(number).len(),
        Value::Array(items) => within(items.len(), items.iter().map(in_go_json).sum()),
        Value::Object(fields) => {
            let bytes = fields.iter().map(|(key, value)| text(key) + 1 + in_go_json(value)).sum();
            within(fields.len(), bytes)
        }
        other => of_value(other),
    }
}

fn escapes(text: &str) -> usize {
    let added = |c| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 1,
        '<' | '>' | '&' | '\0'..'\u{20}' => 5,
        '\u{2028}' | '\u{2029}' => 3,
        _ => 0,
    };
    text.chars().map(added).sum()
}

fn digits(number: i64) -> usize {
    let digits = number.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as usize + 1);
    digits + usize::from(number < 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_text::json;
    use serde_json::json;

    #[test]
    fn the_size_is_close_to_the_length_of_the_json() {
        let object = json!({"a": [1, -20, 1.5, true, false, null, "text"], "b": {"c": {"d": "e"}}, "f": [], "g": {}});
        let object = Object::from_value(object).unwrap();
        let length = serde_json::to_vec(&object).unwrap().len();
        assert!(of(&object).abs_diff(length) < 20, "{} {length}", of(&object));
    }

    #[test]
    fn the_length_of_gos_json_is_exact() {
        let text = "<a&>\"\\\n\t\r\u{8}\u{c}\u{1}\u{2028}ä";
        let value = json!({text: [text, 1, -20, 1.5, 1e20, 1e-7, true, null, [], {}, [[]]], "b": {"c": {"d": "e"}}});
        assert_eq!(in_go_json(&value), json::text(&value).len());
    }
}
