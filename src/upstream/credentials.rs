//! The proxy's own credentials for the API server, other than its certificate.

use crate::body::BoxError;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use kube::client::ConfigExt;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt};

/// The time for which a header is reused before the token file or plugin is read again; both have their own caches, too.
const REUSE: Duration = Duration::from_secs(10);

/// The source of the `Authorization` header: user and password, a token, a token file that is read again, or a plugin.
pub(super) struct Credentials {
    source: Option<Source>,
    last: Mutex<Option<(Instant, HeaderValue)>>,
}

/// A service that answers a request with the headers that the request would have had.
type Source = BoxCloneSyncService<Request<kube::client::Body>, Response<()>, BoxError>;

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// No credentials but a certificate.
    pub(super) fn none() -> Self {
        Self { source: None, last: Mutex::default() }
    }

    pub(super) fn new(config: &kube::Config) -> Result<Self, kube::Error> {
        let echo = tower::service_fn(|request: Request<kube::client::Body>| async move {
            let mut response = Response::new(());
            *response.headers_mut() = request.into_parts().0.headers;
            Ok::<_, BoxError>(response)
        });
        let source = config.auth_layer()?.map(|layer| BoxCloneSyncService::new(layer.layer(echo).map_err(Into::into)));
        Ok(Self { source, last: Mutex::default() })
    }

    /// Sets the header.
    pub(super) async fn apply(&self, headers: &mut HeaderMap) -> Result<(), BoxError> {
        let Some(source) = &self.source else { return Ok(()) };
        let reused = self.last().as_ref().filter(|(at, _)| at.elapsed() < REUSE).map(|(_, value)| value.clone());
        let value = match reused {
            Some(value) => value,
            None => {
                let asking = source.clone().oneshot(Request::new(kube::client::Body::empty()));
                let response = Box::pin(asking).await?;
                let value = response.headers().get(header::AUTHORIZATION).ok_or("no credentials")?.clone();
                *self.last() = Some((Instant::now(), value.clone()));
                value
            }
        };
        headers.insert(header::AUTHORIZATION, value);
        Ok(())
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<(Instant, HeaderValue)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
