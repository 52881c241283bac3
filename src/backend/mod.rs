//! The client that calls webhooks: TLS, warm connections per endpoint, every wait and body bounded.
//!
//! Like kube-apiserver's client, it speaks HTTP/2 only if the endpoint is on this machine and offers it, and else HTTP/1.1; it obeys
//! `HTTPS_PROXY` (`environment.rs`). Failures have the texts of Go's `net/http`, since they reach the requesting client
//! inside "failed calling webhook …".

mod breaker;
mod connection;
mod dial;
mod endpoint;
mod proxy_variables;
mod failure;
mod generic;
mod identity;
mod kubeconfig;
mod lookup;
mod nesting;
mod pool;
mod redirect;
mod request;
pub(crate) mod response;
mod room;
mod tls;
mod wire;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use breaker::{CircuitOpen, Permit};
pub(crate) use endpoint::{Endpoint, InvalidAddress, Unroutable};
pub(crate) use generic::{CallFailure, GenericWebhook, is_forbidden};
pub(crate) use kubeconfig::{Kubeconfig, KubeconfigError};
pub(crate) use lookup::Lookup;
pub(crate) use nesting::carried;
pub(crate) use room::bound_answers;

use crate::admission::metrics::Metrics;
use crate::body::Pieces;
use crate::cluster::Cluster;
use crate::config::Limits;
use crate::derived::Lazy;
use crate::processor;
use crate::status::Status;
use breaker::{Breaker, Breakers};
use bytes::Bytes;
use connection::{Connection, Lost};
use dial::{Confined, Lookups, dial};
use endpoint::Address;
use failure::{Failure, Route, Stage};
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts;
use http::uri::PathAndQuery;
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use identity::Identity;
use pool::Pool;
pub(crate) use proxy_variables::obey_proxy_variables;
use proxy_variables::{Proxies, Proxy};
use request::{Chunks, Target, Template};
use room::{AnswerRoom, FREE_BYTES, Taking};
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tls::{HTTP2, Source, Tls, TlsError, Trust};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use wire::Remembering;

/// The longest time for a TLS handshake, as in Go's default transport.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of times that a call is repeated because the answer asks for it (client-go's `maxRetries`).
const RETRIES: usize = 10;
/// The number of times that a request is sent again which the server states it did not process (`http2Transport.RoundTripOpt`).
const RESENDS: u32 = 6;
/// The user agent of kube-apiserver's admission.
const AGENT: &str = "kube-apiserver-admission";

/// All clients, by endpoint. Equal endpoints share connections, also across changes of the configurations.
pub(crate) struct Clients {
    cache: Lazy<moka::sync::Cache<Endpoint, Arc<Client>>>,
    /// The clients in use, whether they are in the cache or not.
    live: Mutex<HashMap<Endpoint, Weak<Client>>>,
    /// The users as which webhooks are called.
    users: Kubeconfig,
    answer_bytes: usize,
    breakers: Option<Arc<Breakers>>,
}

impl Clients {
    /// Creates an empty set. `limits` bound the number of cached clients (`defaultCacheSize`), also of those that no configuration uses any
    /// more, and the bytes of an answer.
    pub(crate) fn new(limits: &Limits, users: Kubeconfig) -> Self {
        let clients = limits.webhook_clients;
        let cache = Lazy::new(Box::new(move || moka::sync::Cache::new(clients)));
        let live = Mutex::default();
        Self { cache, live, users, answer_bytes: limits.webhook_response_bytes, breakers: None }
    }

    /// Adds circuit breakers, if the limits enable them; `kind` is the `type` of their metrics.
    #[must_use]
    pub(crate) fn with_breakers(self, limits: &Limits, kind: &'static str, metrics: Arc<Metrics>) -> Self {
        Self { breakers: Breakers::new(limits, kind, metrics), ..self }
    }

