//! Quantities in their canonical form, as a printer shows them whatever the client wrote: `resource.Quantity.String`.

use serde_json::Value;

/// The quantity at a place, or `0` where there is none; what is no quantity stays as it is.
pub(super) fn shown(value: Option<&Value>) -> String {
    match value {
        None => "0".to_owned(),
        Some(Value::String(text)) => canonical(text).unwrap_or_else(|| text.clone()),
        Some(other) => canonical(&other.to_string()).unwrap_or_else(|| other.to_string()),
    }
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// The smallest step is a nano; everything is counted in it.
const NANO: i128 = 1_000_000_000;

fn canonical(text: &str) -> Option<String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some(binary(scaled(number, 0)?.checked_mul(1_i128 << bits)?));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some(decimal(scaled(number, *exponent)?, false));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|exponent| (-9..=18).contains(exponent))?;
    Some(decimal(scaled(number, exponent)?, true))
}

/// A decimal number times a power of ten, in nanos, rounded up.
fn scaled(number: &str, exponent: i32) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let mut value: i128 = all.parse().ok().filter(|_| all.bytes().all(|byte| byte.is_ascii_digit()))?;
    let power = 9 + exponent - i32::try_from(fraction.len()).ok()?;
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    value = if power >= 0 { value.checked_mul(factor)? } else { value / factor + i128::from(value % factor != 0) };
    Some(if negative { -value } else { value })
}

fn binary(nanos: i128) -> String {
    // Below one Ki the decimal form is used; above there are no fractions (`CanonicalizeBytes`).
    if nanos.abs() < 1024 * NANO {
        return decimal(nanos, false);
    }
    let whole = nanos / NANO + (nanos % NANO).signum();
    let suffix = BINARY.iter().rev().find(|(_, bits)| whole % (1_i128 << bits) == 0);
    suffix.map_or_else(|| whole.to_string(), |(name, bits)| format!("{}{name}", whole >> bits))
}

fn decimal(nanos: i128, exponential: bool) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let (mut value, mut exponent) = (nanos, -9);
    while value % 1000 == 0 && exponent < 18 {
        value /= 1000;
        exponent += 3;
    }
    let suffix = match DECIMAL.iter().find(|(_, each)| *each == exponent) {
        Some(_) if exponential && exponent != 0 => format!("e{exponent}"),
        Some((name, _)) => (*name).to_owned(),
        None => String::new(),
    };
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_canonical() {
        for (written, expected) in [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1000", "1k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("-1", "-1"),
            ("0", "0"),
            ("10000000000n", "10"),
            ("word", "word"),
            ("1Qi", "1Qi"),
        ] {
            assert_eq!(shown(Some(&Value::from(written))), expected, "{written}");
        }
        assert_eq!(shown(None), "0");
        assert_eq!(shown(Some(&Value::from(3))), "3");
        assert_eq!(shown(Some(&Value::from("9".repeat(60)))), "9".repeat(60));
    }
}
