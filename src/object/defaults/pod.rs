//! Defaults of pods and of pod templates, wherever one is.

use super::fields::{Fields, each, embedded, if_nil, if_zero, is_true, is_zero, pointer, text};
use super::pod_resources::{self, round_up};
use super::{container, volume};
use serde_json::{Value, json};

/// A pod: `SetDefaults_Pod`, then what templates get as well.
pub(super) fn pod(object: &mut Fields) {
    if let Some(spec) = embedded(object, "spec") {
        // The order matters: what a pod as a whole requests follows from what its containers do.
        each(spec, "containers").for_each(container::requests_from_limits);
        each(spec, "initContainers").for_each(container::requests_from_limits);
        pod_resources::default_of_pod(spec);
        if_nil(spec, "enableServiceLinks", true);
        if is_true(spec, "hostNetwork") {
            each(spec, "containers").for_each(container::host_ports);
            each(spec, "initContainers").for_each(container::host_ports);
        }
        pod_spec(spec);
        // Of pods only, as their grace period is in use (`Convert_v1_Pod_To_core_Pod`).
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
    }
    if let Some(status) = pointer(object, "status") {
        pod_status(status);
    }
    drop_init_container_annotations(object);
}

/// A field that holds a `PodTemplateSpec`.
pub(super) fn template(parent: &mut Fields, name: &str) {
    if let Some(template) = embedded(parent, name) {
        embedded(template, "spec").map(pod_spec);
        drop_init_container_annotations(template);
    }
}

/// `SetDefaults_PodSpec` and what is within it.
fn pod_spec(spec: &mut Fields) {
    if_zero(spec, "dnsPolicy", "ClusterFirst");
    if_zero(spec, "restartPolicy", "Always");
    if_nil(spec, "securityContext", Fields::new());
    if_nil(spec, "terminationGracePeriodSeconds", 30);
    if_zero(spec, "schedulerName", "default-scheduler");
    each(spec, "volumes").for_each(volume::apply);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list).for_each(container::apply);
    }
    round_up(spec, "overhead");
    if let Some(resources) = pointer(spec, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
    alias_service_account(spec);
}

/// The deprecated name of the service account counts where the new one is missing, and follows it afterwards
/// (`Convert_v1_PodSpec_To_core_PodSpec` and back).
fn alias_service_account(spec: &mut Fields) {
    let (deprecated, current) = ("serviceAccount", "serviceAccountName");
    let (from, to) = if is_zero(spec, current) { (deprecated, current) } else { (current, deprecated) };
    if spec.get(from) != spec.get(to)
        && let Some(name @ Value::String(_)) = spec.get(from)
    {
        let name = name.clone();
        spec.insert(to.to_owned(), name);
    }
}

fn pod_status(status: &mut Fields) {
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        each(status, list).for_each(allocated);
    }
    allocated(status);
    pod_addresses(status);
}

fn allocated(status: &mut Fields) {
    round_up(status, "allocatedResources");
    if let Some(resources) = pointer(status, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
}

/// The one address and the list of addresses are the same; where they differ the one counts
/// (`Convert_v1_PodStatus_To_core_PodStatus` and back).
fn pod_addresses(status: &mut Fields) {
    let first = status.get("podIPs").and_then(|all| all.get(0)).map(|first| first.get("ip"));
    let first = first.map(|ip| ip.and_then(Value::as_str).unwrap_or_default());
    match (text(status, "podIP"), first) {
        (one, first) if !one.is_empty() && first != Some(one) => {
            let all = json!([{ "ip": one }]);
            status.insert("podIPs".to_owned(), all);
        }
        ("", Some(first)) if !first.is_empty() && is_zero(status, "podIP") => {
            let first = Value::from(first);
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
];

/// Kubelets before 1.8 read init containers from annotations, which the API server takes out.
fn drop_init_container_annotations(object: &mut Fields) {
    let Some(metadata) = pointer(object, "metadata") else { return };
    let Some(annotations) = pointer(metadata, "annotations") else { return };
    let before = annotations.len();
    for name in INIT_CONTAINER_ANNOTATIONS {
        annotations.remove(name);
    }
    if annotations.is_empty() && before > 0 {
        metadata.remove("annotations");
    }
}
