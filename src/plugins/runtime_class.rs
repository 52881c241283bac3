//! RuntimeClass: sets a pod's overhead and scheduling constraints from its runtime class.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::quantity::Quantity;
use crate::object::{Object, check_path_segment};
use crate::plugins::rules::toleration::{TOO_MANY, merge};
use crate::status::Status;
use async_trait::async_trait;
use k8s_openapi::api::node::v1::RuntimeClass as Class;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "RuntimeClass",
    default_on: true,
    phases: Phases::Both,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[Need::RUNTIME_CLASSES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Part("a review does not show an empty overhead, which therefore passes"),
    about: "Gives pods the overhead, node selector and tolerations of their runtime class.",
    build: |environment| Ok(Box::new(RuntimeClass(environment.cluster.clone()))),
};

const OVERHEAD: [&str; 2] = ["spec", "overhead"];
const NODE_SELECTOR: [&str; 2] = ["spec", "nodeSelector"];
const TOLERATIONS: [&str; 2] = ["spec", "tolerations"];

struct RuntimeClass(Arc<Cluster>);

#[async_trait]
impl Plugin for RuntimeClass {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let pod = attributes.object.as_mut().ok_or_else(not_a_pod)?;
        let Some(class) = self.class(pod).await? else { return Ok(()) };
        if let Some(fixed) = overhead(&class) {
            let given = pod.get(&OVERHEAD).and_then(Value::as_object).filter(|given| !given.is_empty());
            if given.is_some_and(|given| !is_same(given, &fixed)) {
                return Err(overhead_differs());
            }
            if given.is_none() && !fixed.is_empty() && !pod.set(&OVERHEAD, Value::Object(fixed)) {
                return Err(not_a_pod());
            }
        }
        schedule(pod, &class)
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let pod = attributes.object.as_ref().ok_or_else(not_a_pod)?;
        let class = self.class(pod).await?;
        let given = pod.get(&OVERHEAD).and_then(Value::as_object);
        match (class.as_deref().and_then(overhead), given) {
            (Some(fixed), given) if !is_same(given.unwrap_or(&Map::new()), &fixed) => Err(overhead_differs()),
            (None, given) if given.is_some() || pod.is_empty_but_not_nil(&OVERHEAD) => Err(Denial::forbidden(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            _ => Ok(()),
        }
    }
}

impl RuntimeClass {
    /// The pod's class, from the cache, or from the API server if the cache lacks the class.
    async fn class(&self, pod: &Object) -> Result<Option<Arc<Class>>, Denial> {
        let name = match pod.get(&["spec", "runtimeClassName"]) {
            None | Some(Value::Null) => return Ok(None),
            Some(name) => name.as_str().ok_or_else(not_a_pod)?,
        };
        if let Some(class) = self.0.find::<Class>("", name) {
            return Ok(Some(class));
        }
        // client-go refuses such a name before it sends a request.
        check_path_segment(name).map_err(|why| Denial::Plain(why.to_string()))?;
        match self.0.find_live::<Class>("", name).await? {
            Some(class) => Ok(Some(class)),
            None => Err(Denial::forbidden(format!("pod rejected: RuntimeClass {name:?} not found"))),
        }
    }
}

/// The class's overhead, which may be empty. `None` if the class has no overhead.
fn overhead(class: &Class) -> Option<Map<String, Value>> {
    let fixed = class.overhead.as_ref()?.pod_fixed.iter().flatten();
    Some(fixed.map(|(name, quantity)| (name.clone(), Value::from(quantity.0.clone()))).collect())
}

fn is_same(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.len() == other.len()
        && one.iter().all(|(name, value)| {
            other.get(name).is_some_and(|other| Quantity::of(Some(value)) == Quantity::of(Some(other)))
        })
}

/// Merges the class's node selector and tolerations into the pod's.
fn schedule(pod: &mut Object, class: &Class) -> Result<(), Denial> {
    let Some(scheduling) = &class.scheduling else { return Ok(()) };
    let mut selector = match pod.get(&NODE_SELECTOR) {
        None | Some(Value::Null) => Map::new(),
        Some(given) => given.as_object().ok_or_else(not_a_pod)?.clone(),
    };
    let given = selector.len();
    for (key, value) in scheduling.node_selector.iter().flatten() {
        match selector.get(key).and_then(Value::as_str) {
            Some(other) if other != value => {
                return Err(Denial::forbidden(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {other}"
                )));
            }
            _ => selector.insert(key.clone(), value.clone().into()),
        };
    }
    if selector.len() > given && !pod.set(&NODE_SELECTOR, Value::Object(selector)) {
        return Err(not_a_pod());
    }
    let ours = scheduling.tolerations.iter().flatten().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
    let ours = ours.map_err(|error| Denial::Plain(error.to_string()))?;
    let merged = merge(pod.items(&TOLERATIONS), &ours).ok_or_else(|| Denial::forbidden(TOO_MANY))?;
    if merged != pod.items(&TOLERATIONS) && !pod.set(&TOLERATIONS, Value::Array(merged)) {
        return Err(not_a_pod());
    }
    Ok(())
}

