//! Durations as Go writes them: `1m0s`, `1.5h`, `300ms`.

use super::time::quote;
use std::time::Duration;

/// The reason why a text is no duration, with the text of Go's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseDurationError(String);

/// Parses a duration that is not negative.
///
/// # Errors
/// If the text is not such a duration; the error gives the reason.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let nanoseconds = nanoseconds(text)?;
    let nanoseconds = u64::try_from(nanoseconds).map_err(|_| ParseDurationError(format!("{text} is negative")))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Formats a duration as Go's `time.Duration.String`: `1h2m3.5s`, `1.5ms`.
pub fn go(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let fraction = |unit: u64| {
        let digits = unit.ilog10() as usize;
        let text = format!("{}.{:0digits$}", size / unit, size % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{size}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(1_000_000)),
        _ => {
            let (hours, minutes) = (size / 3_600_000_000_000, size / 60_000_000_000 % 60);
            let seconds = format!("{}.{:09}", size / 1_000_000_000 % 60, size % 1_000_000_000);
            let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
            match (hours, minutes) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, _) => format!("{sign}{minutes}m{seconds}s"),
                _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Parses any duration (`time.ParseDuration`).
///
/// # Errors
/// If the text is not a duration; with the text of Go's error.
pub fn nanoseconds(text: &str) -> Result<i64, ParseDurationError> {
    let invalid = || ParseDurationError(format!("time: invalid duration {}", quote(text.as_bytes())));
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let is_digit = |c: char| c.is_ascii_digit();
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len()));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.find(|c| !is_digit(c)).unwrap_or(after.len())),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let (unit, after) = after.split_at(after.find(|c| c == '.' || is_digit(c)).unwrap_or(after.len()));
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        if whole > 1 << 63 {
            return Err(invalid());
        }
        if unit.is_empty() {
            return Err(ParseDurationError(format!("time: missing unit in duration {}", quote(text.as_bytes()))));
        }
        let scale = of_unit(unit).ok_or_else(|| {
            let (unit, text) = (quote(unit.as_bytes()), quote(text.as_bytes()));
            ParseDurationError(format!("time: unknown unit {unit} in duration {text}"))
        })?;
        let part = whole.checked_mul(scale).and_then(|part| part.checked_add(of_fraction(fraction, scale)));
        sum = part.and_then(|part| sum.checked_add(part)).filter(|sum| *sum <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    match i64::try_from(sum) {
        Ok(sum) => Ok(if is_negative { -sum } else { sum }),
        Err(_) if is_negative => Ok(i64::MIN),
        Err(_) => Err(invalid()),
    }
}

/// Returns the nanoseconds of a fraction of a unit, with Go's rounding (`leadingFraction`): digits that an `int64` cannot hold do not
/// count.
fn of_fraction(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes() {
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        let Some(next) = next.filter(|next| *next <= i64::MAX as u64) else { break };
        (value, scale) = (next, scale * 10.0);
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

fn of_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, milliseconds) in [
            ("0", 0),
            ("0s", 0),
            ("1m0s", 60_000),
            ("+5s", 5_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("300ms", 300),
            ("2000us", 2),
            ("2000µs", 2),
            ("1h2m3s4ms", 3_723_004),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn nanoseconds_have_the_sign_the_bounds_and_the_rounding_of_go() {
        for (text, expected) in [
            ("1h2m3.5s", Some(3_723_500_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("1µs", Some(1_000)),
            ("0.3333333333333333333h", Some(1_200_000_000_000)),
            ("0.100000000000000000000h", Some(360_000_000_000)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("9223372036854775.807us", Some(i64::MAX)),
            ("9223372036s854ms775us807ns", Some(i64::MAX)),
            ("9223372036854775.8078us", Some(i64::MAX)),
            ("9223372036s854ms775us808ns", None),
            ("1h -1m", None),
        ] {
            assert_eq!(nanoseconds(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses_and_what_is_negative() {
        for text in [
            "",
            "1",
            "-1s",
            "s",
            ".s",
            "1x",
            "1s2",
            "1..2s",
            "1 s",
            "3000000h",
            "99999999999999999999999999999999999999999h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
