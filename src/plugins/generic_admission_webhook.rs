//! GenericAdmissionWebhook: asks the hooks of ExternalAdmissionHookConfigurations. The implementation is in `webhooks/v1alpha1/`.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.8.

use crate::admission::{
    Attributes, BuildError, Denial, Environment, FrontEnd, Operations, Phases, Plugin, Removed, Resources, Spec,
};
use crate::manifests::RemovedObjects;
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
    front_end: FrontEnd::Refused("it calls webhooks, which the front end never does"),
    about: "Asks the hooks of ExternalAdmissionHookConfigurations.",
    build,
};

struct GenericAdmissionWebhook(External);

fn build(environment: &Environment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let configurations = RemovedObjects::new(environment, SPEC.name)?;
    // The folder needs no feature gate, unlike that of the webhook plugins of today.
    let mut others = environment.configuration.cloned();
    if let Some(fields) = others.as_mut().and_then(|given| given.value.as_object_mut()) {
        fields.remove("staticManifestsDir");
    }
    let config = config::read(others.as_ref(), environment.feature_gates)?;
    let Environment { cluster, metrics, limits, .. } = environment;
    let hooks = External::new(cluster.clone(), configurations, metrics.clone(), limits, config.users);
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
        let decision = self.0.admit(attributes).await;
        if let (Err(_), Some(collection)) = (&decision, &attributes.collection) {
            collection.refuse();
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::tests::{configmap, create};
    use crate::webhooks::v1alpha1::tests::{external, hook, reply, server, state};
    use serde_json::json;
    use std::sync::Arc;

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
    async fn a_collection_is_asked_about_once() {
        let server = server(reply(json!({"allowed": true}))).await;
        let state = state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]);
        let plugin = GenericAdmissionWebhook(external(state).0);
        for (collection, asked) in [(Arc::default(), 1), (Arc::default(), 2)] {
            for _ in 0..3 {
                let mut item = create(configmap());
                item.collection = Some(Arc::clone(&collection));
                plugin.admit(&mut item).await.unwrap();
            }
            assert_eq!(server.seen().len(), asked);
        }
    }

    #[tokio::test]
    async fn a_refusal_is_one_of_the_whole_collection() {
        let server = server(reply(json!({"allowed": false, "status": {"reason": "NotFound", "code": 404}}))).await;
        let state = state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]);
        let plugin = GenericAdmissionWebhook(external(state).0);
        let mut item = create(configmap());
        let collection = Arc::<crate::admission::Collection>::default();
        item.collection = Some(collection.clone());
        assert!(!collection.is_refused());
        plugin.admit(&mut item).await.unwrap_err();
        assert!(collection.is_refused());
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
