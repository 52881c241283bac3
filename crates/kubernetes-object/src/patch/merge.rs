//! Merge patch (RFC 7386) as `evanphx/json-patch` v4 applies it, and the merge patch between two objects.

use crate::go_text::go_type;
use crate::status::Status;
use serde_json::{Map, Value};

/// Applies a merge patch.
pub(super) fn apply(original: Value, patch: &Value) -> Result<Value, Status> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
        other => {
            return Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_type(other)
            )));
        }
    };
    let Value::Object(mut merged) = original else {
        return Ok(without_nulls(&Value::Object(patch.clone())));
    };
    merge(&mut merged, patch);
    Ok(Value::Object(merged))
}

fn merge(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            document.remove(key);
            continue;
        }
        match (document.get_mut(key), value) {
            (Some(Value::Object(current)), Value::Object(value)) => merge(current, value),
            // Only in this case nulls inside of the new value stay.
            (Some(current @ Value::Object(_)), _) => *current = value.clone(),
            (Some(current), _) => *current = without_nulls(value),
            (None, _) => {
                document.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Returns the value without null fields, at any depth; null items stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// The merge patch that turns `old` into `new`.
///
/// `None` if no merge patch does: `new` has a null field that `old` does not have at its path (a merge patch cannot set null).
pub fn merge_diff(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match (old.get(key), value) {
            (Some(old), value) if old == value => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                patch.insert(key.clone(), Value::Object(merge_diff(old, new)?));
            }
            _ if value.is_null() || has_null_field(value) => return None,
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(patch)
}

fn has_null_field(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(|value| value.is_null() || has_null_field(value)),
        Value::Array(items) => items.iter().any(has_null_field),
        _ => false,
    }
}
