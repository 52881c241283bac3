//! CSIDrivers (`pkg/registry/storage/csidriver`).

use super::disabled::DisabledFields;
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;

pub(super) struct CsiDrivers;

impl Strategy for CsiDrivers {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[DisabledFields { gate: "VolumeLimitScaling", paths: &[&["spec", "preventPodSchedulingIfMissing"]] }]
    }

    /// A new object has no generation; the first change sets it to 1.
    fn counts_changes(&self, _: &ServedResource) -> bool {
        true
    }
}
