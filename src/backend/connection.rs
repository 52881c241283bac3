//! One connection to an endpoint: HTTP/1.1 for one request at a time, or HTTP/2, which many requests share.

use super::endpoint::Address;
use super::failure::{Failure, Route, Stage, is_unprocessed};
use super::request::Chunks;
use super::wire::Remembering;
use futures_util::FutureExt;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

/// Bytes that the head of an answer may have.
pub(super) const HEAD_BYTES: usize = 256 * 1024;
/// The maximum number of requests that share an HTTP/2 connection.
const STREAMS: usize = 100;
/// The time without a frame after which an HTTP/2 connection is sent a ping (`HTTP2_READ_IDLE_TIMEOUT_SECONDS`).
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The longest time until the answer to a ping (`HTTP2_PING_TIMEOUT_SECONDS`).
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// A connection, or a share of one. Dropping it ends a request that is under way.
#[derive(Debug)]
pub(super) struct Connection {
    /// The ends of the connection, for error texts.
    pub(crate) route: Route,
    /// The chosen address, if each request chooses one.
    pub to: Option<Address>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Http1(Exclusive),
    Http2(Share),
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
struct Exclusive {
    sender: http1::SendRequest<Chunks>,
    task: AbortHandle,
    /// Whether an answer is outstanding.
    is_busy: bool,
}

impl Drop for Exclusive {
    /// Closes an idle connection gracefully. A connection with an outstanding answer is aborted: its other side may
    /// neither read nor write.
    fn drop(&mut self) {
        if self.is_busy {
            self.task.abort();
        }
    }
}

/// The failure of a request, and whether the request may be sent again.
pub(super) struct Lost {
    pub(crate) failure: Failure,
    /// Whether the request was never sent.
    pub(crate) is_unsent: bool,
    /// Whether the other side states that it did not process the request.
    pub(crate) is_unprocessed: bool,
}

impl Connection {
    /// Starts HTTP on the stream. The connection's task ends with the connection, which ends when its last holder drops it.
    ///
    /// # Errors
    /// If the HTTP/2 handshake fails.
    pub(super) async fn new<S>(stream: S, route: Route, to: Option<Address>, is_http2: bool) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let failed = |error: hyper::Error| Failure::of_hyper(&error, &route, Stage::Head);
        let kind = if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
            builder.keep_alive_while_idle(true).max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX));
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
            tokio::spawn(connection.map(ended));
            Kind::Http2(Share::new(Arc::new(Shared { sender, requests: AtomicUsize::new(0), route: route.clone() })))
        } else {
            let stream = TokioIo::new(Remembering::answers(stream, route.answer.clone()));
            let mut builder = http1::Builder::new();
            builder.max_buf_size(HEAD_BYTES);
            let (sender, connection) = builder.handshake(stream).await.map_err(failed)?;
            let task = tokio::spawn(connection.map(ended)).abort_handle();
            Kind::Http1(Exclusive { sender, task, is_busy: false })
        };
        Ok(Self { route, to, kind })
    }

    /// Creates a share of a connection that other requests use too.
    pub(super) fn shared(shared: &Arc<Shared>) -> Self {
        Self { route: shared.route.clone(), to: None, kind: Kind::Http2(Share::new(shared.clone())) }
    }

    /// Returns the part that other requests may share; `None` for HTTP/1.1.
    pub(super) fn sharable(&self) -> Option<&Arc<Shared>> {
        match &self.kind {
            Kind::Http1(_) => None,
            Kind::Http2(Share(shared)) => Some(shared),
        }
    }

    /// Whether the connection takes a request now, as far as is known.
    pub(super) fn is_ready(&self) -> bool {
        match &self.kind {
            Kind::Http1(own) => own.sender.is_ready(),
            Kind::Http2(Share(shared)) => shared.sender.is_ready(),
        }
    }

    /// Whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        match &self.kind {
            Kind::Http1(own) => own.sender.is_closed(),
            Kind::Http2(Share(shared)) => shared.sender.is_closed(),
        }
    }

    /// Waits until the connection is free after the last answer.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match &mut self.kind {
            Kind::Http1(own) => {
                own.sender.ready().await?;
                own.is_busy = false;
            }
            Kind::Http2(_) => {}
        }
        Ok(())
    }

    /// Sends a request, and waits for the head of its answer.
    ///
    /// # Errors
    /// If no answer comes.
    pub(super) async fn send(&mut self, request: Request<Chunks>) -> Result<Response<Incoming>, Lost> {
        let sent = match &mut self.kind {
            Kind::Http1(own) => {
                own.is_busy = true;
                own.sender.try_send_request(request).await
            }
            Kind::Http2(Share(shared)) => shared.sender.clone().try_send_request(request).await,
        };
        let stage = if self.sharable().is_some() { Stage::Stream } else { Stage::Head };
        sent.map_err(|mut error| Lost {
            is_unsent: error.take_message().is_some(),
            is_unprocessed: is_unprocessed(error.error()),
            failure: Failure::of_hyper(error.error(), &self.route, stage),
        })
    }
}

fn ended(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection to a webhook ended");
    }
}

/// An HTTP/2 connection.
#[derive(Debug)]
pub(super) struct Shared {
    sender: http2::SendRequest<Chunks>,
    /// The number of requests on the connection.
    requests: AtomicUsize,
    route: Route,
}

impl Shared {
    /// Whether the connection takes another request.
    pub(super) fn has_room(&self) -> bool {
        !self.sender.is_closed() && self.requests.load(Ordering::Relaxed) < STREAMS
    }

    /// Whether the connection is open and has a request.
    pub(super) fn is_used(&self) -> bool {
        !self.sender.is_closed() && self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// One use of an HTTP/2 connection.
#[derive(Debug)]
struct Share(Arc<Shared>);

impl Share {
    fn new(shared: Arc<Shared>) -> Self {
        shared.requests.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
