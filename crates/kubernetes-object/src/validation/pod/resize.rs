//! The resize of a pod (`ValidatePodResize`), after the checks of the new pod.

use super::super::node::{Causes, Node, is_equal};
use super::annotations::MIRROR;
use super::quality;
use crate::go_text::go_quote;
use serde_json::{Map, Value, json};

const ONLY: &str = "only cpu and memory resources are mutable";
/// The resources that a resize changes.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

pub(super) fn check(pod: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let whole = pod.with_empty_path();
    for (is_excluded, why) in [
        (old.under(&["metadata", "annotations"]).key(MIRROR).is_given(), "static pods cannot be resized"),
        (old.under(&["spec", "os", "name"]).text() == "windows", "windows pods cannot be resized"),
    ] {
        if is_excluded {
            *out = Causes::default();
            return out.forbidden(&whole, why);
        }
    }
    let (spec, old_spec) = (pod.at("spec"), old.at("spec"));
    let old_class = match old.under(&["status", "qosClass"]).text() {
        "" => quality::class(old),
        class => class,
    };
    if old_class != quality::class(pod) {
        let shown = go_quote(pod.under(&["status", "qosClass"]).text());
        out.invalid(&spec, shown, "Pod QOS Class may not change as a result of resizing");
    }
    if !is_supported(old) {
        out.forbidden(&spec, "Pod running on node without support for resize");
    }
    let mut munged = spec.value().as_object().cloned().unwrap_or_default();
    if has_resources(&old_spec) || has_resources(&spec) {
        let resources = of_pod(&spec, &old_spec, out);
        set(&mut munged, "resources", resources);
    }
    if !old.under(&["status", "nodeAllocatableResourceClaimStatuses"]).is_empty() {
        out.forbidden(&spec, "pods with node allocatable resource claims cannot be resized");
    }
    if !have_same_order(&spec, &old_spec, out) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (new, old) in spec.at(list).items().zip(old_spec.at(list).items()) {
            removed(&new.at("resources"), &old.at("resources"), "resource", out);
        }
    }
    for list in ["containers", "initContainers"] {
        let pairs = spec.at(list).items().zip(old_spec.at(list).items());
        let changed: Vec<Value> = pairs.map(|(new, old)| container(list, &new, &old, &spec, out)).collect();
        set(&mut munged, list, Value::Array(changed));
    }
    if out.is_empty() && !is_equal(&Value::Object(munged), old_spec.value()) {
        out.forbidden(&spec, ONLY);
    }
}

fn set(fields: &mut Map<String, Value>, name: &str, value: Value) {
    match value {
        Value::Null => drop(fields.remove(name)),
        Value::Array(items) if items.is_empty() => drop(fields.remove(name)),
        value => drop(fields.insert(name.to_owned(), value)),
    }
}

/// `isPodResizeRequestSupported`
fn is_supported(pod: &Node<'_>) -> bool {
    let mut statuses = pod.under(&["status", "containerStatuses"]).items();
    let running = statuses.find(|status| status.under(&["state", "running"]).is_given());
    running.is_none_or(|status| status.at("resources").is_given())
}

/// Whether the pod itself has resources.
fn has_resources(spec: &Node<'_>) -> bool {
    let resources = spec.at("resources");
    !resources.at("requests").is_empty() || !resources.at("limits").is_empty()
}

/// Checks the resources of the pod itself, and returns them with the old amounts of CPU and memory (`validatePodLevelResourcesResize`).
fn of_pod(spec: &Node<'_>, old_spec: &Node<'_>, out: &mut Causes) -> Value {
    let (new, old) = (spec.at("resources"), old_spec.at("resources"));
    if old.is_given() && !new.is_given() {
        out.forbidden(&new, "pod-level resources cannot be removed");
        return Value::Null;
    }
    if old.is_given() {
        removed(&new, &old, "pod-level resource", out);
    }
    let mut munged = new.value().as_object().cloned().unwrap_or_default();
    for side in ["requests", "limits"] {
        munged.insert(side.to_owned(), with_old_amounts(&new.at(side), &old.at(side)));
    }
    let is_nothing = ["requests", "limits", "claims"]
        .iter()
        .all(|part| munged.get(*part).is_none_or(|part| Node::root(part).is_empty()));
    let munged = if !old.is_given() && is_nothing { Value::Null } else { Value::Object(munged) };
    if !is_equal(&munged, old.value()) {
        out.forbidden(spec, "only cpu and memory resources are mutable at pod-level");
    }
    munged
}

/// The amounts with those of CPU and memory that the pod had (`dropCPUMemoryUpdates`).
fn with_old_amounts(new: &Node<'_>, old: &Node<'_>) -> Value {
    let mut amounts = new.value().as_object().cloned().unwrap_or_default();
    for resource in MUTABLE {
        set(&mut amounts, resource, old.at(resource).value().clone());
    }
    Value::Object(amounts)
}

