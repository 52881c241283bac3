//! NodeDeclaredFeatureValidator: a pod's update must not require a feature that the pod's node does not declare.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::Object;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
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
    front_end: FrontEndSupport::Full,
    about: "Refuses pod updates that need a feature which the pod's node does not declare.",
    build: |environment| {
        let is_on = environment.feature_gates.is_on("NodeDeclaredFeatures");
        Ok(Box::new(NodeDeclaredFeatureValidator { cluster: environment.cluster.clone(), is_on }))
    },
};

struct NodeDeclaredFeatureValidator {
    cluster: Arc<Cluster>,
    is_on: bool,
}

#[async_trait]
impl Plugin for NodeDeclaredFeatureValidator {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let (Some(new), Some(old)) = (&attributes.object, &attributes.old_object) else { return Ok(()) };
        let name = new.str(&["spec", "nodeName"]);
        if !self.is_on || name.is_empty() {
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
    let init = ["spec", "initContainers"];
    let is_sidecar = |container: &Value| container.get("restartPolicy").is_some_and(|policy| policy == "Always");
    let mut pairs = old.items(&init).iter().zip(new.items(&init));
    if pairs.any(|(old, new)| !is_sidecar(old) && resources(Some(old)) != resources(Some(new))) {
        features.push("InPlacePodVerticalScalingInitContainers");
    }
    features
}

/// The resources of a pod's spec or of a container. `None` if they are empty or null.
fn resources(holder: Option<&Value>) -> Option<&Value> {
    let resources = holder?.get("resources")?;
    resources.as_object().is_none_or(|fields| !fields.is_empty()).then_some(resources).filter(|one| !one.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::{Checked, check};
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
    async fn sidecars_are_resized_everywhere() {
        let sidecar = |cpu: &str| pod("old", "1", cpu, Some("Always"));
        updated(true, sidecar("1"), sidecar("2")).await.stays_unchanged();
    }
}
