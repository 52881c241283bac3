//! ExtendedResourceToleration: a pod that requests an extended resource tolerates the taint of the nodes that offer the resource.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::names::is_qualified_name;
use crate::plugins::rules::pod::{WrongType, spec_list};
use crate::plugins::rules::toleration::{are_about_the_same, are_equal};
use crate::status::Status;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "ExtendedResourceToleration",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Adds tolerations for the extended resources that a pod requests.",
    build: |_| Ok(Box::new(ExtendedResourceToleration)),
};

struct ExtendedResourceToleration;

#[async_trait]
impl Plugin for ExtendedResourceToleration {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let not_a_pod = || Denial::from(Status::bad_request("expected *core.Pod but got another object"));
        let pod = attributes.object.as_mut().ok_or_else(not_a_pod)?;
        let mut resources = BTreeSet::new();
        for list in ["containers", "initContainers"] {
            for container in spec_list(pod, list).map_err(|WrongType| not_a_pod())? {
                let requests = container.get("resources").and_then(|resources| resources.get("requests")?.as_object());
                let names = requests.into_iter().flat_map(|requests| requests.keys());
                resources.extend(names.filter(|name| is_extended(name)).cloned());
            }
        }
        let mut tolerations = pod.items(&["spec", "tolerations"]).to_vec();
        let mut of_key: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, toleration) in tolerations.iter().enumerate() {
            let key = toleration.get("key").and_then(Value::as_str).unwrap_or_default();
            of_key.entry(key.to_owned()).or_default().push(index);
        }
        let mut is_changed = false;
        for resource in resources {
            let ours = json!({"key": resource, "operator": "Exists", "effect": "NoSchedule"});
            let given = of_key.get(&resource).map(Vec::as_slice).unwrap_or_default();
            if given.iter().filter_map(|index| tolerations.get(*index)).any(|given| are_equal(given, &ours)) {
                continue;
            }
            is_changed = true;
            let mut replaced = false;
            for index in given {
                if let Some(given) = tolerations.get_mut(*index).filter(|given| are_about_the_same(given, &ours)) {
                    *given = ours.clone();
                    replaced = true;
                }
            }
            if !replaced {
                tolerations.push(ours);
            }
        }
        if is_changed && !pod.set(&["spec", "tolerations"], Value::Array(tolerations)) {
            return Err(not_a_pod());
        }
        Ok(())
    }
}

/// Whether the resource is an extended resource, outside Kubernetes' domains (`helper.IsExtendedResourceName`).
pub(crate) fn is_extended(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native && !name.starts_with("requests.") && is_qualified_name(&format!("requests.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;

    fn pod(requests: &[&str], tolerations: &[&Value]) -> Value {
        let requests: serde_json::Map<String, Value> =
            requests.iter().map(|name| ((*name).to_owned(), json!("1"))).collect();
        json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "resources": {"requests": requests}}], "tolerations": tolerations}})
    }

    fn ours(key: &str) -> Value {
        json!({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    }

    #[tokio::test]
    async fn each_extended_resource_is_tolerated_in_the_order_of_names() {
        let asked = ["z.example/gpu", "cpu", "a.example/nic", "kubernetes.io/x", "requests.a.example/x", "bad key/x"];
        let (nic, gpu) = (ours("a.example/nic"), ours("z.example/gpu"));
        let checked = check(&ExtendedResourceToleration).create("", "pods", pod(&asked, &[])).await;
        checked.becomes(pod(&asked, &[&nic, &gpu]));
        let initial = json!({"spec": {"initContainers": [{"resources": {"requests": {"a.example/nic": 1}}}]}});
        let after = check(&ExtendedResourceToleration).create("", "pods", initial).await.after();
        assert_eq!(after["spec"]["tolerations"], json!([nic]));
    }

    #[tokio::test]
    async fn a_toleration_of_the_same_taint_is_replaced_where_it_stands() {
        let key = "a.example/nic";
        let mut timed = ours(key);
        timed["tolerationSeconds"] = 5.into();
        let wildcard = json!({"operator": "Exists"});
        let execute = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
        for (given, want) in [
            (vec![&timed, &wildcard], vec![ours(key), wildcard.clone()]),
            (vec![&wildcard], vec![wildcard.clone(), ours(key)]),
            (vec![&execute], vec![execute.clone(), ours(key)]),
        ] {
            let checked = check(&ExtendedResourceToleration).create("", "pods", pod(&[key], &given)).await;
            assert_eq!(checked.after()["spec"]["tolerations"], json!(want));
        }
        let wrong = json!({"spec": {"containers": "x"}});
        assert_eq!(check(&ExtendedResourceToleration).create("", "pods", wrong).await.code(), Some(400));
    }
}
