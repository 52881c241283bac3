//! Conversions between types.

use super::operators::TIMESTAMP_OVERFLOW;
use crate::value::time::parse_timestamp;
use crate::value::{Error, Value};
use kubernetes_object::go_text::duration::nanoseconds;
use std::sync::Arc;

type Result<'a> = std::result::Result<Value<'a>, Error>;

fn overflow<'a>() -> Result<'a> {
    Err(Error::new("integer overflow"))
}

fn unsigned_overflow<'a>() -> Result<'a> {
    Err(Error::new("unsigned integer overflow"))
}

/// The error of a text that cannot be converted to the type.
fn unreadable<'a>(r#type: &str) -> Result<'a> {
    Err(Value::text("").not_convertible(r#type))
}

pub(super) fn dynamic<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value] => Ok(value.clone()),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn r#type<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value] => Ok(Value::Type(Arc::new(value.r#type()))),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn bool<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => unreadable("bool"),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn bytes<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn string<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [
            value @ (Value::String(_)
            | Value::Bool(_)
            | Value::Bytes(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Int(_)
            | Value::Timestamp(..)
            | Value::Uint(_)),
        ] => value.to_text().map(Value::String),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn int<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Int(_)] => Ok(value.clone()),
        [Value::Double(value)] if *value > i64::MIN as f64 && *value < i64::MAX as f64 => Ok(Value::Int(*value as i64)),
        [Value::Double(_)] => overflow(),
        [Value::Uint(value)] => i64::try_from(*value).map_or_else(|_| overflow(), |value| Ok(Value::Int(value))),
        [Value::Duration(value)] => Ok(Value::Int(*value)),
        [Value::Timestamp(seconds, ..)] => Ok(Value::Int(*seconds)),
        [Value::String(text)] => text.parse().map_or_else(|_| unreadable("int"), |value| Ok(Value::Int(value))),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn uint<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Uint(_)] => Ok(value.clone()),
        [Value::Double(value)] if *value >= 0.0 && *value < u64::MAX as f64 => Ok(Value::Uint(*value as u64)),
        [Value::Double(_)] => unsigned_overflow(),
        [Value::Int(value)] => {
            u64::try_from(*value).map_or_else(|_| unsigned_overflow(), |value| Ok(Value::Uint(value)))
        }
        // Unlike Rust, Go allows no plus sign in unsigned numbers.
        [Value::String(text)] if !text.starts_with('+') => {
            text.parse().map_or_else(|_| unreadable("uint"), |value| Ok(Value::Uint(value)))
        }
        [Value::String(_)] => unreadable("uint"),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn double<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Double(_)] => Ok(value.clone()),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [Value::String(text)] => {
            parse_double(text).map_or_else(|| unreadable("double"), |value| Ok(Value::Double(value)))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

/// `strconv.ParseFloat` of Go: as Rust's, plus hexadecimal digits and underscores; a number that is too large is an error.
fn parse_double(text: &str) -> Option<f64> {
    if text.contains('_') {
        return underscores_part_digits(text).then(|| parse_double(&text.replace('_', "")))?;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let value = parse_hexadecimal(digits)?;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    let named = unsigned.chars().all(|letter| letter.is_ascii_alphabetic());
    if unsigned.eq_ignore_ascii_case("nan") && unsigned.len() != text.len() {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    (named || value.is_finite()).then_some(value)
}

/// Whether each underscore is between digits, or between a base prefix and a digit (`underscoreOK` of Go).
fn underscores_part_digits(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefixed = unsigned.strip_prefix(['0']).and_then(|rest| rest.strip_prefix(['b', 'B', 'o', 'O', 'x', 'X']));
    let hexadecimal = unsigned.get(1..2).is_some_and(|base| base.eq_ignore_ascii_case("x"));
    let mut before = if prefixed.is_some() { '0' } else { '^' };
    for letter in prefixed.unwrap_or(unsigned).chars() {
        let is_digit = letter.is_ascii_digit() || hexadecimal && letter.is_ascii_hexdigit();
        match (letter, before) {
            _ if is_digit => before = '0',
            ('_', '0') => before = '_',
            ('_', _) | (_, '_') => return false,
            _ => before = '!',
        }
    }
    before != '_'
}

/// Parses hexadecimal digits, an optional point, and the required exponent of two.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let exponent: i32 = exponent.parse().ok()?;
    let scaled = value * 2f64.powi(exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?);
    scaled.is_finite().then_some(scaled)
}

pub(super) fn duration<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::String(text)] => nanoseconds(text)
            .map_or_else(|_| unreadable("google.protobuf.Duration"), |value| Ok(Value::Duration(value))),
        _ => Err(Error::NoSuchOverload),
    }
}

/// `duration(…)` until 1.36, where cel-go declares an overload for `int`, but no int converts.
pub(super) fn duration_or_int<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Int(_)] => Err(value.not_convertible("google.protobuf.Duration")),
        arguments => duration(arguments),
    }
}

pub(super) fn timestamp<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ Value::Timestamp(..)] => Ok(value.clone()),
        [Value::Int(seconds)] if super::operators::SECONDS.contains(seconds) => Ok(Value::Timestamp(*seconds, 0, 0)),
        [Value::Int(_)] => Err(TIMESTAMP_OVERFLOW),
        [Value::String(text)] => match parse_timestamp(text) {
            Some((seconds, nanoseconds, offset)) if super::operators::SECONDS.contains(&seconds) => {
                Ok(Value::Timestamp(seconds, nanoseconds, offset))
            }
            Some(_) => Err(TIMESTAMP_OVERFLOW),
            None => unreadable("google.protobuf.Timestamp"),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_doubles_as_go_does() {
        for (text, expected) in [
            ("1e3", Some(1000.0)),
            ("1_000", Some(1000.0)),
            ("0x1.8p1", Some(3.0)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            (".5", Some(0.5)),
            ("1e309", None),
            ("1__0", None),
            ("_1", None),
            ("0x1", None),
            ("+nan", None),
            (" 1", None),
            ("", None),
        ] {
            assert_eq!(parse_double(text), expected, "{text}");
        }
    }
}
