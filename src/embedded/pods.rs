//! Subresources with side effects: binding and eviction of pods, tokens of service accounts.

use super::call::Call;
use super::store::{Collection, key};
use super::{body, delete, initial, metadata, respond};
use crate::body::Body;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::request::body::OptionsKind;
use crate::status::Status;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const SERVICE_ACCOUNTS: &Collection = &Collection::built_in("", "serviceaccounts");
/// The lifetime of a token without a requested lifetime, and the longest lifetime, in seconds.
const DEFAULT_TOKEN_SECONDS: i64 = 3600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

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

/// Issues a token for a service account. The token is random, since the embedded API server verifies no tokens.
///
/// # Errors
/// If the service account does not exist.
pub(super) fn issue_token(call: &Call) -> Result<Response<Body>, Status> {
    let mut request = body::object(call, &GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest"))?;
    let account = call.store.with(|state| state.object(SERVICE_ACCOUNTS, &call.key()));
    let account = account.ok_or_else(|| call.not_found())?;
    let seconds = request.get(&["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(DEFAULT_TOKEN_SECONDS);
    let seconds = seconds.clamp(0, MAX_TOKEN_SECONDS);
    let now = Timestamp::now();
    let expires = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let random: [u8; 48] = rand::random();
    let status = json!({
        "token": URL_SAFE_NO_PAD.encode(random),
        "expirationTimestamp": metadata::timestamp(expires),
    });
    let _ = request.set(&["metadata", "name"], Value::from(account.name()));
    let _ = request.set(&["metadata", "namespace"], Value::from(account.namespace()));
    let _ = request.set(&["metadata", "creationTimestamp"], Value::from(metadata::now()));
    let _ = request.set(&["spec", "expirationSeconds"], Value::from(seconds));
    let _ = request.set(&["status"], status);
    Ok(respond::value(StatusCode::CREATED, &request.into_value()))
}
