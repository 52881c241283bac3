//! Quantities in expressions: exact, of any size, and in the two forms that Go distinguishes, small numbers (`int64Amount`) and decimals of
//! any length (`infDecAmount`).

use super::{Format, ParseQuantityError, Parts, interpret};
use std::cmp::Ordering;

/// The number of digits of a decimal. Go has no limit; longer decimals are errors here.
const MAX_DIGITS: usize = 10_000;
/// The number of decimal places to which decimals are rounded.
const NANO_PLACES: i64 = 9;

/// A quantity has more digits than this crate supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities of more than {} digits are not supported", MAX_DIGITS)]
pub struct TooManyDigits;

/// The number in a quantity.
#[derive(Clone, Debug)]
pub enum Amount {
    /// A number times a power of ten.
    Small(i64, i64),
    /// A decimal of any length.
    Decimal(Decimal),
}

/// A whole number, divided by a power of ten.
#[derive(Clone, Debug)]
pub struct Decimal {
    is_negative: bool,
    /// Digits without leading zeros; empty for zero.
    digits: Vec<u8>,
    /// The number of digits after the point; if negative, the number of unwritten zeros before the point.
    places: i64,
}

impl Amount {
    /// Parses a quantity (`resource.ParseQuantity`).
    ///
    /// # Errors
    /// If the text is no quantity, or if the number has too many digits.
    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        if text.is_empty() {
            return Err(ParseQuantityError::Format);
        }
        let parts = Parts::of(text)?;
        let (exponent, format) = interpret(parts.suffix)?;
        let sign = if parts.is_negative { -1 } else { 1 };
        if parts.is_small(exponent, format) {
            let number: i64 = [parts.whole, parts.fraction].concat().parse().map_err(|_| ParseQuantityError::Number)?;
            return Ok(match format {
                Format::Binary => Self::Small(sign * (number << exponent), 0),
                Format::Decimal | Format::Exponent => Self::Small(sign * number, parts.scale(exponent)),
            });
        }
        if !parts.has_digits {
            return Err(ParseQuantityError::Number);
        }
        let digits = [parts.whole, parts.fraction].concat().bytes().map(|digit| digit - b'0').collect();
        let mut number = Decimal { is_negative: parts.is_negative, digits, places: parts.fraction.len() as i64 };
        match format {
            Format::Binary => number.multiply(1 << exponent),
            Format::Decimal | Format::Exponent => number.places -= i64::from(exponent),
        }
        number.trim();
        if !number.digits.is_empty() {
            number.round_to_nano()?;
        }
        if format == Format::Binary {
            let most = Decimal::of(i64::MAX, 0);
            if number.compare_size(&most).is_gt() {
                number = Decimal { is_negative: number.is_negative, ..most };
            }
        }
        Ok(Self::Decimal(number))
    }

    /// A whole number.
    pub fn whole(value: i64) -> Self {
        Self::Small(value, 0)
    }

    /// -1, 0 or 1 (`Sign`).
    pub fn sign(&self) -> i64 {
        match self {
            Self::Small(value, _) => value.signum(),
            Self::Decimal(decimal) if decimal.digits.is_empty() => 0,
            Self::Decimal(decimal) => 1 - 2 * i64::from(decimal.is_negative),
        }
    }

    /// The number, if it is small and has no fraction: `None` for `1000m` and `1.5Ki` (`AsInt64`).
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Small(value, scale) => scaled(*value, *scale),
            Self::Decimal(_) => None,
        }
    }

    /// Converts the number to a double, with Go's rounding (`AsApproximateFloat64`).
    pub fn as_f64(&self) -> f64 {
        let (base, exponent) = match self {
            Self::Small(value, scale) => (*value as f64, *scale),
            Self::Decimal(decimal) => (decimal.unscaled(), -decimal.places),
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    /// The sum (`Add`).
    ///
    /// # Errors
    /// If the sum has too many digits.
    pub fn plus(&self, other: &Self) -> Result<Self, TooManyDigits> {
        match self.plus_small(other) {
            Some(sum) => Ok(sum),
            None => self.decimal().plus(&other.decimal()).map(Self::Decimal),
        }
    }

    /// The difference (`Sub`).
    ///
    /// # Errors
    /// If the difference has too many digits.
    pub fn minus(&self, other: &Self) -> Result<Self, TooManyDigits> {
        // The smallest int64 has no opposite; Go wraps around to the number itself.
        let opposite = match other {
            Self::Small(value, scale) => Some(Self::Small(value.wrapping_neg(), *scale)),
            Self::Decimal(_) => None,
        };
        if let Some(difference) = opposite.and_then(|opposite| self.plus_small(&opposite)) {
            return Ok(difference);
        }
        let other = other.decimal();
        self.decimal().plus(&Decimal { is_negative: !other.is_negative, ..other }).map(Self::Decimal)
    }

    /// The sum of two small numbers, if it is a small number too (`int64Amount.Add`).
    fn plus_small(&self, other: &Self) -> Option<Self> {
        let (Self::Small(a, a_scale), Self::Small(b, b_scale)) = (self, other) else { return None };
        match (a, b) {
            (_, 0) => Some(self.clone()),
            (0, _) => Some(other.clone()),
            _ => {
                let scale = *a_scale.min(b_scale);
                let sum = scaled(*a, a_scale - scale)?.checked_add(scaled(*b, b_scale - scale)?)?;
                Some(Self::Small(sum, scale))
            }
        }
    }

    fn decimal(&self) -> Decimal {
        match self {
            Self::Small(value, scale) => Decimal::of(*value, -scale),
            Self::Decimal(decimal) => decimal.clone(),
        }
    }
}

/// Compares amounts by value, in whichever form.
impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            let sizes = self.decimal().compare_size(&other.decimal());
            if self.sign() < 0 { sizes.reverse() } else { sizes }
        })
    }
}

