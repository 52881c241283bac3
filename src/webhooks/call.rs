//! One call of one hook: the review that is sent, the verdict of the answer, and the meaning of a failure.

use super::answer::{self, AnswerError, Response};
use super::hook::{Hook, ReviewVersion, SideEffects};
use super::review::{Request, Review};
use crate::admission::Attributes;
use crate::admission::metrics::{Metrics, RejectionError, WebhookCall};
use crate::backend::Answer;
use crate::cluster::Cluster;
use crate::status::Status;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The reason why a hook's call does not let the request pass.
#[derive(Debug)]
pub(super) enum CallError {
    /// `ErrCallingWebhook`: the call failed, so that the failurePolicy decides. The code is for metrics.
    Calling {
        reason: String,
        /// The code of the Status that kube-apiserver attaches.
        code: u16,
    },
    /// `ErrWebhookRejection`: the hook rejected the request.
    Rejected(Box<Status>),
    /// Any other error; no failurePolicy covers it.
    Internal(Box<Status>),
}

impl CallError {
    fn calling(reason: impl Into<String>, code: u16) -> Self {
        Self::Calling { reason: reason.into(), code }
    }
}

/// The type of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookType {
    /// Webhooks of MutatingAdmissionWebhook.
    Mutating,
    /// Webhooks of ValidatingAdmissionWebhook.
    Validating,
}

