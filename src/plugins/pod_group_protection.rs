//! PodGroupProtection: a finalizer keeps a deleted pod group until its pods are gone.

use super::finalizer::add_finalizer;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodGroupProtection",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("scheduling.k8s.io", "podgroups", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Protects pod groups from removal while they have pods (feature gate GenericWorkload).",
    build: |environment| Ok(Box::new(PodGroupProtection { is_on: environment.feature_gates.is_on("GenericWorkload") })),
};

struct PodGroupProtection {
    is_on: bool,
}

#[async_trait]
impl Plugin for PodGroupProtection {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let group = attributes.object.as_mut().filter(|_| self.is_on);
        group.map_or(Ok(()), |group| add_finalizer(group, "scheduling.k8s.io/podgroup-protection"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;
    use serde_json::json;

    #[tokio::test]
    async fn adds_its_finalizer_while_its_gate_is_on() {
        let protected = json!({"metadata": {"finalizers": ["scheduling.k8s.io/podgroup-protection"]}});
        let plugin = |is_on| PodGroupProtection { is_on };
        let on = plugin(true);
        check(&on).create("scheduling.k8s.io", "podgroups", json!({})).await.becomes(protected.clone());
        check(&on).create("scheduling.k8s.io", "podgroups", protected).await.stays_unchanged();
        check(&plugin(false)).create("scheduling.k8s.io", "podgroups", json!({})).await.stays_unchanged();
    }
}
