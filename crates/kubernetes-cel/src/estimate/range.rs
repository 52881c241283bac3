//! Figures with a lower and an upper bound, which stay at the largest number there is.

use std::fmt;
use std::ops::{Add, Mul};

/// From here on it only says that there is no bound.
const UNBOUNDED: u64 = u64::MAX / 1000;

/// A size or a cost: `SizeEstimate` and `CostEstimate` of cel-go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// At least.
    pub min: u64,
    /// At most; the largest number if there is no telling.
    pub max: u64,
}

impl Range {
    /// It can be anything.
    pub const UNKNOWN: Self = Self::up_to(u64::MAX);

    /// It is known.
    pub const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    /// It has an upper bound.
    pub const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    /// What a union begins with; of nothing at all its size is zero.
    pub(super) const fn nothing(at_all: bool) -> Self {
        Self { min: if at_all { 0 } else { u64::MAX }, max: 0 }
    }

    /// The one or the other.
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Times a factor, rounded up: `MultiplyByCostFactor`.
    pub fn times(self, factor: f64) -> Self {
        // A double that is too large for the target becomes its largest number.
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
