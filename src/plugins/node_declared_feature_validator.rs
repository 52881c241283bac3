//! NodeDeclaredFeatureValidator: a pod's update must not require a feature that the pod's node does not declare.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::{Object, Step};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "NodeDeclaredFeatureValidator",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::UPDATE,
    resources: Resources::Only(&[("", "pods", ""), ("", "pods", "resize")]),
    needs: &[Need::NODES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Part(
        "a review does not show empty resources of containers, which therefore count as missing ones",
    ),
    about: "Refuses pod updates that need a feature which the pod's node does not declare.",
    build: |environment| {
        let is_on = environment.feature_gates.is_on("NodeDeclaredFeatures");
        Ok(Box::new(NodeDeclaredFeatureValidator { cluster: environment.cluster.clone(), is_on }))
    },
};

const INIT_CONTAINERS: [&str; 2] = ["spec", "initContainers"];

struct NodeDeclaredFeatureValidator {
    cluster: Arc<Cluster>,
    is_on: bool,
}

#[async_trait]
impl Plugin for NodeDeclaredFeatureValidator {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let (Some(new), Some(old)) = (&attributes.object, &attributes.old_object) else { return Ok(()) };
        let name = new.str(&["spec", "nodeName"]);
        // The generation rises with a changed spec alone (`pod.updatePodGeneration`).
        if !self.is_on || name.is_empty() || old.get(&["spec"]) == new.get(&["spec"]) {
            return Ok(());
        }
        let mut missing = required_features(old, new);
        if missing.is_empty() {
            return Ok(());
        }
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        let node = self.cluster.find::<Node>("", name);
        let node = node.ok_or_else(|| Denial::forbidden(format!("node {name:?} not found")))?;
        let declared = node.status.as_ref().and_then(|status| status.declared_features.as_ref());
        missing.retain(|feature| declared.is_none_or(|declared| !declared.iter().any(|other| other == feature)));
        if missing.is_empty() {
            return Ok(());
        }
        Err(Denial::forbidden(format!(
            "pod update requires features {} which are not available on node {name:?}",
            missing.join(", ")
        )))
    }
}

/// The features that the update requires of the node, sorted (`nodedeclaredfeatures.InferForPodUpdate`).
fn required_features(old: &Object, new: &Object) -> Vec<&'static str> {
    let mut features = Vec::new();
    if resources(old.get(&["spec"])) != resources(new.get(&["spec"])) {
        features.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let is_sidecar = |container: &Value| container.get("restartPolicy").is_some_and(|policy| policy == "Always");
    let mut pairs = old.items(&INIT_CONTAINERS).iter().zip(new.items(&INIT_CONTAINERS)).enumerate();
    if pairs.any(|(index, (one, other))| !is_sidecar(one) && exactly(old, index, one) != exactly(new, index, other)) {
        features.push("InPlacePodVerticalScalingInitContainers");
    }
    features
}

/// The lists of an init container's resources in Go. Requests that are empty differ from requests that are nil (`reflect.DeepEqual`).
fn exactly<'a>(pod: &Object, index: usize, container: &'a Value) -> [List<'a>; 3] {
    ["limits", "requests", "claims"].map(|field| {
        let path = [
            Step::Field("spec"),
            Step::Field("initContainers"),
            Step::Item(index),
            Step::Field("resources"),
            Step::Field(field),
        ];
        let found = container.get("resources").and_then(|resources| resources.get(field));
        match found.filter(|found| !found.is_null()) {
            Some(found) if !is_empty(found) => List::Of(found),
            None if !pod.unwritten().is_at(&path) => List::Nil,
            _ => List::Empty,
        }
    })
}

