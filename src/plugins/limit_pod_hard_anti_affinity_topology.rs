//! LimitPodHardAntiAffinityTopology: required anti-affinity of pods may exclude other pods from a node, but not from a larger topology.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::object::Object;
use crate::status::Status;
use async_trait::async_trait;
use serde_json::Value;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "LimitPodHardAntiAffinityTopology",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses pods whose required anti-affinity spans more than a node.",
    build: |_| Ok(Box::new(LimitPodHardAntiAffinityTopology)),
};

const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: [&str; 4] = ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

struct LimitPodHardAntiAffinityTopology;

#[async_trait]
impl Plugin for LimitPodHardAntiAffinityTopology {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let pod = attributes.object.as_ref();
        let terms = pod.map(|pod| pod.items(&REQUIRED)).unwrap_or_default();
        let keys = terms.iter().map(|term| term.get("topologyKey").and_then(Value::as_str).unwrap_or_default());
        match keys.into_iter().find(|key| *key != HOSTNAME) {
            None => Ok(()),
            Some(key) => {
                let why = format!(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
                );
                // The error names the pod's own name, which is empty before a name is generated, as in kube-apiserver.
                Err(Status::forbidden("", "pods", pod.map(Object::name).unwrap_or_default(), &why).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;
    use serde_json::json;

    fn pod(strength: &str, keys: &[&str]) -> Value {
        let terms: Vec<Value> = keys.iter().map(|key| json!({"topologyKey": key})).collect();
        json!({"metadata": {"name": "p"}, "spec": {"affinity": {"podAntiAffinity": {strength: terms}}}})
    }

    #[tokio::test]
    async fn every_required_term_must_be_about_nodes() {
        let required = |keys: &[&str]| pod(REQUIRED[3], keys);
        let plugin = || check(&LimitPodHardAntiAffinityTopology).validating();
        plugin().create("", "pods", required(&[HOSTNAME, HOSTNAME])).await.stays_unchanged();
        plugin().create("", "pods", required(&[HOSTNAME, "zone"])).await.was_refused(
            403,
            "pods \"p\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key \
             kubernetes.io/hostname is allowed",
        );
        let zone = required(&["zone"]);
        assert_eq!(plugin().update("", "pods", zone.clone(), zone).await.code(), Some(403));
    }

    #[tokio::test]
    async fn preferences_and_affinity_are_free() {
        let plugin = || check(&LimitPodHardAntiAffinityTopology).validating();
        let preferred = pod("preferredDuringSchedulingIgnoredDuringExecution", &["zone"]);
        plugin().create("", "pods", preferred).await.stays_unchanged();
        let affinity = json!({"spec": {"affinity": {"podAffinity": {REQUIRED[3]: [{"topologyKey": "zone"}]}}}});
        plugin().create("", "pods", affinity).await.stays_unchanged();
        plugin().create("", "pods", json!({"spec": {"affinity": {}}})).await.stays_unchanged();
        plugin().create("", "pods", json!({"spec": {"affinity": "text"}})).await.stays_unchanged();
    }
}
