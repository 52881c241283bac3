//! ValidatingAdmissionWebhook: calls the webhooks of ValidatingWebhookConfigurations. The implementation is in `webhooks/`.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::cluster::Need;
use crate::matching::Content;
use crate::webhooks::{ValidatingWebhooks, config, manifests};
use async_trait::async_trait;
use serde_json::Value;

/// ValidatingAdmissionWebhook's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "ValidatingAdmissionWebhook",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: &[Need::NAMESPACES, Need::VALIDATING_WEBHOOKS, Need::SERVICES],
    configuration: Some("WebhookAdmissionConfiguration"),
    removed: None,
    front_end: FrontEndSupport::LeftOut("the API server calls webhooks itself"),
    about: "Calls validating webhooks, all at once.",
    build,
};

struct ValidatingAdmissionWebhook(ValidatingWebhooks);

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let config = config::read(environment.configuration, environment.feature_gates)?;
    let manifests = manifests(config.manifests, SPEC.name, environment)?;
    let PluginEnvironment { cluster, discovery, metrics, limits, .. } = environment;
    let hooks =
        ValidatingWebhooks::new(cluster.clone(), discovery.clone(), metrics.clone(), limits, config.users, manifests);
    let hooks = hooks.with_shadows(environment.shadow_webhooks.clone()).with_gates(environment.feature_gates);
    Ok(Box::new(ValidatingAdmissionWebhook(hooks)))
}

#[async_trait]
impl Plugin for ValidatingAdmissionWebhook {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        self.0.validate(attributes).await
    }

    fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        self.0.may_match(attributes, Content::Present)
    }

    fn look(&self) -> Option<Value> {
        Some(self.0.look())
    }
}
