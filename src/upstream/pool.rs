//! Connections to one server: HTTP/2 shared by many requests, HTTP/1.1 one request at a time.
//!
//! If the server speaks both, short requests prefer HTTP/1.1, which costs both sides much less: a request is one write, and wakes no
//! task but its own. There are few such connections, and no request waits for one: a request that finds none idle goes by HTTP/2, as all
//! other requests do.

mod http1;

pub(super) use http1::Http1;

use super::connect::{Connected, Connector};
use super::{LongRunning, UpstreamError};
use crate::body::{Body, BoxError, chain, empty};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use http1::Http1Body;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The interval of the check for surplus idle connections. A connection that is idle at two checks is closed: sooner than servers close
/// it (kube-apiserver after 90 s), so that no request meets the end of its connection.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The time until a server that refused an HTTP/1.1 connection is dialled again.
const HTTP1_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes of a body up to which a request counts as short, and prefers HTTP/1.1.
const SHORT_BODY_BYTES: u64 = 256 << 10;
/// The number of connections that are tried for a request that no connection took.
const MAX_ATTEMPTS: usize = 3;

/// The pool. Dropping it closes idle connections; requests under way go on to their end.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    connections: Mutex<Connections>,
    /// Held while a connection is dialled, so that a burst of requests makes no burst of connections.
    dialing: tokio::sync::Mutex<Option<Failure>>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Connections {
    http2: Vec<Http2>,
    /// HTTP/1.1 connections whose last answer was read to its end; the last one is the most recently used.
    idle_http1: Vec<Idle>,
    /// HTTP/1.1 connections with a request under way.
    busy_http1: usize,
    /// The time before which no HTTP/1.1 connection is made: one is being made, or the last attempt failed.
    http1_after: Option<Instant>,
    /// Whether the server spoke HTTP/1.1 when it was last dialled.
    is_http1: bool,
}

#[derive(Debug)]
struct Idle {
    connection: Http1,
    was_idle: bool,
}

#[derive(Debug)]
struct Http2 {
    sender: http2::SendRequest<Body>,
    streams: Arc<AtomicUsize>,
    /// The number of open streams that the server allows.
    limit: Arc<AtomicUsize>,
    was_idle: bool,
}

/// The failure of the last dial; every request that already waited for the dial gets it.
#[derive(Debug)]
struct Failure {
    at: Instant,
    text: String,
}

/// A place on a connection.
enum Place {
    Http2(http2::SendRequest<Body>, Stream),
    Http1(Http1, Busy),
}

/// A stream counted on its connection until dropped.
struct Stream {
    streams: Arc<AtomicUsize>,
    pool: Weak<Pool>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.streams.fetch_sub(1, Ordering::AcqRel);
        if let Some(pool) = self.pool.upgrade() {
            pool.released.notify_one();
        }
    }
}

/// An HTTP/1.1 connection that counts as busy until dropped.
struct Busy {
    pool: Weak<Pool>,
}

