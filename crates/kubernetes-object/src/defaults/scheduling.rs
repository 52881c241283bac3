//! Defaults of the scheduling.k8s.io group.

use super::Defaulting;
use super::fields::{Fields, embedded, if_nil};
use serde_json::json;

pub(super) fn apply(version: &str, kind: &str, object: &mut Fields, defaulting: Defaulting) {
    match (version, kind) {
        ("v1", "PriorityClass") => if_nil(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("v1alpha2", "PodGroup") => {
            if let Some(spec) = embedded(object, "spec") {
                if_nil(spec, "disruptionMode", "Pod");
            }
        }
        ("v1alpha3" | "v1beta1", "PodGroup" | "CompositePodGroup") => {
            let Some(spec) = embedded(object, "spec") else { return };
            if_nil(spec, "disruptionMode", json!({"single": {}}));
            if defaulting.preemption_of_groups {
                if_nil(spec, "preemptionPolicy", "PreemptLowerPriority");
            }
        }
        _ => {}
    }
}
