//! Quantities for calculations.

use super::{Format, NANO, ParseQuantityError, Parts, binary, decimal, interpret};
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;

/// The largest absolute value of a quantity (`maxAllowed`).
const LIMIT: i128 = i64::MAX as i128 * NANO;

/// `resource.Quantity`: a number in billionths, and its format.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Zero, in decimal format.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// A whole number, in decimal format.
    pub fn whole(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANO, format: Format::Decimal }
    }

    /// Parses a quantity (`resource.ParseQuantity`). Rounds fractions of a billionth away from zero; a number above the limit becomes the
    /// limit.
    ///
    /// # Errors
    /// If the text is no quantity.
    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        if text.is_empty() {
            return Err(ParseQuantityError::Format);
        }
        let parts = Parts::of(text)?;
        let (exponent, format) = interpret(parts.suffix)?;
        let nanos = parts.nanos(exponent, format).unwrap_or(LIMIT).min(LIMIT);
        Ok(Self { nanos: if parts.is_negative { -nanos } else { nanos }, format })
    }

    /// The quantity in a field of an object, a text or a number; zero if the field is missing or malformed.
    pub fn of(value: Option<&Value>) -> Self {
        let parsed = match value {
            Some(Value::String(text)) => Self::parse(text),
            Some(Value::Number(number)) => Self::parse(&number.to_string()),
            _ => return Self::ZERO,
        };
        parsed.unwrap_or(Self::ZERO)
    }

    /// Whether the quantity is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the quantity is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The number of whole units, rounded away from zero (`Value`).
    pub fn value(self) -> i64 {
        self.scaled(NANO)
    }

    /// The number of thousandths, rounded away from zero (`MilliValue`).
    pub fn milli_value(self) -> i64 {
        self.scaled(NANO / 1000)
    }

    fn scaled(self, unit: i128) -> i64 {
        let (whole, rest) = (self.nanos / unit, self.nanos % unit);
        let whole = whole + rest.signum();
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// Rounds to thousandths, away from zero (`RoundUp`).
    #[must_use]
    pub(crate) fn rounded_up_to_milli(self) -> Self {
        self.rounded_up_to(NANO / 1000)
    }

    /// Rounds to whole units, away from zero (`RoundUp(0)`); keeps the format.
    #[must_use]
    pub fn rounded_up_to_whole(self) -> Self {
        self.rounded_up_to(NANO)
    }

    fn rounded_up_to(self, step: i128) -> Self {
        let rest = self.nanos % step;
        Self { nanos: self.nanos - rest + rest.signum() * step, ..self }
    }

    /// The sum, in the format of the first quantity unless that is zero (`Add`).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// The difference, in the format of the first quantity unless that is zero (`Sub`).
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, ..other })
    }

    /// The product with a whole number (`Mul`).
    #[must_use]
    pub fn times(self, factor: i64) -> Self {
        Self { nanos: self.nanos.saturating_mul(i128::from(factor)), ..self }
    }
}

/// Compares quantities by value, in whichever format.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Writes the quantity as `String` does.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nanos.abs();
        let sign = if self.nanos < 0 { "-" } else { "" };
        let is_binary = self.format == Format::Binary && size >= 1024 * NANO && size % NANO == 0;
        let number = match size {
            0 => "0".to_owned(),
            _ if is_binary => binary(size / NANO),
            _ => decimal(size, self.format == Format::Exponent),
        };
        write!(f, "{sign}{number}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn a_rounded_quantity_is_a_multiple_of_a_thousandth() {
        for (text, want) in [
            ("1n", "1m"),
            ("1500u", "2m"),
            ("999500u", "1"),
            ("-1u", "-1m"),
            ("1.000001", "1001m"),
            ("1e-6", "1e-3"),
            ("1.0001Ki", "1024103m"),
            ("1.5", "1500m"),
        ] {
            assert_eq!(quantity(text).rounded_up_to_milli().to_string(), want, "{text}");
        }
    }

    #[test]
    fn is_written_as_go_writes_it() {
        for (text, want) in [
            ("0.5Gi", "512Mi"),
            ("1500m", "1500m"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("-0.5Ki", "-512"),
            ("1.5Ki", "1536"),
            ("0Gi", "0"),
            ("99999999999999999999", "9223372036854775807"),
        ] {
            assert_eq!(quantity(text).to_string(), want, "{text}");
        }
        assert_eq!(quantity("0.0001Gi").rounded_up_to_whole().to_string(), "107375");
        assert!(Quantity::parse("x").is_err() && Quantity::parse("").is_err());
    }

    #[test]
    fn sums_keep_the_way_of_writing_of_what_is_more_than_nothing() {
        for (a, b, want) in
            [("1Gi", "1", "1073741825"), ("0", "1Gi", "1Gi"), ("1k", "24", "1024"), ("500m", "500m", "1")]
        {
            assert_eq!(quantity(a).plus(quantity(b)).to_string(), want, "{a} + {b}");
        }
        assert_eq!(quantity("1").minus(quantity("1500m")).to_string(), "-500m");
        assert_eq!(quantity("1.5").times(3).to_string(), "4500m");
    }

    #[test]
    fn values_are_rounded_away_from_zero() {
        for (text, whole, milli) in [("1m", 1, 1), ("-1m", -1, -1), ("1u", 1, 1), ("2", 2, 2000), ("1.5", 2, 1500)] {
            assert_eq!((quantity(text).value(), quantity(text).milli_value()), (whole, milli), "{text}");
        }
        assert_eq!(quantity("9E").milli_value(), i64::MAX);
    }

    #[test]
    fn a_quantity_is_compared_by_its_value() {
        assert!(quantity("1Gi") > quantity("1G") && quantity("1000m") == quantity("1"));
        assert_eq!(Quantity::of(Some(&json!(2))), Quantity::whole(2));
        assert!(Quantity::of(None).is_zero() && Quantity::of(Some(&json!([]))).is_zero());
    }
}
