//! ComponentStatuses, which kube-apiserver makes of answers to health checks (`pkg/registry/core/componentstatus`).
//!
//! No request is sent: the answers are those of a kube-apiserver beside which no scheduler and no controller manager run.

use super::list_options::ListOptions;
use super::select::Selection;
use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::respond::{self, ListMeta};
use crate::object::Object;
use crate::status::Status;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

const REFUSED: [(&str, &str); 2] = [("controller-manager", "127.0.0.1:10257"), ("scheduler", "127.0.0.1:10259")];

/// Whether the resource is that of ComponentStatuses.
pub(in crate::embedded) fn is_component_status(call: &Call) -> bool {
    (&*call.resource.group, &*call.resource.name) == ("", "componentstatuses")
}

/// Responds to a get.
///
/// # Errors
/// If there is no such component.
pub(in crate::embedded) fn get(call: &Call) -> Result<Response<Body>, Status> {
    warn(call);
    let found = components().find(|component| component.name() == call.info.name);
    let found = found.ok_or_else(|| Status::not_found("", "componentstatus", &call.info.name))?;
    Ok(respond::object(call, StatusCode::OK, &found))
}

/// Responds to a list, which has neither a resourceVersion nor pages.
///
/// # Errors
/// If a selector is invalid.
pub(in crate::embedded) fn list(call: &Call) -> Result<Response<Body>, Status> {
    warn(call);
    let selection = Selection::of(call, &ListOptions::of(call)?);
    let selected: Vec<_> = components().filter(|component| selection.matches(component)).map(Arc::new).collect();
    Ok(respond::list(call, &ListMeta::default(), &selected))
}

/// Adds the warning of every read.
pub(in crate::embedded) fn warn(call: &Call) {
    call.warn("v1 ComponentStatus is deprecated in v1.19+".to_owned());
}

fn components() -> impl Iterator<Item = Object> {
    let refused = REFUSED.iter().map(|(name, address)| {
        let message = format!("Get \"https://{address}/healthz\": dial tcp {address}: connect: connection refused");
        component(name, "False", &message)
    });
    refused.chain([component("etcd-0", "True", "ok")])
}

fn component(name: &str, status: &str, message: &str) -> Object {
    let condition: Value = json!({"type": "Healthy", "status": status, "message": message});
    let component =
        json!({"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name}, "conditions": [condition]});
    Object::from_value(component).unwrap_or_default()
}
