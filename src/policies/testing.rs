//! A cluster with policies in it that does not change.

use crate::admission::metrics::Metrics;
use crate::admission::{Attributes, CallerAuthorizer, Operation, PluginEnvironment, PolicyOptions, RequestContext};
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::{Cluster, FixedState, Namespace, Texts};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::metrics::Registry;
use crate::object::Object;
use crate::user::UserInfo;
use prometheus::TextEncoder;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A plugin, and its metrics.
pub(super) struct World<P> {
    pub(crate) plugin: P,
    pub(crate) registry: Registry,
}

impl<P> World<P> {
    /// Whether the metrics have such a line.
    pub(super) fn has_metric(&self, line: &str) -> bool {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().any(|have| have == line)
    }
}

/// Creates a plugin over this state, with these options for policies.
pub(super) fn world_of<P>(
    state: FixedState,
    policies: &PolicyOptions,
    build: impl FnOnce(&PluginEnvironment<'_>) -> prometheus::Result<P>,
) -> World<P> {
    let (registry, metrics) = metrics();
    let environment = PluginEnvironment::with_defaults(Cluster::fixed(state), discovery(), metrics);
    World { plugin: build(&PluginEnvironment { policies, ..environment }).unwrap(), registry }
}

pub(super) fn metrics() -> (Registry, Arc<Metrics>) {
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(&registry).unwrap());
    (registry, metrics)
}

/// The discovery of ConfigMaps alone.
pub(super) fn discovery() -> Arc<Discovery> {
    let kind = GroupVersionKind::new("", "v1", "ConfigMap");
    let resource = Resource { kind, namespaced: true, verbs: Vec::new(), subresources: Default::default() };
    Discovery::fixed([(GroupVersionResource::new("", "v1", "configmaps"), resource)])
}

/// A state with the namespace `default` and these configmaps as parameters.
pub(super) fn state(parameters: Vec<Value>) -> FixedState {
    let labels = Texts::from_iter([("team".to_owned(), "red".to_owned())]);
    let namespace = Namespace { name: "default".into(), labels, ..Namespace::default() };
    FixedState { namespaces: vec![namespace], parameters, ..FixedState::default() }
}

/// An object with this name and spec.
pub(super) fn api<T: DeserializeOwned>(name: &str, spec: Value) -> T {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

/// Constraints that match all configmaps.
pub(super) fn constraints() -> Value {
    json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]})
}

/// Adds fields to an object.
pub(super) fn with(mut value: Value, fields: Value) -> Value {
    if let (Value::Object(all), Value::Object(fields)) = (&mut value, fields) {
        all.extend(fields);
    }
    value
}

/// A create of a configmap by a user who has no permissions but `get`.
pub(super) fn create() -> Attributes {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"a": "1"}});
    let (kind, resource) =
        (GroupVersionKind::new("", "v1", "ConfigMap"), GroupVersionResource::new("", "v1", "configmaps"));
    let user = UserInfo { username: "alice".into(), ..UserInfo::default() };
    let context = RequestContext {
        authorizer: CallerAuthorizer::fixed(|asked| crate::authz::Decision {
            allowed: asked.verb == "get",
            reason: format!("asked about {}", asked.resource),
            ..Default::default()
        }),
        ..RequestContext::new(Arc::new(user), Instant::now() + Duration::from_secs(30))
    };
    Attributes {
        namespace: "default".into(),
        name: "c".into(),
        object: Object::from_value(object),
        ..Attributes::new(Operation::Create, kind, resource, context)
    }
}
