//! `?timeout=`: how long a client wants to wait.

use super::query::query_value;
use crate::status::Status;
use std::time::Duration;

/// What the query asks for; none where it asks for nothing, or for no time at all (`filters.WithRequestDeadline`).
///
/// # Errors
/// 400 for what is no duration.
pub fn asked(query: &str) -> Result<Option<Duration>, Status> {
    let Some(text) = query_value(query, "timeout").filter(|text| !text.is_empty()) else { return Ok(None) };
    let nanoseconds = parse(&text)
        .map_err(|why| Status::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
    Ok(u64::try_from(nanoseconds).ok().filter(|nanoseconds| *nanoseconds > 0).map(Duration::from_nanos))
}

/// `time.ParseDuration`: nanoseconds, or the text of its error.
fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
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
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let scale = nanoseconds(unit)
            .ok_or_else(|| format!("time: unknown unit {} in duration {}", quote(unit), quote(text)))?;
        let fraction = format!("0.{fraction}").parse::<f64>().unwrap_or_default() * scale as f64;
        let part = whole.checked_mul(scale).and_then(|part| part.checked_add(fraction as u64));
        sum = part.and_then(|part| sum.checked_add(part)).filter(|sum| *sum <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    match i64::try_from(sum) {
        Ok(sum) => Ok(if is_negative { -sum } else { sum }),
        Err(_) if is_negative => Ok(i64::MIN),
        Err(_) => Err(invalid()),
    }
}

fn nanoseconds(unit: &str) -> Option<u64> {
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

/// `time.quote`: what is not ASCII, byte by byte.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..0x80 => quoted.push(char::from(byte)),
            byte => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a kube-apiserver 1.36.3 answered.
    #[test]
    fn what_is_no_duration_is_refused_in_gos_words() {
        for (query, why) in [
            ("timeout=abc", "time: invalid duration \"abc\""),
            ("timeout=5", "time: missing unit in duration \"5\""),
            ("timeout=5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("timeout=1m5", "time: missing unit in duration \"1m5\""),
            ("timeout=.s", "time: invalid duration \".s\""),
            ("timeout=-", "time: invalid duration \"-\""),
            ("timeout=5%20s", "time: unknown unit \" s\" in duration \"5 s\""),
            ("timeout=%225s%22", "time: invalid duration \"\\\"5s\\\"\""),
            ("timeout=5%C3%A9", "time: unknown unit \"\\xc3\\xa9\" in duration \"5\\xc3\\xa9\""),
            ("timeout=99999999999h", "time: invalid duration \"99999999999h\""),
            ("timeout=9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("timeout=99999999999999999999999s", "time: invalid duration \"99999999999999999999999s\""),
            // The first one counts.
            ("timeout=abc&timeout=5s", "time: invalid duration \"abc\""),
        ] {
            let status = asked(query).unwrap_err();
            let expected = format!("invalid timeout specified in the request URL - {why}");
            assert_eq!((status.code, status.message), (400, expected), "{query}");
        }
    }

    #[test]
    fn no_time_is_as_if_nothing_were_asked() {
        for (query, milliseconds) in [
            ("", None),
            ("timeout=", None),
            ("timeout=0", None),
            ("timeout=-5s", None),
            ("timeout=-0", None),
            ("timeout=-9223372036854775808ns", None),
            ("timeout=1m5s", Some(65_000)),
            ("timeout=1.5s", Some(1500)),
            ("timeout=.5s", Some(500)),
            ("timeout=%2B5s", Some(5000)),
            ("timeout=2000%C2%B5s", Some(2)),
            ("timeout=5s&timeout=abc", Some(5000)),
            ("timeout=5s;x", None),
        ] {
            assert_eq!(asked(query), Ok(milliseconds.map(Duration::from_millis)), "{query}");
        }
    }
}
