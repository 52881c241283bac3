//! Quantities as `resource.ParseQuantity` reads them in Go's decoders, and as Go prints them (`resource.Quantity.String`).

mod amount;
mod digits;
mod value;

pub use amount::{Amount, TooManyDigits};
pub use value::Quantity;

use digits::Digits;

/// The reason why a text is no quantity, with the text of Go's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// `ErrFormatWrong`
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// `ErrNumeric`
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// `ErrSuffix`
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number is longer than this crate supports. Go has no limit.
    #[error(transparent)]
    TooManyDigits(#[from] TooManyDigits),
}

const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The number of nano units in one. A nano is the smallest step, and the unit of all sums.
const NANO: i128 = 1_000_000_000;
/// The number of digits that always fit 64 bits (`maxInt64Factors`).
const SAFE_DIGITS: usize = 18;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// The text that Go keeps or writes for a quantity.
///
/// # Errors
/// If the text is no quantity.
pub fn canonical(text: &str) -> Result<String, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError::Format);
    }
    let parts = Parts::of(text)?;
    let (exponent, format) = interpret(parts.suffix)?;
    if !parts.has_digits && !parts.is_small(exponent, format) {
        return Err(ParseQuantityError::Number);
    }
    if parts.whole == "0" && parts.fraction.bytes().all(|digit| digit == b'0') {
        return Ok("0".to_owned());
    }
    if parts.is_kept(exponent, format) {
        return Ok(text.to_owned());
    }
    Ok(parts.rewritten(exponent, format))
}

struct Parts<'a> {
    is_negative: bool,
    /// Whether the quantity has digits, which Go does not always require.
    has_digits: bool,
    /// The digits before the point without leading zeros; `0` if no digit is left.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    /// `parseQuantityString`.
    fn of(text: &'a str) -> Result<Self, ParseQuantityError> {
        let is_negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let has_digits = rest.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
        let rest = rest.trim_start_matches('0');
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseQuantityError::Format);
        }
        Ok(Self { is_negative, has_digits, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }

    /// Whether `ParseQuantity` reads the quantity without big numbers.
    fn is_small(&self, exponent: i32, format: Format) -> bool {
        match format {
            // One digit less than three digits for ten bits, as a safety margin.
            Format::Binary => self.fraction.is_empty() && self.whole.len() + (exponent * 3 / 10) as usize <= 14,
            _ => self.whole.len() + self.fraction.len() <= SAFE_DIGITS && self.scale(exponent) >= -9,
        }
    }

    fn scale(&self, exponent: i32) -> i64 {
        i64::from(exponent) - self.fraction.len() as i64
    }

    /// Whether `ParseQuantity` regards the text as canonical.
    fn is_kept(&self, exponent: i32, format: Format) -> bool {
        let shifted = || [self.whole, self.fraction].concat();
        self.is_small(exponent, format)
            && match format {
                Format::Binary => shifted().parse::<i64>().is_ok_and(|value| value & 7 != 0),
                _ => {
                    let shifted = shifted();
                    self.scale(exponent) % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
                }
            }
    }

    /// Writes the quantity as `Quantity.CanonicalizeBytes` does: with the largest suffix that leaves no fraction.
    fn rewritten(&self, exponent: i32, format: Format) -> String {
        let number = self.rounded(exponent, format);
        let sign = if self.is_negative { "-" } else { "" };
        match (format, number.capped()) {
            (Format::Binary, Some(whole)) if whole >= 1024 => format!("{sign}{}", binary(whole.into())),
            _ => format!("{sign}{}", number.text(format == Format::Exponent)),
        }
    }

    /// The quantity in billionths; `None` if it has more digits than 128 bits hold.
    fn nanos(&self, exponent: i32, format: Format) -> Option<i128> {
        let nanos = self.rounded(exponent, format).nanos()?;
        Some(if format == Format::Binary { nanos.min(i128::from(i64::MAX) * NANO) } else { nanos })
    }

    fn rounded(&self, exponent: i32, format: Format) -> Digits {
        let (factor, power) = match format {
            Format::Binary => (1 << exponent, 0),
            Format::Decimal | Format::Exponent => (1, exponent),
        };
        Digits::rounded([self.whole, self.fraction], factor, self.scale(power))
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn interpret(suffix: &str) -> Result<(i32, Format), ParseQuantityError> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((*exponent, Format::Decimal));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((*bits, Format::Binary));
    }
    let exponent: Option<i64> = suffix.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse().ok());
    // Go truncates the exponent to 32 bits too.
    let exponent = exponent.ok_or(ParseQuantityError::Suffix)? as i32;
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
    // Go has no suffix for values above `E`, and omits it.
    let suffix = DECIMAL.iter().find(|(_, each)| *each == exponent).map_or("", |(name, _)| *name);
    if is_exponential && exponent != 0 { format!("{value}e{exponent}") } else { format!("{value}{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("1e5000", "100e4998"),
            ("1e-5000", "1e-9"),
            ("999999999999999999999", "999999999999999999999"),
            ("060075090040124677830422302400240002000001", "60075090040124677830422302400240002000001"),
            ("0.99999999999999999999", "1"),
            ("7Ei", "7Ei"),
            ("8Ei", "9223372036854775807"),
            ("-230337000840070922085256504029340170500235780878011408110Mi", "-9223372036854775807"),
            ("9223372036854775806.5Ki", "9223372036854775807"),
            ("1234567.0000000001Ki", "1264196608000000103n"),
        ] {
            assert_eq!(canonical(text), Ok(expected.to_owned()), "{text}");
        }
        for (text, why) in [
            ("Pi", ParseQuantityError::Number),
            (".Ei", ParseQuantityError::Number),
            ("e-10", ParseQuantityError::Number),
            ("1e", ParseQuantityError::Suffix),
            ("1.1.1", ParseQuantityError::Format),
        ] {
            assert_eq!(canonical(text), Err(why), "{text}");
        }
        for text in ["", "x", "1x", "1Kii", "--1", "1e", "1 "] {
            assert!(canonical(text).is_err(), "{text}");
        }
    }
}
