//! Leases (`pkg/registry/coordination/lease`).

use super::disabled::DisabledFields;
use super::strategy::Strategy;

const GATE: &str = "CoordinatedLeaderElection";

pub(super) struct Leases;

impl Strategy for Leases {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[
            DisabledFields { gate: GATE, paths: &[&["spec", "strategy"]] },
            DisabledFields { gate: GATE, paths: &[&["spec", "preferredHolder"]] },
        ]
    }
}
