//! The rules of expressions in the emulated release.

use super::FeatureGates;
use crate::cel::Release;

impl FeatureGates {
    /// The release whose rules new expressions follow. A release that the rules do not distinguish has those of the one before.
    pub(crate) const fn expressions(&self) -> Release {
        Release::of(if self.since(37) { 37 } else { 36 })
    }
}
