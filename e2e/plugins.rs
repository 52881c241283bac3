//! Plugins tested from outside, in front of both kinds of API server.

mod image_policy;
mod node_restriction;
mod pod_security;
mod pods;
mod limits;
mod accounts;
mod nodes;
mod namespaces;
mod configured;
mod objects;
mod gates;
mod resource_quota;

use crate::harness::{Api, Proxy, User, admitting, delete, get, post, upstream};
use serde_json::{Value, json};

const PLUGINS: &str = "--enable-admission-plugins=AlwaysPullImages";

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "a", "image": "a", "imagePullPolicy": "IfNotPresent"}]}})
}

fn pulls_always(api: &Api) {
    let namespace = api.namespace("pull");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let created = api.accepts(post(&pods, &pod("one")));
    assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let stored = api.accepts(get(&format!("{pods}/one")));
    assert_eq!(stored["spec"]["containers"][0]["imagePullPolicy"], "Always");
}

fn needs_a_namespace(api: &Api) {
    let status =
        api.rejects(post("/api/v1/namespaces/nowhere/pods", &pod("one")), 404, "namespaces \"nowhere\" not found");
    assert_eq!(status["reason"], "NotFound");
    assert_eq!(status["details"], json!({"name": "nowhere", "kind": "namespaces"}));
}

#[test]
fn images_are_always_pulled_and_namespaces_must_exist_with_the_embedded_server() {
    let proxy = Proxy::embedded(&[PLUGINS]);
    pulls_always(&proxy);
    needs_a_namespace(&proxy);
}

#[test]
fn images_are_always_pulled_and_namespaces_must_exist_at_kube_apiserver_itself() {
    pulls_always(admitting());
    needs_a_namespace(admitting());
}

#[test]
fn images_are_always_pulled_and_namespaces_must_exist_with_a_real_server() {
    // There is no kube-controller-manager to create the service account of every namespace.
    let proxy = Proxy::before(upstream(), &[PLUGINS, "--disable-admission-plugins=ServiceAccount"]);
    pulls_always(&proxy);
    needs_a_namespace(&proxy);
}

#[test]
fn the_namespaces_of_the_system_cannot_be_deleted() {
    let proxy = Proxy::embedded(&[]);
    for name in ["default", "kube-system", "kube-public"] {
        let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        proxy.rejects(delete(&format!("/api/v1/namespaces/{name}")), 403, &message);
    }
}

#[test]
fn a_namespace_is_provisioned_for_the_first_object_in_it() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=NamespaceAutoProvision"]);
    proxy.accepts(post("/api/v1/namespaces/fresh/pods", &pod("one")));
    proxy.accepts(get("/api/v1/namespaces/fresh"));
}

#[test]
fn a_denied_object_is_not_written() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=AlwaysDeny"]);
    let message = "pods \"one\" is forbidden: admission control is denying all modifications";
    proxy.rejects(post("/api/v1/namespaces/default/pods", &pod("one")), 403, message);
    assert_eq!(proxy.send(&User::admin(), get("/api/v1/namespaces/default/pods/one")).status, 404);
}