/// A list or map in Go.
#[derive(PartialEq)]
enum List<'a> {
    Nil,
    Empty,
    Of(&'a Value),
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// The resources of a pod's spec. `None` if they are empty or null.
fn resources(holder: Option<&Value>) -> Option<&Value> {
    let resources = holder?.get("resources")?;
    resources.as_object().is_none_or(|fields| !fields.is_empty()).then_some(resources).filter(|one| !one.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::cluster::FixedState;
    use crate::plugins::checker::{Checked, attributes, check};
    use serde_json::json;

    fn plugin(is_on: bool) -> NodeDeclaredFeatureValidator {
        let node = |name: &str, features: &[&str]| {
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {"declaredFeatures": features}}))
                .unwrap()
        };
        let nodes = vec![node("old", &[]), node("new", &["InPlacePodLevelResourcesVerticalScaling"])];
        NodeDeclaredFeatureValidator { cluster: Cluster::fixed(FixedState::default().with::<Node>(nodes)), is_on }
    }

    fn pod(node: &str, cpu: &str, init_cpu: &str, policy: Option<&str>) -> Value {
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let init = json!({"name": "i", "resources": resources(init_cpu), "restartPolicy": policy});
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "resources": resources(cpu), "initContainers": [init]}})
    }

    async fn updated(is_on: bool, old: Value, new: Value) -> Checked {
        check(&plugin(is_on)).validating().subresource("resize").update("", "pods", old, new).await
    }

    #[tokio::test]
    async fn a_nodes_features_bound_what_is_resized() {
        let of = |node: &str, cpu: &str, init: &str| pod(node, cpu, init, None);
        updated(true, of("new", "1", "1"), of("new", "2", "1")).await.stays_unchanged();
        updated(true, of("old", "1", "1"), of("old", "1", "1")).await.stays_unchanged();
        updated(true, of("", "1", "1"), of("", "2", "1")).await.stays_unchanged();
        updated(false, of("old", "1", "1"), of("old", "2", "1")).await.stays_unchanged();
        updated(true, of("old", "1", "1"), of("old", "2", "2")).await.was_refused(
            403,
            "pods \"p\" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling, \
             InPlacePodVerticalScalingInitContainers which are not available on node \"old\"",
        );
        let missing = updated(true, of("gone", "1", "1"), of("gone", "2", "1")).await;
        missing.was_refused(403, "pods \"p\" is forbidden: node \"gone\" not found");
    }

    #[tokio::test]
    async fn empty_resources_of_init_containers_differ_from_missing_ones() {
        // What LimitRanger makes of a container without limits (`mergeContainerResources`).
        let of = |cpu: &str, policy: Option<&str>| {
            let init = json!({"name": "i", "resources": {"requests": {"cpu": "1"}}, "restartPolicy": policy});
            let spec = json!({"nodeName": "old", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                "initContainers": [init]});
            json!({"metadata": {"name": "p"}, "spec": spec})
        };
        let limits = [
            Step::Field("spec"),
            Step::Field("initContainers"),
            Step::Item(0),
            Step::Field("resources"),
            Step::Field("limits"),
        ];
        let missing = "pods \"p\" is forbidden: pod update requires features InPlacePodVerticalScalingInitContainers which are not \
            available on node \"old\"";
        for (cpu, policy, has_empty, expected) in [
            ("2", None, true, Some(missing)),
            ("2", None, false, None),
            ("2", Some("Always"), true, None),
            // The spec does not change.
            ("1", None, true, None),
        ] {
            let mut attributes =
                attributes(Operation::Update, "", "pods", Some(of(cpu, policy)), Some(of("1", policy)));
            attributes.subresource = "resize".into();
            if has_empty {
                attributes.object.as_mut().unwrap().hold_empty_map(&limits);
            }
            let refused = plugin(true).validate(&attributes).await.err();
            let refused = refused.map(|denial| denial.into_status(&attributes).message);
            assert_eq!(refused.as_deref(), expected, "{cpu} {policy:?} {has_empty}");
        }
    }

    #[tokio::test]
    async fn sidecars_are_resized_everywhere() {
        let sidecar = |cpu: &str| pod("old", "1", cpu, Some("Always"));
        updated(true, sidecar("1"), sidecar("2")).await.stays_unchanged();
    }
}
