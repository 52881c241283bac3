//! `enum`: the values that a schema allows, with Go's comparison (`basicCommonValidator`).

use crate::go_text::go_quote;
use crate::go_text::json;
use crate::go_text::numbers;
use serde_json::Value;
use std::collections::HashSet;

/// The values of an `enum`. A value is compared after Go's conversion to the type of each allowed value: a number matches a whole number
/// without its fraction, and a whole number matches the character with this number.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    texts: HashSet<Box<str>>,
    integers: HashSet<i64>,
    /// The bits of floating-point numbers.
    floats: HashSet<u64>,
    has_false: bool,
    has_true: bool,
    /// The JSON of lists and objects.
    others: HashSet<String>,
    /// The quoted values, as an error lists them.
    pub(super) listed: String,
}

impl Allowed {
    pub(super) fn new(values: &[Value]) -> Self {
        let mut allowed = Self::default();
        let mut listed = Vec::with_capacity(values.len());
        for value in values {
            let mut value = value.clone();
            numbers::canonicalize(&mut value);
            listed.push(go_quote(&match &value {
                Value::String(text) => text.clone(),
                other => json::text(other),
            }));
            match value {
                Value::String(text) => drop(allowed.texts.insert(text.into())),
                Value::Bool(false) => allowed.has_false = true,
                Value::Bool(true) => allowed.has_true = true,
                Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                    (Some(whole), _) => drop(allowed.integers.insert(whole)),
                    (None, Some(float)) => drop(allowed.floats.insert(bits(float))),
                    (None, None) => {}
                },
                // A null is never equal to a value.
                Value::Null => {}
                other => drop(allowed.others.insert(other.to_string())),
            }
        }
        allowed.listed = listed.join(", ");
        allowed
    }

    pub(super) fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(false) => self.has_false,
            Value::Bool(true) => self.has_true,
            Value::String(text) => self.texts.contains(text.as_str()),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => {
                    let character = u32::try_from(whole).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                    self.integers.contains(&whole)
                        || self.floats.contains(&bits(whole as f64))
                        || self.texts.contains(character.encode_utf8(&mut [0; 4]) as &str)
                }
                (None, Some(float)) => {
                    self.floats.contains(&bits(float)) || self.integers.contains(&(float.trunc() as i64))
                }
                (None, None) => false,
            },
            other => self.others.contains(&other.to_string()),
        }
    }
}

/// The bits of a number, equal for both zeros.
fn bits(float: f64) -> u64 {
    if float == 0.0 { 0 } else { float.to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_converted_to_the_type_of_the_allowed_value() {
        let allowed = Allowed::new(&[json!(1), json!(2.5), json!("A"), json!(null), json!([1])]);
        for (value, expected) in [
            (json!(1), true),
            (json!(1.0), true),
            (json!(1.5), true),
            (json!(2.5), true),
            (json!(2), false),
            (json!(65), true),
            (json!("1"), false),
            (json!(null), false),
            (json!([1]), true),
            (json!([1.0]), false),
            (json!(true), false),
        ] {
            assert_eq!(allowed.contains(&value), expected, "{value}");
        }
        assert_eq!(allowed.listed, r#""1", "2.5", "A", "null", "[1]""#);
    }
}
