//! Pods: a node may create mirror pods, delete and evict the pods bound to the node, and update their status.

use super::{no_object, not_found, read, references};
use crate::admission::{Attributes, Denial, Operation};
use crate::cluster::Cluster;
use crate::go_text::go_quote;
use crate::object::Object;
use crate::object::quantity::Quantity;
use k8s_openapi::api::core::v1::{Node, Pod, PodExtendedResourceClaimStatus, PodResourceClaimStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde_json::Value;

const MIRROR: &str = "kubernetes.io/config.mirror";
const NODE_NAME: [&str; 2] = ["spec", "nodeName"];

/// Checks a request for a pod or a subresource of a pod.
pub(super) fn check(cluster: &Cluster, since_1_37: bool, node: &str, attributes: &Attributes) -> Result<(), Denial> {
    match attributes.subresource.as_str() {
        "" => check_pod(cluster, node, attributes),
        "status" => check_status(since_1_37, node, attributes),
        "eviction" => check_eviction(cluster, node, attributes),
        other => Err(Denial::forbidden(format!(
            "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
            go_quote(other)
        ))),
    }
}

/// Whether the pod is a mirror pod, which represents a static pod of a kubelet.
pub(super) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR))
}

/// The node to which the pod is bound; empty if the pod is not bound.
pub(super) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// `admitPod`.
fn check_pod(cluster: &Cluster, node: &str, attributes: &Attributes) -> Result<(), Denial> {
    match attributes.operation {
        Operation::Create => check_mirror(cluster, node, attributes.object.as_ref().ok_or_else(no_object)?),
        Operation::Delete => must_be_bound(cluster, node, &attributes.namespace, &attributes.name, || {
            format!("node {} can only delete pods with spec.nodeName set to itself", go_quote(node))
        }),
        other => Err(Denial::forbidden(format!(
            "unexpected operation {}, node {} can only create and delete mirror pods",
            go_quote(other.as_str()),
            go_quote(node)
        ))),
    }
}

/// Checks that the pod is bound to the node. An unknown pod is a 404.
fn must_be_bound(
    cluster: &Cluster,
    node: &str,
    namespace: &str,
    name: &str,
    refusal: impl FnOnce() -> String,
) -> Result<(), Denial> {
    if cluster.indexed::<Pod>(node, namespace, name).is_some() {
        return Ok(());
    }
    match cluster.find::<Pod>(namespace, name) {
        Some(_) => Err(Denial::forbidden(refusal())),
        None => Err(not_found("", "pod", name).into()),
    }
}

/// `admitPodCreate`.
fn check_mirror(cluster: &Cluster, node: &str, pod: &Object) -> Result<(), Denial> {
    let name = go_quote(node);
    if read::value(pod, &["metadata", "annotations"])?.is_none_or(|annotations| annotations.get(MIRROR).is_none()) {
        return Err(Denial::forbidden(format!(
            "pod does not have {} annotation, node {name} can only create mirror pods",
            go_quote(MIRROR)
        )));
    }
    if read::text(pod, &NODE_NAME)? != node {
        return Err(Denial::forbidden(format!("node {name} can only create pods with spec.nodeName set to itself")));
    }
    check_owner(cluster, node, pod)?;
    match references::in_pod(pod) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(Denial::forbidden(format!("node {name} can not create pods that reference {what}"))),
        Err(why) => Err(Denial::forbidden(format!("error checking mirror pod for API references: {why}"))),
    }
}

/// Checks that the node is the pod's only owner.
fn check_owner(cluster: &Cluster, node: &str, pod: &Object) -> Result<(), Denial> {
    let name = go_quote(node);
    let mut owners: Vec<OwnerReference> = read::part(pod, &["metadata", "ownerReferences"])?;
    // The API server removes duplicate references before it calls plugins (`dedupOwnerReferences`).
    let mut seen: Vec<OwnerReference> = Vec::new();
    owners.retain(|owner| {
        let is_new = !seen.contains(owner);
        if is_new && seen.len() < 2 {
            seen.push(owner.clone());
        }
        is_new
    });
    let owner = match owners.as_slice() {
        [] => None,
        [owner] => Some(owner),
        _ => {
            return Err(Denial::forbidden(format!(
                "node {name} can only create pods with a single owner reference set to itself"
            )));
        }
    };
    let owner = owner.filter(|owner| owner.api_version == "v1" && owner.kind == "Node" && owner.name == node);
    let Some(owner) = owner else {
        return Err(Denial::forbidden(format!(
            "node {name} can only create pods with an owner reference set to itself"
        )));
    };
    if owner.controller != Some(true) {
        return Err(Denial::forbidden(format!(
            "node {name} can only create pods with a controller owner reference set to itself"
        )));
    }
    if owner.block_owner_deletion == Some(true) {
        return Err(Denial::forbidden(format!("node {name} must not set blockOwnerDeletion on an owner reference")));
    }
    let Some(known) = cluster.find::<Node>("", node) else { return Err(not_found("", "node", node).into()) };
    let uid = known.metadata.uid.as_deref().unwrap_or_default();
    match owner.uid == uid {
        true => Ok(()),
        false => Err(Denial::forbidden(format!("node {node} UID mismatch: expected {} got {uid}", owner.uid))),
    }
}

