//! The rules of expressions in the emulated release.

use super::{EmulatedRelease, FeatureGates};
use crate::cel::Release;

impl EmulatedRelease {
    /// The release whose rules new expressions follow. A release that the rules do not distinguish has those of the one before.
    pub(crate) const fn expressions(self) -> Release {
        Release::of(if self.minor >= 37 { 37 } else { 36 })
    }
}

impl FeatureGates {
    /// The release whose rules new expressions follow.
    pub(crate) const fn expressions(&self) -> Release {
        self.release().expressions()
    }
}
