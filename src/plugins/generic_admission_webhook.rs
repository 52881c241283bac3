//! GenericAdmissionWebhook: asks the hooks of ExternalAdmissionHookConfigurations. The implementation is in `webhooks/v1alpha1/`.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.8.

use crate::admission::{
    Attributes, BuildError, Denial, Environment, Operations, Phases, Plugin, Removed, Resources, Spec,
};
use crate::webhooks::config;
use crate::webhooks::v1alpha1::{External, NEEDS};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "GenericAdmissionWebhook",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: NEEDS,
    configuration: Some("WebhookAdmissionConfiguration"),
    removed: Some(Removed { since: "1.7", until: "1.8", successor: "ValidatingAdmissionWebhook" }),
    about: "Asks the hooks of ExternalAdmissionHookConfigurations.",
    build,
};

struct GenericAdmissionWebhook(External);

fn build(environment: &Environment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let config = config::read(environment.configuration, environment.feature_gates)?;
    if config.manifests.is_some() {
        return Err(BuildError("staticManifestsDir: not supported by this plugin".into()));
    }
    let Environment { cluster, metrics, limits, .. } = environment;
    let hooks = External::new(cluster.clone(), metrics.clone(), limits, config.users);
    Ok(Box::new(GenericAdmissionWebhook(hooks)))
}

#[async_trait]
impl Plugin for GenericAdmissionWebhook {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        // 1.8 asks once for each request: it has no reinvocation, and asks about a collection instead of its items.
        let is_first = attributes.collection.as_ref().is_none_or(|collection| collection.begins(SPEC.name));
        if attributes.reinvocation.is_reinvoke || !is_first {
            return Ok(());
        }
        self.0.admit(attributes).await
    }
}
