//! The size of an object: about the bytes of its JSON, counted without writing it.

use crate::object::Object;
use serde_json::{Map, Value};

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

fn digits(number: i64) -> usize {
    let digits = number.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as usize + 1);
    digits + usize::from(number < 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_size_is_close_to_the_length_of_the_json() {
        let object = json!({"a": [1, -20, 1.5, true, false, null, "text"], "b": {"c": {"d": "e"}}, "f": [], "g": {}});
        let object = Object::from_value(object).unwrap();
        let length = serde_json::to_vec(&object).unwrap().len();
        assert!(of(&object).abs_diff(length) < 20, "{} {length}", of(&object));
    }
}
