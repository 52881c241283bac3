//! Values of pods that kube-apiserver brings into one form: by conversion until 1.36, and by defaulting or in the strategy since 1.37.

use super::fields::{Fields, is_zero, pointer, text};
use serde_json::{Value, json};

/// Replaces a negative grace period. Only for pods: a template's grace period is not in use yet (`Convert_v1_Pod_To_core_Pod`,
/// `SetDefaults_Pod`).
pub(crate) fn grace_period(spec: &mut Fields) {
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
}

/// Makes both names of the service account equal; the deprecated field counts only if the new one is missing
/// (`Convert_v1_PodSpec_To_core_PodSpec` and back, `SetDefaults_PodSpec`).
pub(crate) fn service_account(spec: &mut Fields) {
    let (deprecated, current) = ("serviceAccount", "serviceAccountName");
    let (from, to) = if is_zero(spec, current) { (deprecated, current) } else { (current, deprecated) };
    if spec.get(from) != spec.get(to)
        && let Some(name @ Value::String(_)) = spec.get(from)
    {
        let name = name.clone();
        spec.insert(to.to_owned(), name);
    }
}

/// Makes `podIP` and the first of `podIPs` equal; if both are set, `podIP` takes precedence (`Convert_v1_PodStatus_To_core_PodStatus` and
/// back, `SetDefaults_PodStatus`).
pub(crate) fn addresses(status: &mut Fields) {
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

/// Removes annotations for init containers, as the API server does: kubelets before 1.8 read them
/// (`dropInitContainerAnnotations`).
pub(crate) fn drop_init_container_annotations(object: &mut Fields) {
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
