//! Numbers, durations and times as Go prints them.

use super::Value;
use crate::work;
use jiff::civil::{Date, DateTime};
use std::fmt::{self, Write};

/// A double as `%g` and `%v` of Go print it: the shortest digits that parse to an equal number.
pub fn double(value: f64) -> String {
    let Some((negative, digits, exponent)) = shortest(value) else { return special(value) };
    let mut text = String::from(if negative { "-" } else { "" });
    if !(-4..6).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        text.push_str(first);
        if !rest.is_empty() {
            text.push('.');
            text.push_str(rest);
        }
        let _ = write!(text, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    } else {
        place_point(&mut text, &digits, exponent);
    }
    text
}

/// A double as `strconv.FormatFloat(value, 'f', -1, 64)` prints it: the shortest digits, never an exponent.
pub fn double_plain(value: f64) -> String {
    let Some((negative, digits, exponent)) = shortest(value) else { return special(value) };
    let mut text = String::from(if negative { "-" } else { "" });
    place_point(&mut text, &digits, exponent);
    text
}

fn special(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value > 0.0 {
        "+Inf".into()
    } else {
        "-Inf".into()
    }
}

/// The sign, the shortest digits and the decimal exponent of the first digit.
fn shortest(value: f64) -> Option<(bool, String, i32)> {
    if !value.is_finite() {
        return None;
    }
    let scientific = format!("{:e}", value.abs());
    let (digits, exponent) = scientific.split_once('e')?;
    let digits = even_of_two(value.abs(), digits.replace('.', ""), exponent);
    Some((value.is_sign_negative(), digits, exponent.parse().ok()?))
}

/// Picks between two equally short and equally near forms: Go takes the even one, Rust the larger.
fn even_of_two(value: f64, digits: String, exponent: &str) -> String {
    if digits.len() < 15 || digits.ends_with(['0', '2', '4', '6', '8']) {
        return digits;
    }
    let exact = format!("{value:.*e}", digits.len() + 20).replace('.', "");
    let Some((smaller, rest)) = exact.split('e').next().and_then(|all| all.split_at_checked(digits.len())) else {
        return digits;
    };
    let is_tie = rest.trim_end_matches('0') == "5" && smaller != digits;
    let (first, others) = smaller.split_at(1);
    let read = format!("{first}.{others}e{exponent}").parse::<f64>();
    if is_tie && read == Ok(value) { smaller.to_owned() } else { digits }
}

