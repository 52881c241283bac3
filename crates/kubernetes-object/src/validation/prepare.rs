//! Values that the server sets before it validates an object (`PrepareForCreate`, `PrepareForUpdate`).

use crate::Object;
use crate::defaults::pod_forms::drop_init_container_annotations;
use crate::defaults::prepare_pod_resources;
use crate::kind::GroupVersionKind;
use crate::release;
use crate::round_trip::strip_empty_selector;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Sets what a new object leaves to the server: the selector of a Job, the addresses of a Service, the second form of the source of a claim.
pub fn prepare_for_create(kind: &GroupVersionKind, object: &mut Object) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("batch", "Job") => generate_selector(object),
        ("", "Service") => {
            let address = text(object, "clusterIP");
            if !address.is_empty() && object.items(&["spec", "clusterIPs"]).is_empty() {
                put(object, "clusterIPs", Some(json!([address])));
            }
        }
        ("", "PersistentVolumeClaim") => data_sources(object, None),
        _ => {}
    }
}

/// Sets what an updated object leaves as it was, and removes what its new type does not need.
pub fn prepare_for_update(kind: &GroupVersionKind, object: &mut Object, old: &Object) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => {
            keep_allocated(object, old);
            drop_dependent(object, old);
        }
        ("", "PersistentVolumeClaim") => data_sources(object, Some(old)),
        _ => {}
    }
}

/// Removes what the strategies remove since 1.37, and the conversions did before: annotations for init containers, and the expression that
/// stands for an empty selector of a disruption budget (`DropInitContainerAnnotations`, `podDisruptionBudgetStrategy`).
pub fn drop_old_forms(kind: &GroupVersionKind, object: &mut Object, old: Option<&Object>) {
    const SELECTOR: [&str; 2] = ["spec", "selector"];
    if !release::since(37) {
        return;
    }
    let template = match (kind.group.as_str(), kind.kind.as_str()) {
        ("policy", "PodDisruptionBudget") => {
            if old.is_none_or(|old| old.get(&SELECTOR) != object.get(&SELECTOR)) {
                strip_empty_selector(object.fields_mut());
            }
            return;
        }
        ("", "Pod") => return drop_init_container_annotations(object.fields_mut()),
        ("", "PodTemplate") => &["template"][..],
        ("", "ReplicationController") | ("apps", _) | ("batch", "Job") => &["spec", "template"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template"],
        _ => return,
    };
    if let Some(template) = object.get_mut(template).and_then(Value::as_object_mut) {
        drop_init_container_annotations(template);
    }
}

/// Sets the resources that a pod as a whole leaves out, if it has any, as the strategy of pods does since 1.37 (`DefaultPodLevelResources`).
pub fn default_pod_resources(pod: &mut Object) {
    if let Some(spec) = pod.get_mut(&["spec"]).and_then(Value::as_object_mut) {
        prepare_pod_resources(spec);
    }
}

/// Restores the resources of a pod as a whole in an update by a client that does not know them, as the strategy of pods does since 1.37
/// (`podStrategy.PrepareForUpdate`).
pub fn keep_pod_resources(pod: &mut Object, old: &Object) {
    const RESOURCES: [&str; 2] = ["spec", "resources"];
    let is_given = |pod: &Object| pod.get(&RESOURCES).is_some_and(|resources| !resources.is_null());
    if let Some(kept) = old.get(&RESOURCES).filter(|kept| !kept.is_null() && !is_given(pod)) {
        let _spec_is_an_object = pod.set(&RESOURCES, kept.clone());
    }
}

fn field(object: &Object, name: &str) -> Option<Value> {
    object.get(&["spec", name]).cloned()
}

fn text(object: &Object, name: &str) -> String {
    object.str(&["spec", name]).to_owned()
}

/// Sets or removes a field of the spec.
fn put(object: &mut Object, name: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            let _ = object.set(&["spec", name], value);
        }
        None => {
            object.remove(&["spec", name]);
        }
    }
}

/// `patchAllocatedValues`, `normalizeClusterIPs`
fn keep_allocated(object: &mut Object, old: &Object) {
    const ADDRESSES: [&str; 2] = ["spec", "clusterIPs"];
    if needs_address(object) && needs_address(old) {
        if text(object, "clusterIP").is_empty() {
            put(object, "clusterIP", field(old, "clusterIP"));
        }
        if object.items(&ADDRESSES).is_empty() {
            put(object, "clusterIPs", field(old, "clusterIPs"));
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            if object.get(&["spec", name]).is_none() {
                put(object, name, field(old, name));
            }
        }
    }
    if needs_ports(object) && needs_ports(old) {
        keep_ports(object, old);
    }
    let port = object.get(&["spec", "healthCheckNodePort"]).and_then(Value::as_i64).unwrap_or_default();
    if port == 0 && needs_health_check(object) && needs_health_check(old) {
        put(object, "healthCheckNodePort", field(old, "healthCheckNodePort"));
    }
    let (before, address) = (text(old, "clusterIP"), text(object, "clusterIP"));
    if before == address && object.items(&ADDRESSES).is_empty() {
        put(object, "clusterIPs", field(old, "clusterIPs"));
    } else if before != address && object.items(&ADDRESSES) == old.items(&ADDRESSES) {
        put(object, "clusterIPs", Some(address).filter(|address| !address.is_empty()).map(|address| json!([address])));
    }
}