/// The errors of amounts that are removed (`resourcesRemoved`).
fn removed(new: &Node<'_>, old: &Node<'_>, what: &str, out: &mut Causes) {
    for side in ["requests", "limits"] {
        let (new, old) = (new.at(side), old.at(side));
        if old.entries().any(|(name, _)| !new.key(name).is_given()) {
            out.forbidden(&new, &format!("{what} {side} cannot be removed"));
        }
    }
}

/// `validatePodResizeContainerOrdering`
fn have_same_order(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) -> bool {
    let before = out.len();
    for list in ["containers", "initContainers"] {
        if spec.at(list).len() != old.at(list).len() {
            out.forbidden(&spec.at(list), &format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (container, old) in spec.at(list).items().zip(old.at(list).items()) {
            if container.at("name").text() != old.at("name").text() {
                let why = format!("{list} may not be renamed or reordered on resize");
                out.forbidden(&container.at("name"), &why);
            }
        }
    }
    out.len() == before
}

/// Checks that nothing but CPU and memory of a container changes, and returns the container with the old amounts of them.
fn container(list: &str, new: &Node<'_>, old: &Node<'_>, spec: &Node<'_>, out: &mut Causes) -> Value {
    let is_init = list == "initContainers";
    let of = |side| with_old_amounts(&new.at("resources").at(side), &old.at("resources").at(side));
    let mut munged = new.value().as_object().cloned().unwrap_or_default();
    // `dropCPUMemoryResourcesFromContainer` drops the claims.
    munged.insert("resources".to_owned(), json!({"requests": of("requests"), "limits": of("limits")}));
    let munged = Value::Object(munged);
    if !is_equal(&munged, old.value()) {
        match is_init {
            true => out.forbidden(new, "only cpu and memory resources for init or sidecar containers are mutable"),
            false => out.forbidden(spec, ONLY),
        }
    }
    let is_sidecar = new.at("restartPolicy").text() == "Always";
    if is_init && !is_sidecar && !is_equal(new.value(), old.value()) {
        for policy in new.at("resizePolicy").items() {
            if policy.at("restartPolicy").text() == "RestartContainer" {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                out.forbidden(new, why);
            }
        }
    }
    munged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(old: &Value, new: &Value) -> Vec<String> {
        let mut out = Causes::default();
        check(&Node::root(new), &Node::root(old), &mut out);
        out.into_vec().into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    fn pod(class: &str, containers: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"containers": containers}, "status": {"qosClass": class}})
    }

    fn container(requests: Value, limits: Value) -> Value {
        json!({"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn cpu_and_memory_change_within_a_class() {
        let old = pod("Burstable", json!([container(json!({"cpu": "1"}), json!({"memory": "1Gi"}))]));
        let only = format!("spec: Forbidden: {ONLY}");
        for (requests, limits, expected) in [
            (json!({"cpu": "2", "memory": "1Gi"}), json!({"memory": "2Gi", "cpu": "3"}), vec![]),
            (
                json!({}),
                json!({"memory": "1Gi"}),
                vec!["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
            ),
            (json!({"cpu": "1", "e.test/x": "1"}), json!({"memory": "1Gi"}), vec![&*only]),
            (
                json!({"cpu": "1", "memory": "1"}),
                json!({"cpu": "1", "memory": "1"}),
                vec!["spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"],
            ),
        ] {
            assert_eq!(
                causes(&old, &pod("Burstable", json!([container(requests.clone(), limits)]))),
                expected,
                "{requests}"
            );
        }
    }

    #[test]
    fn some_pods_are_not_resized_at_all() {
        let new = pod("BestEffort", json!([container(json!({"cpu": "1"}), json!({}))]));
        let with = |pointer: &str, field: &str, value: Value| {
            let mut pod = pod("BestEffort", json!([container(json!({}), json!({}))]));
            pod.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap().insert(field.to_owned(), value);
            pod
        };
        let mirror = with("/metadata", "annotations", json!({"kubernetes.io/config.mirror": ""}));
        assert_eq!(causes(&mirror, &new), ["[]: Forbidden: static pods cannot be resized"]);
        let windows = with("/spec", "os", json!({"name": "windows"}));
        assert_eq!(causes(&windows, &new), ["[]: Forbidden: windows pods cannot be resized"]);
        let running = with("/status", "containerStatuses", json!([{"name": "c", "state": {"running": {}}}]));
        assert!(
            causes(&running, &new)
                .contains(&"spec: Forbidden: Pod running on node without support for resize".to_owned())
        );
    }
}
