//! `webhook.GenericWebhook`: a backend that a kubeconfig names. A failed call is repeated after growing pauses if that may help.

use super::response::Undecodable;
use super::{Answer, Client, Kubeconfig, NoAnswer, SetupError, response};
use crate::cluster::Cluster;
use crate::config::Limits;
use crate::status::Status;
use crate::upstream::backoff::with_exponential_backoff;
use bytes::Bytes;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for one attempt, and the timeout that the backend is sent (`defaultRequestTimeout`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time for all attempts of an object that needs no answer. The pauses between them are the operator's.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A backend with its retries.
pub(crate) struct GenericWebhook {
    client: Client,
    cluster: Arc<Cluster>,
    retry_backoff: Duration,
}

/// The reason why a backend gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallFailure {
    /// The backend answered with an error.
    #[error(transparent)]
    Status(Box<Status>),
    /// The connection was reset.
    #[error("{0}")]
    Reset(String),
    /// The answer has no object.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// Any other failure.
    #[error("{0}")]
    Other(String),
}

impl From<NoAnswer> for CallFailure {
    fn from(NoAnswer { text, is_reset }: NoAnswer) -> Self {
        if is_reset { Self::Reset(text) } else { Self::Other(text) }
    }
}

impl CallFailure {
    /// Whether another attempt may help (`DefaultShouldRetry`).
    fn is_transient(&self) -> bool {
        let status = match self {
            Self::Status(status) => status,
            Self::Reset(_) => return true,
            Self::Undecodable(_) | Self::Other(_) => return false,
        };
        let hints_delay = status.details.as_ref().is_some_and(|details| details.retry_after_seconds > 0);
        match &*status.reason {
            "InternalError" | "Timeout" | "TooManyRequests" => true,
            "ServerTimeout" if status.details.is_some() => true,
            _ if status.code == 429 || hints_delay => true,
            reason => !KNOWN_REASONS.contains(&reason) && matches!(status.code, 500 | 504),
        }
    }
}

/// The reasons that are more specific than the code (`knownReasons`).
const KNOWN_REASONS: [&str; 18] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
];

/// Whether the Status is a rejection (`errors.IsForbidden`).
pub(crate) fn is_forbidden(status: &Status) -> bool {
    status.reason == "Forbidden" || status.code == 403 && !KNOWN_REASONS.contains(&&*status.reason)
}

impl GenericWebhook {
    /// Creates the backend of a kubeconfig's current context; `retry_backoff` is the first pause.
    ///
    /// # Errors
    /// If the file is no kubeconfig, or its contents cannot be used.
    pub(crate) fn new(
        kubeconfig: &Path,
        retry_backoff: Duration,
        cluster: Arc<Cluster>,
        limits: &Limits,
    ) -> Result<Self, SetupError> {
        let client = Kubeconfig::load(kubeconfig)?.client(limits.webhook_response_bytes)?;
        Ok(Self { client, cluster, retry_backoff })
    }

    /// Posts an object and returns the object in the answer, of any kind.
    ///
    /// # Errors
    /// If no object comes back until the deadline.
    pub(crate) async fn post(&self, body: Bytes, deadline: Instant) -> Result<Map<String, Value>, CallFailure> {
        let attempt = || self.attempt(body.clone(), deadline);
        let answer = with_exponential_backoff(self.retry_backoff, deadline, CallFailure::is_transient, attempt);
        Ok(response::object(&answer.await?)?)
    }

    /// Posts an object that needs no answer. Every failure is repeated (`ShouldRetry` of kube-apiserver's audit webhook).
    ///
    /// # Errors
    /// If no attempt succeeds.
    pub(crate) async fn deliver(&self, body: Bytes) -> Result<(), CallFailure> {
        let deadline = Instant::now() + DELIVERY_TIMEOUT;
        let attempt = || self.attempt(body.clone(), deadline);
        with_exponential_backoff(self.retry_backoff, deadline, |_| true, attempt).await.map(drop)
    }

    async fn attempt(&self, body: Bytes, deadline: Instant) -> Result<Answer, CallFailure> {
        let until = deadline.min(Instant::now() + REQUEST_TIMEOUT);
        let body = [body, Bytes::new(), Bytes::new(), Bytes::new()];
        let answer = self.client.post(&self.cluster, body, Some(REQUEST_TIMEOUT.as_secs()), until).await?;
        response::check(&answer).map_err(|status| CallFailure::Status(Box::new(status)))?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Details;

    fn status(code: u16, reason: &str) -> CallFailure {
        CallFailure::Status(Box::new(Status::failure(code, reason, "m").with_details(Details::default())))
    }

    #[test]
    fn only_transient_failures_are_retried() {
        let hinted = |code: u16, reason: &str| {
            let details = Details { retry_after_seconds: 1, ..Details::default() };
            CallFailure::Status(Box::new(Status::failure(code, reason, "m").with_details(details)))
        };
        for (failure, again) in [
            (status(500, "InternalError"), true),
            (status(502, "InternalError"), true),
            (status(504, "Timeout"), true),
            (status(429, "TooManyRequests"), true),
            (status(429, "NotFound"), true),
            (status(500, ""), true),
            (status(500, "Mine"), true),
            (status(504, ""), true),
            (status(0, "ServerTimeout"), true),
            (hinted(503, "ServiceUnavailable"), true),
            (CallFailure::Reset("r".into()), true),
            (status(503, "ServiceUnavailable"), false),
            (status(500, "NotFound"), false),
            (status(404, "NotFound"), false),
            (status(403, ""), false),
            (CallFailure::Other("EOF".into()), false),
        ] {
            assert_eq!(failure.is_transient(), again, "{failure:?}");
        }
    }

    #[test]
    fn a_refusal_is_recognized_by_its_reason_first() {
        for (code, reason, refused) in [
            (403, "Forbidden", true),
            (500, "Forbidden", true),
            (403, "", true),
            (403, "NotFound", false),
            (500, "", false),
        ] {
            assert_eq!(is_forbidden(&Status::failure(code, reason, "m")), refused, "{code} {reason}");
        }
    }
}
