//! PodTopologyLabels: copies the zone and region labels of a node to its pods.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodTopologyLabels",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "pods", ""), ("", "pods", "binding")]),
    needs: &[Need::NODES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Copies zone and region of a node to the pods that are bound to it.",
    build: |environment| {
        let is_on = environment.feature_gates.is_on("PodTopologyLabelsAdmission");
        Ok(Box::new(PodTopologyLabels { cluster: environment.cluster.clone(), is_on }))
    },
};

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

struct PodTopologyLabels {
    cluster: Arc<Cluster>,
    is_on: bool,
}

#[async_trait]
impl Plugin for PodTopologyLabels {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(object) = attributes.object.as_mut().filter(|_| self.is_on) else { return Ok(()) };
        let node = match &*attributes.subresource {
            "binding" if object.str(&["target", "kind"]) == "Node" => object.str(&["target", "name"]),
            "binding" => return Ok(()),
            _ => object.str(&["spec", "nodeName"]),
        };
        if node.is_empty() {
            return Ok(());
        }
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        self.cluster.check_known::<Node>("", node)?;
        let Some(node) = self.cluster.find::<Node>("", node) else { return Ok(()) };
        for label in LABELS {
            let value = node.metadata.labels.as_ref().and_then(|labels| labels.get(label));
            // An empty label of the node counts too: the binding overwrites the pod's own label.
            let of_object = object.get(&["metadata", "labels", label]).and_then(Value::as_str);
            let Some(value) = value.filter(|value| of_object != Some(value)) else { continue };
            if !object.set(&["metadata", "labels", label], value.clone().into()) {
                return Err(Denial::Plain("metadata.labels: not an object".to_owned()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::check;
    use serde_json::json;

    fn plugin(is_on: bool) -> PodTopologyLabels {
        let labels = json!({LABELS[0]: "r", LABELS[1]: "z", "topology.kubernetes.io/rack": "1"});
        let node = json!({"metadata": {"name": "n", "labels": labels}});
        let nodes = vec![
            serde_json::from_value(node).unwrap(),
            serde_json::from_value(json!({"metadata": {"name": "bare"}})).unwrap(),
            serde_json::from_value(json!({"metadata": {"name": "empty", "labels": {LABELS[0]: ""}}})).unwrap(),
        ];
        PodTopologyLabels { cluster: Cluster::fixed(FixedState::default().with::<Node>(nodes)), is_on }
    }

    fn pod(node: &str, labels: Value) -> Value {
        json!({"metadata": {"name": "p", "labels": labels}, "spec": {"nodeName": node}})
    }

    #[tokio::test]
    async fn a_pod_that_is_made_on_a_node_gets_its_labels() {
        let labelled = json!({"own": "1", LABELS[0]: "r", LABELS[1]: "z"});
        let given = json!({"own": "1", LABELS[1]: "elsewhere"});
        check(&plugin(true)).create("", "pods", pod("n", given)).await.becomes(pod("n", labelled));
        for node in ["bare", "missing", ""] {
            check(&plugin(true)).create("", "pods", pod(node, json!({}))).await.stays_unchanged();
        }
        check(&plugin(false)).create("", "pods", pod("n", json!({}))).await.stays_unchanged();
    }

    #[tokio::test]
    async fn a_binding_to_a_node_gets_its_labels() {
        let binding =
            |kind: &str, node: &str| json!({"metadata": {"name": "p"}, "target": {"kind": kind, "name": node}});
        for (node, labels) in [("n", json!({LABELS[0]: "r", LABELS[1]: "z"})), ("empty", json!({LABELS[0]: ""}))] {
            let binding = binding("Node", node);
            let bound = check(&plugin(true)).subresource("binding").create("", "pods", binding).await.after();
            assert_eq!(bound["metadata"]["labels"], labels);
        }
        check(&plugin(true)).subresource("binding").create("", "pods", binding("", "n")).await.stays_unchanged();
    }
}
