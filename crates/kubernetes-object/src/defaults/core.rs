//! Defaults of the core group, except for the parts of pods.

use super::Defaulting;
use super::fields::{Fields, each, embedded, if_nil, if_zero, is_nil, is_zero, pointer, text};
use super::pod::{self, template};
use super::pod_resources::round_up;
use super::volume;
use serde_json::{Value, json};

pub(super) fn apply(kind: &str, object: &mut Fields, defaulting: Defaulting) {
    match kind {
        "Pod" => pod::pod(object, defaulting),
        "PodTemplate" => template(object, "template"),
        "ReplicationController" => replication_controller(object),
        "Service" => service(object),
        "Endpoints" => endpoints(object),
        "Secret" => if_zero(object, "type", "Opaque"),
        "Namespace" => namespace(object),
        "Node" => node(object),
        "PersistentVolume" => persistent_volume(object),
        "PersistentVolumeClaim" => persistent_volume_claim(object),
        "LimitRange" => limit_range(object),
        "ResourceQuota" => resource_quota(object),
        _ => {}
    }
}

fn replication_controller(object: &mut Fields) {
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "replicas", 1);
    if !is_nil(spec, "template") {
        template(spec, "template");
    }
    if let Some(labels @ Value::Object(_)) = labels {
        if_zero(spec, "selector", labels.clone());
        adopt_labels(object, labels);
    }
}

/// Sets the labels of an object without labels to its template's.
pub(super) fn adopt_labels(object: &mut Fields, labels: Value) {
    if let Some(metadata) = embedded(object, "metadata") {
        if_zero(metadata, "labels", labels);
    }
}

fn service(object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_zero(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let timeout =
                spec.get("sessionAffinityConfig").and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if timeout.is_none_or(Value::is_null) {
                spec.insert("sessionAffinityConfig".to_owned(), json!({ "clientIP": { "timeoutSeconds": 10_800 } }));
            }
        }
        _ => {}
    }
    if_zero(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        if_zero(port, "protocol", "TCP");
        if is_zero(port, "targetPort") {
            let number = port.get("port").cloned().unwrap_or(Value::from(0));
            port.insert("targetPort".to_owned(), number);
        }
    }
    let (is_cluster_ip, is_node_port, is_load_balancer) = match text(spec, "type") {
        "ClusterIP" => (true, false, false),
        "NodePort" => (false, true, false),
        "LoadBalancer" => (false, false, true),
        _ => return,
    };
    if is_node_port || is_load_balancer || (is_cluster_ip && !is_zero(spec, "externalIPs")) {
        if_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if_nil(spec, "internalTrafficPolicy", "Cluster");
    if is_load_balancer {
        if_nil(spec, "allocateLoadBalancerNodePorts", true);
        let status = pointer(object, "status").and_then(|status| pointer(status, "loadBalancer"));
        for ingress in status.into_iter().flat_map(|status| each(status, "ingress")) {
            if !is_zero(ingress, "ip") {
                if_nil(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn endpoints(object: &mut Fields) {
    for subset in each(object, "subsets") {
        each(subset, "ports").for_each(|port| if_zero(port, "protocol", "TCP"));
    }
}

fn namespace(object: &mut Fields) {
    if let Some(status) = embedded(object, "status") {
        if_zero(status, "phase", "Active");
    }
    let Some(metadata) = pointer(object, "metadata") else { return };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = embedded(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), Value::String(name));
    }
}

fn node(object: &mut Fields) {
    let Some(status) = pointer(object, "status") else { return };
    if is_nil(status, "allocatable")
        && let Some(capacity @ Value::Object(_)) = status.get("capacity").cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
    round_up(status, "capacity");
    round_up(status, "allocatable");
}

fn persistent_volume(object: &mut Fields) {
    if let Some(status) = embedded(object, "status") {
        if_zero(status, "phase", "Pending");
    }
    if let Some(spec) = embedded(object, "spec") {
        if_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        if_nil(spec, "volumeMode", "Filesystem");
        inline_volume(spec);
    }
}

/// Defaults of every `PersistentVolumeSpec`.
pub(super) fn inline_volume(spec: &mut Fields) {
    round_up(spec, "capacity");
    volume::source(spec);
}

/// Defaults of a claim, or of a claim template.
pub(super) fn persistent_volume_claim(object: &mut Fields) {
    if let Some(status) = embedded(object, "status") {
        if_zero(status, "phase", "Pending");
        round_up(status, "capacity");
        round_up(status, "allocatedResources");
    }
    embedded(object, "spec").map(claim_spec);
}

/// Defaults of a `PersistentVolumeClaimSpec`.
pub(super) fn claim_spec(spec: &mut Fields) {
    if_nil(spec, "volumeMode", "Filesystem");
    if let Some(resources) = pointer(spec, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
}

fn limit_range(object: &mut Fields) {
    let Some(spec) = pointer(object, "spec") else { return };
    for item in each(spec, "limits") {
        if text(item, "type") == "Container" {
            fill_in(item, "max", "default");
            fill_in(item, "default", "defaultRequest");
            fill_in(item, "min", "defaultRequest");
        }
        for name in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            round_up(item, name);
        }
    }
}

/// Adds to one map the amounts of another that it lacks.
fn fill_in(item: &mut Fields, from: &str, to: &str) {
    let Some(Value::Object(from)) = item.get(from).cloned() else { return };
    if from.is_empty() {
        return;
    }
    if let Some(to) = embedded(item, to) {
        for (name, amount) in from {
            to.entry(name).or_insert(amount);
        }
    }
}

fn resource_quota(object: &mut Fields) {
    if let Some(spec) = pointer(object, "spec") {
        round_up(spec, "hard");
    }
    if let Some(status) = pointer(object, "status") {
        round_up(status, "hard");
        round_up(status, "used");
    }
}
