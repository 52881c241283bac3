//! Nodes (`pkg/registry/core/node`).

use super::disabled::{DisabledFields, NEVER};
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::Collection;

pub(super) struct Nodes;

impl Strategy for Nodes {
    /// A kubelet creates its node with a status.
    fn keeps_status(&self) -> bool {
        true
    }

    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[
            DisabledFields { gate: NEVER, paths: &[&["spec", "configSource"]] },
            DisabledFields { gate: NEVER, paths: &[&["status", "config"]] },
            DisabledFields {
                gate: "InPlacePodVerticalScalingSchedulerPreemption",
                paths: &[&["spec", "podPreemptionPolicy"]],
            },
            DisabledFields {
                gate: "KubeletInUserNamespace",
                paths: &[&["status", "nodeInfo", "runningInUserNamespace"]],
            },
        ]
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn unset(&self, _: &str) -> &'static str {
        "false"
    }

    fn storage_path(&self, _: &Collection) -> String {
        "minions".to_owned()
    }
}