fn overhead_differs() -> Denial {
    Denial::forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
}

fn not_a_pod() -> Denial {
    Status::bad_request("Resource was marked with kind Pod but was unable to be converted").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::{Checked, check};
    use serde_json::json;

    fn plugin() -> RuntimeClass {
        let class = |name: &str, rest: Value| {
            let mut class = json!({"metadata": {"name": name}, "handler": "h"});
            class.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
            serde_json::from_value(class).unwrap()
        };
        let toleration = json!({"key": "k", "operator": "Exists"});
        let cached = vec![
            class("heavy", json!({"overhead": {"podFixed": {"cpu": "250m"}}})),
            class("placed", json!({"scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [toleration]}})),
            class("plain", json!({})),
        ];
        let live = [cached.clone(), vec![class("new", json!({"overhead": {"podFixed": {"cpu": "1"}}}))]].concat();
        RuntimeClass(Cluster::fixed(FixedState::default().with::<Class>(cached).live::<Class>(live)))
    }

    fn pod(spec: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    async fn admitted(spec: Value) -> Checked {
        check(&plugin()).create("", "pods", pod(spec)).await
    }

    async fn validated(spec: Value) -> Option<String> {
        let checked = check(&plugin()).validating().create("", "pods", pod(spec)).await;
        checked.refusal().map(|status| status.message.replace("pods \"p\" is forbidden: ", ""))
    }

    #[tokio::test]
    async fn a_pod_gets_its_classs_overhead() {
        let heavy = |cpu: &str| json!({"runtimeClassName": "heavy", "overhead": {"cpu": cpu}});
        admitted(json!({"runtimeClassName": "heavy"})).await.becomes(pod(heavy("250m")));
        admitted(heavy("0.25")).await.stays_unchanged();
        let differs =
            "pods \"p\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        admitted(heavy("1")).await.was_refused(403, differs);
        admitted(json!({"runtimeClassName": "new"}))
            .await
            .becomes(pod(json!({"runtimeClassName": "new", "overhead": {"cpu": "1"}})));
        admitted(json!({"overhead": {"cpu": "1"}})).await.stays_unchanged();
    }

    #[tokio::test]
    async fn no_other_overhead_is_valid() {
        let without = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        for (spec, want) in [
            (json!({}), None),
            (json!({"overhead": {"cpu": "1"}}), Some(without)),
            (json!({"overhead": {}}), Some(without)),
            (json!({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}), Some(without)),
            (json!({"runtimeClassName": "heavy", "overhead": {"cpu": "250m"}}), None),
            (
                json!({"runtimeClassName": "heavy"}),
                Some("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
            ),
        ] {
            assert_eq!(validated(spec.clone()).await.as_deref(), want, "{spec}");
        }
    }

    #[tokio::test]
    async fn a_pod_goes_where_its_class_can_run() {
        let toleration = json!({"key": "k", "operator": "Exists"});
        let narrower = json!({"key": "k", "operator": "Equal", "value": "v"});
        let placed = |selector: Value, tolerations: Value| json!({"runtimeClassName": "placed", "nodeSelector": selector, "tolerations": tolerations});
        let both = placed(json!({"a": "b", "c": "d"}), json!([toleration]));
        admitted(placed(json!({"c": "d"}), json!([narrower]))).await.becomes(pod(both));
        admitted(json!({"runtimeClassName": "placed"}))
            .await
            .becomes(pod(placed(json!({"a": "b"}), json!([toleration]))));
        admitted(placed(json!({"a": "x"}), json!([]))).await.was_refused(
            403,
            "pods \"p\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x",
        );
    }

    #[tokio::test]
    async fn a_class_must_exist_and_have_a_name_that_can_be_asked_for() {
        let of = |name: &str| json!({ "runtimeClassName": name });
        let missing = "pods \"p\" is forbidden: pod rejected: RuntimeClass \"x\" not found";
        admitted(of("x")).await.was_refused(403, missing);
        admitted(of("")).await.was_refused(500, "resource name may not be empty");
        admitted(of("a/b%c"))
            .await
            .was_refused(500, "invalid resource name \"a/b%c\": [may not contain '/' may not contain '%']");
        admitted(of("..")).await.was_refused(500, "invalid resource name \"..\": [may not be '..']");
        assert_eq!(admitted(json!({"runtimeClassName": 1})).await.code(), Some(400));
    }
}
