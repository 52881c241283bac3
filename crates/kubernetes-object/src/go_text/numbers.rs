//! Numbers in the forms that Go reads and writes.

use serde_json::{Number, Value};

/// Converts integers that do not fit an `i64` to floating-point numbers, as Go does while decoding, at any depth.
pub fn read(value: &mut Value) {
    each(value, &mut |number| {
        if number.is_u64()
            && !number.is_i64()
            && let Some(float) = number.as_f64().and_then(Number::from_f64)
        {
            *number = float;
        }
    });
}

/// Converts numbers to the form after Go's encoding and decoding: whole numbers have no fraction.
pub fn canonicalize(value: &mut Value) {
    each(value, &mut |number| *number = canonical(number).unwrap_or_else(|| number.clone()));
}

/// True if all numbers have the form that [`canonicalize`] gives them.
pub fn is_canonical(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_canonical),
        Value::Array(items) => items.iter().all(is_canonical),
        Value::Number(number) => canonical(number).is_none_or(|canonical| canonical == *number),
        _ => true,
    }
}

fn canonical(number: &Number) -> Option<Number> {
    if number.is_i64() {
        return None;
    }
    let float = number.as_f64()?;
    whole(float).map(Number::from).or_else(|| Number::from_f64(float))
}

fn each(value: &mut Value, change: &mut impl FnMut(&mut Number)) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| each(value, change)),
        Value::Array(items) => items.iter_mut().for_each(|value| each(value, change)),
        Value::Number(number) => change(number),
        _ => {}
    }
}

/// Converts a floating-point number to an integer, if it is one of 64 bits.
pub(crate) fn whole(float: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let fits = float.fract() == 0.0 && (-LIMIT..LIMIT).contains(&float);
    fits.then_some(float as i64)
}

/// The JSON text that Go writes for a number.
pub fn text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) => float_text(float),
        (None, None) => number.to_string(),
    }
}

/// The JSON text that Go writes for a floating-point number (`floatEncoder`).
pub(super) fn float_text(float: f64) -> String {
    if float == 0.0 || (1e-6..1e21).contains(&float.abs()) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}
