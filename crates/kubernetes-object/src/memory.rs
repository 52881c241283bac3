//! The memory of a decoded value.

use serde_json::Value;

/// The memory of a node of a map, and the entries that it has at most.
const NODE_BYTES: usize = 640;
const NODE_ENTRIES: usize = 11;

/// The approximate memory of a decoded value, in bytes. A map takes far more than its text.
pub fn decoded_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(decoded_bytes).sum(),
            Value::Object(fields) => {
                let values = fields.iter().map(|(name, value)| name.len() + decoded_bytes(value));
                fields.len().div_ceil(NODE_ENTRIES) * NODE_BYTES + values.sum::<usize>()
            }
            _ => 0,
        }
}
