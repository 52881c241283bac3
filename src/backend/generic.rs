//! `webhook.GenericWebhook`: a backend that a kubeconfig names. A failed call is repeated after growing pauses if that may help.

use super::response::Undecodable;
use super::{Answer, Client, Kubeconfig, NoAnswer, SetupError, response};
use crate::cluster::Cluster;
use crate::config::Limits;
use crate::status::Status;
use bytes::Bytes;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time for one attempt, and the timeout that the backend is sent (`defaultRequestTimeout`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of attempts (`Steps`).
const ATTEMPTS: usize = 5;
/// The factor between one pause and the next.
const FACTOR: f64 = 1.5;
/// The maximum fraction by which a pause is extended at random.
const JITTER: f64 = 0.2;

/// A backend with its retries.
pub struct GenericWebhook {
    client: Client,
    cluster: Arc<Cluster>,
    retry_backoff: Duration,
}

/// The reason why a backend gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
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
pub fn is_forbidden(status: &Status) -> bool {
    status.reason == "Forbidden" || status.code == 403 && !KNOWN_REASONS.contains(&&*status.reason)
}

impl GenericWebhook {
    /// Creates the backend of a kubeconfig's current context; `retry_backoff` is the first pause.
    ///
    /// # Errors
    /// If the file is no kubeconfig, or its contents cannot be used.
    pub fn new(
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
    pub async fn post(&self, body: Bytes, deadline: Instant) -> Result<Map<String, Value>, CallFailure> {
        let answer = with_exponential_backoff(self.retry_backoff, deadline, || self.attempt(body.clone(), deadline));
        Ok(response::object(&answer.await?)?)
    }

    async fn attempt(&self, body: Bytes, deadline: Instant) -> Result<Answer, CallFailure> {
        let until = deadline.min(Instant::now() + REQUEST_TIMEOUT);
        let body = [body, Bytes::new(), Bytes::new(), Bytes::new()];
        let answer = self.client.post(&self.cluster, body, Some(REQUEST_TIMEOUT.as_secs()), until).await?;
        response::check(&answer).map_err(|status| CallFailure::Status(Box::new(status)))?;
        Ok(answer)
    }
}

/// Calls until a call succeeds, fails for good, or has failed often enough; returns the last failure.
async fn with_exponential_backoff<T, F: Future<Output = Result<T, CallFailure>>>(
    first_pause: Duration,
    deadline: Instant,
    mut call: impl FnMut() -> F,
) -> Result<T, CallFailure> {
    let mut pause = first_pause;
    for _ in 1..ATTEMPTS {
        let failure = match call().await {
            Err(failure) if failure.is_transient() => failure,
            settled => return settled,
        };
        let jittered = pause.mul_f64(1.0 + JITTER * rand::random_range(0.0..1.0));
        sleep(jittered.min(deadline.saturating_duration_since(Instant::now()))).await;
        if Instant::now() >= deadline {
            return Err(failure);
        }
        tracing::debug!(%failure, "calling a webhook backend again");
        pause = pause.mul_f64(FACTOR);
    }
    call().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Details;
    use std::future::ready;

    fn status(code: u16, reason: &str) -> CallFailure {
        CallFailure::Status(Box::new(Status::failure(code, reason, "m").with_details(Details::default())))
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_by_half_and_a_little_at_random() {
        let mut at = Vec::new();
        let start = Instant::now();
        let result = with_exponential_backoff(Duration::from_secs(1), start + Duration::from_secs(60), || {
            at.push(start.elapsed().as_secs_f64());
            ready(Err::<(), _>(status(500, "InternalError")))
        });
        assert!(result.await.is_err());
        assert_eq!(at.len(), ATTEMPTS);
        for (pause, least) in at.windows(2).map(|pair| pair[1] - pair[0]).zip([1.0, 1.5, 2.25, 3.375]) {
            // The paused clock has a resolution of milliseconds.
            assert!((least..=least * 1.2 + 0.002).contains(&pause), "{at:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_pause_lasts_past_the_deadline() {
        let (start, mut calls) = (Instant::now(), 0);
        let result = with_exponential_backoff(Duration::from_secs(1), start + Duration::from_secs(2), || {
            calls += 1;
            ready(Err::<(), _>(CallFailure::Reset("reset".into())))
        });
        assert_eq!(result.await.unwrap_err().to_string(), "reset");
        assert_eq!((calls, start.elapsed()), (2, Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_pause_of_zero_makes_all_of_them_zero() {
        let (start, mut calls) = (Instant::now(), 0);
        let result = with_exponential_backoff(Duration::ZERO, start + Duration::from_secs(2), || {
            calls += 1;
            ready(if calls == 4 { Ok(calls) } else { Err(status(504, "Timeout")) })
        });
        assert_eq!((result.await.unwrap(), start.elapsed()), (4, Duration::ZERO));
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
