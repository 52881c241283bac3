//! `format`: replaces `%` clauses in a text by values, as in cel-go's versions before 4.

use super::clause::{Clause, clause};
use super::number;
use crate::library::MAX_TEXT_BYTES;
use crate::value::{Error, List, Map, Value};
use crate::work;
use kubernetes_object::go_text::go_quote;
use std::fmt::Write;

/// The number of digits after the point if a clause does not give one (`defaultPrecision`).
const PRECISION: u64 = 6;
/// The bytes that a value other than a text counts as.
const LEAST: usize = 8;

type Text = Result<String, Error>;

/// Replaces the clauses of a format by the values of a list (`parseFormatString`).
///
/// # Errors
/// If a clause is malformed or does not take its value, or if there are too few values; with cel-go's text.
pub(super) fn format(format: &str, values: &List<'_>) -> Text {
    let (mut rest, mut formatted, mut index) = (format, String::new(), 0);
    while let Some((before, after)) = rest.split_once('%') {
        formatted.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('%') {
            formatted.push('%');
            rest = after;
            continue;
        }
        let value = values.get(index).ok_or_else(|| Error::new(format!("index {index} out of range")))?;
        if rest.is_empty() {
            return Err(Error::new("unexpected end of string"));
        }
        index += 1;
        let mut bytes = rest.as_bytes();
        let clause =
            clause(&mut bytes).map_err(|error| Error::new(format!("could not parse formatting clause: {error}")))?;
        // A clause is ASCII, so that its bytes are its characters.
        rest = rest.get(rest.len() - bytes.len()..).unwrap_or_default();
        let part = filled(clause, &value).map_err(|error| match error {
            error if error.is_absorbable() => Error::new(format!("error during formatting: {error}")),
            error => error,
        })?;
        formatted.push_str(&part);
        if formatted.len() > MAX_TEXT_BYTES {
            return Err(Error::new("the result is too large"));
        }
    }
    formatted.push_str(rest);
    Ok(formatted)
}

fn filled(clause: Clause, value: &Value<'_>) -> Text {
    let precision = clause.precision.unwrap_or(PRECISION);
    let refused = |takes: &str| Err(Error::new(format!("{takes}, was given {}", value.type_name())));
    match clause.letter {
        b's' => shown(value),
        b'd' => match value {
            Value::Int(value) => Ok(value.to_string()),
            Value::Uint(value) => Ok(value.to_string()),
            _ => refused("decimal clause can only be used on integers"),
        },
        b'f' => match double(value) {
            Some(value) => Ok(number::fixed(value, precision)),
            None => refused("fixed-point clause can only be used on doubles"),
        },
        b'e' => match double(value) {
            Some(value) => Ok(number::scientific(value, precision)),
            None => refused("scientific clause can only be used on doubles"),
        },
        b'b' => match value {
            Value::Bool(value) => Ok(u8::from(*value).to_string()),
            value => match integer(value) {
                Some((sign, size)) => Ok(format!("{sign}{size:b}")),
                None => refused("only integers and bools can be formatted as binary"),
            },
        },
        b'o' => match integer(value) {
            Some((sign, size)) => Ok(format!("{sign}{size:o}")),
            None => refused("octal clause can only be used on integers"),
        },
        letter => match (value, integer(value)) {
            (_, Some((sign, size))) if letter == b'X' => Ok(format!("{sign}{size:X}")),
            (_, Some((sign, size))) => Ok(format!("{sign}{size:x}")),
            (Value::String(text), _) => Ok(hexadecimal(text.as_bytes(), letter)),
            (Value::Bytes(bytes), _) => Ok(hexadecimal(bytes, letter)),
            _ => refused("only integers, byte buffers, and strings can be formatted as hex"),
        },
    }
}

fn integer(value: &Value<'_>) -> Option<(&'static str, u64)> {
    match value {
        Value::Int(value) => Some((if *value < 0 { "-" } else { "" }, value.unsigned_abs())),
        Value::Uint(value) => Some(("", *value)),
        _ => None,
    }
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn hexadecimal(bytes: &[u8], letter: u8) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = if letter == b'X' { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
    }
    text
}

/// The text of a value for `%s` (`FormatString`).
fn shown(value: &Value<'_>) -> Text {
    work::write(if let Value::String(text) = value { text.len() } else { LEAST })?;
    match value {
        Value::List(list) => shown_list(list),
        Value::Map(map) => shown_map(map),
        Value::Struct(_) | Value::Optional(_) | Value::Opaque(_) => Err(Error::new(format!(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps, was given {}",
            value.type_name()
        ))),
        value => value.to_text().map(|text| text.to_string()).map_err(|error| {
            Error::new(format!("could not convert argument {} to string", go_quote(&error.to_string())))
        }),
    }
}

/// The literal of a value within a list or a map (`clauseForType`, `quoteForCEL`).
fn literal(value: &Value<'_>) -> Text {
    match value {
        Value::String(_) => quoted(value),
        Value::Bytes(_) => Ok(format!("b{}", quoted(value)?)),
        Value::Timestamp(..) => Ok(format!("timestamp({})", go_quote(&shown(value)?))),
        Value::Duration(_) => Ok(format!("duration({})", go_quote(&shown(value)?))),
        Value::Double(number) if number.is_nan() => Ok(r#""NaN""#.to_owned()),
        Value::Double(number) if number.is_infinite() => {
            Ok(if *number > 0.0 { r#""+Inf""# } else { r#""-Inf""# }.to_owned())
        }
        Value::Double(number) => Ok(format!("{number:.6}")),
        Value::Struct(_) | Value::Optional(_) | Value::Opaque(_) => {
            Err(Error::new(format!("no formatting function for {}", value.type_name())))
        }
        value => shown(value),
    }
}

fn quoted(value: &Value<'_>) -> Text {
    let quoted = go_quote(&shown(value)?);
    // Each character may have become several bytes.
    work::write(quoted.len())?;
    Ok(quoted)
}

fn shown_list(list: &List<'_>) -> Text {
    let elements: Vec<_> = list.iter().map(|element| literal(&element)).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", elements.join(", ")))
}

fn shown_map(map: &Map<'_>) -> Text {
    let entry = |(key, value): (Value<'_>, Value<'_>)| match key {
        Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => Ok((literal(&key)?, literal(&value)?)),
        _ => Err(Error::new(format!("no formatting function for map key of type {}", key.type_name()))),
    };
    let mut entries: Vec<_> = map.iter().map(entry).collect::<Result<_, _>>()?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", entries.join(", ")))
}
