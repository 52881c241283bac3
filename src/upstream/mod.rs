//! The upstream API server: connections, and the identity that requests carry.

pub(crate) mod backoff;
pub(crate) mod review;
mod client;
mod connect;
mod credentials;
mod exec;
mod forward;
mod front_proxy;
mod identity;
mod impersonator;
mod own_user;
mod pool;
pub(crate) mod probe;
pub(crate) mod release;
mod release_metrics;
pub(crate) mod rights;
mod remote;
mod rest_metrics;
mod serving_secret;
mod upgrade;
mod double_admission;
mod metric_lines;

pub use client::kube_client;
pub(crate) use double_admission::DoubleAdmission;
pub use forward::Forwarder;
pub(crate) use forward::{no_answer, strip_connection};
pub(crate) use front_proxy::{FrontProxy, KnownHeaders};
pub use identity::CallerIdentity;
pub(crate) use identity::ClientCredentials;
pub(crate) use impersonator::Impersonator;
pub(crate) use metric_lines::metric_lines;
pub(crate) use own_user::OwnUser;
pub(crate) use probe::Probe;
pub use release::{Emulation, Release};
pub(crate) use release_metrics::ReleaseMetrics;
pub(crate) use remote::Remote;
pub(crate) use rest_metrics::RestMetrics;
pub(crate) use serving_secret::{ServingCertificates, ServingSecret};
pub(crate) use upgrade::Upgrade;

use crate::body::{Body, BoxError};
use async_trait::async_trait;
use http::{Request, Response};
use std::any::Any;
use std::sync::Arc;

/// The mark, as a request extension, of a request whose answer may last without a limit: a watch, a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongRunning;

/// The mark, as a request extension, of a client's request: it takes no place of the proxy's own requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfClient;

/// A value, as a request extension, that is dropped when the connection that the request upgrades has ended.
#[derive(Clone)]
pub(crate) struct KeptUntilClose(
    #[expect(dead_code, reason = "only its end has an effect")] pub Arc<dyn Any + Send + Sync>,
);

/// The reason why a request got no answer from the API server.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection could be made, or the connection broke before an answer came.
    #[error(transparent)]
    Unreachable(BoxError),
    /// The deadline passed first.
    #[error("no answer before the deadline")]
    Timeout,
    /// The API server's URL has a path, and the request's path may lead out of it, depending on the server that reads it.
    #[error("the path may leave the path of the API server's URL")]
    Outside,
}

/// Sends one request to the API server and returns the head of the answer. The request's URI has only path and query.
///
/// Dropping the future, or the returned body, cancels the request at the other side.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends a request.
    ///
    /// # Errors
    /// If no answer comes. Every answer, whatever its status, is `Ok`.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError>;
}

/// Shared handle of a transport.
pub type SharedTransport = Arc<dyn Transport>;

/// A transport made of a closure.
#[cfg(test)]
pub(crate) fn from_fn<F, A>(answer: F) -> SharedTransport
where
    F: Fn(Request<Body>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Response<Body>, UpstreamError>> + Send + 'static,
{
    struct FromFn<F>(F);

    #[async_trait]
    impl<F, A> Transport for FromFn<F>
    where
        F: Fn(Request<Body>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Response<Body>, UpstreamError>> + Send + 'static,
    {
        async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
            (self.0)(request).await
        }
    }

    Arc::new(FromFn(answer))
}

#[cfg(test)]
mod tests;
