//! Reviews by the upstream: the request, its deadline, and kube-apiserver's attempts
//! (`webhook.WithExponentialBackoff`, `webhook.DefaultShouldRetry`).

use crate::body::{chain, full};
use crate::request::body;
use crate::upstream::backoff::with_exponential_backoff;
use crate::upstream::{ClientCredentials, SharedTransport};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, StatusCode};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;
use tokio::time::Instant;

/// The pause after the first attempt (`DefaultRetryBackoff`).
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Bytes that an answer may have.
const MAX_ANSWER_BYTES: usize = 3 << 20;

/// The reason why a review has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReviewError {
    /// The API server refuses the review, with this message.
    #[error("{0}")]
    Refused(String),
    /// The API server answers with an error status to a review with the client's credentials.
    #[error("{path} answered {status}")]
    Status {
        /// The path of the review.
        path: String,
        /// The status of the answer.
        status: StatusCode,
    },
    /// The deadline of the review has passed.
    #[error("context deadline exceeded")]
    Timeout,
    /// As many reviews about the user as may be are under way.
    #[error("too many access reviews about this user are under way")]
    TooMany,
    /// The client has no credentials with which the review could be created.
    #[error("there are no credentials of the client to ask with")]
    NoCredentials,
    /// The answer both allows and denies.
    #[error("webhook subject access review returned both allow and deny response")]
    Contradiction,
    /// The answer to a SelfSubjectReview names no user.
    #[error("a SelfSubjectReview without a user")]
    NoUser,
    /// The API server gives no answer, with the text of the cause.
    #[error("no answer from the API server: {0}")]
    Unreachable(String),
    /// The review cannot be written or sent, or its answer cannot be read; with the text of the cause.
    #[error("{0}")]
    Failed(String),
}

impl ReviewError {
    /// Whether another attempt may get an answer: the API server, not the review, is the cause.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout)
    }

    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Creates a review with the proxy's own credentials.
pub(crate) async fn create<T: Serialize + DeserializeOwned>(
    client: &kube::Client,
    path: &str,
    review: &T,
    timeout: Duration,
) -> Result<T, ReviewError> {
    let body = serde_json::to_vec(review).map_err(ReviewError::failed)?;
    let attempt = || post(client, path, body.clone());
    let answer = with_exponential_backoff(FIRST_PAUSE, Instant::now() + timeout, is_transient, attempt);
    within(timeout, async { answer.await.map_err(api_error) }).await
}

/// Creates a review with the client's credentials. `Err` in the inner result is a rejection: 401 or 403.
pub(crate) async fn create_as<T: Serialize + DeserializeOwned>(
    transport: &SharedTransport,
    credentials: &ClientCredentials,
    path: &str,
    review: &T,
    timeout: Duration,
) -> Result<Result<T, StatusCode>, ReviewError> {
    let body = serde_json::to_vec(review).map_err(ReviewError::failed)?;
    let mut request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(full(body))
        .map_err(ReviewError::failed)?;
    credentials.write_to(request.headers_mut());
    request.extensions_mut().insert(credentials.clone());
    within(timeout, async {
        let answer = transport.send(request).await.map_err(|error| ReviewError::Unreachable(chain(&error)))?;
        match answer.status() {
            refusal @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Ok(Err(refusal)),
            status if status.is_success() => {
                let bytes = body::read(answer.into_body(), MAX_ANSWER_BYTES).await.map_err(ReviewError::failed)?;
                serde_json::from_slice(&bytes).map(Ok).map_err(ReviewError::failed)
            }
            status => Err(ReviewError::Status { path: path.to_owned(), status }),
        }
    })
    .await
}

async fn within<T>(timeout: Duration, work: impl Future<Output = Result<T, ReviewError>>) -> Result<T, ReviewError> {
    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| Err(ReviewError::Timeout))
}

async fn post<T: DeserializeOwned>(client: &kube::Client, path: &str, body: Vec<u8>) -> Result<T, kube::Error> {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            let told_to_wait = status.details.as_ref().is_some_and(|details| details.retry_after_seconds > 0);
            told_to_wait
                || status.code == 429
                || matches!(status.reason.as_str(), "InternalError" | "Timeout" | "TooManyRequests")
        }
        error => was_reset(error),
    }
}

fn was_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

fn api_error(error: kube::Error) -> ReviewError {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => ReviewError::Refused(status.message.clone()),
        kube::Error::Service(error) => ReviewError::Unreachable(chain(&*error)),
        error => ReviewError::failed(error),
    }
}
