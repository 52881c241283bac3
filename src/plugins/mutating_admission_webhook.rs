//! MutatingAdmissionWebhook: calls the webhooks of MutatingWebhookConfigurations. The implementation is in `webhooks/`.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::cluster::Need;
use crate::matching::Content;
use crate::webhooks::{MutatingWebhooks, config, manifests};
use async_trait::async_trait;
use serde_json::Value;

/// MutatingAdmissionWebhook's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "MutatingAdmissionWebhook",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: &[Need::NAMESPACES, Need::MUTATING_WEBHOOKS, Need::SERVICES],
    configuration: Some("WebhookAdmissionConfiguration"),
    removed: None,
    front_end: FrontEndSupport::LeftOut("the API server calls webhooks itself"),
    about: "Calls mutating webhooks, one after the other, and applies their patches.",
    build,
};

struct MutatingAdmissionWebhook(MutatingWebhooks);

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let config = config::read(environment.configuration, environment.feature_gates)?;
    let manifests = manifests(config.manifests, SPEC.name, environment)?;
    let PluginEnvironment { cluster, discovery, metrics, limits, .. } = environment;
    let hooks =
        MutatingWebhooks::new(cluster.clone(), discovery.clone(), metrics.clone(), limits, config.users, manifests);
    let hooks = hooks.with_shadows(environment.shadow_webhooks.clone()).with_gates(environment.feature_gates);
    Ok(Box::new(MutatingAdmissionWebhook(hooks)))
}

#[async_trait]
impl Plugin for MutatingAdmissionWebhook {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        self.0.admit(attributes).await
    }

    fn names_own_changes(&self) -> bool {
        true
    }

    fn reads_managed_fields(&self, attributes: &Attributes) -> bool {
        self.0.may_match(attributes, Content::Any)
    }

    fn look(&self) -> Option<Value> {
        Some(self.0.look())
    }
}