impl WebhookType {
    /// Returns the `type` label of metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// A call that may be made: the review to send, and the deadline.
pub(super) struct Prepared {
    version: ReviewVersion,
    request: Request,
    deadline: Instant,
    /// Whether the deadline leaves the hook its whole timeout.
    is_whole: bool,
    /// The places of calls; `None` without a bound.
    places: Option<Arc<Semaphore>>,
}

impl Prepared {
    /// Returns the object of the review, as JSON.
    pub(super) fn object(&self) -> &[u8] {
        self.request.object()
    }
}

/// Calls a hook and adds its audit annotations and warnings to the request's.
///
/// # Errors
/// If the hook rejects the request, or cannot be called.
pub(super) async fn call(
    webhook_type: WebhookType,
    hook: &Hook,
    attributes: &Attributes,
    review: &Review,
    cluster: &Cluster,
) -> Result<Response, CallError> {
    let prepared = prepare(hook, attributes, review)?;
    let response = exchange(webhook_type, hook, &prepared, cluster).await?;
    for (key, value) in &response.audit_annotations {
        attributes.annotations.add(format!("{}/{key}", hook.name), value);
    }
    for warning in &response.warnings {
        attributes.context.warnings.add(warning);
    }
    verdict(hook, response)
}

/// Prepares the review to send.
///
/// # Errors
/// If the hook cannot get this request.
pub(super) fn prepare(hook: &Hook, attributes: &Attributes, review: &Review) -> Result<Prepared, CallError> {
    if attributes.dry_run {
        match hook.side_effects {
            SideEffects::None => {}
            SideEffects::Unset => return Err(CallError::calling("Webhook SideEffects is nil", 400)),
            SideEffects::Some => {
                let text = format!("admission webhook \"{}\" does not support dry run", hook.name);
                return Err(CallError::Internal(Box::new(Status::bad_request(text))));
            }
        }
    }
    let Some(version) = hook.review_version else {
        let reason =
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(CallError::calling(reason, 400));
    };
    let of_hook = Instant::now() + hook.timeout;
    let deadline = of_hook.min(attributes.context.call_deadline());
    let (is_whole, places) = (deadline == of_hook, attributes.context.calls.clone());
    Ok(Prepared { version, request: review.request(version), deadline, is_whole, places })
}

/// Sends the review and reads the answer, whether it allows the request or not.
///
/// # Errors
/// If no answer comes, or an invalid one.
pub(super) async fn exchange(
    webhook_type: WebhookType,
    hook: &Hook,
    prepared: &Prepared,
    cluster: &Cluster,
) -> Result<Response, CallError> {
    let answer = send(hook, prepared, cluster).await?;
    answer::read(&answer, prepared.version, &prepared.request.uid, webhook_type == WebhookType::Mutating).map_err(
        |error| match error {
            AnswerError::Invalid(why) => CallError::calling(format!("received invalid webhook response: {why}"), 503),
            why => CallError::calling(format!("failed to call webhook: {why}"), why.code()),
        },
    )
}

/// Returns the answer of a hook that allows the request.
///
/// # Errors
/// If the hook rejects the request.
pub(super) fn verdict(hook: &Hook, response: Response) -> Result<Response, CallError> {
    if response.allowed {
        Ok(response)
    } else {
        Err(CallError::Rejected(Box::new(rejection(&hook.name, response.status))))
    }
}

async fn send(hook: &Hook, prepared: &Prepared, cluster: &Cluster) -> Result<Answer, CallError> {
    let Prepared { request, deadline, .. } = prepared;
    let client = hook.client.as_ref();
    let client = client.map_err(|why| CallError::calling(format!("could not get REST client: {why}"), 500))?;
    let failed = |why: &dyn fmt::Display| CallError::calling(format!("failed to call webhook: {why}"), 503);
    let is_late = || deadline.saturating_duration_since(Instant::now()).is_zero();
    if is_late() {
        return Err(failed(&"context deadline exceeded"));
    }
    // The failurePolicy of a webhook does not cover the want of a place, which the caller's own requests cause.
    let place = match &prepared.places {
        Some(places) => tokio::time::timeout_at(*deadline, places.acquire()).await.ok().map(Result::ok),
        None => Some(None),
    };
    let Some(_place) = place else { return Err(CallError::Internal(Box::new(Status::try_again_later()))) };
    let permit = client.enter().map_err(|why| failed(&why))?;
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout_seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    let answer = client.post(cluster, request.body.clone(), Some(timeout_seconds), *deadline).await;
    match (&answer, permit) {
        (Ok(_), Some(permit)) => permit.answered(),
        // A request that had less time than the hook's timeout proves no fault of the hook.
        (Err(why), Some(permit)) if prepared.is_whole || Instant::now() < *deadline => permit.failed(why.to_string()),
        _ => {}
    }
    answer.map_err(|why| failed(&why))
}

/// Creates the Status of a rejection (`errors.ToStatusErr`).
fn rejection(webhook: &str, status: Option<Status>) -> Status {
    let mut status = status.unwrap_or_else(|| Status::failure(0, "", ""));
    status.code = status.code.max(400);
    if matches!(&*status.status, "" | "Success") {
        status.status = "Failure".into();
    }
    let denied = format!("admission webhook \"{webhook}\" denied the request");
    status.message = match (&*status.message, &*status.reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    status
}

/// Counts a call and returns its outcome. A failed call is ignored if failurePolicy is `Ignore`; any other error refuses the request.
pub(super) fn settle(
    webhook_type: WebhookType,
    hook: &Hook,
    attributes: &Attributes,
    elapsed: Duration,
    error: Option<&CallError>,
    metrics: &Metrics,
) -> Outcome {
    hook.calls.add(elapsed, error);
    match webhook_type {
        WebhookType::Mutating => attributes.webhook_time.add_mutating(elapsed),
        WebhookType::Validating => attributes.webhook_time.add_validating(elapsed),
    }
    let observe = |code: u16, rejected: bool, error: Option<RejectionError>| {
        let call = WebhookCall { name: &hook.name, kind: webhook_type.label(), operation: attributes.operation };
        if let Some(error) = error {
            metrics.webhooks().observe_rejection(&call, error, code);
        }
        metrics.webhooks().observe(&call, elapsed, rejected, code);
    };
    match error {
        None => {
            observe(200, false, None);
            Outcome::Passed
        }
        Some(CallError::Calling { reason, code }) => {
            if hook.ignores_failure {
                observe(*code, false, None);
                metrics.webhooks().observe_fail_open(&hook.name, webhook_type.label());
                tracing::warn!(webhook = hook.name, reason, "failed calling webhook, failing open");
                return Outcome::FailedOpen;
            }
            observe(*code, true, Some(RejectionError::CallingWebhook));
            tracing::warn!(webhook = hook.name, reason, "failed calling webhook, failing closed");
            Outcome::Refused(Status::internal_error(format!("failed calling webhook \"{}\": {reason}", hook.name)))
        }
        Some(CallError::Rejected(status)) => {
            observe(status.code, true, Some(RejectionError::None));
            Outcome::Refused((**status).clone())
        }
        Some(CallError::Internal(status)) => {
            observe(0, true, Some(RejectionError::ApiServerInternal));
            Outcome::Refused((**status).clone())
        }
    }
}

/// The effect of a call on the request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The hook allowed the request.
    Passed,
    /// The hook could not be called, and failurePolicy is `Ignore`.
    FailedOpen,
    /// The request is rejected with this Status.
    Refused(Status),
}

impl CallError {
    /// Creates the error of an answer that cannot be read, which the failurePolicy covers.
    pub(super) fn in_answer(reason: String, code: u16) -> Self {
        Self::Calling { reason, code }
    }

    /// `NewInternalError`, which no failurePolicy covers.
    pub(super) fn internal(why: impl fmt::Display) -> Self {
        Self::Internal(Box::new(Status::internal_error(why)))
    }
}
