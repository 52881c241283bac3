//! GenericAdmissionWebhook: asks the hooks of ExternalAdmissionHookConfigurations. The implementation is in `webhooks/v1alpha1/`.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.8.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Removed, Resources,
    Spec,
};
use crate::manifests::RemovedObjects;
use crate::webhooks::config;
use crate::webhooks::v1alpha1::{External, NEEDS};
use async_trait::async_trait;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "GenericAdmissionWebhook",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: NEEDS,
    configuration: Some("WebhookAdmissionConfiguration"),
    removed: Some(Removed { since: "1.7", until: "1.8", successor: "ValidatingAdmissionWebhook" }),
    front_end: FrontEndSupport::Refused("it calls webhooks, which the front end never does"),
    about: "Asks the hooks of ExternalAdmissionHookConfigurations.",
    build,
};

struct GenericAdmissionWebhook(External);

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let configurations = RemovedObjects::new(environment, SPEC.name)?;
    // The folder needs no feature gate, unlike that of the webhook plugins of today.
    let mut others = environment.configuration.cloned();
    if let Some(fields) = others.as_mut().and_then(|given| given.value.as_object_mut()) {
        fields.remove("staticManifestsDir");
    }
    let config = config::read(others.as_ref(), environment.feature_gates)?;
    let PluginEnvironment { cluster, metrics, limits, .. } = environment;
    let hooks = External::new(cluster.clone(), configurations, metrics.clone(), limits, config.users);
    Ok(Box::new(GenericAdmissionWebhook(hooks)))
}

#[async_trait]
impl Plugin for GenericAdmissionWebhook {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        // 1.8 asks once for each request: it has no reinvocation, and asks about a collection instead of its items.
        if attributes.reinvocation.is_reinvoke || attributes.of_collection {
            return Ok(());
        }
        self.0.admit(attributes).await
    }

    async fn admit_collection(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        self.0.admit(attributes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::tests::{configmap, create};
    use crate::webhooks::v1alpha1::tests::{external, hook, reply, server, state};
    use serde_json::json;

    #[tokio::test]
    async fn a_request_asks_once_even_if_it_is_reinvoked() {
        let server = server(reply(json!({"allowed": true}))).await;
        let state = state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]);
        let plugin = GenericAdmissionWebhook(external(state).0);
        let mut attributes = create(configmap());
        plugin.admit(&mut attributes).await.unwrap();
        attributes.reinvocation.is_reinvoke = true;
        plugin.admit(&mut attributes).await.unwrap();
        assert_eq!(server.seen().len(), 1);
    }

    #[tokio::test]
    async fn a_collection_is_asked_about_instead_of_its_items() {
        let server = server(reply(json!({"allowed": false}))).await;
        let state = state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]);
        let plugin = GenericAdmissionWebhook(external(state).0);
        let mut item = create(configmap());
        item.of_collection = true;
        plugin.admit(&mut item).await.unwrap();
        assert_eq!(server.seen().len(), 0);
        plugin.admit_collection(&mut item).await.unwrap_err();
        assert_eq!(server.seen().len(), 1);
    }

    #[tokio::test]
    async fn a_dry_run_is_asked_about() {
        let server = server(reply(json!({"allowed": false}))).await;
        let state = state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]);
        let plugin = GenericAdmissionWebhook(external(state).0);
        let mut attributes = create(configmap());
        attributes.dry_run = true;
        plugin.admit(&mut attributes).await.unwrap_err();
    }
}
