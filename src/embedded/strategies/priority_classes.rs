//! PriorityClasses (`pkg/registry/scheduling/priorityclass`).

use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;

pub(super) struct PriorityClasses;

impl Strategy for PriorityClasses {
    /// The generation stays 1.
    fn counts_changes(&self, _: &ServedResource) -> bool {
        false
    }
}