    /// Returns the client of an endpoint.
    ///
    /// # Errors
    /// If the CA bundle, the host name or the user of the endpoint cannot be used.
    pub(crate) fn client(&self, endpoint: Endpoint) -> Result<Arc<Client>, SetupError> {
        let live = || self.lock().get(&endpoint).and_then(Weak::upgrade);
        if let Some(client) = self.cache.get(&endpoint).or_else(live) {
            return Ok(client);
        }
        let trust = match endpoint.ca() {
            [] => Trust::System,
            bundle => Trust::Bundle(Source::Data(bundle.to_owned())),
        };
        let identity = self.users.identity(&endpoint.target())?;
        let tls = Arc::new(Tls::new(trust, identity.certificate.clone(), endpoint.is_local())?);
        let proxy = Proxies::of_process().for_endpoint(&endpoint);
        // A Service's name stays the expected name of the certificate, even after a redirect.
        let server_name = endpoint.is_service().then(|| endpoint.host().to_owned());
        let access = Access { tls, server_name, identity: Arc::new(identity), agent: AGENT, compression: true, proxy };
        let mut client = Client::new(endpoint.clone(), access, self.answer_bytes)?;
        let breakers = self.breakers.as_ref();
        client.breaker =
            breakers.and_then(|breakers| breakers.track(format!("{}{}", endpoint.base(), endpoint.path())));
        let client = Arc::new(client);
        self.cache.insert(endpoint.clone(), client.clone());
        let mut live = self.lock();
        if live.len() == live.capacity() {
            live.retain(|_, client| client.strong_count() > 0);
        }
        live.insert(endpoint, Arc::downgrade(&client));
        Ok(client)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Endpoint, Weak<Client>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// The address of the server is invalid.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The certificates, the key or the host name cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No request can name the host.
    #[error(transparent)]
    Request(#[from] http::Error),
}

/// The client of the webhook at one endpoint.
pub(crate) struct Client {
    endpoint: Endpoint,
    access: Access,
    template: Template,
    server_name: rustls_pki_types::ServerName<'static>,
    pool: Arc<Pool>,
    lookups: Lookups,
    /// The number of sent requests, by which the endpoints of a Service take turns.
    turn: AtomicUsize,
    /// Bytes that a body may have, also after decompression.
    answer_bytes: usize,
    breaker: Option<Breaker>,
}

/// The TLS settings, credentials and proxy of an endpoint.
#[derive(Clone)]
struct Access {
    /// The TLS configuration, unless the endpoint is plain HTTP.
    tls: Arc<Tls>,
    /// The name that the certificate must have; `None` for the endpoint's own.
    server_name: Option<String>,
    identity: Arc<Identity>,
    agent: &'static str,
    /// Whether answers may be compressed.
    compression: bool,
    /// The proxy on the way to the endpoint.
    proxy: Option<Arc<Proxy>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint.base()).finish_non_exhaustive()
    }
}

/// The answer of a webhook.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: StatusCode,
    /// `Content-Type`, or empty.
    pub(crate) content_type: String,
    /// `Retry-After` in seconds.
    pub(crate) retry_after_seconds: Option<u64>,
    /// The whole body.
    pub(crate) body: Bytes,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct NoAnswer {
    /// The text of Go's client.
    text: String,
    is_reset: bool,
}

impl NoAnswer {
    /// Creates the error of a call that was not made, or that ends between requests.
    fn of(why: impl fmt::Display) -> Self {
        Self { text: why.to_string(), is_reset: false }
    }

    fn new(failure: &Failure, word: impl FnOnce(&Failure) -> String) -> Self {
        Self { text: word(failure), is_reset: matches!(failure, Failure::Reset(_)) }
    }
}

impl Client {
    fn new(endpoint: Endpoint, access: Access, answer_bytes: usize) -> Result<Self, SetupError> {
        let template = Template::new(&endpoint, &access.identity, access.agent, access.compression)?;
        let server_name = tls::server_name(access.server_name.as_deref().unwrap_or(endpoint.host()))?;
        let (pool, lookups, turn) = Default::default();
        Ok(Self { endpoint, access, template, server_name, pool, lookups, turn, answer_bytes, breaker: None })
    }

    /// The address and the path of the endpoint.
    pub(crate) fn address(&self) -> String {
        format!("{}{}", self.endpoint.base(), self.endpoint.path())
    }

