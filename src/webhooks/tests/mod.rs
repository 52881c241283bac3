//! Webhooks against a real TLS server in the process.

mod answers;
mod authentication;
mod failures;
mod faults;
mod breaking;
mod matching;
mod mutation;
mod patches;
mod payload;

mod shadow;
mod validation;

use super::{Manifests, MutatingWebhooks, ValidatingWebhooks};
use crate::admission::metrics::Metrics;
use crate::admission::{Attributes, Budget, Denial, Operation, RequestContext};
use crate::backend::Kubeconfig;
use crate::backend::testing::HookServer;
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::{Cluster, FixedState, Namespace};
use crate::config::Limits;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::metrics::Registry;
use crate::object::Object;
use crate::status::Status;
use crate::user::UserInfo;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use prometheus::TextEncoder;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A plugin over a cluster that does not change, and its metrics.
struct World<P> {
    plugin: P,
    registry: Registry,
}

impl<P> World<P> {
    fn metric(&self, line: &str) -> bool {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().any(|have| have == line)
    }
}

/// A hook for every operation on configmaps; `fields` replace or add.
fn hook(name: &str, url: &str, server: Option<&HookServer>, fields: Value) -> Value {
    let mut client = json!({ "url": url });
    if let Some(server) = server {
        client["caBundle"] = server.ca_base64().into();
    }
    let mut hook = json!({
        "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    });
    for (field, value) in fields.as_object().unwrap() {
        hook[field] = value.clone();
    }
    hook
}

/// A hook at a path of the server.
fn at(server: &HookServer, name: &str, path: &str, fields: Value) -> Value {
    hook(name, &server.url(path), Some(server), fields)
}

fn configuration<T: serde::de::DeserializeOwned>(hooks: &[Value]) -> T {
    serde_json::from_value(json!({"metadata": {"name": "c"}, "webhooks": hooks})).unwrap()
}

pub(crate) fn default_state() -> FixedState {
    let namespace = |name: &str, labels: &[(&str, &str)]| Namespace {
        name: name.into(),
        labels: labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        ..Namespace::default()
    };
    FixedState { namespaces: vec![namespace("default", &[("env", "test")])], ..FixedState::default() }
}

fn metrics() -> (Registry, Arc<Metrics>) {
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(&registry).unwrap());
    (registry, metrics)
}

/// The resources of several versions that the upstream API server has.
fn discovery() -> Arc<Discovery> {
    let rows = [
        ("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        ("", "v1", "events", "Event"),
        ("events.k8s.io", "v1", "events", "Event"),
        ("aggregated.dev", "v1", "things", "Thing"),
        ("aggregated.dev", "v2", "things", "Thing"),
    ];
    Discovery::fixed(rows.map(|(group, version, resource, kind)| {
        let facts = Resource {
            kind: GroupVersionKind::new(group, version, kind),
            namespaced: true,
            verbs: Vec::new(),
            subresources: HashMap::new(),
        };
        (GroupVersionResource::new(group, version, resource), facts)
    }))
}

fn mutating(hooks: &[Value]) -> World<MutatingWebhooks> {
    mutating_in(FixedState {
        mutating_webhooks: vec![configuration::<MutatingWebhookConfiguration>(hooks)],
        ..default_state()
    })
}

fn mutating_in(state: FixedState) -> World<MutatingWebhooks> {
    let (registry, metrics) = metrics();
    let (cluster, limits) = (Cluster::fixed(state), Limits::default());
    let (users, manifests) = (Kubeconfig::default(), Manifests::default());
    World { plugin: MutatingWebhooks::new(cluster, discovery(), metrics, &limits, users, manifests), registry }
}

fn validating(hooks: &[Value]) -> World<ValidatingWebhooks> {
    let configuration = configuration::<ValidatingWebhookConfiguration>(hooks);
    validating_in(FixedState { validating_webhooks: vec![configuration], ..default_state() })
}

fn validating_in(state: FixedState) -> World<ValidatingWebhooks> {
    let (registry, metrics) = metrics();
    let (cluster, limits) = (Cluster::fixed(state), Limits::default());
    let (users, manifests) = (Kubeconfig::default(), Manifests::default());
    World { plugin: ValidatingWebhooks::new(cluster, discovery(), metrics, &limits, users, manifests), registry }
}

/// A create of a configmap.
pub(crate) fn create(object: Value) -> Attributes {
    let object = Object::from_value(object).unwrap();
    let (kind, resource) =
        (GroupVersionKind::new("", "v1", "ConfigMap"), GroupVersionResource::new("", "v1", "configmaps"));
    let user = UserInfo { username: "alice".into(), groups: vec!["dev".into()], ..UserInfo::default() };
    let context = RequestContext::new(Arc::new(user), Instant::now() + Duration::from_secs(30));
    Attributes {
        namespace: "default".into(),
        name: object.name().into(),
        object: Some(object),
        options: Object::from_value(json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"})).map(Arc::new),
        ..Attributes::new(Operation::Create, kind, resource, context)
    }
}

pub(crate) fn configmap() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}})
}

/// The Status of a refusal.
fn refused(result: Result<(), Denial>, attributes: &Attributes) -> Status {
    result.unwrap_err().into_status(attributes)
}

/// The message of an error within "Internal error occurred: failed calling webhook …".
fn failed_calling(status: &Status, hook: &str) -> String {
    assert_eq!((status.code, &*status.reason), (500, "InternalError"), "{status:?}");
    let prefix = format!("Internal error occurred: failed calling webhook \"{hook}\": ");
    status.message.strip_prefix(&prefix).unwrap_or_else(|| panic!("{}", status.message)).to_owned()
}
