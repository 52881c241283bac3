//! The binding of a pod to a node: `pods/binding`, and `bindings`.

use super::attempts::Attempts;
use super::write;
use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::store::{Reads, Writer, key};
use crate::embedded::strategies::collections::PODS;
use crate::embedded::strategies::fields::strings;
use crate::embedded::strategies::{metadata, pods};
use crate::kind::GroupVersionKind;
use crate::object::{Object, validation};
use crate::request::body::OptionsKind;
use crate::status::{Status, invalid};
use http::{Response, StatusCode};
use serde_json::Value;

/// Binds a pod to a node; the pod's name is in the URL, or in the body of `bindings`.
///
/// # Errors
/// If a precondition fails, or if the pod is bound, deleted, or not ready for the scheduler.
pub(in crate::embedded) async fn bind(call: &Call) -> Result<Response<Body>, Status> {
    let dry_run = call.dry_run(OptionsKind::Create)?;
    let binding = body::object(call, &GroupVersionKind::new("", "v1", "Binding"))?;
    if !binding.namespace().is_empty() && binding.namespace() != call.namespace() {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(text));
    }
    if !call.info.name.is_empty() && binding.name() != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let causes = validation::binding(&binding);
    if let Some(text) = invalid::aggregate(causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message))) {
        // `ToAggregate` returns an error without a Status.
        return Err(Status::plain(text));
    }
    let key = key(call.namespace(), binding.name());
    let mut attempts = Attempts::new(call);
    loop {
        let current = call.server.store.object(PODS, &key);
        let current = current.ok_or_else(|| Status::not_found("", "pods", binding.name()))?;
        let pod = assigned(call, &binding, &key, &current)?;
        let pod = if dry_run { pod } else { write::fitted_in(call, PODS, &key, pod, false)? };
        let is_done = call.transact(|state| {
            let is_current = state.has(PODS, &key, &current);
            if is_current && !dry_run {
                state.put(PODS, &key, pod);
            }
            is_current
        });
        if is_done {
            return Ok(respond::success(call, StatusCode::CREATED, None));
        }
        attempts.start_over().await?;
    }
}

/// The pod on its node (`BindingREST.assignPod`).
fn assigned(call: &Call, binding: &Object, key: &str, current: &Object) -> Result<Object, Status> {
    let name = binding.name();
    let conflict = |why: String| -> Result<Object, Status> { Err(Status::conflict("", "pods/binding", name, &why)) };
    // kube-apiserver clears the uid of a Binding that is no subresource (`WipeObjectMetaSystemFields`).
    let uid = if call.info.subresource.is_empty() { "" } else { binding.uid() };
    let version = (binding.resource_version(), current.resource_version());
    let preconditions = [("UID", uid, current.uid()), ("ResourceVersion", version.0, version.1)];
    for (field, wanted, actual) in preconditions {
        if !wanted.is_empty() && wanted != actual {
            let why = write::failed_precondition(PODS, key, field, wanted, actual);
            return Err(Status::conflict("", "pods", name, &why));
        }
    }
    if metadata::is_deleting(current) {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let bound = current.str(&["spec", "nodeName"]);
    if !bound.is_empty() {
        return conflict(format!("pod {name} is already assigned to node {bound:?}"));
    }
    if !current.items(&["spec", "schedulingGates"]).is_empty() {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = current.clone();
    set_node(&mut pod, binding);
    Ok(pod)
}

/// `BindingREST.setPodNodeAndMetadata`. The storage writes the pod without its strategy, so that the generation stays.
fn set_node(pod: &mut Object, binding: &Object) {
    let _ = pod.set(&["spec", "nodeName"], Value::from(binding.str(&["target", "name"])));
    for field in ["annotations", "labels"] {
        for (name, value) in strings(binding, &["metadata", field]) {
            let _ = pod.set(&["metadata", field, &name], value);
        }
    }
    pod.remove(&["status", "nominatedNodeName"]);
    pods::set_condition(pod, "PodScheduled", "True", ["", ""]);
}
