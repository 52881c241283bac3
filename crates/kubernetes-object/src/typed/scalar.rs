//! Decodes single values, and types with an `UnmarshalJSON` (`decodeState.literalStore`, `UnmarshalJSON`).

use super::base64;
use super::decode::{Decoder, Fatal, Held};
use super::path::Path;
use super::table::{Holds, Shape};
use crate::go_text::{go_type, time};
use crate::quantity;
use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// Decodes a value that is neither null nor an object or list with a shape of its own. `literal` is a number's text, if known.
pub(super) fn decode(
    decoder: &mut Decoder,
    shape: &Shape,
    value: &mut Value,
    literal: Option<&str>,
    path: &Path,
) -> Result<Held, Fatal> {
    let nothing_if = |is_zero: bool| if is_zero { Held::Nothing } else { Held::Something };
    let held = match (&shape.holds, &mut *value) {
        (Holds::Raw(_), _) => Held::Something,
        (Holds::String, Value::String(text)) => nothing_if(text.is_empty()),
        (Holds::Bool, Value::Bool(value)) => nothing_if(!*value),
        (Holds::Uint8 | Holds::Int32 | Holds::Int64, Value::Number(number)) => match integer(&shape.holds, number) {
            Some(number) => nothing_if(number == 0),
            None => {
                let found = format!("number {}", text_of(number, literal));
                decoder.save(path.type_error(&found, &shape.pointee()));
                Held::Nothing
            }
        },
        (Holds::Float64, Value::Number(number)) => {
            shorten(number);
            nothing_if(number.as_f64() == Some(0.0))
        }
        (Holds::Bytes, Value::String(text)) => {
            match base64::canonical(text) {
                Ok(Cow::Borrowed(_)) => (),
                Ok(Cow::Owned(canonical)) => *text = canonical,
                Err(why) => decoder.save(why.to_string()),
            }
            if text.is_empty() { Held::Empty } else { Held::Something }
        }
        (Holds::Bytes, Value::Array(items)) => {
            let bytes: Vec<u8> = items.iter().map(|item| byte(decoder, item, path)).collect();
            *value = base64::encode(&bytes).into();
            if bytes.is_empty() { Held::Empty } else { Held::Something }
        }
        (Holds::Time | Holds::MicroTime, Value::String(text)) => {
            let layout = if matches!(shape.holds, Holds::Time) { time::Layout::Seconds } else { time::Layout::Micros };
            match time::canonical(text, layout).map_err(|why| Fatal(why.to_string()))? {
                Some(Cow::Borrowed(_)) => (),
                Some(Cow::Owned(canonical)) => *text = canonical,
                None => {
                    *value = Value::Null;
                    return Ok(nothing_if(!shape.is_pointer));
                }
            }
            Held::Something
        }
        (Holds::Time | Holds::MicroTime, other) => return Err(Fatal(path.type_error(go_type(other), "string"))),
        (Holds::IntOrString, Value::String(_)) => Held::Something,
        (Holds::IntOrString, Value::Number(number)) => {
            if integer(&Holds::Int32, number).is_none() {
                let found = format!("number {}", text_of(number, literal));
                return Err(Fatal(path.type_error(&found, "int32")));
            }
            Held::Something
        }
        (Holds::IntOrString, other) => return Err(Fatal(path.type_error(go_type(other), "int32"))),
        (Holds::Quantity, value) => {
            quantity(decoder, value, literal)?;
            Held::Something
        }
        (_, other) => {
            decoder.save(path.type_error(go_type(other), &shape.pointee()));
            Held::Nothing
        }
    };
    Ok(held)
}

/// The value of `null` in a list or map: the zero of its type, as Go writes it. Encoding completes objects.
pub(super) fn zero(shape: &Shape) -> Value {
    if shape.is_pointer {
        return Value::Null;
    }
    match shape.holds {
        Holds::String => Value::String(String::new()),
        Holds::Bool | Holds::SchemaOrBool => Value::Bool(false),
        Holds::Uint8 | Holds::Int32 | Holds::Int64 | Holds::Float64 | Holds::IntOrString => 0.into(),
        Holds::Quantity => "0".into(),
        Holds::Struct(_) => Value::Object(Map::new()),
        Holds::Bytes
        | Holds::Time
        | Holds::MicroTime
        | Holds::Raw(_)
        | Holds::SchemaOrArray
        | Holds::SchemaOrStrings
        | Holds::List(_)
        | Holds::Map(..) => Value::Null,
    }
}

fn integer(holds: &Holds, number: &Number) -> Option<i64> {
    let number = number.as_i64()?;
    let fits = match holds {
        Holds::Uint8 => u8::try_from(number).is_ok(),
        Holds::Int32 => i32::try_from(number).is_ok(),
        _ => true,
    };
    fits.then_some(number)
}

/// Removes a zero fraction, since Go writes whole numbers without a fraction.
fn shorten(number: &mut Number) {
    if let Some(float) = number.as_f64()
        && number.is_f64()
        && float.fract() == 0.0
        && float.abs() < 9.2e18
    {
        *number = Number::from(float as i64);
    }
}

/// Decodes an item of a list that stands for bytes.
fn byte(decoder: &mut Decoder, item: &Value, path: &Path) -> u8 {
    let found = match item {
        Value::Null => return 0,
        Value::Number(number) => match number.as_u64().and_then(|number| u8::try_from(number).ok()) {
            Some(byte) => return byte,
            None => format!("number {}", text_of(number, None)),
        },
        other => go_type(other).to_owned(),
    };
    decoder.save(path.type_error(&found, "uint8"));
    0
}

/// `Quantity.UnmarshalJSON`, which reads the literal text of a number.
fn quantity(decoder: &mut Decoder, value: &mut Value, literal: Option<&str>) -> Result<(), Fatal> {
    let text = match &*value {
        // Go does not unescape the string, so a text that JSON must escape is no quantity.
        Value::String(text) if text.contains(|c: char| c.is_control() || c == '"' || c == '\\') => Cow::Borrowed("\\"),
        Value::String(text) => Cow::Borrowed(text.trim()),
        Value::Number(number) => {
            decoder.met_literal |= number.is_f64();
            text_of(number, literal)
        }
        _ => Cow::Borrowed("x"),
    };
    let canonical = quantity::canonical(&text).map_err(|why| Fatal(why.to_string()))?;
    if value.as_str() != Some(canonical.as_str()) {
        *value = Value::String(canonical);
    }
    Ok(())
}

/// The literal text of a number, or the text that `encoding/json` writes.
fn text_of<'a>(number: &Number, literal: Option<&'a str>) -> Cow<'a, str> {
    if let Some(literal) = literal {
        return Cow::Borrowed(literal);
    }
    let text = match number.as_f64() {
        Some(float) if number.is_f64() => {
            let magnitude = float.abs();
            if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
                let text = format!("{float:e}");
                if magnitude > 1.0 { text.replace('e', "e+") } else { text }
            } else {
                float.to_string()
            }
        }
        _ => number.to_string(),
    };
    Cow::Owned(text)
}
