//! The client that calls webhooks: HTTP/1.1 over TLS, warm connections per endpoint, every wait and body bounded.
//!
//! It uses no proxy from the environment. Failures are worded as Go's `net/http` words them, since they reach the
//! requesting client inside "failed calling webhook …".

mod endpoint;
mod failure;
mod generic;
mod identity;
mod kubeconfig;
mod pool;
pub mod response;
mod tls;

pub use endpoint::Endpoint;
pub use generic::{CallFailure, GenericWebhook, is_forbidden};
pub use kubeconfig::Kubeconfig;

use crate::cluster::Cluster;
use crate::config::Limits;
use bytes::Bytes;
use endpoint::Address;
use failure::Failure;
use flate2::read::GzDecoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use identity::Identity;
use pool::{Chunks, Connection, Pool};
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tls::{Source, Tls, Trust};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsConnector;

/// How long a TLS handshake may take, as in Go's default transport.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The least that one of several addresses is given to connect.
const MIN_DIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a call is repeated because the answer asks for it (client-go's `maxRetries`).
const RETRIES: usize = 10;
/// The user agent of kube-apiserver's admission.
const AGENT: &str = "kube-apiserver-admission";

/// All clients, by endpoint. Equal endpoints share connections, also across changes of the configurations.
pub struct Clients {
    cache: moka::sync::Cache<Endpoint, Arc<Client>>,
    /// As whom to call.
    users: Kubeconfig,
    answer_bytes: usize,
}

impl Clients {
    /// None yet. `limits` says how many are kept that no configuration uses any more (`defaultCacheSize`), and how
    /// much they read.
    pub fn new(limits: &Limits, users: Kubeconfig) -> Self {
        let cache = moka::sync::Cache::new(limits.webhook_clients);
        Self { cache, users, answer_bytes: limits.webhook_response_bytes }
    }

    /// The client of an endpoint.
    ///
    /// # Errors
    /// When its CA bundle, its host name or its user cannot be used.
    pub fn client(&self, endpoint: Endpoint) -> Result<Arc<Client>, String> {
        if let Some(client) = self.cache.get(&endpoint) {
            return Ok(client);
        }
        let trust = match endpoint.ca() {
            [] => Trust::System,
            bundle => Trust::Bundle(Source::Data(bundle.to_owned())),
        };
        let identity = self.users.identity(&endpoint.target())?;
        let tls = Some(Tls::new(trust, identity.certificate.clone())?);
        let access = Access { tls, server_name: None, identity, agent: AGENT, compression: true };
        let client = Arc::new(Client::new(endpoint.clone(), access, self.answer_bytes)?);
        self.cache.insert(endpoint, client.clone());
        Ok(client)
    }
}

/// Calls the webhook at one endpoint.
pub struct Client {
    endpoint: Endpoint,
    host: HeaderValue,
    access: Access,
    server_name: rustls_pki_types::ServerName<'static>,
    pool: Arc<Pool>,
    /// The longest body that is read, also after decompression.
    answer_bytes: usize,
}

/// How an endpoint is reached, and as whom.
struct Access {
    /// None where it is reached without TLS.
    tls: Option<Tls>,
    /// The name that the certificate must have, if that is not the endpoint's own.
    server_name: Option<String>,
    identity: Identity,
    agent: &'static str,
    /// Whether answers may be compressed.
    compression: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint.base()).finish_non_exhaustive()
    }
}

/// What a webhook answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// `Content-Type`, or empty.
    pub content_type: String,
    /// `Retry-After` in seconds.
    pub retry_after_seconds: Option<u64>,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub struct NoAnswer {
    text: String,
    is_reset: bool,
}

impl fmt::Display for NoAnswer {
    /// As the error of Go's client.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl NoAnswer {
    fn new(failure: &Failure, word: impl FnOnce(&Failure) -> String) -> Self {
        Self { text: word(failure), is_reset: matches!(failure, Failure::Reset(_)) }
    }
}

impl Client {
    fn new(endpoint: Endpoint, access: Access, answer_bytes: usize) -> Result<Self, String> {
        let host = HeaderValue::try_from(endpoint.authority()).map_err(|error| error.to_string())?;
        let server_name = tls::server_name(access.server_name.as_deref().unwrap_or(endpoint.host()))?;
        Ok(Self { endpoint, host, access, server_name, pool: Arc::default(), answer_bytes })
    }

