//! PodNodeSelector: a namespace's node selector applies to all pods in the namespace.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::cluster::{Cluster, Need};
use crate::names::{label_value_errors, qualified_name_errors};
use crate::object::Object;
use crate::status::Status;
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodNodeSelector",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::CREATE.or(Operations::INITIALIZATION),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[Need::NAMESPACES],
    configuration: Some("podNodeSelectorPluginConfig"),
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Gives pods the node selector of their namespace, and refuses pods with a conflicting one.",
    build,
};

const NODE_SELECTOR: [&str; 2] = ["spec", "nodeSelector"];
const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
const CLUSTER_DEFAULT: &str = "clusterDefaultNodeSelector";

struct PodNodeSelector {
    cluster: Arc<Cluster>,
    /// The configured selectors by namespace, and the cluster's default.
    selectors: BTreeMap<String, String>,
}

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let mut selectors = BTreeMap::new();
    if let Some(configuration) = environment.configuration {
        let given = configuration.value.get("podNodeSelectorPluginConfig").filter(|given| !given.is_null());
        for (namespace, selector) in given.and_then(Value::as_object).into_iter().flatten() {
            let selector = selector.as_str().ok_or_else(|| {
                configuration.invalid(format_args!("podNodeSelectorPluginConfig.{namespace}: must be a string"))
            })?;
            selectors.insert(namespace.clone(), selector.to_owned());
        }
    }
    Ok(Box::new(PodNodeSelector { cluster: environment.cluster.clone(), selectors }))
}

#[async_trait]
impl Plugin for PodNodeSelector {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let selector = self.namespaces_selector(&attributes.namespace).await?;
        let Some(pod) = &mut attributes.object else { return Ok(()) };
        let given = check_conflict(pod, &selector)?;
        let missing: Vec<_> = selector.into_iter().filter(|(key, _)| !given.contains_key(key)).collect();
        if !missing.is_empty() {
            let mut merged = given.clone();
            merged.extend(missing.into_iter().map(|(key, value)| (key, Value::from(value))));
            if !pod.set(&NODE_SELECTOR, Value::Object(merged)) {
                return Err(Denial::forbidden("spec: not an object"));
            }
        }
        self.check_whitelist(pod, &attributes.namespace)
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let selector = self.namespaces_selector(&attributes.namespace).await?;
        let Some(pod) = &attributes.object else { return Ok(()) };
        check_conflict(pod, &selector)?;
        self.check_whitelist(pod, &attributes.namespace)
    }
}

impl PodNodeSelector {
    /// The namespace's own selector, even if it is empty; else the cluster's default.
    async fn namespaces_selector(&self, name: &str) -> Result<BTreeMap<String, String>, Denial> {
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        let namespace = match self.cluster.namespace(name) {
            Some(namespace) => namespace,
            None => {
                let live = self.cluster.live_namespace(name).await.ok().flatten();
                live.ok_or_else(|| Status::internal_error(format!("namespace {name} does not exist")))?
            }
        };
        let own = namespace.annotations.get(ANNOTATION);
        parse(own.or_else(|| self.selectors.get(CLUSTER_DEFAULT).map(String::as_str)).unwrap_or_default())
    }

    fn check_whitelist(&self, pod: &Object, namespace: &str) -> Result<(), Denial> {
        let whitelist = parse(self.selectors.get(namespace).map_or("", String::as_str))?;
        let given = node_selector(pod);
        let is_listed = |(key, value): (&String, &Value)| whitelist.get(key).map(String::as_str) == value.as_str();
        if whitelist.is_empty() || given.iter().all(is_listed) {
            return Ok(());
        }
        Err(refused(pod, "pod node label selector labels conflict with its namespace whitelist"))
    }
}

/// The pod's own selector, if it does not contradict the namespace's.
fn check_conflict<'a>(pod: &'a Object, selector: &BTreeMap<String, String>) -> Result<&'a Map<String, Value>, Denial> {
    let given = node_selector(pod);
    let differs = |(key, value): (&String, &String)| given.get(key).is_some_and(|own| own.as_str() != Some(value));
    if selector.iter().any(differs) {
        return Err(refused(pod, "pod node label selector conflicts with its namespace node label selector"));
    }
    Ok(given)
}

fn node_selector(pod: &Object) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    pod.get(&NODE_SELECTOR).and_then(Value::as_object).unwrap_or_else(|| &NONE)
}

/// The error names the pod's own name, which is empty before a name is generated, as in kube-apiserver.
fn refused(pod: &Object, why: &str) -> Denial {
    Status::forbidden("", "pods", pod.name(), why).into()
}

