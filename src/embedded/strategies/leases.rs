//! Leases (`pkg/registry/coordination/lease`).

use super::disabled::DisabledFields;
use super::strategy::Strategy;

const COORDINATED: &str = "CoordinatedLeaderElection";

pub(super) struct Leases;

impl Strategy for Leases {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[
            DisabledFields { gate: COORDINATED, paths: &[&["spec", "strategy"]] },
            DisabledFields { gate: COORDINATED, paths: &[&["spec", "preferredHolder"]] },
        ]
    }
}
