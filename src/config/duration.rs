//! Durations as Go writes them: `1m0s`, `1.5h`, `300ms`.

use std::time::Duration;

/// Reads a duration that is not negative (`time.ParseDuration`).
///
/// # Errors
/// When it is no such duration; the text says why.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}: write it as 1m30s or 500ms");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.starts_with('-') {
        return Err(format!("invalid duration {text:?}: must not be negative"));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let part = scaled(number, unit_nanoseconds(unit).ok_or_else(invalid)?).ok_or_else(invalid)?;
        nanoseconds = nanoseconds.checked_add(part).ok_or_else(invalid)?;
        rest = next;
    }
    // Go's durations end here too.
    let nanoseconds = i64::try_from(nanoseconds).ok().and_then(|n| u64::try_from(n).ok());
    nanoseconds.map(Duration::from_nanos).ok_or_else(invalid)
}

fn unit_nanoseconds(unit: &str) -> Option<u128> {
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

/// `number`, which may have a fraction, times `unit`.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // What is below a nanosecond of an hour does not count.
    let fraction: String = fraction.chars().take(18).collect();
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    whole.checked_mul(unit)?.checked_add(fraction.checked_mul(unit)? / scale)
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
