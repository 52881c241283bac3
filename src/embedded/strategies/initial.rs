//! Objects that every cluster and every namespace has: namespaces, service accounts, the authorities of the server.

use super::{api_services, metadata, strategy};
use crate::embedded::controllers::kubernetes_service;
use crate::embedded::store::{Collection, State, key};
use crate::object::Object;
use serde_json::{Value, json};

/// The collection of Namespaces.
pub(in crate::embedded) const NAMESPACES: &Collection = &Collection::built_in("", "namespaces");
/// The collection of Services.
pub(in crate::embedded) const SERVICES: &Collection = &Collection::built_in("", "services");
/// The collection of Endpoints.
pub(in crate::embedded) const ENDPOINTS: &Collection = &Collection::built_in("", "endpoints");
/// The collection of Pods.
pub(in crate::embedded) const PODS: &Collection = &Collection::built_in("", "pods");
/// The collection of ServiceAccounts.
pub(in crate::embedded) const SERVICE_ACCOUNTS: &Collection = &Collection::built_in("", "serviceaccounts");
/// The collection of Nodes.
pub(in crate::embedded) const NODES: &Collection = &Collection::built_in("", "nodes");
/// The collection of DaemonSets.
pub(in crate::embedded) const DAEMON_SETS: &Collection = &Collection::built_in("apps", "daemonsets");
const CONFIG_MAPS: &Collection = &Collection::built_in("", "configmaps");

/// The ConfigMap with the certificates that verify the server's certificate (`rootcacertpublisher.RootCACertConfigMapName`).
const ROOT_CA: &str = "kube-root-ca.crt";

/// Namespaces of every cluster (`systemnamespaces.Controller`).
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates the namespaces of every cluster, and the missing contents of the others.
pub(in crate::embedded) fn namespaces(state: &mut State) {
    let Some(resource) = crate::embedded::api::catalog::resource("", "v1", "namespaces") else { return };
    for (name, namespace) in state.objects(NAMESPACES, "") {
        if !metadata::is_deleting(&namespace) {
            contents(state, &name);
        }
    }
    for name in SYSTEM_NAMESPACES {
        if state.object(NAMESPACES, name).is_some() {
            continue;
        }
        let mut object = named("Namespace", "", name);
        metadata::begin(resource, &mut object);
        strategy::prepare_namespace(&mut object);
        state.put(NAMESPACES, name, object);
        contents(state, name);
    }
}

/// Creates the objects of every namespace, as the controllers that run do.
pub(in crate::embedded) fn contents(state: &mut State, namespace: &str) {
    let settings = state.settings();
    if settings.controllers.service_account {
        service_account(state, namespace);
    }
    if let Some(certificates) = settings.root_ca.as_deref().filter(|_| settings.controllers.root_ca) {
        root_ca(state, namespace, certificates);
    }
}

/// Creates again what a client deletes or changes of the [`contents`] of a namespace, of the Service `default/kubernetes` and of APIServices.
pub(in crate::embedded) fn restore(state: &mut State, collection: &Collection, namespace: &str, name: &str) {
    kubernetes_service::restore(state, collection, namespace, name);
    api_services::follow(state, collection, name);
    let is_account = name == "default" && collection == SERVICE_ACCOUNTS;
    let is_root_ca = name == ROOT_CA && collection == CONFIG_MAPS;
    if !is_account && !is_root_ca {
        return;
    }
    let is_active = state.object(NAMESPACES, namespace).is_some_and(|namespace| !metadata::is_deleting(&namespace));
    if is_active {
        contents(state, namespace);
    }
}

/// Publishes the certificates in a namespace (`rootcacertpublisher.Publisher.syncNamespace`).
fn root_ca(state: &mut State, namespace: &str, certificates: &str) {
    let Some(resource) = crate::embedded::api::catalog::resource("", "v1", "configmaps") else { return };
    let key = key(namespace, ROOT_CA);
    let data = json!({"ca.crt": certificates});
    let current = state.object(CONFIG_MAPS, &key);
    if current.as_ref().is_some_and(|current| current.get(&["data"]) == Some(&data)) {
        return;
    }
    let mut object = current.map(|current| Object::clone(&current)).unwrap_or_else(|| {
        let mut object = named("ConfigMap", namespace, ROOT_CA);
        metadata::begin(resource, &mut object);
        let about = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal \
                     service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
        put(&mut object, &["metadata", "annotations", "kubernetes.io/description"], json!(about));
        object
    });
    put(&mut object, &["data"], data);
    state.put(CONFIG_MAPS, &key, object);
}

/// Creates the `default` service account of a namespace, unless it exists.
fn service_account(state: &mut State, namespace: &str) {
    let Some(resource) = crate::embedded::api::catalog::resource("", "v1", "serviceaccounts") else { return };
    let key = key(namespace, "default");
    if state.object(SERVICE_ACCOUNTS, &key).is_none() {
        let mut object = named("ServiceAccount", namespace, "default");
        metadata::begin(resource, &mut object);
        state.put(SERVICE_ACCOUNTS, &key, object);
    }
}

fn named(kind: &str, namespace: &str, name: &str) -> Object {
    let metadata = json!({"name": name, "namespace": namespace});
    Object::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap_or_default()
}

/// Sets a field. Does nothing for an object of another shape, which is stored as the client sent it.
fn put(object: &mut Object, path: &[&str], value: Value) {
    let _ = object.set(path, value);
}