impl Busy {
    /// Returns the connection to the pool, for the next request.
    fn give_back(&self, connection: Http1) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut connections = pool.connections();
        if connections.idle_http1.len() < pool.connector.limits.idle_connections {
            connections.idle_http1.push(Idle { connection, was_idle: false });
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            let mut connections = pool.connections();
            connections.busy_http1 = connections.busy_http1.saturating_sub(1);
            drop(connections);
            pool.released.notify_one();
        }
    }
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Arc<Self> {
        let pool = Arc::new(Self {
            connector,
            connections: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            released: Notify::new(),
        });
        tokio::spawn(close_idle(Arc::downgrade(&pool)));
        pool
    }

    /// Sends a request on a pooled connection.
    pub(super) async fn send(self: &Arc<Self>, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        if is_short(&request) {
            match self.attempt_http1(request).await? {
                Ok(response) => return Ok(response),
                Err(unanswered) => request = unanswered,
            }
        }
        for _ in 1..MAX_ATTEMPTS {
            match self.attempt(request).await? {
                Ok(response) => return Ok(response),
                // The connection had ended before it took the request, so the request is unchanged.
                Err(untouched) => request = untouched,
            }
        }
        self.attempt(request).await?.map_err(|_| UpstreamError::Unreachable("connections keep closing".into()))
    }

    /// Sends by HTTP/1.1, if such a connection is idle. If the connection ends without an answer, as the server may close it at that
    /// moment, a
    /// read is returned to be sent again, which does no harm. The outcome of a write is unknown then, as after any broken connection.
    async fn attempt_http1(
        self: &Arc<Self>,
        mut request: Request<Body>,
    ) -> Result<Result<Response<Body>, Request<Body>>, UpstreamError> {
        let Some((mut connection, busy)) = self.idle_http1() else {
            self.make_http1();
            return Ok(Err(request));
        };
        let again = is_read(&request).then(|| {
            let mut again = Request::new(());
            *again.method_mut() = request.method().clone();
            *again.uri_mut() = request.uri().clone();
            *again.headers_mut() = request.headers().clone();
            again.map(|()| empty())
        });
        self.connector.origin_form(&mut request);
        match (connection.send(request).await, again) {
            (Ok(response), _) => Ok(Ok(response.map(|body| Http1Body::new(body, connection, busy).boxed_unsync()))),
            (Err(_), Some(again)) => Ok(Err(again)),
            (Err(error), None) => untouched(error).map(Err),
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        mut request: Request<Body>,
    ) -> Result<Result<Response<Body>, Request<Body>>, UpstreamError> {
        match self.place().await? {
            Place::Http2(mut sender, stream) => {
                self.connector.absolute_form(&mut request).map_err(UpstreamError::Unreachable)?;
                match sender.try_send_request(request).await {
                    Ok(response) => Ok(Ok(response.map(|body| Counted { body, _stream: stream }.boxed_unsync()))),
                    Err(error) => untouched(error).map(Err),
                }
            }
            Place::Http1(mut connection, busy) => {
                self.connector.origin_form(&mut request);
                match connection.send(request).await {
                    Ok(response) => Ok(Ok(response.map(|body| Http1Body::new(body, connection, busy).boxed_unsync()))),
                    Err(error) => untouched(error).map(Err),
                }
            }
        }
    }

    /// Returns a place on an open connection, or on a new one.
    async fn place(self: &Arc<Self>) -> Result<Place, UpstreamError> {
        if let Some(place) = self.free() {
            return Ok(place);
        }
        // The future is rare and large, so it is on the heap: otherwise every request in flight would hold room for it.
        tokio::time::timeout(self.connector.limits.connection_wait_timeout, Box::pin(self.wait_for_place()))
            .await
            .unwrap_or(Err(UpstreamError::Timeout))
    }

    async fn wait_for_place(self: &Arc<Self>) -> Result<Place, UpstreamError> {
        let since = Instant::now();
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            // Registers here, so that a place that becomes free below is not missed.
            released.as_mut().enable();
            let mut last_failure = self.dialing.lock().await;
            if let Some(place) = self.free() {
                return Ok(place);
            }
            if let Some(failure) = last_failure.as_ref().filter(|failure| failure.at >= since) {
                return Err(UpstreamError::Unreachable(failure.text.clone().into()));
            }
            if self.is_full() {
                drop(last_failure);
                released.await;
                continue;
            }
            return match self.connector.connect().await {
                Ok(connected) => {
                    *last_failure = None;
                    Ok(self.add(connected))
                }
                Err(error) => {
                    *last_failure = Some(Failure { at: Instant::now(), text: chain(error.as_ref()) });
                    Err(UpstreamError::Unreachable(error))
                }
            };
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self) -> bool {
        let connections = self.connections();
        connections.http2.len() >= self.connector.limits.upstream_connections
            || connections.busy_http1 >= self.connector.limits.upstream_http1_connections
    }

    fn free(self: &Arc<Self>) -> Option<Place> {
        let mut connections = self.connections();
        if connections.is_http1 {
            drop(connections);
            return self.idle_http1().map(|(connection, busy)| Place::Http1(connection, busy));
        }
        let mut any_closed = false;
        let mut found = None;
        for connection in &mut connections.http2 {
            if connection.sender.is_closed() {
                any_closed = true;
                continue;
            }
            let limit = self.connector.limits.upstream_streams.min(connection.limit.load(Ordering::Relaxed));
            if connection.streams.load(Ordering::Acquire) < limit {
                found = Some(self.lease(connection));
                break;
            }
        }
        if any_closed {
            connections.http2.retain(|connection| !connection.sender.is_closed());
        }
        found
    }

    fn idle_http1(self: &Arc<Self>) -> Option<(Http1, Busy)> {
        loop {
            let mut connections = self.connections();
            let mut connection = connections.idle_http1.pop()?.connection;
            connections.busy_http1 += 1;
            drop(connections);
            let busy = Busy { pool: Arc::downgrade(self) };
            if connection.is_ready() {
                return Some((connection, busy));
            }
        }
    }

    /// Opens another HTTP/1.1 connection for later requests, in the background.
    fn make_http1(self: &Arc<Self>) {
        let mut connections = self.connections();
        let count = connections.busy_http1 + connections.idle_http1.len();
        let now = Instant::now();
        // The first HTTP/2 connection proves that the server is reachable.
        if connections.http2.is_empty()
            || count >= self.connector.limits.idle_connections
            || connections.http1_after.is_some_and(|after| now < after)
        {
            return;
        }
        connections.http1_after = Some(now + HTTP1_RETRY_INTERVAL);
        drop(connections);
        let (pool, connector) = (Arc::downgrade(self), self.connector.clone());
        tokio::spawn(async move {
            let connected = connector.connect_http1().await;
            let Some(pool) = pool.upgrade() else { return };
            match connected {
                Ok(connection) => {
                    let mut connections = pool.connections();
                    connections.http1_after = None;
                    connections.idle_http1.push(Idle { connection, was_idle: false });
                }
                Err(error) => tracing::debug!(%error, "no HTTP/1.1 connection to the upstream"),
            }
        });
    }

    /// Takes a stream of the connection. The caller holds the lock, so that the count never passes the limit.
    fn lease(self: &Arc<Self>, connection: &mut Http2) -> Place {
        connection.streams.fetch_add(1, Ordering::AcqRel);
        connection.was_idle = false;
        let stream = Stream { streams: Arc::clone(&connection.streams), pool: Arc::downgrade(self) };
        Place::Http2(connection.sender.clone(), stream)
    }

    fn add(self: &Arc<Self>, connected: Connected) -> Place {
        let mut connections = self.connections();
        match connected {
            Connected::Http2(sender, limit) => {
                connections.is_http1 = false;
                let mut connection = Http2 { sender, streams: Arc::default(), limit, was_idle: false };
                let place = self.lease(&mut connection);
                connections.http2.push(connection);
                place
            }
            Connected::Http1(connection) => {
                connections.is_http1 = true;
                connections.busy_http1 += 1;
                Place::Http1(connection, Busy { pool: Arc::downgrade(self) })
            }
        }
    }

    fn close_surplus(&self) {
        let mut connections = self.connections();
        connections.idle_http1.retain_mut(|idle| !std::mem::replace(&mut idle.was_idle, true));
        let mut kept_one = false;
        connections.http2.retain_mut(|connection| {
            if connection.sender.is_closed() {
                return false;
            }
            let is_idle = connection.streams.load(Ordering::Acquire) == 0;
            let was_idle = std::mem::replace(&mut connection.was_idle, is_idle);
            let keep = !(kept_one && is_idle && was_idle);
            kept_one = true;
            keep
        });
    }
}

async fn close_idle(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.close_surplus();
    }
}

/// Whether the request is a read without a body.
fn is_read(request: &Request<Body>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.body().is_end_stream()
}

/// Whether the request ends soon by itself.
fn is_short(request: &Request<Body>) -> bool {
    let is_short_body = || request.body().size_hint().exact().is_some_and(|bytes| bytes <= SHORT_BODY_BYTES);
    request.extensions().get::<LongRunning>().is_none() && (is_read(request) || is_short_body())
}

/// Returns the request, if the connection never began to send it.
fn untouched(mut error: TrySendError<Request<Body>>) -> Result<Request<Body>, UpstreamError> {
    match error.take_message() {
        Some(request) => Ok(request),
        None => Err(UpstreamError::Unreachable(error.into_error().into())),
    }
}

/// The body of an HTTP/2 answer; the stream counts until the body is dropped.
struct Counted {
    body: Incoming,
    _stream: Stream,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
