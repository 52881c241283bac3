//! The fields of an object that the server sets, restores or drops before it validates a write (`PrepareForCreate`, `PrepareForUpdate`).

use super::{api_services, daemon_sets, disabled, metadata, pods, services, signing_requests};
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::api::removed;
use crate::embedded::http::body::strings;
use crate::embedded::settings::Settings;
use crate::embedded::store::Reads;
use crate::object::{Object, validation};
use crate::status::Status;
use crate::user::UserInfo;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The finalizer of the namespace controller.
const KUBERNETES: &str = "kubernetes";
const TRANSITION: [&str; 2] = ["status", "lastPhaseTransitionTime"];

/// Sets fields of a new object that do not depend on other objects; `object` is in its stored form.
pub(in crate::embedded) fn prepare(
    settings: &Settings,
    resource: &ServedResource,
    object: &mut Object,
    caller: &UserInfo,
) {
    // A kubelet creates its node with a status.
    if resource.subresource("status").is_some() && resource.name != "nodes" {
        object.fields_mut().remove("status");
    }
    disabled::drop_fields(&settings.gates, resource, object, None);
    match (&*resource.group, &*resource.name) {
        ("", "namespaces") => prepare_namespace(object),
        ("", "pods") => pods::prepare(object),
        ("", "persistentvolumeclaims") => {
            validation::prepare_for_create(&resource.gvk(), object);
            put(object, &["status"], json!({"phase": "Pending"}));
        }
        ("", "persistentvolumes") => {
            put(object, &["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": metadata::now()}));
        }
        ("", "services") => put(object, &["status"], json!({"loadBalancer": {}})),
        ("", "secrets") => prepare_secret(object),
        ("", "serviceaccounts") => clean_references(object),
        ("", "replicationcontrollers") | ("apps", "deployments" | "replicasets" | "statefulsets") => {
            default(object, &["spec", "replicas"], json!(1));
        }
        ("discovery.k8s.io", "endpointslices") => _ = drop_topology(object),
        ("certificates.k8s.io", "certificatesigningrequests") => signing_requests::prepare(object, caller),
        ("apiregistration.k8s.io", "apiservices") => api_services::prepare(object),
        ("apps", "daemonsets") => daemon_sets::prepare(object),
        ("batch", "jobs") => validation::prepare_for_create(&resource.gvk(), object),
        _ => removed::api(resource).into_iter().for_each(|api| crate::removed::set_defaults(api, object)),
    }
}

/// Restores fields that an update must not change, and sets fields that depend on others. Returns whether the update counts as one of the
/// object's generation, whatever else it changes.
///
/// # Errors
/// If a Service cannot have the addresses or ports that it asks for.
pub(in crate::embedded) fn keep(
    reads: &impl Reads,
    resource: &ServedResource,
    object: &mut Object,
    current: &Object,
    subresource: &str,
    dry_run: bool,
) -> Result<bool, Status> {
    disabled::drop_fields(&reads.settings().gates, resource, object, Some(current));
    let is_status = subresource == "status";
    match (&*resource.group, &*resource.name) {
        ("", "services") if !is_status => services::update(reads, object, current, dry_run)?,
        ("", "secrets") => prepare_secret(object),
        ("", "serviceaccounts") => clean_references(object),
        ("", "persistentvolumeclaims") if !is_status => {
            validation::prepare_for_update(&resource.gvk(), object, current);
        }
        ("", "persistentvolumes") if is_status => keep_transition(object, current),
        ("", "pods") if is_status => pods::keep_in_status(object, current),
        ("", "namespaces") => label_namespace(object),
        ("apps", "daemonsets") => daemon_sets::keep(object, current),
        ("certificates.k8s.io", "certificatesigningrequests") => signing_requests::keep(object, current, subresource),
        ("discovery.k8s.io", "endpointslices") => return Ok(drop_topology(object)),
        ("resource.k8s.io", "resourceclaims") if is_status => drop_deallocated(object, current),
        _ => removed::api(resource).into_iter().for_each(|api| removed::keep(api, object, current)),
    }
    Ok(false)
}

