//! ResourceQuota: keeps the usage of a namespace within its quotas, and records the usage in the quotas' status.
//!
//! The controller in kube-controller-manager subtracts the usage of changed and deleted objects.

mod check;
mod config;
mod device_claims;
mod evaluator;
mod metrics;
mod pods;
mod quotas;
mod rounds;
mod scopes;
mod services;
mod volume_claims;

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, PluginEnvironment,
    Resources, Spec,
};
use crate::cluster::{Cluster, Need};
use crate::config::Limits;
use crate::object::Object;
use async_trait::async_trait;
use check::{Previous, Request};
use config::Configuration;
use evaluator::{Evaluator, Gates};
use metrics::Queue;
use rounds::Rounds;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "ResourceQuota",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Namespaced,
    needs: &[Need::RESOURCE_QUOTAS, Need::DEVICE_CLASSES],
    configuration: Some("apiserver.config.k8s.io/v1 ResourceQuotaConfiguration"),
    removed: None,
    front_end: FrontEndSupport::Part(
        "a write that another validating webhook or the API server refuses stays charged until the quota is recounted; disable the plugin in the API server, or both charge",
    ),
    about: "Refuses requests that exceed a quota of the namespace, and charges the others to it.",
    build,
};

struct ResourceQuota {
    cluster: Arc<Cluster>,
    gates: Gates,
    configuration: Configuration,
    rounds: Arc<Rounds>,
}

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let configuration = Configuration::read(environment.configuration)?;
    let gates = Gates::new(environment.feature_gates);
    let queue = environment.metrics.registry().once("queue", Queue::new)?;
    Ok(Box::new(ResourceQuota::new(environment.cluster.clone(), gates, configuration, environment.limits, queue)))
}

#[async_trait]
impl Plugin for ResourceQuota {
    fn has_side_effects(&self, attributes: &Attributes) -> bool {
        self.evaluator(attributes).is_some() && !self.rounds.has_no_quotas(&attributes.namespace)
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(evaluator) = self.evaluator(attributes) else { return Ok(()) };
        if self.configuration.limited.is_empty() && self.rounds.has_no_quotas(&attributes.namespace) {
            return Ok(());
        }
        let request = self.request(attributes, evaluator).await?;
        self.rounds.evaluate(&attributes.namespace, request).await
    }

    /// Usage must not be charged for an object that the API server then does not store. A dry-run create charges nothing.
    fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        if attributes.dry_run && attributes.operation == Operation::Create {
            return false;
        }
        let Some(evaluator) = self.evaluator(attributes) else { return false };
        !self.configuration.limited.is_empty()
            || self.rounds.may_have_quotas(&attributes.namespace, |hard| {
                !evaluator.matching(hard, &self.cluster, &self.gates).is_empty()
            })
    }
}

impl ResourceQuota {
    fn new(cluster: Arc<Cluster>, gates: Gates, configuration: Configuration, limits: &Limits, queue: Queue) -> Self {
        let rounds = Arc::new(Rounds::new(cluster.clone(), gates.clone(), limits, queue));
        Self { cluster, gates, configuration, rounds }
    }

    /// The evaluator of the request. `None` if the request does not affect quotas (`quotaEvaluator.Evaluate`).
    fn evaluator(&self, attributes: &Attributes) -> Option<Evaluator> {
        let makes_namespace = attributes.operation == Operation::Create
            && (&*attributes.kind.group, &*attributes.kind.kind) == ("", "Namespace");
        if attributes.namespace.is_empty() || makes_namespace {
            return None;
        }
        let evaluator = Evaluator::of(&attributes.resource.group, &attributes.resource.resource)?;
        evaluator.handles(attributes).then_some(evaluator)
    }

    /// Builds the data of the request that quotas need.
    async fn request(&self, attributes: &Attributes, evaluator: Evaluator) -> Result<Request, Denial> {
        let nothing = Object::default();
        let (object, old) = (attributes.object.as_ref().unwrap_or(&nothing), attributes.old_object.as_deref());
        let is_status = attributes.subresource == "status";
        // The API server stores the status only from requests for the subresource `status`, and other fields only from other requests.
        let (desired, observed) = match (attributes.operation, old) {
            (Operation::Create, _) => (object, None),
            (_, Some(old)) if is_status => (old, Some(object)),
            (_, old) => (object, old),
        };
        let (cluster, gates, namespace) = (&self.cluster, &self.gates, &*attributes.namespace);
        let new = evaluator.subject(desired, observed, cluster, gates, namespace).await;
        let previous = match (attributes.operation, old) {
            (Operation::Create, _) => Previous::None,
            (_, None) => Previous::Lost,
            // An update that creates the object.
            (_, Some(old)) if old.resource_version().is_empty() => Previous::Unbilled,
            (_, Some(old)) => Previous::Billed(evaluator.subject(old, Some(old), cluster, gates, namespace).await),
        };
        let limited_names = self.configuration.limited_names(&attributes.resource, &new.usage);
        let limited_scopes = self.configuration.limited_scopes(&new.scoped);
        let (dry_run, is_authorized) = (attributes.dry_run, attributes.context.is_authorized);
        Ok(Request { evaluator, new, previous, limited_names, limited_scopes, dry_run, is_authorized, is_status })
    }
}

#[cfg(test)]
mod tests;
