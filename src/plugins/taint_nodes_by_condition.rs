//! TaintNodesByCondition: taints a new node as not ready; the node lifecycle controller removes the taint later.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;
use serde_json::{Value, json};

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "TaintNodesByCondition",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "nodes", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Taints new nodes as not ready.",
    build: |_| Ok(Box::new(TaintNodesByCondition)),
};

struct TaintNodesByCondition;

#[async_trait]
impl Plugin for TaintNodesByCondition {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(node) = &mut attributes.object else { return Err(Denial::forbidden("unexpected type <nil>")) };
        let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        let same = |other: &Value| ["key", "effect"].iter().all(|field| other.get(field) == taint.get(field));
        if node.items(&["spec", "taints"]).iter().any(same) {
            return Ok(());
        }
        match node.append(&["spec", "taints"], taint) {
            true => Ok(()),
            false => Err(Denial::forbidden("spec.taints: not a list")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;

    #[tokio::test]
    async fn a_new_node_is_tainted_once() {
        let ours = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        let other = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"});
        let node = |taints: &[&Value]| json!({"spec": {"taints": taints}});
        check(&TaintNodesByCondition).create("", "nodes", json!({})).await.becomes(node(&[&ours]));
        check(&TaintNodesByCondition).create("", "nodes", node(&[&other])).await.becomes(node(&[&other, &ours]));
        let with_value = json!({"key": ours["key"], "effect": ours["effect"], "value": "v"});
        check(&TaintNodesByCondition).create("", "nodes", node(&[&with_value])).await.stays_unchanged();
        let wrong = check(&TaintNodesByCondition).create("", "nodes", json!({"spec": 1})).await;
        assert_eq!(wrong.code(), Some(403));
    }
}