fn place_point(text: &mut String, digits: &str, exponent: i32) {
    if exponent < 0 {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        text.push_str(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        text.push_str(digits);
        text.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        let (before, after) = digits.split_at(whole);
        text.push_str(before);
        text.push('.');
        text.push_str(after);
    }
}

/// A duration in the format of `string(…)`: seconds without an exponent, `5400s`, `0.5s`.
pub fn duration(nanoseconds: i64) -> String {
    // Divides as `time.Duration.Seconds` does.
    let seconds = (nanoseconds / 1_000_000_000) as f64 + (nanoseconds % 1_000_000_000) as f64 / 1e9;
    double_plain(seconds) + "s"
}

/// The date, time and year at an offset east of UTC, for all valid seconds (the years 1 to 9999). The year 10000, which exists east of UTC,
/// has the calendar of the year 400 years earlier.
pub fn civil(seconds: i64, nanoseconds: u32, offset: i32) -> (DateTime, i64) {
    const LAST: i64 = 253_402_300_799;
    const FOUR_CENTURIES: i64 = 146_097 * 86_400;
    let seconds = seconds.saturating_add(offset.into());
    if seconds > LAST {
        let (time, year) = civil(seconds.min(LAST + FOUR_CENTURIES) - FOUR_CENTURIES, nanoseconds, 0);
        return (time, year + 400);
    }
    let days = jiff::Span::new().try_days(seconds.div_euclid(86_400));
    let date = days.and_then(|days| jiff::civil::date(1970, 1, 1).checked_add(days)).unwrap_or(Date::MAX);
    let of_day = seconds.rem_euclid(86_400) as i32;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    (date.at(hour as i8, minute as i8, second as i8, nanoseconds as i32), date.year().into())
}

/// A time in the format of `time.RFC3339Nano`.
pub fn timestamp(seconds: i64, nanoseconds: u32, offset: i32) -> String {
    let (local, year) = civil(seconds, nanoseconds, offset);
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        year,
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
        local.second()
    );
    if nanoseconds > 0 {
        let fraction = format!(".{nanoseconds:09}");
        text.push_str(fraction.trim_end_matches('0'));
    }
    if offset == 0 {
        text.push('Z');
    } else {
        let minutes = offset.abs() / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        let _ = write!(text, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
    }
    text
}

/// `time.Time.String` of Go: `2024-01-02 03:04:05.6 +0200 +0200`.
fn go_time(seconds: i64, nanoseconds: u32, offset: i32) -> String {
    let text = timestamp(seconds, nanoseconds, offset).replace('T', " ");
    let clock = text.trim_end_matches('Z');
    if offset == 0 {
        return format!("{clock} +0000 UTC");
    }
    let clock = clock.get(..clock.len().saturating_sub("+02:00".len())).unwrap_or_default();
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
    let zone = format!("{sign}{:02}{:02}", minutes / 60, minutes % 60);
    format!("{clock} {zone} {zone}")
}

/// Writes a value in messages as `%v` of Go prints cel-go's values; stops at the bound on work.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => 4 * bytes.len(),
            _ => 8,
        };
        if work::write(bytes).is_err() {
            return Ok(());
        }
        match self {
            // `types.Null` is a number without a name.
            Self::Null => f.write_str("0"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Double(value) => f.write_str(&double(*value)),
            Self::String(text) => f.write_str(text),
            Self::Bytes(bytes) => {
                f.write_char('[')?;
                for (index, byte) in bytes.iter().enumerate() {
                    write!(f, "{}{byte}", if index == 0 { "" } else { " " })?;
                }
                f.write_char(']')
            }
            Self::Duration(value) => f.write_str(&kubernetes_object::go_text::duration::go(*value)),
            Self::Timestamp(seconds, nanoseconds, offset) => f.write_str(&go_time(*seconds, *nanoseconds, *offset)),
            Self::List(list) => {
                f.write_char('[')?;
                for (index, element) in list.iter().enumerate() {
                    write!(f, "{}{element}", if index == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Self::Map(map) => {
                f.write_char('{')?;
                for (index, (key, value)) in map.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_char('}')
            }
            Self::Struct(value) => f.write_str(&value.name),
            Self::Type(value) => f.write_str(&value.declaration()),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Opaque(value) => match value.to_text() {
                Some(text) => f.write_str(&text),
                None => f.write_str(&super::runtime_name(&value.r#type())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_numbers_as_go_does() {
        for (value, short, plain) in [
            (0.0, "0", "0"),
            (1.0, "1", "1"),
            (1.5, "1.5", "1.5"),
            (-0.25, "-0.25", "-0.25"),
            (100_000.0, "100000", "100000"),
            (1_000_000.0, "1e+06", "1000000"),
            (123_456_789.0, "1.23456789e+08", "123456789"),
            (0.0001, "0.0001", "0.0001"),
            (0.000_01, "1e-05", "0.00001"),
            (93_766_038_628_623.0 + 0.125, "9.376603862862312e+13", "93766038628623.12"),
            (f64::NAN, "NaN", "NaN"),
            (f64::INFINITY, "+Inf", "+Inf"),
            (f64::NEG_INFINITY, "-Inf", "-Inf"),
        ] {
            assert_eq!((double(value).as_str(), double_plain(value).as_str()), (short, plain));
        }
    }

    #[test]
    fn prints_values_in_messages_as_go_does() {
        for (value, text) in [
            (Value::Null, "0"),
            (Value::Duration(3_723_500_000_000), "1h2m3.5s"),
            (Value::Duration(-5_400_000_000_000), "-1h30m0s"),
            (Value::Duration(1_500), "1.5µs"),
            (Value::Duration(61_000_000_000), "1m1s"),
            (Value::Timestamp(0, 600_000_000, 0), "1970-01-01 00:00:00.6 +0000 UTC"),
            (Value::Timestamp(0, 0, -1800), "1969-12-31 23:30:00 -0030 -0030"),
            (Value::list(vec![Value::Int(1), Value::text("a"), Value::Double(1e7)]), "[1, a, 1e+07]"),
            (Value::some(Value::Uint(1)), "optional(1)"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn prints_times_as_go_does() {
        assert_eq!(duration(5_400_000_000_000), "5400s");
        assert_eq!(duration(-500_000_000), "-0.5s");
        assert_eq!(timestamp(0, 0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(1_704_060_000, 123_000_000, 7200), "2024-01-01T00:00:00.123+02:00");
        assert_eq!(timestamp(-62_135_596_800, 1, 0), "0001-01-01T00:00:00.000000001Z");
    }
}
