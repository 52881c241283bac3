//! Quantities of any length, digit by digit, for the numbers that Go holds as big numbers.

use super::DECIMAL;

/// The digits of a number, the first one not zero, times a power of ten.
pub(super) struct Digits {
    digits: Vec<u8>,
    exponent: i64,
}

impl Digits {
    /// Multiplies the number of these digits by `factor` and ten to the `exponent`, and rounds away from zero to whole nanos.
    pub(super) fn rounded(digits: [&str; 2], factor: u64, exponent: i64) -> Self {
        let mut reversed = Vec::new();
        let mut carry = 0;
        // Nine times the largest factor, 2^60, and the carry fit 64 bits.
        for digit in digits.iter().rev().flat_map(|digits| digits.bytes().rev()) {
            carry += u64::from(digit - b'0') * factor;
            reversed.push((carry % 10) as u8);
            carry /= 10;
        }
        while carry > 0 {
            reversed.push((carry % 10) as u8);
            carry /= 10;
        }
        while reversed.last() == Some(&0) {
            reversed.pop();
        }
        reversed.reverse();
        let mut number = Self { digits: reversed, exponent };
        number.round_up_to_nano();
        number
    }

    /// Rounds up to whole nanos, so that every amount above zero is at least one nano.
    fn round_up_to_nano(&mut self) {
        let excess = usize::try_from(-9 - self.exponent).unwrap_or(0);
        if excess > 0 {
            let kept = self.digits.len().saturating_sub(excess);
            let has_rest = self.digits.drain(kept..).any(|digit| digit != 0);
            self.exponent = -9;
            if has_rest {
                self.add_one();
            }
        }
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
    }

    fn add_one(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// The whole number, at most 2^63-1; `None` if the number has a fraction.
    pub(super) fn capped(&self) -> Option<i64> {
        const MAX: i64 = i64::MAX;
        let places = self.digits.len() as i64 + self.exponent;
        if places > 19 {
            return Some(MAX);
        }
        let digit =
            |at: i64| usize::try_from(at).ok().and_then(|at| self.digits.get(at)).map_or(0, |digit| i128::from(*digit));
        let whole = (0..places).fold(0_i128, |whole, at| whole * 10 + digit(at));
        match i64::try_from(whole) {
            Ok(whole) if self.exponent >= 0 || whole == MAX => Some(whole),
            Ok(_) => None,
            Err(_) => Some(MAX),
        }
    }

    /// The number in billionths, if 128 bits hold it.
    pub(super) fn nanos(&self) -> Option<i128> {
        let add = |number: i128, digit: &u8| number.checked_mul(10)?.checked_add(i128::from(*digit));
        let number = self.digits.iter().try_fold(0, add)?;
        let places = u32::try_from(self.exponent + 9).ok()?;
        if number == 0 { Some(0) } else { number.checked_mul(10_i128.checked_pow(places)?) }
    }

    /// Writes a decimal quantity.
    pub(super) fn text(&self, is_exponential: bool) -> String {
        let missing = self.exponent.rem_euclid(3);
        let exponent = self.exponent - missing;
        let digits = self.digits.iter().map(|digit| char::from(b'0' + digit));
        let mut text: String = digits.chain((0..missing).map(|_| '0')).collect();
        if is_exponential && exponent != 0 {
            text.push_str(&format!("e{exponent}"));
        } else {
            // Go has no suffix for values above `E`, and omits it.
            let suffix = DECIMAL.iter().find(|(_, each)| i64::from(*each) == exponent);
            text.push_str(suffix.map_or("", |(name, _)| *name));
        }
        text
    }
}
