//! Connections to one server: HTTP/2 shared by many requests, HTTP/1.1 one request at a time.

use super::connect::{Bounds, Connected, Connector};
use super::remote::origin_form;
use super::{Body, BoxError, UpstreamError, chain};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often idle surplus connections are looked for; one that is found idle twice is closed.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(45);
/// How many times a request that no connection took is offered to another.
const MAX_ATTEMPTS: usize = 3;

/// The pool. Dropping it closes what is idle; what is in use goes on to its end.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    bounds: Bounds,
    connections: Mutex<Connections>,
    /// Held while a connection is dialled, so that a burst of requests makes no burst of connections.
    dialing: tokio::sync::Mutex<Option<Failure>>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Connections {
    http2: Vec<Http2>,
    /// HTTP/1.1 connections whose last answer was read to its end.
    idle_http1: Vec<http1::SendRequest<Body>>,
    /// HTTP/1.1 connections with a request under way.
    busy_http1: usize,
    /// The server spoke HTTP/1.1 when it was last dialled.
    is_http1: bool,
}

#[derive(Debug)]
struct Http2 {
    sender: http2::SendRequest<Body>,
    streams: Arc<AtomicUsize>,
    /// How many the server takes.
    limit: Arc<AtomicUsize>,
    was_idle: bool,
}

/// What the last dial ended with; it answers everybody who was already waiting for it.
#[derive(Debug)]
struct Failure {
    at: Instant,
    text: String,
}

/// A place on a connection.
enum Place {
    Http2(http2::SendRequest<Body>, Stream),
    Http1(http1::SendRequest<Body>, Busy),
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

/// An HTTP/1.1 connection counted as busy until dropped.
struct Busy {
    pool: Weak<Pool>,
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
    pub(super) fn new(connector: Connector, bounds: Bounds) -> Arc<Self> {
        let pool = Arc::new(Self {
            connector,
            bounds,
            connections: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            released: Notify::new(),
        });
        tokio::spawn(close_idle(Arc::downgrade(&pool)));
        pool
    }

    /// Sends on a pooled connection.
    pub(super) async fn send(self: &Arc<Self>, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        for _ in 1..MAX_ATTEMPTS {
            match self.attempt(request).await? {
                Ok(response) => return Ok(response),
                // The connection had ended before it took the request, which is as it was.
                Err(untouched) => request = untouched,
            }
        }
        self.attempt(request).await?.map_err(|_| UpstreamError::Unreachable("connections keep closing".into()))
    }

    async fn attempt(
        self: &Arc<Self>,
        mut request: Request<Body>,
    ) -> Result<Result<Response<Body>, Request<Body>>, UpstreamError> {
        match self.place().await? {
            Place::Http2(mut sender, stream) => match sender.try_send_request(request).await {
                Ok(response) => Ok(Ok(response.map(|body| Counted { body, _stream: stream }.boxed_unsync()))),
                Err(error) => untouched(error).map(Err),
            },
            Place::Http1(mut sender, busy) => {
                let uri = request.uri().clone();
                origin_form(&mut request);
                match sender.try_send_request(request).await {
                    Ok(response) => Ok(Ok(response.map(|body| {
                        Http1Body { body, is_complete: false, sender: Some(sender), busy }.boxed_unsync()
                    }))),
                    Err(error) => {
                        let mut request = untouched(error)?;
                        *request.uri_mut() = uri;
                        Ok(Err(request))
                    }
                }
            }
        }
    }

    /// A place on an open connection, or on a new one.
    async fn place(self: &Arc<Self>) -> Result<Place, UpstreamError> {
        if let Some(place) = self.free() {
            return Ok(place);
        }
        // Rare and large, so on the heap: every request in flight holds room for what is not.
        tokio::time::timeout(self.bounds.acquire_timeout, Box::pin(self.wait_for_place()))
            .await
            .unwrap_or(Err(UpstreamError::Timeout))
    }

    async fn wait_for_place(self: &Arc<Self>) -> Result<Place, UpstreamError> {
        let since = Instant::now();
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            // From here on, so that a place that becomes free below is not missed.
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
        connections.http2.len() >= self.bounds.max_connections
            || connections.busy_http1 >= self.bounds.max_http1_connections
    }

    fn free(self: &Arc<Self>) -> Option<Place> {
        let mut connections = self.connections();
        if connections.is_http1 {
            connections.idle_http1.retain(|sender| !sender.is_closed());
            // A sender whose connection has not yet seen the end of its last answer becomes ready soon.
            let ready = connections.idle_http1.iter().rposition(http1::SendRequest::is_ready)?;
            let sender = connections.idle_http1.swap_remove(ready);
            connections.busy_http1 += 1;
            return Some(Place::Http1(sender, Busy { pool: Arc::downgrade(self) }));
        }
        let mut any_closed = false;
        let mut found = None;
        for connection in &mut connections.http2 {
            if connection.sender.is_closed() {
                any_closed = true;
                continue;
            }
            let limit = self.bounds.max_streams.min(connection.limit.load(Ordering::Relaxed));
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

    /// Only called with the lock held, so that the count never passes the limit.
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
            Connected::Http1(sender) => {
                connections.is_http1 = true;
                connections.busy_http1 += 1;
                Place::Http1(sender, Busy { pool: Arc::downgrade(self) })
            }
        }
    }

    fn close_surplus(&self) {
        let mut connections = self.connections();
        connections.idle_http1.clear();
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

/// The request, if the connection never began with it.
fn untouched(mut error: TrySendError<Request<Body>>) -> Result<Request<Body>, UpstreamError> {
    match error.take_message() {
        Some(request) => Ok(request),
        None => Err(UpstreamError::Unreachable(error.into_error().into())),
    }
}

/// An HTTP/2 answer's body; its stream counts until it is dropped.
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

/// An HTTP/1.1 answer's body; its connection goes back to the pool if it was read to its end.
struct Http1Body {
    body: Incoming,
    is_complete: bool,
    sender: Option<http1::SendRequest<Body>>,
    busy: Busy,
}

impl http_body::Body for Http1Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context).map_err(Into::into);
        self.is_complete = matches!(polled, Poll::Ready(None));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Http1Body {
    fn drop(&mut self) {
        if !self.is_complete && !self.body.is_end_stream() {
            return;
        }
        let (Some(sender), Some(pool)) = (self.sender.take(), self.busy.pool.upgrade()) else { return };
        let mut connections = pool.connections();
        if connections.idle_http1.len() < pool.bounds.max_idle_http1_connections && !sender.is_closed() {
            connections.idle_http1.push(sender);
        }
    }
}