    /// Posts a review, again where the answer says when (`Retry-After`). `timeout_seconds` is told to the webhook; the
    /// deadline is what counts.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn post(
        &self,
        cluster: &Cluster,
        body: [Bytes; 4],
        timeout_seconds: u64,
        deadline: Instant,
    ) -> Result<Answer, NoAnswer> {
        let body = Chunks::new(body);
        let mut retries = 0;
        loop {
            let answer = self.post_once(cluster, body.clone(), timeout_seconds, deadline).await?;
            let code = answer.status.as_u16();
            match answer.retry_after_seconds {
                Some(seconds) if (code == 429 || code >= 500) && retries < RETRIES => {
                    retries += 1;
                    // The next try finds the deadline passed if the wait is cut short by it.
                    let left = deadline.saturating_duration_since(Instant::now());
                    sleep(Duration::from_secs(seconds).min(left)).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn post_once(
        &self,
        cluster: &Cluster,
        body: Chunks,
        timeout_seconds: u64,
        deadline: Instant,
    ) -> Result<Answer, NoAnswer> {
        let url = format!("{}{}?timeout={timeout_seconds}s", self.endpoint.base(), self.endpoint.path());
        let in_post = |failure: Failure| NoAnswer::new(&failure, |failure| format!("Post \"{url}\": {failure}"));
        let sent = timeout_at(deadline, self.send(cluster, body, timeout_seconds, deadline)).await;
        let (connection, response) = sent.unwrap_or(Err(Failure::Deadline)).map_err(in_post)?;
        let (head, body) = response.into_parts();
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let read =
            timeout_at(deadline, collect(body, self.answer_bytes, &connection)).await.unwrap_or(Err(Failure::Deadline));
        let in_body = |failure: Failure| NoAnswer::new(&failure, in_body);
        let mut body = read.map_err(in_body)?;
        self.pool.put_back(connection);
        if text(CONTENT_ENCODING).eq_ignore_ascii_case("gzip") {
            body = gunzip(&body, self.answer_bytes).map_err(in_body)?;
        }
        Ok(Answer {
            status: head.status,
            content_type: text(CONTENT_TYPE).to_owned(),
            retry_after_seconds: text(RETRY_AFTER).parse().ok(),
            body,
        })
    }

    /// Sends the request on a warm connection, or on a new one. A warm connection that turns out to be closed before
    /// the request went out costs nothing but another try.
    async fn send(
        &self,
        cluster: &Cluster,
        body: Chunks,
        timeout_seconds: u64,
        deadline: Instant,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        let headers = self.access.identity.headers().await;
        loop {
            let (mut connection, warm) = match self.pool.take() {
                Some(connection) => (connection, true),
                None => (self.connect(cluster, deadline).await?, false),
            };
            let request = self.request(body.clone(), timeout_seconds, &headers)?;
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(mut error) => {
                    let unsent = error.take_message().is_some();
                    if !(warm && unsent) {
                        return Err(Failure::of_hyper(error.error(), &connection.route, "EOF"));
                    }
                }
            }
        }
    }

    fn request(&self, body: Chunks, timeout_seconds: u64, identity: &HeaderMap) -> Result<Request<Chunks>, Failure> {
        let mut request = Request::post(format!("{}?timeout={timeout_seconds}s", self.endpoint.path()))
            .header(HOST, &self.host)
            .header(USER_AGENT, self.access.agent)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json");
        if self.access.compression {
            request = request.header(ACCEPT_ENCODING, "gzip");
        }
        for (name, value) in identity {
            request = request.header(name, value);
        }
        request.body(body).map_err(|error| Failure::Other(error.to_string()))
    }

    async fn connect(&self, cluster: &Cluster, deadline: Instant) -> Result<Connection, Failure> {
        let stream = self.dial(cluster, deadline).await?;
        let route = failure::Route::of(&stream);
        let Some(tls) = &self.access.tls else { return Connection::new(stream, route).await };
        let connector = TlsConnector::from(tls.config().await.map_err(Failure::Other)?);
        let handshake = connector.connect(self.server_name.clone(), stream);
        let stream = match timeout(TLS_HANDSHAKE_TIMEOUT, handshake).await {
            Ok(stream) => stream.map_err(|error| Failure::of_io(&error, &route, "EOF"))?,
            Err(_) => return Err(Failure::Other("net/http: TLS handshake timeout".into())),
        };
        Connection::new(stream, route).await
    }

    async fn dial(&self, cluster: &Cluster, deadline: Instant) -> Result<TcpStream, Failure> {
        let Address { host, port } = self.endpoint.address(cluster).map_err(Failure::Other)?;
        let lookup = lookup_host((&*host, port)).await;
        let addresses: Vec<_> = lookup.map_err(|error| Failure::of_lookup(&host, &error))?.collect();
        let mut first = None;
        for (tried, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1);
            let failure = match timeout(share.max(MIN_DIAL_TIMEOUT), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Reviews are written in one piece: waiting for more only delays them.
                    stream.set_nodelay(true).ok();
                    return Ok(stream);
                }
                Ok(Err(error)) => Failure::of_dial(*address, &error),
                Err(_) => Failure::Other(format!("dial tcp {address}: i/o timeout")),
            };
            first.get_or_insert(failure);
        }
        Err(first.unwrap_or_else(|| Failure::Other(format!("dial tcp: lookup {host}: no such host"))))
    }
}

fn in_body(failure: &Failure) -> String {
    format!("unexpected error when reading response body. Please retry. Original error: {failure}")
}

async fn collect(mut body: Incoming, limit: usize, connection: &Connection) -> Result<Bytes, Failure> {
    let mut collected = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::of_hyper(&error, &connection.route, "unexpected EOF"))?;
        if let Some(data) = frame.data_ref() {
            if collected.len() + data.len() > limit {
                return Err(Failure::TooLong(limit));
            }
            collected.extend_from_slice(data);
        }
    }
    Ok(collected.into())
}

fn gunzip(body: &[u8], limit: usize) -> Result<Bytes, Failure> {
    let mut unpacked = Vec::new();
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = GzDecoder::new(body).take(one_more).read_to_end(&mut unpacked);
    read.map_err(|_| Failure::Other("gzip: invalid header".into()))?;
    if unpacked.len() > limit { Err(Failure::TooLong(limit)) } else { Ok(unpacked.into()) }
}
