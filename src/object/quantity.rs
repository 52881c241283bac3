//! Quantities as they come out of `resource.ParseQuantity`, which Go's decoders send them through, and its printers with
//! them (`resource.Quantity.String`).

mod amount;
mod value;

pub(crate) use amount::Amount;
pub use value::Quantity;

const FORMAT_WRONG: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_WRONG: &str = "unable to parse quantity's suffix";

const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The smallest step is a nano; everything is counted in it.
const NANO: i128 = 1_000_000_000;
/// So many digits always fit 64 bits (`maxInt64Factors`).
const SAFE_DIGITS: usize = 18;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// The text that Go keeps or makes of a quantity. What has more digits than 128 bits hold stays as it is.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(FORMAT_WRONG.to_owned());
    }
    let parts = Parts::of(text)?;
    let (exponent, format) = interpret(parts.suffix)?;
    if parts.whole == "0" && parts.fraction.bytes().all(|digit| digit == b'0') {
        return Ok("0".to_owned());
    }
    if parts.is_kept(exponent, format) {
        return Ok(text.to_owned());
    }
    Ok(parts.rewritten(exponent, format).unwrap_or_else(|| text.to_owned()))
}

struct Parts<'a> {
    is_negative: bool,
    /// Without leading zeros; `0` if nothing is left.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    /// `parseQuantityString`.
    fn of(text: &'a str) -> Result<Self, String> {
        let is_negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(FORMAT_WRONG.to_owned());
        }
        Ok(Self { is_negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }

    /// Whether `ParseQuantity` takes the text for canonical.
    fn is_kept(&self, exponent: i32, format: Format) -> bool {
        let shifted = || [self.whole, self.fraction].concat();
        if format == Format::Binary {
            // One digit less than three for ten bits, for safety (`ParseQuantity`'s precision).
            let bits_digits = (exponent * 3 / 10) as usize;
            let fits = self.fraction.is_empty() && self.whole.len() + bits_digits < 15;
            return fits && shifted().parse::<i64>().is_ok_and(|value| value & 7 != 0);
        }
        let digits = self.whole.len() + self.fraction.len();
        let scale = i64::from(exponent) - self.fraction.len() as i64;
        digits <= SAFE_DIGITS && scale >= -9 && scale % 3 == 0 && {
            let shifted = shifted();
            !shifted.ends_with("000") && !shifted.starts_with('0')
        }
    }

    fn rewritten(&self, exponent: i32, format: Format) -> Option<String> {
        let nanos = self.nanos(exponent, format)?;
        let sign = if self.is_negative { "-" } else { "" };
        let is_binary = format == Format::Binary && nanos >= 1024 * NANO && nanos % NANO == 0;
        let number = if is_binary { binary(nanos / NANO) } else { decimal(nanos, format == Format::Exponent) };
        Some(format!("{sign}{number}"))
    }

    /// Its size in billionths; none for what has more digits than 128 bits hold.
    fn nanos(&self, exponent: i32, format: Format) -> Option<i128> {
        let power = if format == Format::Binary { 0 } else { exponent };
        let mut nanos: i128 = [self.whole, self.fraction].concat().parse().ok()?;
        if nanos == 0 {
            return Some(0);
        }
        if format == Format::Binary {
            nanos = nanos.checked_mul(1 << exponent)?;
        }
        let power = i32::try_from(self.fraction.len()).ok().and_then(|digits| (9 + power).checked_sub(digits))?;
        let factor = 10_i128.checked_pow(power.unsigned_abs());
        nanos = match factor {
            Some(factor) if power >= 0 => nanos.checked_mul(factor)?,
            Some(factor) => nanos / factor + i128::from(nanos % factor != 0),
            None if power < 0 => 1,
            None => return None,
        };
        Some(if format == Format::Binary { nanos.min(i128::from(i64::MAX) * NANO) } else { nanos })
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn interpret(suffix: &str) -> Result<(i32, Format), String> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((*exponent, Format::Decimal));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((*bits, Format::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse().ok());
    // Beyond these nothing but zero can be written.
    let exponent = exponent.filter(|exponent| (-1000..=1000).contains(exponent)).ok_or(SUFFIX_WRONG)?;
    Ok((exponent, Format::Exponent))
}

fn binary(whole: i128) -> String {
    let suffix = BINARY.iter().rev().find(|(_, bits)| whole % (1_i128 << bits) == 0);
    suffix.map_or_else(|| whole.to_string(), |(name, bits)| format!("{}{name}", whole >> bits))
}

fn decimal(nanos: i128, is_exponential: bool) -> String {
    let (mut value, mut exponent) = (nanos, -9);
    while value != 0 && value % 1000 == 0 {
        value /= 1000;
        exponent += 3;
    }
    // Go has no suffix for what is larger than `E`, and leaves it out.
    let suffix = DECIMAL.iter().find(|(_, each)| *each == exponent).map_or("", |(name, _)| *name);
    if is_exponential && exponent != 0 { format!("{value}e{exponent}") } else { format!("{value}{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_more_digits_than_any_quantity_stays() {
        let long = "9".repeat(60);
        assert_eq!(canonical(&long), Ok(long));
    }

    #[test]
    fn quantities_are_kept_or_rewritten_as_go_does() {
        for (text, expected) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("500m", "500m"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("88614459000", "88614459k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100Mi", "100Mi"),
            ("0.0001", "100u"),
            ("0.1n", "1n"),
            ("12E-4", "1200e-6"),
            ("-1500m", "-1500m"),
            ("-0.5Ki", "-512"),
            ("+5", "+5"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "x", "1x", "1Kii", "--1", "1e", "1 "] {
            assert!(canonical(text).is_err(), "{text}");
        }
    }
}
