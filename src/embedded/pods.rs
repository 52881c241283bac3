//! Subresources of pods: binding and eviction.

use super::call::Call;
use super::store::key;
use super::{body, delete, initial, metadata, respond};
use crate::body::Body;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::request::body::OptionsKind;
use crate::status::Status;
use http::{Response, StatusCode};
use serde_json::{Value, json};

/// Binds a pod to a node: `pods/binding`, or `bindings` with the pod's name in the body.
///
/// # Errors
/// If the pod is bound already, or is being deleted.
pub(super) fn bind(call: &Call) -> Result<Response<Body>, Status> {
    let dry_run = call.dry_run(OptionsKind::Create)?;
    let binding = body::object(call, &GroupVersionKind::new("", "v1", "Binding"))?;
    let name = if call.info.name.is_empty() { binding.name() } else { &call.info.name };
    if !binding.name().is_empty() && binding.name() != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    if !binding.namespace().is_empty() && binding.namespace() != call.namespace() {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(text));
    }
    let node = binding.str(&["target", "name"]);
    if node.is_empty() {
        // `ToAggregate` returns an error without a Status.
        return Err(Status::plain("target.name: Required value"));
    }
    let key = key(call.namespace(), name);
    call.store.with(|state| {
        let current = state.object(initial::PODS, &key).ok_or_else(|| Status::not_found("", "pods", name))?;
        let conflict = |why: String| Err(Status::conflict("", "pods/binding", name, &why));
        if metadata::is_deleting(&current) {
            return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let bound = current.str(&["spec", "nodeName"]);
        if !bound.is_empty() {
            return conflict(format!("pod {name} is already assigned to node {bound:?}"));
        }
        if !current.items(&["spec", "schedulingGates"]).is_empty() {
            return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        for (field, wanted) in [("uid", binding.uid()), ("resourceVersion", binding.resource_version())] {
            let actual = current.str(&["metadata", field]);
            if !wanted.is_empty() && wanted != actual {
                return conflict(format!(
                    "Precondition failed: {field} in precondition: {wanted}, in object meta: {actual}"
                ));
            }
        }
        let mut pod = Object::clone(&current);
        assign(&mut pod, &binding, node);
        if !dry_run {
            state.put(initial::PODS, &key, pod);
        }
        Ok(())
    })?;
    Ok(respond::success(StatusCode::CREATED, None))
}

/// `BindingREST.setPodNodeAndMetadata`.
fn assign(pod: &mut Object, binding: &Object, node: &str) {
    let _ = pod.set(&["spec", "nodeName"], Value::from(node));
    metadata::next_generation(pod);
    for field in ["annotations", "labels"] {
        for (name, value) in body::strings(binding, &["metadata", field]) {
            let _ = pod.set(&["metadata", field, &name], value);
        }
    }
    pod.remove(&["status", "nominatedNodeName"]);
    let mut conditions = pod.items(&["status", "conditions"]).to_vec();
    conditions.retain(|condition| condition.get("type").is_none_or(|kind| kind != "PodScheduled"));
    conditions.push(json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": metadata::now(),
    }));
    let _ = pod.set(&["status", "conditions"], Value::Array(conditions));
}

/// Evicts a pod. Ignores disruption budgets: a controller maintains their counts, and none runs here.
///
/// # Errors
/// If the pod does not exist, or a precondition fails.
pub(super) fn evict(call: &Call) -> Result<Response<Body>, Status> {
    let eviction = body::object(call, &GroupVersionKind::new("policy", "v1", "Eviction"))?;
    if !matches!(eviction.name(), "" | "undefined") && eviction.name() != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.get(&["deleteOptions"]).map(Value::to_string).unwrap_or_default();
    delete::evict(call, options.as_bytes())?;
    Ok(respond::success(StatusCode::CREATED, None))
}
