//! Defaults of the scheduling.k8s.io group.

use super::fields::{Fields, embedded, if_nil};

pub(super) fn apply(version: &str, kind: &str, object: &mut Fields) {
    match (version, kind) {
        ("v1", "PriorityClass") => if_nil(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("v1alpha2", "PodGroup") => {
            if let Some(spec) = embedded(object, "spec") {
                if_nil(spec, "disruptionMode", "Pod");
            }
        }
        _ => {}
    }
}