/// `admitPodStatus`.
fn check_status(since_1_37: bool, node: &str, attributes: &Attributes) -> Result<(), Denial> {
    if attributes.operation != Operation::Update {
        return Err(Denial::forbidden(format!("unexpected operation {}", go_quote(attributes.operation.as_str()))));
    }
    let (old, new) = (attributes.old_object.as_ref(), attributes.object.as_ref());
    let (Some(old), Some(new)) = (old, new) else { return Err(no_object()) };
    let name = go_quote(node);
    if read::text(old, &NODE_NAME)? != node {
        return Err(Denial::forbidden(format!(
            "node {name} can only update pod status for pods with spec.nodeName set to itself"
        )));
    }
    if read::labels(old)? != read::labels(new)? {
        return Err(Denial::forbidden(format!("node {name} cannot update labels through pod status")));
    }
    let claims = |pod: &Object| read::part::<Vec<PodResourceClaimStatus>>(pod, &["status", "resourceClaimStatuses"]);
    if claims(old)? != claims(new)? {
        return Err(Denial::forbidden(format!("node {name} cannot update resource claim statues")));
    }
    let extended = |pod: &Object| {
        read::part::<Option<PodExtendedResourceClaimStatus>>(pod, &["status", "extendedResourceClaimStatus"])
    };
    if extended(old)? != extended(new)? {
        return Err(Denial::forbidden(format!("node {name} cannot update extended resource claim status")));
    }
    let allocated =
        |pod: &Object| read::part::<Vec<AllocatedClaim>>(pod, &["status", "nodeAllocatableResourceClaimStatuses"]);
    if since_1_37 && allocated(old)? != allocated(new)? {
        return Err(Denial::forbidden(format!("node {name} cannot update node allocatable resource claim statuses")));
    }
    Ok(())
}

/// The fields of a NodeAllocatableResourceClaimStatus that a node may not change; missing lists are equal to empty ones
/// (`nodeAllocatableResourceClaimStatusesEqual`).
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllocatedClaim {
    resource_claim_name: Text,
    containers: Items<Text>,
    mapping: Items<Mapped>,
    overhead: Items<Overhead>,
}

/// `nodeAllocatableMappedResourcesEqual`
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Mapped {
    name: Text,
    quantity: Option<Amount>,
}

/// `nodeAllocatableOverheadResourcesEqual`
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Overhead {
    name: Text,
    per_pod: Option<Amount>,
    per_container: Option<Amount>,
}

/// A string; null is the empty string.
type Text = OrDefault<String>;
/// A list; null is the empty list.
type Items<T> = OrDefault<Vec<T>>;

/// A value for which null is the default.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Option<T>", bound(deserialize = "T: Default + Deserialize<'de>"))]
struct OrDefault<T>(T);

impl<T: Default> From<Option<T>> for OrDefault<T> {
    fn from(value: Option<T>) -> Self {
        Self(value.unwrap_or_default())
    }
}

/// A quantity, which is compared by its value.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(from = "Value")]
struct Amount(Quantity);

impl From<Value> for Amount {
    fn from(value: Value) -> Self {
        Self(Quantity::of(Some(&value)))
    }
}

/// `admitPodEviction`.
fn check_eviction(cluster: &Cluster, node: &str, attributes: &Attributes) -> Result<(), Denial> {
    if attributes.operation != Operation::Create {
        return Err(Denial::forbidden(format!("unexpected operation {}", attributes.operation.as_str())));
    }
    let eviction = attributes.object.as_ref().ok_or_else(no_object)?;
    let name = match attributes.name.as_str() {
        "" => eviction.name(),
        name => name,
    };
    if name.is_empty() {
        return Err(Denial::forbidden("could not determine pod from request data"));
    }
    must_be_bound(cluster, node, &attributes.namespace, name, || {
        format!("node {node} can only evict pods with spec.nodeName set to itself")
    })
}

#[cfg(test)]
mod tests;