/// Sets the node ports that an update omits to those of the ports with the same names, unless other ports have them.
fn keep_ports(object: &mut Object, old: &Object) {
    let used: HashSet<u64> = node_ports(object).into_iter().collect();
    // The last one of a name counts.
    let known = old.items(&["spec", "ports"]).iter().map(|port| (port.get("name"), port.get("nodePort")));
    let known: HashMap<Option<&Value>, Option<&Value>> = known.collect();
    let ports = object.get_mut(&["spec", "ports"]).and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if port.get("nodePort").and_then(Value::as_u64).unwrap_or_default() != 0 {
            continue;
        }
        let kept = known.get(&port.get("name")).copied().flatten();
        if let Some(kept) = kept.filter(|kept| kept.as_u64().is_some_and(|kept| kept != 0 && !used.contains(&kept))) {
            port.insert("nodePort".to_owned(), kept.clone());
        }
    }
}

/// `dropTypeDependentFields`: removes unchanged values that the new type of a Service does not need.
fn drop_dependent(object: &mut Object, old: &Object) {
    let drop_same = |object: &mut Object, names: &[&str]| {
        for name in names {
            if field(object, name) == field(old, name) {
                put(object, name, None);
            }
        }
    };
    if needs_address(old) && !needs_address(object) {
        if field(object, "clusterIPs") == field(old, "clusterIPs") {
            put(object, "clusterIP", None);
            put(object, "clusterIPs", None);
        }
        drop_same(object, &["ipFamilies", "ipFamilyPolicy"]);
    }
    if needs_ports(old) && !needs_ports(object) && node_ports(object) == node_ports(old) {
        let ports = object.get_mut(&["spec", "ports"]).and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if needs_health_check(old) && !needs_health_check(object) {
        drop_same(object, &["healthCheckNodePort"]);
    }
    if text(old, "type") == "LoadBalancer" && text(object, "type") != "LoadBalancer" {
        drop_same(object, &["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_reached_from_outside(old) && !is_reached_from_outside(object) {
        drop_same(object, &["externalTrafficPolicy"]);
    }
}

/// `needsClusterIP`
fn needs_address(object: &Object) -> bool {
    matches!(object.str(&["spec", "type"]), "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// `needsNodePort`
fn needs_ports(object: &Object) -> bool {
    match object.str(&["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => object.get(&["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// `needsHCNodePort`
fn needs_health_check(object: &Object) -> bool {
    object.str(&["spec", "type"]) == "LoadBalancer" && object.str(&["spec", "externalTrafficPolicy"]) == "Local"
}

/// `ExternallyAccessible`
fn is_reached_from_outside(object: &Object) -> bool {
    match object.str(&["spec", "type"]) {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !object.items(&["spec", "externalIPs"]).is_empty(),
        _ => false,
    }
}

fn node_ports(object: &Object) -> Vec<u64> {
    let ports = object.items(&["spec", "ports"]).iter();
    let ports = ports.filter_map(|port| port.get("nodePort")?.as_u64());
    let mut ports: Vec<u64> = ports.filter(|port| *port != 0).collect();
    ports.sort_unstable();
    ports
}

/// `EnforceDataSourceBackwardsCompatibility`, `NormalizeDataSources`
fn data_sources(object: &mut Object, old: Option<&Object>) {
    const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
    let has = |object: &Object, name: &str| object.get(&["spec", name]).is_some_and(|value| !value.is_null());
    let is_in_use = old.is_some_and(|old| has(old, "dataSource") || has(old, "dataSourceRef"));
    let (kind, group) = (
        object.str(&["spec", "dataSource", "kind"]).to_owned(),
        object.str(&["spec", "dataSource", "apiGroup"]).to_owned(),
    );
    let is_known =
        matches!((kind.as_str(), group.as_str()), ("PersistentVolumeClaim", "") | ("VolumeSnapshot", SNAPSHOTS));
    if !is_in_use && !is_known {
        put(object, "dataSource", None);
    }
    match (has(object, "dataSource"), has(object, "dataSourceRef")) {
        (true, false) => {
            let source = field(object, "dataSource");
            put(object, "dataSourceRef", source);
        }
        (false, true) if object.str(&["spec", "dataSourceRef", "namespace"]).is_empty() => {
            let source = field(object, "dataSourceRef");
            put(object, "dataSource", source);
        }
        _ => {}
    }
}

/// The selector and the labels of the template of a Job that leaves them to the server. A Job without labels of its own has those of its
/// template.
fn generate_selector(object: &mut Object) {
    if object.get(&["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (name, uid) = (object.name().to_owned(), object.uid().to_owned());
    let labels = ["spec", "template", "metadata", "labels"];
    let has_none = object.labels().is_none_or(serde_json::Map::is_empty);
    let is_shared = object.unwritten().shares_labels() && object.get(&["metadata", "labels"]) == object.get(&labels);
    for (key, value) in [
        ("batch.kubernetes.io/job-name", &name),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("controller-uid", &uid),
    ] {
        let path: Vec<&str> = labels.iter().copied().chain([key]).collect();
        if object.get(&path).is_none() {
            let _ = object.set(&path, json!(value));
        }
    }
    if let Some(all) = object.get(&labels).filter(|_| has_none || is_shared).cloned() {
        let _ = object.set(&["metadata", "labels"], all);
    }
    let path = ["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"];
    if object.get(&path).is_none() {
        let _ = object.set(&path, json!(uid));
    }
}