/// Sets fields of a new namespace.
pub(in crate::embedded) fn prepare_namespace(object: &mut Object) {
    label_namespace(object);
    let mut finalizers = object.items(&["spec", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == KUBERNETES) {
        finalizers.push(json!(KUBERNETES));
    }
    put(object, &["spec", "finalizers"], Value::Array(finalizers));
    put(object, &["status"], json!({"phase": "Active"}));
}

/// `namespaceStrategy.Canonicalize`
fn label_namespace(object: &mut Object) {
    let name = Value::from(object.name());
    put(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
}

/// `Convert_v1_Secret_To_core_Secret`: moves `stringData` to `data`.
fn prepare_secret(object: &mut Object) {
    default(object, &["type"], json!("Opaque"));
    if let Some(Value::Object(plain)) = object.fields_mut().remove("stringData") {
        let mut data = strings(object, &["data"]);
        for (name, value) in plain {
            data.insert(name, Value::from(STANDARD.encode(value.as_str().unwrap_or_default())));
        }
        object.fields_mut().insert("data".into(), Value::Object(data));
    }
}

/// `cleanSecretReferences`: the references of a ServiceAccount have only names.
fn clean_references(object: &mut Object) {
    let references = object.get_mut(&["secrets"]).and_then(Value::as_array_mut);
    for reference in references.into_iter().flatten().filter_map(Value::as_object_mut) {
        reference.retain(|field, _| field == "name");
    }
}

/// `persistentvolumeStatusStrategy.PrepareForUpdate`
fn keep_transition(object: &mut Object, current: &Object) {
    let time = |object: &Object| object.get(&TRANSITION).filter(|time| !time.is_null()).cloned();
    let (new, old) = (time(object), time(current));
    let is_same_phase = object.str(&["status", "phase"]) == current.str(&["status", "phase"]);
    match (is_same_phase, new) {
        (true, None) => old.into_iter().for_each(|old| put(object, &TRANSITION, old)),
        (false, new) if new.is_none() || new == old => put(object, &TRANSITION, json!(metadata::now())),
        _ => {}
    }
}

/// Removes the topology of endpoints, which only v1beta1 had (`dropTopologyOnV1`); returns whether there was one.
fn drop_topology(object: &mut Object) -> bool {
    let endpoints = object.get_mut(&["endpoints"]).and_then(Value::as_array_mut);
    let endpoints = endpoints.into_iter().flatten().filter_map(Value::as_object_mut);
    endpoints.filter_map(|endpoint| endpoint.remove("deprecatedTopology")).count() > 0
}

/// Removes the status of devices that the claim had and has no longer (`dropDeallocatedStatusDevices`).
fn drop_deallocated(object: &mut Object, current: &Object) {
    type Device = [Value; 4];
    let device = |value: &Value| -> Device {
        ["driver", "pool", "device", "shareID"].map(|field| value.get(field).cloned().unwrap_or_default())
    };
    let results = |object: &Object| -> HashSet<Device> {
        let results = object.items(&["status", "allocation", "devices", "results"]);
        results.iter().map(device).collect()
    };
    let (old, new) = (results(current), results(object));
    let mut devices = object.items(&["status", "devices"]).to_vec();
    let before = devices.len();
    devices.retain(|each| !old.contains(&device(each)) || new.contains(&device(each)));
    match devices.len() {
        0 => drop(object.remove(&["status", "devices"])),
        left if left < before => put(object, &["status", "devices"], Value::Array(devices)),
        _ => {}
    }
}

/// Sets a field. Does nothing for an object of another shape, which is stored as the client sent it.
fn put(object: &mut Object, path: &[&str], value: Value) {
    let _ = object.set(path, value);
}

fn default(object: &mut Object, path: &[&str], value: Value) {
    if object.get(path).is_none_or(|value| value.is_null() || value == "") {
        put(object, path, value);
    }
}
