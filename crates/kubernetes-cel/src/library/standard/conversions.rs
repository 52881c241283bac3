//! Conversions between types.

use super::operators::TIMESTAMP_OVERFLOW;
use crate::value::{Error, Value};
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
        // cel-go declares this overload, but no int converts.
        [value @ Value::Int(_)] => Err(value.not_convertible("google.protobuf.Duration")),
        [Value::String(text)] => parse_duration(text)
            .map_or_else(|| unreadable("google.protobuf.Duration"), |value| Ok(Value::Duration(value))),
        _ => Err(Error::NoSuchOverload),
    }
}

/// `time.ParseDuration` of Go, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole_end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (whole, after) = rest.split_at(whole_end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.find(|letter: char| !letter.is_ascii_digit())?),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = after.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit: u64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut part = whole.checked_mul(unit).filter(|part| *part <= 1 << 63)?;
        if !fraction.is_empty() {
            part = part.checked_add(fraction_of(fraction, unit)).filter(|part| *part <= 1 << 63)?;
        }
        total = total.checked_add(part).filter(|total| *total <= 1 << 63)?;
        rest = after;
    }
    if negative {
        return 0i64.checked_sub_unsigned(total);
    }
    i64::try_from(total).ok()
}

/// A fraction of a unit, truncated to nanoseconds, with Go's rounding.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes() {
        let Some(next) = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0'))) else {
            break;
        };
        if next > i64::MAX as u64 {
            break;
        }
        (value, scale) = (next, scale * 10.0);
    }
    (value as f64 * (unit as f64 / scale)) as u64
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

/// `time.Parse(time.RFC3339, …)` of Go: the seconds since 1970, the nanoseconds and the offset.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, u32, i32)> {
    let mut rest = text;
    let mut take = |digits: usize, separator: &[char]| -> Option<i64> {
        let (number, after) = rest.split_at_checked(digits)?;
        let after = if separator.is_empty() { after } else { after.strip_prefix(separator)? };
        rest = after;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
    };
    let year = take(4, &['-'])?;
    let month = take(2, &['-'])?;
    let day = take(2, &['T'])?;
    // Go accepts a single digit for the hour, and only there.
    let short = text.as_bytes().get("2006-01-02T1".len()) == Some(&b':');
    let hour = take(if short { 1 } else { 2 }, &[':'])?;
    let minute = take(2, &[':'])?;
    let second = take(2, &[])?;
    let mut nanoseconds = 0;
    if let Some(after) = rest.strip_prefix(['.', ',']) {
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(end);
        if digits.is_empty() {
            return None;
        }
        let digits = digits.get(..9).unwrap_or(digits);
        nanoseconds = digits.parse::<u32>().ok()? * 10u32.pow(9 - digits.len() as u32);
        rest = after;
    }
    let offset = match rest.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
            let digit = |byte: &u8| byte.is_ascii_digit().then(|| i32::from(byte - b'0'));
            let (hours, minutes) = (digit(a)? * 10 + digit(b)?, digit(c)? * 10 + digit(d)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            let seconds = (hours * 60 + minutes) * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let date = jiff::civil::Date::new(year as i16, month as i8, day as i8).ok()?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = date.since(jiff::civil::date(1970, 1, 1)).ok()?.get_days();
    let seconds = i64::from(days) * 86_400 + hour * 3_600 + minute * 60 + second - i64::from(offset);
    Some((seconds, nanoseconds, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations_as_go_does() {
        for (text, expected) in [
            ("1h2m3.5s", Some(3_723_500_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("0", Some(0)),
            ("1µs", Some(1_000)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("1d", None),
            ("1", None),
            ("", None),
            (".s", None),
            ("1h -1m", None),
        ] {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }

    #[test]
    fn reads_times_as_go_does() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some((0, 0, 0))),
            ("2024-02-29T12:30:45.5+02:00", Some((1_709_202_645, 500_000_000, 7200))),
            ("2024-02-29T1:30:45Z", Some((1_709_170_245, 0, 0))),
            ("2023-02-29T00:00:00Z", None),
            ("2024-01-01T24:00:00Z", None),
            ("2024-01-01T00:00:60Z", None),
            ("2024-01-01T00:00:00", None),
            ("2024-01-01t00:00:00z", None),
            ("2024-01-01T00:00:00+0200", None),
        ] {
            assert_eq!(parse_timestamp(text), expected, "{text}");
        }
    }

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
