//! ValidatingAdmissionWebhook's calls: all at once, all awaited (`validatingDispatcher`).

use super::call::{Caller, Outcome, call, settle};
use super::client::{Clients, Kubeconfig};
use super::derived::Derived;
use super::hook::{Hook, Hooks};
use super::matching::{Matcher, is_exempt};
use super::review::Review;
use crate::admission::metrics::Metrics;
use crate::admission::{Attributes, Denial};
use crate::cluster::Cluster;
use crate::config::Limits;
use crate::status::Status;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use std::sync::Arc;
use tokio::time::Instant;

/// Names the hooks that could not be asked and do not mind.
const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// Calls validating webhooks.
pub struct Validating {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    clients: Clients,
    hooks: Derived<Arc<Vec<Arc<ValidatingWebhookConfiguration>>>, Hooks>,
}

impl Validating {
    /// With this state of the cluster; hooks are called as these users.
    pub fn new(cluster: Arc<Cluster>, metrics: Arc<Metrics>, limits: &Limits, users: Kubeconfig) -> Self {
        Self { cluster, metrics, clients: Clients::new(limits, users), hooks: Derived::default() }
    }

    fn hooks(&self) -> Arc<Hooks> {
        let compile = |present: &Arc<Vec<_>>, _: &Hooks| Hooks::validating(present, &self.clients);
        self.hooks.get(|| self.cluster.validating_webhooks(), Arc::ptr_eq, compile)
    }

    /// Calls the hooks that want the request.
    ///
    /// # Errors
    /// The refusal, or the failure that it minds, of the hook that is through with it first.
    pub async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        if is_exempt(attributes) {
            return Ok(());
        }
        if !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        let hooks = self.hooks();
        let mut matcher = Matcher::new(&self.cluster);
        let mut wanted = Vec::new();
        for (_, hook) in hooks.candidates(&attributes.resource.resource, attributes.operation) {
            if matcher.wants(hook, attributes).await? {
                wanted.push(hook);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        if Instant::now() >= attributes.deadline {
            return Err(Status::timeout("request did not complete within requested timeout").into());
        }
        let review = Review::new(attributes).map_err(Status::internal_error)?;
        let calls = wanted.iter().enumerate().map(|(index, hook)| self.call(index, hook, attributes, &review));
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut first = None;
        while let Some(refusal) = calls.next().await {
            if first.is_none() {
                first = refusal;
            }
        }
        first.map_or(Ok(()), |status| Err(status.into()))
    }

    /// Whether a hook may want the request; its matchConditions are not asked.
    pub fn looks_at_stored(&self, attributes: &Attributes) -> bool {
        if is_exempt(attributes) {
            return false;
        }
        let (hooks, matcher) = (self.hooks(), Matcher::new(&self.cluster));
        let mut candidates = hooks.candidates(&attributes.resource.resource, attributes.operation);
        !self.cluster.is_synced() || candidates.any(|(_, hook)| matcher.may_want(hook, attributes))
    }

    async fn call(&self, index: usize, hook: &Hook, attributes: &Attributes, review: &Review) -> Option<Status> {
        let started = Instant::now();
        let called = call(Caller::Validating, hook, attributes, review, &self.cluster).await;
        match settle(Caller::Validating, hook, attributes, started.elapsed(), called.as_ref().err(), &self.metrics) {
            Outcome::Passed => None,
            Outcome::FailedOpen => {
                attributes.annotations.add(format!("{FAILED_OPEN}round_0_index_{index}"), &*hook.name);
                None
            }
            Outcome::Refused(status) => Some(status),
        }
    }
}
