//! ValidatingAdmissionWebhook's calls: all at the same time, all awaited (`validatingDispatcher`).

use super::Manifests;
use super::call::{Caller, Outcome, call, settle};
use super::hook::{Hook, Hooks, meets_conditions};
use super::review::Review;
use super::shadow::Shadows;
use crate::admission::metrics::Metrics;
use crate::admission::shadow::Shadows as ShadowNames;
use crate::admission::{Attributes, Denial};
use crate::backend::{Clients, Kubeconfig};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Need};
use crate::config::Limits;
use crate::conversion::Converter;
use crate::derived::{Both, Derived};
use crate::matching::{Matcher, Versions, View, Wanted, is_exempt};
use crate::status::Status;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use std::sync::Arc;
use tokio::time::Instant;

/// The prefix of the annotation that names a hook whose call failed and whose failurePolicy is `Ignore`.
const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// The caller of validating webhooks.
pub struct Validating {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    clients: Clients,
    converter: Converter,
    shadows: ShadowNames,
    manifests: Manifests<ValidatingWebhookConfiguration>,
    hooks: Derived<Both<ValidatingWebhookConfiguration>, Hooks>,
}

impl Validating {
    /// Creates the caller from the cluster's state and the configurations from files; hooks are called as `users`.
    pub fn new(
        cluster: Arc<Cluster>,
        discovery: Arc<Discovery>,
        metrics: Arc<Metrics>,
        limits: &Limits,
        users: Kubeconfig,
        manifests: Manifests<ValidatingWebhookConfiguration>,
    ) -> Self {
        let converter = Converter::new(cluster.clone(), discovery, limits, metrics.conversions());
        let clients = Clients::new(limits, users).with_breakers(limits, Caller::Validating.label(), metrics.clone());
        let shadows = ShadowNames::default();
        Self { cluster, metrics, clients, converter, shadows, manifests, hooks: Derived::default() }
    }

    /// Marks the named hooks as shadow hooks.
    #[must_use]
    pub fn with_shadows(self, shadows: ShadowNames) -> Self {
        Self { shadows, ..self }
    }

    fn hooks(&self) -> Arc<Hooks> {
        let present = || (self.manifests.load(), self.cluster.validating_webhooks());
        let same = |a: &Both<_>, b: &Both<_>| Arc::ptr_eq(&a.0, &b.0) && Arc::ptr_eq(&a.1, &b.1);
        self.hooks.get(present, same, |(manifests, stored), _| {
            Hooks::validating(manifests, stored, &self.clients).with_shadows(
                &self.shadows,
                Caller::Validating.label(),
                self.metrics.shadows(),
            )
        })
    }

    /// Calls the hooks that match the request.
    ///
    /// # Errors
    /// If a hook rejects the request, or fails while its failurePolicy is `Fail`; the first result counts.
    pub async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        // A request on admission configuration matches only hooks from files, so it does not wait for the cluster's configurations.
        let is_exempt = is_exempt(attributes);
        if is_exempt && !self.manifests.is_followed() {
            return Ok(());
        }
        if !is_exempt && !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if !is_exempt {
            self.cluster.check_decodable(&[Need::VALIDATING_WEBHOOKS], "")?;
        }
        let hooks = self.hooks();
        let mut matcher = Matcher::new(&self.cluster, &self.converter);
        let mut versions = Versions::default();
        let mut called = Vec::new();
        let mut reviews: Vec<(Wanted, Review)> = Vec::new();
        let mut shadows = Shadows::default();
        let mut shadowing = Vec::new();
        let mut candidates = hooks.candidates(attributes, &self.cluster);
        candidates.look_at(attributes, attributes.object.as_ref());
        for (index, hook) in candidates {
            let wanted = match self.wants(hook, attributes, &mut matcher, &mut versions).await {
                Ok(Some(wanted)) => wanted,
                Ok(None) => continue,
                Err(denial) if hook.is_shadow => {
                    shadows.undecided(Caller::Validating, (hook, index), denial, attributes);
                    continue;
                }
                Err(denial) => return Err(denial),
            };
            let review = match reviews.iter().position(|(as_what, _)| *as_what == wanted) {
                Some(position) => position,
                None => match self.review(attributes, &wanted, &mut versions).await {
                    Ok(review) => {
                        reviews.push((wanted, review));
                        reviews.len() - 1
                    }
                    Err(status) if hook.is_shadow => {
                        shadows.undecided(Caller::Validating, (hook, index), status.into(), attributes);
                        continue;
                    }
                    Err(status) => return Err(status.into()),
                },
            };
            if hook.is_shadow {
                shadowing.push((index, review));
            } else {
                called.push((hook, review));
            }
        }
        if called.is_empty() && shadowing.is_empty() {
            shadows.finish(attributes, &self.metrics).await;
            return Ok(());
        }
        if Instant::now() >= attributes.deadline {
            return Err(Status::timeout("request did not complete within requested timeout").into());
        }
        let of = |position: usize| reviews.get(position).map(|(_, review)| review);
        for (index, review) in shadowing {
            if let Some(review) = of(review) {
                shadows.call(Caller::Validating, (&hooks, index), attributes, review, &self.cluster);
            }
        }
        let calls = called.iter().filter_map(|(hook, review)| Some((*hook, of(*review)?))).enumerate();
        let calls = calls.map(|(index, (hook, review))| self.call(index, hook, attributes, review));
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut first = None;
        while let Some(refusal) = calls.next().await {
            if first.is_none() {
                first = refusal;
            }
        }
        shadows.finish(attributes, &self.metrics).await;
        first.map_or(Ok(()), |status| Err(status.into()))
    }

    /// Returns the kind and resource in which the hook gets the request; `None` if the hook does not match.
    async fn wants(
        &self,
        hook: &Hook,
        attributes: &Attributes,
        matcher: &mut Matcher<'_>,
        versions: &mut Versions,
    ) -> Result<Option<Wanted>, Denial> {
        let wanted = matcher.wants(&hook.criteria, attributes, attributes.object.as_ref()).await?;
        if hook.conditions.is_empty() {
            return Ok(wanted);
        }
        let Some(wanted) = wanted else { return Ok(None) };
        versions.prepare(&self.converter, attributes, &wanted).await.map_err(Status::internal_error)?;
        let View { kind, object, old_object, .. } = versions.view(attributes, &wanted);
        let view = (kind, object, old_object);
        let is_meant = meets_conditions("validating", hook, attributes, view, &self.metrics).await?;
        Ok(if is_meant { Some(wanted) } else { None })
    }

    /// Creates the review for the hooks that want the request in this kind and resource.
    async fn review(
        &self,
        attributes: &Attributes,
        wanted: &Wanted,
        versions: &mut Versions,
    ) -> Result<Review, Status> {
        versions.prepare(&self.converter, attributes, wanted).await.map_err(Status::internal_error)?;
        let View { object, old_object, .. } = versions.view(attributes, wanted);
        Review::new(attributes, wanted, object, old_object).map_err(Status::internal_error)
    }

    /// Whether a hook may match the request; matchConditions are not evaluated.
    pub fn looks_at_stored(&self, attributes: &Attributes) -> bool {
        let is_exempt = is_exempt(attributes);
        if is_exempt && !self.manifests.is_followed() {
            return false;
        }
        let (hooks, matcher) = (self.hooks(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = hooks.candidates(attributes, &self.cluster);
        candidates.look_at(attributes, attributes.object.as_ref());
        !is_exempt && !self.cluster.is_synced()
            || candidates.any(|(_, hook)| matcher.may_want(&hook.criteria, attributes))
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
