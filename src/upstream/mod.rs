//! The API server behind the proxy: how requests get there, and as whom.

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use std::sync::Arc;

/// Any error of a body or transport.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request's or response's body on its way through: streamed, never collected unless a step says so.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is already there.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body with nothing in it.
pub fn empty() -> Body {
    full(Bytes::new())
}

/// Why a request got no answer from the API server.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection could be made, or it broke before an answer came.
    #[error("{0}")]
    Unreachable(#[source] BoxError),
    /// The deadline passed first.
    #[error("no answer before the deadline")]
    Timeout,
}

/// Carries one request to the API server and brings the head of its answer. The request's URI is path and query only.
///
/// Dropping the future, or the returned body, cancels the request at the other side.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends a request.
    ///
    /// # Errors
    /// When there is no answer. Every answer, whatever its status, is `Ok`.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError>;
}

/// Shared handle of a transport.
pub type SharedTransport = Arc<dyn Transport>;

/// Whose credentials a request carries when they are the client's own (passthrough): an extension of the request. The
/// transport then sends these, and never the proxy's, also when there are none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientCredentials {
    /// The client's `Authorization` header; none for an anonymous client.
    pub authorization: Option<HeaderValue>,
    /// The client's `Impersonate-*` headers, once it has been found to be allowed them.
    pub impersonation: Vec<(HeaderName, HeaderValue)>,
}

impl ClientCredentials {
    /// Puts the credentials in a request's headers, in place of any that are there.
    pub fn write_to(&self, headers: &mut HeaderMap) {
        headers.remove(AUTHORIZATION);
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        for (name, value) in &self.impersonation {
            headers.append(name.clone(), value.clone());
        }
    }
}

/// Credentials are no text for a log.
impl std::fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCredentials").finish_non_exhaustive()
    }
}
