//! The defaults that kube-apiserver sets in a built-in object after decoding: the defaulting functions of its kind
//! (`SetObjectDefaults_*`). The changes by the conversion to the internal version and back are in `round_trip`.
//!
//! The object is a result of `typed::decode`: without unknown fields, and an absent field is Go's zero value. Values that the registry's
//! strategies set later (names, generations, allocated addresses) are not set here.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
pub(super) mod autoscaling;
mod batch;
mod certificates;
mod container;
mod core;
mod discovery;
pub(super) mod fields;
mod flowcontrol;
mod image;
mod networking;
mod pod;
pub(super) mod pod_forms;
mod pod_resources;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod volume;

pub(crate) use pod_resources::prepare as prepare_pod_resources;

use crate::kind::GroupVersionKind;
use crate::release;
use serde_json::Value;

/// The defaults that depend on feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaulting {
    /// Whether the resources of a pod as a whole are among the defaults. Since 1.37, the strategy of pods sets them
    /// (`validation::default_pod_resources`, feature gate PodLevelResourcesFixDefaulting), so that they count containers that admission adds.
    pub pod_resources: bool,
    /// Whether pods need the driver of a volume by default (feature gate VolumeLimitScaling).
    pub volume_limits: bool,
    /// Whether rolling updates of StatefulSets have a maximum of unavailable pods (feature gate MaxUnavailableStatefulSet).
    pub unavailable_of_stateful_sets: bool,
    /// Whether pod groups have a preemption policy (feature gate PodGroupPreemptionPolicy).
    pub preemption_of_groups: bool,
    /// Whether the HTTP requests of probes and of hooks name their protocol (feature gate H2CContainerProbe).
    pub protocol_of_probes: bool,
}

/// The defaults with the gates of the release of this process.
impl Default for Defaulting {
    fn default() -> Self {
        let since_1_37 = release::since(37);
        Self {
            pod_resources: !since_1_37,
            volume_limits: since_1_37,
            unavailable_of_stateful_sets: since_1_37,
            preemption_of_groups: false,
            protocol_of_probes: false,
        }
    }
}

/// Sets the defaults of the kind, in place. Leaves other kinds and values of a wrong type alone.
pub fn apply(kind: &GroupVersionKind, value: &mut Value, defaulting: Defaulting) {
    let Value::Object(object) = value else { return };
    let (version, name) = (kind.version.as_str(), kind.kind.as_str());
    match kind.group.as_str() {
        "" if version == "v1" => core::apply(name, object, defaulting),
        "admissionregistration.k8s.io" => admissionregistration::apply(version, name, object),
        "apiextensions.k8s.io" if version == "v1" => apiextensions::apply(name, object),
        "apiregistration.k8s.io" if version == "v1" => apiregistration::apply(name, object),
        "apps" if version == "v1" => apps::apply(name, object, defaulting),
        "authentication.k8s.io" if version == "v1" => authentication::apply(name, object),
        "autoscaling" => autoscaling::apply(version, name, object),
        "batch" if version == "v1" => batch::apply(name, object),
        "certificates.k8s.io" => certificates::apply(version, name, object),
        "discovery.k8s.io" if version == "v1" => discovery::apply(name, object),
        "flowcontrol.apiserver.k8s.io" if version == "v1" => flowcontrol::apply(name, object),
        "networking.k8s.io" if version == "v1" => networking::apply(name, object),
        "rbac.authorization.k8s.io" if version == "v1" => rbac::apply(name, object),
        "resource.k8s.io" => resource::apply(version, name, object),
        "scheduling.k8s.io" => scheduling::apply(version, name, object, defaulting),
        "storage.k8s.io" if version == "v1" => storage::apply(name, object, defaulting),
        _ => {}
    }
}

/// Whether [`apply`] gives the object and its template one map of labels, into which the API server writes later.
pub(crate) fn shares_labels(kind: &GroupVersionKind, value: &Value) -> bool {
    (&*kind.group, &*kind.kind) == ("batch", "Job") && batch::shares_labels(value)
}

#[cfg(test)]
mod tests;
