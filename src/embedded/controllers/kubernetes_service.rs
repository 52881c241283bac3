//! The Service `default/kubernetes`, its Endpoints and its EndpointSlice (`pkg/controlplane/controller/kubernetesservice` and
//! `pkg/controlplane/reconcilers`).
//!
//! kube-apiserver looks every 10 seconds whether they are as they should be. Here they are repaired with the write that changes them.

use crate::embedded::api::catalog::{self, ServedResource};
use crate::embedded::store::{Collection, Reads, Store, Work, Writer, key};
use crate::embedded::strategies::collections::{ENDPOINTS, SERVICES, SLICES};
use crate::embedded::strategies::services::{OWN_NAME as NAME, OWN_NAMESPACE as NAMESPACE};
use crate::embedded::strategies::{self, Context, Silent, metadata, owners, validation};
use crate::kind::GroupVersionKind;
use crate::object::{Object, normal, typed};
use crate::status::Status;
use crate::user::UserInfo;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Creates or corrects the objects when the server starts, with the address and the port at which it is reached now.
pub(in crate::embedded) fn start(store: &Arc<Store>) {
    reconcile(&Work::new(store), true);
}

/// `Controller.UpdateKubernetesService`. The API server goes without the objects, as kube-apiserver does, if one of them is invalid.
pub(in crate::embedded) fn reconcile(work: &Work, is_start: bool) {
    let Some(advertised) = work.store().settings().advertised else { return };
    let result = service(work, advertised.port()).and_then(|()| endpoints(work, advertised, is_start));
    if let Err(status) = result {
        tracing::warn!("the Service {NAMESPACE}/{NAME} is not complete: {}", status.message);
    }
}

/// `CreateOrUpdateMasterServiceIfNeeded`: an existing Service stays as it is.
fn service(work: &Work, port: u16) -> Result<(), Status> {
    let Some(resource) = catalog::resource("", "v1", "services") else { return Ok(()) };
    if current(work, SERVICES).is_some() {
        return Ok(());
    }
    let address = Ipv4Addr::from(work.store().settings().addresses.first).to_string();
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": address, "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        },
    });
    write(work, resource, service)
}

/// `leaseEndpointReconciler.doReconcile`, with this server as the only one. The port is corrected at the start alone.
fn endpoints(work: &Work, advertised: SocketAddr, is_start: bool) -> Result<(), Status> {
    let Some(resource) = catalog::resource("", "v1", "endpoints") else { return Ok(()) };
    let address = advertised.ip().to_string();
    let known = current(work, ENDPOINTS);
    let new = || json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": NAME, "namespace": NAMESPACE}});
    let mut wanted = known.as_deref().cloned().unwrap_or_else(|| Object::from_value(new()).unwrap_or_default());
    let _ = wanted.set(&["metadata", "labels", "endpointslice.kubernetes.io/skip-mirror"], json!("true"));
    let mut subset = match wanted.items(&["subsets"]) {
        [subset] if !is_start => subset.clone(),
        _ => json!({"ports": [{"name": "https", "port": advertised.port(), "protocol": "TCP"}]}),
    };
    let is_reached = match subset.get("addresses").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("ip").is_some_and(|ip| *ip == address),
        _ => false,
    };
    if let (false, Some(fields)) = (is_reached, subset.as_object_mut()) {
        fields.insert("addresses".to_owned(), json!([{"ip": address}]));
    }
    let slice = slice(&subset, advertised.ip());
    let _ = wanted.set(&["subsets"], json!([subset]));
    if known.as_deref() != Some(&wanted) {
        write(work, resource, wanted.into_value())?;
    }
    let Some(resource) = catalog::resource("discovery.k8s.io", "v1", "endpointslices") else { return Ok(()) };
    let same = |known: &Object| {
        known.get(&["metadata", "labels"]) == slice.pointer("/metadata/labels")
            && ["addressType", "endpoints", "ports"].iter().all(|field| known.get(&[field]) == slice.get(field))
    };
    match current(work, SLICES) {
        Some(known) if same(&known) => return Ok(()),
        // The type is immutable.
        Some(known) if known.get(&["addressType"]) != slice.get("addressType") => {
            let last = Object::clone(&known);
            let key = key(NAMESPACE, NAME);
            work.transact(|state| {
                if state.has(SLICES, &key, &known) {
                    state.remove(SLICES, &key, last);
                }
            });
        }
        _ => {}
    }
    write(work, resource, slice)
}

/// `endpointSliceFromEndpoints`
fn slice(subset: &Value, address: IpAddr) -> Value {
    let of = |field: &str, is_ready: bool| -> Vec<Value> {
        let addresses = subset.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let endpoint = |address: &Value| {
            let mut endpoint = json!({"addresses": [address.get("ip")], "conditions": {"ready": is_ready}});
            for field in ["nodeName", "targetRef"] {
                if let (Some(value), Some(fields)) = (address.get(field), endpoint.as_object_mut()) {
                    fields.insert(field.to_owned(), value.clone());
                }
            }
            endpoint
        };
        addresses.iter().map(endpoint).collect()
    };
    let endpoints = [of("addresses", true), of("notReadyAddresses", false)].concat();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if address.is_ipv6() { "IPv6" } else { "IPv4" },
        "endpoints": endpoints,
        "ports": subset.get("ports").cloned().unwrap_or_else(|| json!([])),
    })
}

fn current(work: &Work, collection: &Collection) -> Option<Arc<Object>> {
    work.store().object(collection, &key(NAMESPACE, NAME))
}

/// Creates or replaces an object, as a request of the server to itself. Does nothing if another request comes between: the controller follows that
/// one as well.
fn write(work: &Work, resource: &ServedResource, object: Value) -> Result<(), Status> {
    let store = work.store();
    let services = store.with(|state| state.changed(SERVICES));
    let kind = resource.gvk();
    let normal = normal::built_in(&kind, object).ok_or_else(|| Status::internal_error("the kind has no type"))?;
    let mut object = normal.map_err(Status::internal_error)?.object;
    let (collection, key) = (&resource.collection, key(NAMESPACE, NAME));
    let current = current(work, collection);
    owners::record_own(&kind, "", current.as_deref().unwrap_or(&empty(&kind)), &mut object);
    let (settings, limits, caller) = (store.settings(), store.with(|state| state.limits()), UserInfo::default());
    let context = Context {
        store,
        settings: &settings,
        limits: &limits,
        resource,
        namespace: NAMESPACE,
        name: NAME,
        subresource: "",
        caller: &caller,
        dry_run: false,
        warnings: &Silent,
    };
    match &current {
        None => {
            metadata::begin(resource, &mut object);
            strategies::prepare(&context, &mut object)?;
            validation::create(&context, &object)?;
        }
        Some(current) => {
            metadata::carry_over(&mut object, current);
            validation::update(&context, &object, current)?;
        }
    }
    let mut object = metadata::complete(object);
    current.iter().for_each(|current| metadata::count_generation(resource, "", &mut object, current, false));
    work.transact(|state| {
        let is_current = match &current {
            None => !state.contains(collection, &key) && state.changed(SERVICES) == services,
            Some(current) => state.has(collection, &key, current),
        };
        if is_current {
            state.put(collection, &key, object);
        }
    });
    Ok(())
}

/// Go's empty object of the kind.
fn empty(kind: &GroupVersionKind) -> Object {
    let mut empty = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
    typed::encode(kind, &mut empty);
    Object::from_value(empty).unwrap_or_default()
}
