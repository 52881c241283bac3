//! A second identity at the API server, which forwards the requests of clients and needs no right but to impersonate: a service account,
//! with tokens that the proxy requests (TokenRequest) and renews.

use super::{ClientCredentials, SharedTransport, Transport, UpstreamError, review};
use crate::body::Body;
use crate::server::health::Unhealthy;
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use http::{HeaderValue, Request, Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

/// The lifetime that the proxy asks for; the API server may grant another one.
const LIFETIME_SECONDS: i64 = 3600;
/// The shortest time between two requests for a token.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The transport of requests that the service account sends. Dropping the value ends the renewal.
#[derive(Debug)]
pub(crate) struct Impersonator {
    transport: Opaque,
    token: Arc<ArcSwapOption<ClientCredentials>>,
    rejected: Arc<Notify>,
    last: watch::Receiver<Result<(), Unhealthy>>,
    _task: AbortOnDropHandle<()>,
}

struct Opaque(SharedTransport);

impl std::fmt::Debug for Opaque {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transport")
    }
}

impl Impersonator {
    /// Requests a token at once, with `client`, and sends requests over `transport`. A token is renewed after four fifths of its lifetime,
    /// or when the API server rejects it. `patience` bounds one request for a token. Must be called inside a tokio runtime.
    pub(crate) fn start(
        transport: SharedTransport,
        client: kube::Client,
        namespace: &str,
        name: &str,
        patience: Duration,
    ) -> Self {
        let token: Arc<ArcSwapOption<ClientCredentials>> = Arc::default();
        let rejected = Arc::new(Notify::new());
        let (said, last) = watch::channel(Err(Unhealthy::of("no token was requested yet")));
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let (current, wake) = (token.clone(), rejected.clone());
        let renewing = async move {
            loop {
                let until_next = match request_token(&client, &path, patience).await {
                    Ok((credentials, lifetime)) => {
                        current.store(Some(Arc::new(credentials)));
                        let _before = said.send_replace(Ok(()));
                        lifetime * 4 / 5
                    }
                    Err(reason) => {
                        tracing::warn!(%reason, "no token for the impersonator");
                        let _before = said.send_replace(Err(reason));
                        RETRY_INTERVAL
                    }
                };
                tokio::time::sleep(RETRY_INTERVAL).await;
                let _ = tokio::time::timeout(until_next.saturating_sub(RETRY_INTERVAL), wake.notified()).await;
            }
        };
        let _task = AbortOnDropHandle::new(tokio::spawn(renewing));
        Self { transport: Opaque(transport), token, rejected, last, _task }
    }

    /// Checks that the last request for a token succeeded.
    ///
    /// # Errors
    /// If it failed, with the reason.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        self.last.borrow().clone()
    }
}

#[async_trait]
impl Transport for Impersonator {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        let Some(credentials) = self.token.load_full() else {
            return Err(UpstreamError::Unreachable("there is no token of the impersonator yet".into()));
        };
        credentials.write_to(request.headers_mut());
        request.extensions_mut().insert((*credentials).clone());
        let response = self.transport.0.send(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.rejected.notify_one();
        }
        Ok(response)
    }
}

/// Returns a new token and its lifetime, which the answer states: the clocks of proxy and API server may differ.
async fn request_token(
    client: &kube::Client,
    path: &str,
    patience: Duration,
) -> Result<(ClientCredentials, Duration), Unhealthy> {
    let spec = TokenRequestSpec { expiration_seconds: Some(LIFETIME_SECONDS), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = review::create(client, path, &request, patience).await.map_err(Unhealthy::of)?;
    let token = answer.status.and_then(|status| status.token).unwrap_or_default();
    let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Unhealthy::of(format_args!("{path}: the answer has no token")))?;
    authorization.set_sensitive(true);
    if token.is_empty() {
        return Err(Unhealthy::of(format_args!("{path}: the answer has no token")));
    }
    let seconds = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(LIFETIME_SECONDS);
    let lifetime = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    Ok((ClientCredentials { authorization: Some(authorization), impersonation: Vec::new() }, lifetime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{empty, full};
    use crate::upstream::{from_fn, kube_client};
    use http::header::AUTHORIZATION;
    use serde_json::json;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// An API server that grants the tokens `token-1`, `token-2` and so on, for 1000 s, and the requests that others than the proxy sent.
    fn server(answer: u16) -> (SharedTransport, Arc<AtomicU32>, Arc<Mutex<Vec<String>>>) {
        let (granted, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (grants, sees) = (granted.clone(), seen.clone());
        let transport = from_fn(move |request: Request<Body>| {
            let code = match request.uri().path() {
                "/api/v1/namespaces/ns/serviceaccounts/robot/token" => {
                    assert!(request.extensions().get::<ClientCredentials>().is_none());
                    let number = grants.fetch_add(1, Ordering::SeqCst) + 1;
                    let granted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
                        "spec": {"audiences": [], "expirationSeconds": 1000},
                        "status": {"token": format!("token-{number}"), "expirationTimestamp": "2000-01-01T00:00:00Z"}});
                    return std::future::ready(Ok(Response::new(full(granted.to_string()))));
                }
                _ => answer,
            };
            assert!(request.extensions().get::<ClientCredentials>().is_some());
            let authorization = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
            sees.lock().unwrap().push(authorization);
            std::future::ready(Ok(Response::builder().status(code).body(empty()).unwrap()))
        });
        (transport, granted, seen)
    }

    fn impersonator(transport: &SharedTransport) -> Impersonator {
        let client = kube_client(transport.clone());
        Impersonator::start(transport.clone(), client, "ns", "robot", Duration::from_secs(5))
    }

    async fn ask(impersonator: &Impersonator) -> Result<StatusCode, UpstreamError> {
        let request = Request::get("/api").header(AUTHORIZATION, "Bearer other").body(empty()).unwrap();
        Ok(impersonator.send(request).await?.status())
    }

    #[tokio::test(start_paused = true)]
    async fn requests_have_the_accounts_token_which_is_renewed_in_time() {
        let (transport, granted, seen) = server(200);
        let mut impersonator = impersonator(&transport);
        assert!(ask(&impersonator).await.is_err());
        assert!(impersonator.check().is_err());
        impersonator.last.changed().await.unwrap();
        assert_eq!((ask(&impersonator).await.unwrap(), impersonator.check()), (StatusCode::OK, Ok(())));
        tokio::time::sleep(Duration::from_secs(799)).await;
        assert_eq!(granted.load(Ordering::SeqCst), 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        ask(&impersonator).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), ["Bearer token-1", "Bearer token-2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_token_is_renewed_but_not_for_each_request() {
        let (transport, granted, _) = server(401);
        let mut impersonator = impersonator(&transport);
        impersonator.last.changed().await.unwrap();
        for _ in 0..25 {
            ask(&impersonator).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(granted.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_does_not_exist_is_asked_for_again() {
        let transport = from_fn(|_| async {
            let status = json!({"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound", "status": "Failure",
                "message": "serviceaccounts \"robot\" not found"});
            Ok(Response::builder().status(404).body(full(status.to_string())).unwrap())
        });
        let mut impersonator = impersonator(&transport);
        for _ in 0..2 {
            impersonator.last.changed().await.unwrap();
            assert_eq!(impersonator.check().unwrap_err().to_string(), "serviceaccounts \"robot\" not found");
        }
    }
}
