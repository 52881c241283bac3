//! The objects that every namespace has: the ServiceAccount `default`, and the ConfigMap with the certificates that verify the server's
//! certificate.

use super::collections::{CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS};
use super::fields::put;
use super::metadata;
use crate::embedded::api::catalog;
use crate::embedded::store::{State, key};
use crate::object::Object;
use serde_json::json;

/// The ServiceAccount of every namespace.
pub(super) const DEFAULT: &str = "default";
/// The ConfigMap with the certificates (`rootcacertpublisher.RootCACertConfigMapName`).
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";

/// Creates the objects of every namespace, as the controllers that run do.
pub(in crate::embedded) fn create(state: &mut State, namespace: &str) {
    let settings = state.settings();
    if settings.controllers.service_account {
        create_service_account(state, namespace);
    }
    if let Some(certificates) = settings.root_ca.as_deref().filter(|_| settings.controllers.root_ca) {
        publish_root_ca(state, namespace, certificates);
    }
}

/// Creates again what a client deletes or changes of the objects of a namespace.
pub(super) fn restore(state: &mut State, namespace: &str) {
    let is_active = state.object(NAMESPACES, namespace).is_some_and(|namespace| !metadata::is_deleting(&namespace));
    if is_active {
        create(state, namespace);
    }
}

/// Publishes the certificates in a namespace (`rootcacertpublisher.Publisher.syncNamespace`).
fn publish_root_ca(state: &mut State, namespace: &str, certificates: &str) {
    let Some(resource) = catalog::resource("", "v1", "configmaps") else { return };
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
fn create_service_account(state: &mut State, namespace: &str) {
    let Some(resource) = catalog::resource("", "v1", "serviceaccounts") else { return };
    let key = key(namespace, DEFAULT);
    if state.object(SERVICE_ACCOUNTS, &key).is_none() {
        let mut object = named("ServiceAccount", namespace, DEFAULT);
        metadata::begin(resource, &mut object);
        state.put(SERVICE_ACCOUNTS, &key, object);
    }
}

/// A new object of a core kind.
pub(in crate::embedded) fn named(kind: &str, namespace: &str, name: &str) -> Object {
    let metadata = json!({"name": name, "namespace": namespace});
    Object::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap_or_default()
}