    /// The state of the circuit breaker; `None` without one.
    pub(crate) fn breaker_state(&self) -> Option<&'static str> {
        self.breaker.as_ref().map(Breaker::state)
    }

    /// Returns the permit for a call, if the endpoint's circuit breaker allows it; the caller must report the call's outcome to the permit.
    ///
    /// # Errors
    /// If the breaker allows no call.
    pub(crate) fn enter(&self) -> Result<Option<Permit<'_>>, CircuitOpen> {
        self.breaker.as_ref().map(Breaker::enter).transpose()
    }

    /// Posts a review, again if the answer has `Retry-After`. `timeout_seconds`, if any, is information for the webhook; only
    /// the deadline counts.
    ///
    /// # Errors
    /// If no answer comes.
    pub(crate) async fn post(
        &self,
        cluster: &Cluster,
        body: [Bytes; 4],
        timeout_seconds: Option<u64>,
        deadline: Instant,
    ) -> Result<Answer, NoAnswer> {
        let target = Target::post(self.endpoint.path(), timeout_seconds, Chunks::new(body)).map_err(NoAnswer::of)?;
        let mut retries = 0;
        loop {
            let answer = self.follow(cluster, &target, deadline).await?;
            let code = answer.status.as_u16();
            match answer.retry_after_seconds {
                Some(seconds) if (code == 429 || code >= 500) && retries < RETRIES => {
                    retries += 1;
                    // If the deadline cuts the wait short, the next attempt finds the deadline passed.
                    let left = deadline.saturating_duration_since(Instant::now());
                    sleep(Duration::from_secs(seconds).min(left)).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    /// Sends the request, and follows redirects, except from the API server itself: an API behind it must not choose the path of a request
    /// by `system:apiserver`.
    async fn follow(&self, cluster: &Cluster, target: &Target, deadline: Instant) -> Result<Answer, NoAnswer> {
        let mut answer = self.exchange(cluster, target, deadline).await?;
        if answer.0.status.is_redirection() && !self.endpoint.is_api_server() {
            let (head, body) = answer;
            answer = Box::pin(self.redirected(cluster, target, deadline, head, body)).await?;
        }
        let (head, body) = answer;
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Answer {
            status: head.status,
            content_type: text(CONTENT_TYPE).to_owned(),
            retry_after_seconds: text(RETRY_AFTER).parse().ok(),
            body,
        })
    }

    /// Sends the requests that redirects name, until an answer is no redirect.
    async fn redirected(
        &self,
        cluster: &Cluster,
        target: &Target,
        deadline: Instant,
        mut head: Parts,
        mut body: Bytes,
    ) -> Result<(Parts, Bytes), NoAnswer> {
        let (mut next, mut elsewhere): (_, Option<Self>) = (target.clone(), None);
        for requests in 1.. {
            let at = elsewhere.as_ref().unwrap_or(self);
            let redirected = redirect::follow(&at.endpoint, &next, &head, requests).map_err(NoAnswer::of)?;
            let Some(redirected) = redirected else { break };
            if redirected.elsewhere.is_some() && self.confined(cluster).is_some() {
                // An answer of another server could reach the tenant in the text of an error.
                let url = format!("{}{}", self.endpoint.base(), next.path);
                return Err(NoAnswer::of(format_args!(
                    "Post \"{url}\": redirected to another server, to which webhooks of this API server do not lead"
                )));
            }
            next = redirected.target;
            if let Some(server) = redirected.elsewhere {
                let is_own = server.is_same_server(&self.endpoint);
                elsewhere = if is_own { None } else { Some(self.elsewhere(server, &next.path)?) };
            }
            (head, body) = elsewhere.as_ref().unwrap_or(self).exchange(cluster, &next, deadline).await?;
        }
        Ok((head, body))
    }

    /// Creates a client of another server, for the rest of one call (`http.Client` has one transport for all servers).
    fn elsewhere(&self, server: Endpoint, path: &PathAndQuery) -> Result<Self, NoAnswer> {
        let proxy = Proxies::of_process().for_endpoint(&server);
        let url = format!("{}{path}", server.base());
        let made = Self::new(server, Access { proxy, ..self.access.clone() }, self.answer_bytes);
        let made = made.map(|made| Self { lookups: self.lookups.clone(), ..made });
        made.map_err(|why| NoAnswer::of(format_args!("Post \"{url}\": {why}")))
    }

    /// Sends one request and reads the whole answer.
    async fn exchange(
        &self,
        cluster: &Cluster,
        target: &Target,
        deadline: Instant,
    ) -> Result<(Parts, Bytes), NoAnswer> {
        let in_post = |failure: Failure| {
            let (base, path) = (self.endpoint.base(), &target.path);
            NoAnswer::new(&failure, |failure| format!("Post \"{base}{path}\": {failure}"))
        };
        if self.endpoint.is_api_server() {
            return Box::pin(self.loop_back(cluster, target, deadline)).await.map_err(in_post);
        }
        let sent = timeout_at(deadline, self.send(cluster, target, deadline)).await;
        let (connection, response) = sent.unwrap_or(Err(Failure::Deadline)).map_err(in_post)?;
        let (head, body) = response.into_parts();
        let (limit, base) = (self.answer_bytes, || self.endpoint.base());
        let announced = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let mut room = AnswerRoom::of_process().taking(announced.unwrap_or(limit).min(limit));
        let read = timeout_at(deadline, collect(body, limit, &connection, &mut room, base)).await;
        let read = read.unwrap_or(Err(Failure::Deadline));
        let in_body = |failure: Failure| NoAnswer::new(&failure, in_body);
        let mut body = read.map_err(in_body)?;
        self.pool.put_back(connection);
        processor::expect(body.len()).await;
        if head.headers.get(CONTENT_ENCODING).is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip")) {
            // A short compressed body may hold a long one.
            processor::expect_long().await;
            if gunzip(&body, FREE_BYTES).is_err() {
                room = AnswerRoom::of_process().taking(limit);
                let taken = timeout_at(deadline, room.grow(limit, base)).await;
                taken.map_err(|_| in_body(Failure::Deadline))?;
            }
            body = gunzip(&body, limit).map_err(in_body)?;
        }
        Ok((head, room.hold(body)))
    }

    /// Sends one request to the API server, as `system:apiserver`, and reads the whole answer.
    async fn loop_back(
        &self,
        cluster: &Cluster,
        target: &Target,
        deadline: Instant,
    ) -> Result<(Parts, Bytes), Failure> {
        let other = |why: Status| Failure::Other(why.message);
        let body = target.body.clone().map_err(|never| match never {}).boxed_unsync();
        let loopback = cluster.loopback().map_err(other)?;
        let call = nesting::alone(loopback.post(target.path.clone().into(), body, self.answer_bytes));
        let answer = timeout_at(deadline, call).await.map_err(|_| Failure::Deadline)?;
        let nested = || Failure::Other("called for the call of another webhook that the API server serves".to_owned());
        Ok(answer.ok_or_else(nested)?.map_err(other)?.into_parts())
    }

    /// Sends the request on a warm connection, or on a new one. A warm connection that was closed before
    /// the request went out costs only another attempt.
    async fn send(
        &self,
        cluster: &Cluster,
        target: &Target,
        deadline: Instant,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        let authorization = self.access.identity.changing_authorization().await;
        let mut resends = 0;
        loop {
            let to = self.chosen(cluster)?;
            let (mut connection, is_warm) = match self.pool.take(to.as_ref()) {
                Some(connection) => (connection, true),
                // The future is on the heap, so that calls on warm connections hold no room for it.
                None => (Box::pin(self.connect(cluster, to, deadline)).await?, false),
            };
            let is_http2 = connection.sharable().is_some();
            let request = self.template.request(target, is_http2, authorization.as_ref()).map_err(Failure::other)?;
            match connection.send(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(Lost { is_unsent: true, .. }) if is_warm => {}
                Err(Lost { is_unprocessed: true, .. }) if resends < RESENDS => {
                    // The first resend is at once, the others follow ever longer pauses, which the deadline ends.
                    let pause = Duration::from_secs(if resends == 0 { 0 } else { 1 << (resends - 1) });
                    sleep(pause).await;
                    resends += 1;
                }
                Err(Lost { failure, .. }) => return Err(failure),
            }
        }
    }

    /// Returns the address for this request, if requests go to different addresses: the endpoints of a Service take turns.
    fn chosen(&self, cluster: &Cluster) -> Result<Option<Address>, Failure> {
        if self.access.proxy.is_some() || !self.endpoint.is_service() || !cluster.knows_endpoints() {
            return Ok(None);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.endpoint.address(cluster, turn).map(Some).map_err(Failure::other)
    }

    async fn connect(&self, cluster: &Cluster, to: Option<Address>, deadline: Instant) -> Result<Connection, Failure> {
        let stream = match (&self.access.proxy, &to) {
            (Some(proxy), _) => self.tunnel(proxy, cluster, deadline).await?,
            (None, Some(address)) => dial(address, self.confined(cluster), &self.lookups, deadline).await?,
            (None, None) => {
                let address = self.endpoint.address(cluster, 0).map_err(Failure::other)?;
                dial(&address, self.confined(cluster), &self.lookups, deadline).await?
            }
        };
        let route = Route::of(&stream);
        if self.endpoint.is_plain() {
            return Connection::new(stream, route, to, false).await;
        }
        let connector = TlsConnector::from(self.access.tls.config().await.map_err(Failure::other)?);
        let stream = Remembering::beginning(stream, route.beginning.clone());
        let handshake = connector.connect(self.server_name.clone(), stream);
        let stream = match timeout(TLS_HANDSHAKE_TIMEOUT, handshake).await {
            Ok(stream) => stream.map_err(|error| Failure::of_io(&error, &route, Stage::Handshake))?,
            Err(_) => return Err(Failure::Other("net/http: TLS handshake timeout".into())),
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        let connection = Connection::new(stream, route, to, is_http2).await?;
        self.pool.share(&connection);
        Ok(connection)
    }

    async fn tunnel(&self, proxy: &Proxy, cluster: &Cluster, deadline: Instant) -> Result<TcpStream, Failure> {
        let target = match self.confined(cluster) {
            // The proxy gets the address that was checked, not a name to resolve.
            Some(confined) => {
                let address = self.endpoint.address(cluster, 0).map_err(Failure::other)?;
                let allowed = confined.addresses(&address, &self.lookups).await?;
                allowed.first().map(ToString::to_string).unwrap_or_default()
            }
            None => self.endpoint.target(),
        };
        let address = proxy.address().map_err(Failure::other)?;
        let dialled = dial(&address, None, &self.lookups, deadline).await;
        let mut stream = dialled.map_err(|failure| Failure::Other(format!("proxyconnect tcp: {failure}")))?;
        proxy.tunnel(&mut stream, &target).await.map_err(Failure::other)?;
        Ok(stream)
    }

    /// Returns the servers that the client may connect to; `None` for any server.
    fn confined<'c>(&'c self, cluster: &'c Cluster) -> Option<Confined<'c>> {
        let targets = cluster.webhook_targets().filter(|_| !self.endpoint.is_of_operator())?;
        Some(Confined { targets, host: self.endpoint.host() })
    }
}

fn in_body(failure: &Failure) -> String {
    format!("unexpected error when reading response body. Please retry. Original error: {failure}")
}

async fn collect(
    mut body: Incoming,
    limit: usize,
    connection: &Connection,
    room: &mut Taking<'_>,
    host: impl Fn() -> String,
) -> Result<Bytes, Failure> {
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::of_hyper(&error, &connection.route, Stage::Body))?;
        let Ok(data) = frame.into_data() else { continue };
        if pieces.len() + data.len() > limit {
            return Err(Failure::TooLong(limit));
        }
        room.grow(pieces.len() + data.len(), &host).await;
        pieces.push(data, body.size_hint().lower().min(limit as u64));
    }
    Ok(pieces.into_bytes())
}

fn gunzip(body: &[u8], limit: usize) -> Result<Bytes, Failure> {
    let mut unpacked = Vec::new();
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = GzDecoder::new(body).take(one_more).read_to_end(&mut unpacked);
    read.map_err(|error| {
        let is_cut = error.kind() == std::io::ErrorKind::UnexpectedEof;
        Failure::Other(if is_cut { "unexpected EOF" } else { "gzip: invalid header" }.into())
    })?;
    if unpacked.len() > limit { Err(Failure::TooLong(limit)) } else { Ok(unpacked.into()) }
}
