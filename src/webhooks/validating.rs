//! ValidatingAdmissionWebhook's calls: all at once, all awaited (`validatingDispatcher`).

use super::call::{Caller, Outcome, call, settle};
use super::client::{Clients, Kubeconfig};
use super::derived::Derived;
use super::hook::{Hook, Hooks};
use super::matching::{Matcher, Wanted, is_exempt, meets_conditions};
use super::review::Review;
use crate::admission::metrics::Metrics;
use crate::admission::{Attributes, Denial};
use crate::cluster::Cluster;
use crate::cluster::discovery::Discovery;
use crate::config::Limits;
use crate::conversion::Converter;
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
    converter: Converter,
    hooks: Derived<Arc<Vec<Arc<ValidatingWebhookConfiguration>>>, Hooks>,
}

impl Validating {
    /// With this state of the cluster; hooks are called as these users.
    pub fn new(
        cluster: Arc<Cluster>,
        discovery: Arc<Discovery>,
        metrics: Arc<Metrics>,
        limits: &Limits,
        users: Kubeconfig,
    ) -> Self {
        let converter = Converter::new(cluster.clone(), discovery, limits);
        let clients = Clients::new(limits, users).with_breakers(limits, Caller::Validating.label(), metrics.clone());
        Self { cluster, metrics, clients, converter, hooks: Derived::default() }
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
        let mut matcher = Matcher::new(&self.cluster, &self.converter);
        let mut called = Vec::new();
        let mut reviews: Vec<(Wanted, Review)> = Vec::new();
        for (_, hook) in hooks.candidates(&attributes.resource.resource, attributes.operation) {
            let wanted = matcher.wants(&hook.criteria, attributes, attributes.object.as_ref()).await?;
            let Some(wanted) = wanted else { continue };
            if !self.meets_conditions(hook, attributes, &wanted).await? {
                continue;
            }
            let review = reviews.iter().position(|(as_what, _)| *as_what == wanted);
            called.push((hook, review.unwrap_or(reviews.len())));
            if review.is_none() {
                let review = self.review(attributes, &wanted).await?;
                reviews.push((wanted, review));
            }
        }
        if called.is_empty() {
            return Ok(());
        }
        if Instant::now() >= attributes.deadline {
            return Err(Status::timeout("request did not complete within requested timeout").into());
        }
        let of = |position: usize| reviews.get(position).map(|(_, review)| review);
        let calls = called.iter().filter_map(|(hook, review)| Some((*hook, of(*review)?))).enumerate();
        let calls = calls.map(|(index, (hook, review))| self.call(index, hook, attributes, review));
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut first = None;
        while let Some(refusal) = calls.next().await {
            if first.is_none() {
                first = refusal;
            }
        }
        first.map_or(Ok(()), |status| Err(status.into()))
    }

    async fn meets_conditions(&self, hook: &Hook, attributes: &Attributes, wanted: &Wanted) -> Result<bool, Status> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        let kind = wanted.kind(attributes);
        let converted = self.converter.objects(attributes, kind).await.map_err(Status::internal_error)?;
        let (object, old_object) = match &converted {
            Some(converted) => (converted.object.as_ref(), converted.old_object.as_ref()),
            None => (attributes.object.as_ref(), attributes.old_object.as_deref()),
        };
        meets_conditions("validating", hook, attributes, (kind, object, old_object), &self.metrics).await
    }

    /// What hooks are sent that want the request so.
    async fn review(&self, attributes: &Attributes, wanted: &Wanted) -> Result<Review, Status> {
        let converted = self.converter.objects(attributes, wanted.kind(attributes)).await;
        let converted = converted.map_err(Status::internal_error)?;
        let (object, old_object) = match &converted {
            Some(converted) => (converted.object.as_ref(), converted.old_object.as_ref()),
            None => (attributes.object.as_ref(), attributes.old_object.as_deref()),
        };
        Review::new(attributes, wanted, object, old_object).map_err(Status::internal_error)
    }

    /// Whether a hook may want the request; its matchConditions are not asked.
    pub fn looks_at_stored(&self, attributes: &Attributes) -> bool {
        if is_exempt(attributes) {
            return false;
        }
        let (hooks, matcher) = (self.hooks(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = hooks.candidates(&attributes.resource.resource, attributes.operation);
        !self.cluster.is_synced() || candidates.any(|(_, hook)| matcher.may_want(&hook.criteria, attributes))
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
