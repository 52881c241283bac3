//! Reckoning with quantities: sums, comparisons, rounding.

use super::{Format, NANO, Parts, binary, decimal, interpret};
use std::fmt;

const MILLI: i128 = NANO / 1000;

/// A quantity as a number of nanos, and how it is written.
#[derive(Clone, Copy)]
pub(crate) struct Amount {
    nanos: i128,
    format: Format,
}

impl Amount {
    pub(super) fn new(nanos: i128, format: Format) -> Self {
        Self { nanos, format }
    }

    /// None of what is no quantity or has more digits than 128 bits hold.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts = Parts::of(text).ok()?;
        let (exponent, format) = interpret(parts.suffix).ok()?;
        let nanos = parts.nanos(exponent, format)?;
        Some(Self { nanos: if parts.is_negative { -nanos } else { nanos }, format })
    }

    /// `Quantity.Add`. What is too large to be counted stays at the largest.
    pub(crate) fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// `Quantity.Cmp`.
    pub(crate) fn is_more_than(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    /// `Quantity.RoundUp(-3)`, away from zero: none where nothing changes.
    pub(crate) fn rounded_up_to_milli(text: &str) -> Option<String> {
        // Most amounts are whole numbers or thousandths.
        if text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'm' | b'M' | b'G' | b'K' | b'i' | b'k')) {
            return None;
        }
        let amount = Self::parse(text)?;
        let rest = amount.nanos % MILLI;
        let nanos = amount.nanos.checked_add(if rest == 0 { return None } else { rest.signum() * MILLI - rest })?;
        Some(Self { nanos, ..amount }.to_string())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.nanos.saturating_abs();
        if nanos == 0 {
            return formatter.write_str("0");
        }
        let is_binary = self.format == Format::Binary && nanos >= 1024 * NANO && nanos % NANO == 0;
        let number = if is_binary { binary(nanos / NANO) } else { decimal(nanos, self.format == Format::Exponent) };
        write!(formatter, "{}{number}", if self.nanos < 0 { "-" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_finer_than_a_thousandth() {
        for (text, expected) in [
            ("1n", Some("1m")),
            ("1500u", Some("2m")),
            ("999500u", Some("1")),
            ("-1u", Some("-1m")),
            ("1.000001", Some("1001m")),
            ("1e-6", Some("1e-3")),
            ("1", None),
            ("100m", None),
            ("1Gi", None),
            ("1.5e3", None),
            ("x", None),
        ] {
            assert_eq!(Amount::rounded_up_to_milli(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_sum_is_written_as_its_first_part_that_is_not_zero() {
        for (one, other, expected) in [
            ("1", "500m", "1500m"),
            ("1Gi", "512Mi", "1536Mi"),
            ("1Gi", "1G", "2073741824"),
            ("0", "1Gi", "1Gi"),
            ("1e3", "1k", "2e3"),
            ("1Ki", "-1Ki", "0"),
        ] {
            let sum = Amount::parse(one).unwrap().plus(Amount::parse(other).unwrap());
            assert_eq!(sum.to_string(), expected, "{one} + {other}");
        }
    }
}