/// `labels.ConvertSelectorToLabelsMap`.
fn parse(selector: &str) -> Result<BTreeMap<String, String>, Denial> {
    let mut labels = BTreeMap::new();
    if selector.is_empty() {
        return Ok(labels);
    }
    for part in selector.split(',') {
        let words: Vec<&str> = part.split('=').collect();
        let [key, value] = words[..] else {
            return Err(Denial::Plain(format!("invalid selector: [{}]", words.join(" "))));
        };
        let (key, value) = (key.trim(), value.trim());
        let faults = qualified_name_errors(key);
        if !faults.is_empty() {
            return Err(Denial::Plain(format!("<nil>: Invalid value: {key:?}: {}", faults.join("; "))));
        }
        let faults = label_value_errors(value);
        if !faults.is_empty() {
            return Err(Denial::Plain(format!("[{key}]: Invalid value: {value:?}: {}", faults.join("; "))));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::cluster::{FixedState, Namespace};
    use crate::plugins::checker::{Checked, attributes, check};
    use serde_json::json;

    fn plugin(annotation: Option<&str>, selectors: &[(&str, &str)]) -> PodNodeSelector {
        let annotations = annotation.map(|value| (ANNOTATION.to_owned(), value.to_owned())).into_iter().collect();
        let namespaces = vec![Namespace { name: "n".into(), annotations, ..Namespace::default() }];
        PodNodeSelector {
            cluster: Cluster::fixed(FixedState { namespaces, ..FixedState::default() }),
            selectors: selectors.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        }
    }

    fn pod(selector: Value) -> Value {
        json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeSelector": selector}})
    }

    async fn created(annotation: Option<&str>, selectors: &[(&str, &str)], selector: Value) -> Checked {
        check(&plugin(annotation, selectors)).create("", "pods", pod(selector)).await
    }

    #[tokio::test]
    async fn the_namespaces_selector_is_merged_before_the_clusters() {
        let default = [(CLUSTER_DEFAULT, "c=d")];
        created(None, &default, json!({"x": "y"})).await.becomes(pod(json!({"x": "y", "c": "d"})));
        created(Some(" a = b ,e="), &default, json!({})).await.becomes(pod(json!({"a": "b", "e": ""})));
        created(Some(""), &default, json!({"x": "y"})).await.stays_unchanged();
        created(Some("a=b"), &[], json!({"a": "b"})).await.stays_unchanged();
    }

    #[tokio::test]
    async fn contradictions_are_refused() {
        let conflict =
            "pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector";
        created(Some("a=b"), &[], json!({"a": "c"})).await.was_refused(403, conflict);
        let listed = "pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist";
        created(None, &[("n", "a=b")], json!({"a": "c"})).await.was_refused(403, listed);
        created(None, &[("n", "a=b")], json!({"x": "y"})).await.was_refused(403, listed);
        created(None, &[("n", "a=b,x=y")], json!({"x": "y"})).await.stays_unchanged();
        created(None, &[("n", "a=b"), (CLUSTER_DEFAULT, "c=d")], json!({})).await.was_refused(403, listed);
        let validated = check(&plugin(Some("a=b"), &[])).validating().create("", "pods", pod(json!({"a": "c"}))).await;
        validated.was_refused(403, conflict);
    }

    #[tokio::test]
    async fn a_pod_gets_the_selector_until_it_is_initialized() {
        let waiting = |initializers: Value| {
            let mut pod = pod(json!({}));
            pod["metadata"]["initializers"] = initializers;
            pod
        };
        let given = json!({"x": "y"});
        for (initializers, handled) in [
            (Value::Null, false),
            (json!({"pending": []}), false),
            (json!({"pending": [{"name": "a.b.c"}]}), true),
            (json!({"result": {"status": "Failure"}}), true),
        ] {
            let (old, new) = (waiting(initializers), pod(given.clone()));
            let update = attributes(Operation::Update, "", "pods", Some(new), Some(old.clone()));
            assert_eq!(SPEC.handles(&update), handled, "{old}");
        }
        let old = waiting(json!({"pending": [{"name": "a.b.c"}]}));
        let updated = check(&plugin(Some("a=b"), &[])).update("", "pods", old, pod(given)).await;
        updated.becomes(pod(json!({"x": "y", "a": "b"})));
    }

    #[tokio::test]
    async fn an_invalid_selector_or_unknown_namespace_is_an_internal_error() {
        created(Some("a=b=c"), &[], json!({})).await.was_refused(500, "invalid selector: [a b c]");
        assert_eq!(created(Some("a b=c"), &[], json!({})).await.code(), Some(500));
        let mut elsewhere = pod(json!({}));
        elsewhere["metadata"]["namespace"] = "x".into();
        let missing = check(&plugin(None, &[])).create("", "pods", elsewhere).await;
        missing.was_refused(500, "Internal error occurred: namespace x does not exist");
    }
}