impl Decimal {
    fn of(value: i64, places: i64) -> Self {
        let digits = value.unsigned_abs().to_string().bytes().map(|digit| digit - b'0').collect();
        let mut decimal = Self { is_negative: value < 0, digits, places };
        decimal.trim();
        decimal
    }

    fn trim(&mut self) {
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
    }

    fn multiply(&mut self, factor: u64) {
        let mut carry = 0;
        // Nine times the largest factor, 2^60, and the carry fit 64 bits.
        for digit in self.digits.iter_mut().rev() {
            carry += u64::from(*digit) * factor;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        let front: Vec<u8> = carry.to_string().bytes().map(|digit| digit - b'0').collect();
        self.digits.splice(0..0, front);
    }

    /// Rounds to [`NANO_PLACES`] decimal places, away from zero.
    fn round_to_nano(&mut self) -> Result<(), TooManyDigits> {
        if self.places <= NANO_PLACES {
            return self.extend_to(NANO_PLACES);
        }
        let excess = usize::try_from(self.places - NANO_PLACES).unwrap_or(usize::MAX);
        let kept = self.digits.len().saturating_sub(excess);
        let has_rest = self.digits.drain(kept..).any(|digit| digit != 0);
        self.places = NANO_PLACES;
        if has_rest {
            let one = Self { is_negative: self.is_negative, digits: vec![1], places: NANO_PLACES };
            *self = self.plus(&one)?;
        }
        Ok(())
    }

    /// Appends zeros up to a number of decimal places.
    fn extend_to(&mut self, places: i64) -> Result<(), TooManyDigits> {
        let more = usize::try_from(places - self.places).unwrap_or(0);
        if !self.digits.is_empty() && self.digits.len().saturating_add(more) > MAX_DIGITS {
            return Err(TooManyDigits);
        }
        if !self.digits.is_empty() {
            self.digits.resize(self.digits.len() + more, 0);
        }
        self.places = places.max(self.places);
        Ok(())
    }

    /// Compares the absolute values.
    fn compare_size(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let whole = |decimal: &Self| decimal.digits.len() as i64 - decimal.places;
        whole(self).cmp(&whole(other)).then_with(|| {
            let length = self.digits.len().max(other.digits.len());
            let digit = |decimal: &Self, at: usize| decimal.digits.get(at).copied().unwrap_or(0);
            (0..length)
                .map(|at| digit(self, at).cmp(&digit(other, at)))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }

    fn plus(&self, other: &Self) -> Result<Self, TooManyDigits> {
        let (mut a, mut b) = (self.clone(), other.clone());
        let places = a.places.max(b.places);
        a.extend_to(places)?;
        b.extend_to(places)?;
        if a.compare_size(&b).is_lt() {
            std::mem::swap(&mut a, &mut b);
        }
        let subtracts = a.is_negative != b.is_negative;
        let mut others = b.digits.iter().rev().copied();
        let (mut carry, mut digits) = (0, Vec::with_capacity(a.digits.len() + 1));
        // The first number is not shorter; the sum may have one digit more.
        for digit in a.digits.iter().rev().copied().chain([0]) {
            let other = others.next().unwrap_or(0) as i8;
            let digit = digit as i8 + carry + if subtracts { -other } else { other };
            carry = digit.div_euclid(10);
            digits.push(digit.rem_euclid(10) as u8);
        }
        digits.reverse();
        let mut sum = Self { is_negative: a.is_negative, digits, places };
        sum.trim();
        Ok(sum)
    }

    /// The digits as a whole number, not divided by the power of ten.
    fn unscaled(&self) -> f64 {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let size: f64 = digits.parse().unwrap_or(0.0);
        if self.is_negative { -size } else { size }
    }
}

/// Multiplies by a power of ten; `None` if 64 bits do not hold the product (`positiveScaleInt64`).
fn scaled(value: i64, scale: i64) -> Option<i64> {
    if value == 0 && scale >= 0 {
        return Some(0);
    }
    value.checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?)?)
}

/// `math.Pow10`, which multiplies or divides the entries of two tables.
fn power_of_ten(exponent: i64) -> f64 {
    let literal = |exponent: i64| format!("1e{exponent}").parse().unwrap_or(0.0);
    match exponent {
        0..=308 => literal(exponent / 32 * 32) * literal(exponent % 32),
        -323..=-1 => literal(-(-exponent / 32 * 32)) / literal(-exponent % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse(text).unwrap()
    }

    #[test]
    fn only_small_numbers_without_a_fraction_are_integers() {
        for (text, want) in [
            ("2", Some(2)),
            ("-2", Some(-2)),
            ("1k", Some(1000)),
            ("1Ki", Some(1024)),
            ("0", Some(0)),
            ("1000m", None),
            ("1.0", None),
            ("1.5Ki", None),
            ("9E", Some(9_000_000_000_000_000_000)),
            ("10E", None),
            ("1e100", None),
            ("0e100", Some(0)),
        ] {
            assert_eq!(amount(text).as_i64(), want, "{text}");
        }
    }

    #[test]
    fn an_amount_is_compared_by_its_value() {
        for (less, more) in [
            ("1", "1.0000000001"),
            ("-1e40", "1"),
            ("99999999999999999999", "1e20"),
            ("-2", "-1"),
            ("1e100", "1e101"),
            ("0", "1n"),
        ] {
            assert!(amount(less) < amount(more), "{less} < {more}");
        }
        for (a, b) in [("1", "1000m"), ("1Ki", "1024"), ("0", "-0"), ("1e19", "10E"), ("10E", "10000000000000000000")] {
            assert_eq!(amount(a), amount(b), "{a} = {b}");
        }
    }

    #[test]
    fn sums_are_exact() {
        for (a, b, sum) in [
            ("1", "1", "2"),
            ("0.1", "0.2", "0.3"),
            ("9E", "9E", "18E"),
            ("99999999999999999999", "1", "1e20"),
            ("1", "-99999999999999999999", "-99999999999999999998"),
            ("1.5Gi", "0.5Gi", "2Gi"),
            ("1.5Gi", "-1.5Gi", "0"),
        ] {
            assert_eq!(amount(a).plus(&amount(b)), Ok(amount(sum)), "{a} + {b}");
            assert_eq!(amount(sum).minus(&amount(b)), Ok(amount(a)), "{sum} - {b}");
        }
        assert!(Amount::parse("1e20000").unwrap().plus(&amount("1n")).is_err());
    }
}
