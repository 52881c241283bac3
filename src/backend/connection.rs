//! One connection to an endpoint: HTTP/1.1, which one request at a time has for itself, or HTTP/2, which many share.

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

/// The longest head of an answer that is read, in bytes.
pub const HEAD_BYTES: usize = 256 * 1024;
/// How many requests share an HTTP/2 connection at most.
const STREAMS: usize = 100;
/// How long an HTTP/2 connection may be silent before it is asked whether it lives (`HTTP2_READ_IDLE_TIMEOUT_SECONDS`).
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long it may take to say so (`HTTP2_PING_TIMEOUT_SECONDS`).
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// A connection, or a share of one. Dropping it while a request is under way ends that.
#[derive(Debug)]
pub struct Connection {
    /// From where to where it leads, for error texts.
    pub route: Route,
    /// Where it was to lead, where that is chosen for each request.
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
    /// Whether an answer is waited for.
    is_busy: bool,
}

impl Drop for Exclusive {
    /// An idle connection is taken leave of; one whose answer nobody waits for any more is just closed: its other side may
    /// neither read nor write.
    fn drop(&mut self) {
        if self.is_busy {
            self.task.abort();
        }
    }
}

/// Why a request got no answer, and whether it may go out again.
pub struct Lost {
    /// Why.
    pub failure: Failure,
    /// Whether it never went out.
    pub is_unsent: bool,
    /// Whether the other side says that it did not look at it.
    pub is_unprocessed: bool,
}

impl Connection {
    /// Speaks HTTP on the stream. The task that does ends with the connection, which ends when nobody holds it any more.
    ///
    /// # Errors
    /// When HTTP/2 cannot be begun.
    pub async fn new<S>(stream: S, route: Route, to: Option<Address>, is_http2: bool) -> Result<Self, Failure>
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

    /// A share of a connection that others use too.
    pub fn shared(shared: &Arc<Shared>) -> Self {
        Self { route: shared.route.clone(), to: None, kind: Kind::Http2(Share::new(shared.clone())) }
    }

    /// What others may share, where it may be shared.
    pub fn sharable(&self) -> Option<&Arc<Shared>> {
        match &self.kind {
            Kind::Http1(_) => None,
            Kind::Http2(Share(shared)) => Some(shared),
        }
    }

    /// Whether it takes a request now, as far as is known.
    pub fn is_ready(&self) -> bool {
        match &self.kind {
            Kind::Http1(own) => own.sender.is_ready(),
            Kind::Http2(Share(shared)) => shared.sender.is_ready(),
        }
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        match &self.kind {
            Kind::Http1(own) => own.sender.is_closed(),
            Kind::Http2(Share(shared)) => shared.sender.is_closed(),
        }
    }

    /// Waits until the last answer is done with.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn ready(&mut self) -> hyper::Result<()> {
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
    /// When there is none.
    pub async fn send(&mut self, request: Request<Chunks>) -> Result<Response<Incoming>, Lost> {
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
pub struct Shared {
    sender: http2::SendRequest<Chunks>,
    /// How many use it now.
    requests: AtomicUsize,
    route: Route,
}

impl Shared {
    /// Whether it takes another request.
    pub fn has_room(&self) -> bool {
        !self.sender.is_closed() && self.requests.load(Ordering::Relaxed) < STREAMS
    }

    /// Whether it is alive and somebody uses it.
    pub fn is_used(&self) -> bool {
        !self.sender.is_closed() && self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
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
