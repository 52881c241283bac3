//! Reviews by the upstream: the request, its deadline, and kube-apiserver's attempts
//! (`webhook.WithExponentialBackoff`, `webhook.DefaultShouldRetry`).

use crate::body::full;
use crate::request::body;
use crate::upstream::{ClientCredentials, SharedTransport};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, StatusCode};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// The number of attempts at one review.
const ATTEMPTS: u32 = 5;
/// The pause after the first attempt; each later pause is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Bytes that an answer may have.
const MAX_ANSWER_BYTES: usize = 3 << 20;

/// The reason why a review has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

impl ReviewError {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Creates a review with the proxy's own credentials.
pub(crate) async fn create<T: Serialize + DeserializeOwned>(
    client: &kube::Client,
    path: &str,
    review: &T,
    timeout: Duration,
) -> Result<T, ReviewError> {
    let body = serde_json::to_vec(review).map_err(ReviewError::new)?;
    within(timeout, async {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match post(client, path, body.clone()).await {
                Err(error) if is_transient(&error) => tokio::time::sleep(pause).await,
                done => return done.map_err(api_error),
            }
            pause = pause * 3 / 2;
        }
        post(client, path, body).await.map_err(api_error)
    })
    .await
}

/// Creates a review with the client's credentials. `Err` in the inner result is a rejection: 401 or 403.
pub(crate) async fn create_as<T: Serialize + DeserializeOwned>(
    transport: &SharedTransport,
    credentials: &ClientCredentials,
    path: &str,
    review: &T,
    timeout: Duration,
) -> Result<Result<T, StatusCode>, ReviewError> {
    let body = serde_json::to_vec(review).map_err(ReviewError::new)?;
    let mut request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(full(body))
        .map_err(ReviewError::new)?;
    credentials.write_to(request.headers_mut());
    request.extensions_mut().insert(credentials.clone());
    within(timeout, async {
        let answer = transport.send(request).await.map_err(ReviewError::new)?;
        match answer.status() {
            refusal @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Ok(Err(refusal)),
            status if status.is_success() => {
                let bytes = body::read(answer.into_body(), MAX_ANSWER_BYTES).await.map_err(ReviewError::new)?;
                serde_json::from_slice(&bytes).map(Ok).map_err(ReviewError::new)
            }
            status => Err(ReviewError(format!("{path} answered {status}"))),
        }
    })
    .await
}

async fn within<T>(timeout: Duration, work: impl Future<Output = Result<T, ReviewError>>) -> Result<T, ReviewError> {
    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| Err(ReviewError("context deadline exceeded".into())))
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
        kube::Error::Api(status) if !status.message.is_empty() => ReviewError(status.message.clone()),
        error => ReviewError::new(error),
    }
}
