//! Objects that belong to a node by name or by a field: leases, CSINodes and ResourceSlices.

use super::{no_object, read};
use crate::admission::{Attributes, Denial, Operation};
use crate::go_text::go_quote;
use crate::object::Object;
use serde_json::{Map, Value};

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// `admitLease`.
pub(super) fn check_lease(node: &str, attributes: &Attributes) -> Result<(), Denial> {
    if attributes.namespace != LEASE_NAMESPACE {
        let namespace = go_quote(LEASE_NAMESPACE);
        return Err(Denial::forbidden(format!("can only access leases in the {namespace} system namespace")));
    }
    match name(attributes)? == node {
        true => Ok(()),
        false => Err(Denial::forbidden("can only access node lease with the same name as the requesting node")),
    }
}

/// `admitCSINode`.
pub(super) fn check_csi_node(node: &str, attributes: &Attributes) -> Result<(), Denial> {
    match name(attributes)? == node {
        true => Ok(()),
        false => Err(Denial::forbidden("can only access CSINode with the same name as the requesting node")),
    }
}

/// A CSINode's status, since 1.37 (`admitCSINodeStatus`).
pub(super) fn check_csi_node_status(is_on: bool, node: &str, attributes: &Attributes) -> Result<(), Denial> {
    check_csi_node(node, attributes)?;
    if !is_on {
        return Err(Denial::forbidden("CSIVolumeHealth feature gate is disabled"));
    }
    if attributes.operation != Operation::Update {
        let operation = go_quote(attributes.operation.as_str());
        return Err(Denial::forbidden(format!("unexpected operation {operation}")));
    }
    let (old, new) = (attributes.old_object.as_deref(), attributes.object.as_ref());
    let (Some(old), Some(new)) = (old, new) else { return Err(no_object()) };
    match spec(old)? == spec(new)? {
        true => Ok(()),
        false => {
            Err(Denial::forbidden(format!("node {} is not allowed to modify CSINode spec via status", go_quote(node))))
        }
    }
}

/// The spec of a CSINode, in which empty lists are equal to missing ones (`equality.Semantic`).
fn spec(node: &Object) -> Result<Map<String, Value>, Denial> {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let mut spec: Map<String, Value> = read::part(node, &["spec"])?;
    for driver in spec.get_mut("drivers").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(driver) = driver {
            driver.retain(|_, value| !is_empty(value));
        }
    }
    spec.retain(|_, value| !is_empty(value));
    Ok(spec)
}

/// The name in a new object, or the name in the request's URL.
fn name(attributes: &Attributes) -> Result<&str, Denial> {
    match attributes.operation {
        Operation::Create => Ok(attributes.object.as_ref().ok_or_else(no_object)?.name()),
        _ => Ok(&attributes.name),
    }
}

/// `admitResourceSlice`. The node authorizer checks updates; it sees neither the content of a new object nor the objects of a
/// deletecollection.
pub(super) fn check_resource_slice(node: &str, attributes: &Attributes) -> Result<(), Denial> {
    let (slice, verb): (Option<&Object>, _) = match attributes.operation {
        Operation::Create => (attributes.object.as_ref(), "create"),
        Operation::Delete => (attributes.old_object.as_deref(), "delete"),
        _ => return Ok(()),
    };
    let owner: Option<String> = read::part(slice.ok_or_else(no_object)?, &["spec", "nodeName"])?;
    match owner.as_deref() == Some(node) {
        true => Ok(()),
        false => Err(Denial::forbidden(format!(
            "can only {verb} ResourceSlice with the same NodeName as the requesting node"
        ))),
    }
}
