//! Ranges with a lower and an upper bound, which saturate at the largest number.

use std::fmt;
use std::ops::{Add, Mul};

/// From this number on a bound only means that there is no bound.
const UNBOUNDED: u64 = u64::MAX / 1000;

/// A size or a cost: `SizeEstimate` and `CostEstimate` of cel-go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The lower bound.
    pub min: u64,
    /// The upper bound; the largest number if it is unknown.
    pub max: u64,
}

impl Range {
    /// The range of an unknown value.
    pub const UNKNOWN: Self = Self::up_to(u64::MAX);

    /// The range of a known value.
    pub const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    /// The range of a value with an upper bound.
    pub const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    /// The start of a union: the range of an empty set, whose size is zero if `at_all`.
    pub(super) const fn nothing(at_all: bool) -> Self {
        Self { min: if at_all { 0 } else { u64::MAX }, max: 0 }
    }

    /// The range that contains both ranges.
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Multiplies by a factor, rounded up (`MultiplyByCostFactor`).
    pub fn times(self, factor: f64) -> Self {
        // A double above the largest integer becomes the largest integer.
        let times = |value: u64| (value as f64 * factor).ceil() as u64;
        Self { min: times(self.min), max: times(self.max) }
    }
}

impl Add for Range {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }
}

impl Mul for Range {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { min, max: UNBOUNDED.. } => write!(f, "{min} or more"),
            Self { min, max } if min == max => write!(f, "{min}"),
            Self { min, max } => write!(f, "{min} to {max}"),
        }
    }
}
