//! Numbers as Go reads and writes them.

use serde_json::{Number, Value};

/// What an `i64` does not hold is a floating-point number, at any depth; one without a fraction is written without.
pub(crate) fn canonicalize(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(canonicalize),
        Value::Array(items) => items.iter_mut().for_each(canonicalize),
        Value::Number(number) if !number.is_i64() => {
            let Some(float) = number.as_f64() else { return };
            *number = match whole(float) {
                Some(whole) => whole.into(),
                None => Number::from_f64(float).unwrap_or_else(|| number.clone()),
            };
        }
        _ => {}
    }
}

/// The integer that a floating-point number is, if it is one of 64 bits.
fn whole(float: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let fits = float.fract() == 0.0 && (-LIMIT..LIMIT).contains(&float);
    fits.then_some(float as i64)
}

/// A number's text in JSON that Go writes.
pub(super) fn text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) if float == 0.0 || (1e-6..1e21).contains(&float.abs()) => float.to_string(),
        (None, Some(float)) => {
            let text = format!("{float:e}");
            if text.contains("e-") { text } else { text.replace('e', "e+") }
        }
        (None, None) => number.to_string(),
    }
}
