//! ValidatingAdmissionWebhook's calls: all at the same time, all awaited (`validatingDispatcher`).

use super::call::{Outcome, WebhookType, call, settle};
use super::hook::{Hook, meets_conditions};
use super::machinery::Webhooks;
use super::review::Review;
use super::shadow::ShadowCalls;
use crate::admission::{Attributes, Denial};
use crate::matching::{InvocationKind, Matcher, Versions, View};
use crate::status::Status;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use tokio::time::Instant;

/// The prefix of the annotation that names a hook whose call failed and whose failurePolicy is `Ignore`.
const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// The plugin's webhooks and their calls.
pub(crate) type ValidatingWebhooks = Webhooks<ValidatingWebhookConfiguration>;

/// The state of the pass over the hooks that comes before the calls.
struct Pass<'a> {
    matcher: Matcher<'a>,
    versions: Versions,
    /// The reviews so far, each with the kind and resource that it has.
    reviews: Vec<(InvocationKind, Review)>,
}

impl Pass<'_> {
    /// Returns the review at this position.
    fn review(&self, position: usize) -> Option<&Review> {
        self.reviews.get(position).map(|(_, review)| review)
    }
}

impl ValidatingWebhooks {
    /// Calls the hooks that match the request.
    ///
    /// # Errors
    /// If a hook rejects the request, or fails while its failurePolicy is `Fail`; the first result counts.
    pub(crate) async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(hooks) = self.ready_hooks(attributes).await? else { return Ok(()) };
        let matcher = Matcher::new(&self.cluster, &self.converter);
        let mut pass = Pass { matcher, versions: Versions::default(), reviews: Vec::new() };
        let (mut called, mut shadowing) = (Vec::new(), Vec::new());
        let mut shadows = ShadowCalls::new(WebhookType::Validating, &hooks);
        let mut candidates = hooks.candidates(attributes, &self.cluster);
        candidates.narrow(attributes, attributes.object.as_ref());
        for (index, hook) in candidates {
            match self.find_review(hook, attributes, &mut pass).await {
                Ok(Some(review)) if hook.is_shadow => shadowing.push((index, review)),
                Ok(Some(review)) => called.push((hook, review)),
                Ok(None) => {}
                Err(denial) if hook.is_shadow => shadows.undecided(index, denial, attributes),
                Err(denial) => return Err(denial),
            }
        }
        if called.is_empty() && shadowing.is_empty() {
            shadows.finish(attributes, &self.metrics).await;
            return Ok(());
        }
        if Instant::now() >= attributes.context.deadline {
            return Err(Status::timeout("request did not complete within requested timeout").into());
        }
        for (index, review) in shadowing {
            if let Some(review) = pass.review(review) {
                shadows.call(index, attributes, review, &self.cluster);
            }
        }
        let calls = called.iter().filter_map(|(hook, review)| Some((*hook, pass.review(*review)?))).enumerate();
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

    /// Returns the position of the review for the hook; `None` if the hook does not match. Hooks that want the same kind and resource share
    /// a review.
    async fn find_review(
        &self,
        hook: &Hook,
        attributes: &Attributes,
        pass: &mut Pass<'_>,
    ) -> Result<Option<usize>, Denial> {
        let Some(wanted) = self.wants(hook, attributes, pass).await? else { return Ok(None) };
        if let Some(position) = pass.reviews.iter().position(|(as_what, _)| *as_what == wanted) {
            return Ok(Some(position));
        }
        pass.versions.prepare(&self.converter, attributes, &wanted).await.map_err(Status::internal_error)?;
        let view = pass.versions.view(attributes, &wanted);
        let review = Review::new(attributes, &wanted, view.object, view.old_object).map_err(Status::internal_error)?;
        pass.reviews.push((wanted, review));
        Ok(Some(pass.reviews.len() - 1))
    }

    /// Returns the kind and resource in which the hook gets the request; `None` if the hook does not match.
    async fn wants(
        &self,
        hook: &Hook,
        attributes: &Attributes,
        pass: &mut Pass<'_>,
    ) -> Result<Option<InvocationKind>, Denial> {
        let wanted = pass.matcher.wants(&hook.criteria, attributes, attributes.object.as_ref()).await?;
        if hook.conditions.is_empty() {
            return Ok(wanted);
        }
        let Some(wanted) = wanted else { return Ok(None) };
        pass.versions.prepare(&self.converter, attributes, &wanted).await.map_err(Status::internal_error)?;
        let view = View { resource: &attributes.resource, ..pass.versions.view(attributes, &wanted) };
        let is_meant = meets_conditions("validating", hook, attributes, view, &self.metrics).await?;
        Ok(if is_meant { Some(wanted) } else { None })
    }

    async fn call(&self, index: usize, hook: &Hook, attributes: &Attributes, review: &Review) -> Option<Status> {
        let started = Instant::now();
        let called = call(WebhookType::Validating, hook, attributes, review, &self.cluster).await;
        let error = called.as_ref().err();
        match settle(WebhookType::Validating, hook, attributes, started.elapsed(), error, &self.metrics) {
            Outcome::Passed => None,
            Outcome::FailedOpen => {
                attributes.annotations.add(format!("{FAILED_OPEN}round_0_index_{index}"), &*hook.name);
                None
            }
            Outcome::Refused(status) => Some(status),
        }
    }
}
