//! An HTTP/1.1 connection that runs in the task of the request on it: no other task has to be woken.

use super::Busy;
use crate::body::{Body, BoxError};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// The reads and writes of a connection; the future resolves when the connection has ended.
type Running = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A connection. It makes progress only while a request or an answer on it is polled; dropping it closes the connection.
pub(in crate::upstream) struct Http1 {
    sender: SendRequest<Body>,
    /// `None` after the connection has ended.
    running: Option<Running>,
}

impl fmt::Debug for Http1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1").field("ended", &self.running.is_none()).finish_non_exhaustive()
    }
}

impl Http1 {
    pub(in crate::upstream) fn new(
        sender: SendRequest<Body>,
        running: impl Future<Output = hyper::Result<()>> + Send + 'static,
    ) -> Self {
        Self { sender, running: Some(Box::pin(running)) }
    }

    /// Whether the connection can take a request: the last answer was read to its end, and the server has not closed the connection since.
    pub(super) fn is_ready(&mut self) -> bool {
        self.run(&mut Context::from_waker(Waker::noop()));
        self.is_free()
    }

    /// As `is_ready`, without reading the socket.
    pub(super) fn is_free(&self) -> bool {
        self.running.is_some() && self.sender.is_ready()
    }

    /// Sends a request and returns the head of the answer; the result also has any failure of the connection.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        std::future::poll_fn(|context| {
            run(&mut self.running, context);
            answer.as_mut().poll(context)
        })
        .await
    }

    fn run(&mut self, context: &mut Context<'_>) {
        run(&mut self.running, context);
    }
}

fn run(running: &mut Option<Running>, context: &mut Context<'_>) {
    let Some(connection) = running else { return };
    if let Poll::Ready(ended) = connection.as_mut().poll(context) {
        if let Err(error) = ended {
            tracing::debug!(%error, "connection to the upstream ended");
        }
        // Gives back a request that the connection had not begun to send.
        *running = None;
    }
}

/// The body of an answer; the connection returns to the pool after the body was read to its end.
pub(super) struct Http1Body {
    body: Incoming,
    connection: Option<Http1>,
    busy: Busy,
}

impl Http1Body {
    pub(super) fn new(body: Incoming, connection: Http1, busy: Busy) -> Self {
        Self { body, connection: Some(connection), busy }
    }
}

impl http_body::Body for Http1Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut polled = Pin::new(&mut this.body).poll_frame(context);
        if polled.is_pending()
            && let Some(connection) = &mut this.connection
        {
            connection.run(context);
            polled = Pin::new(&mut this.body).poll_frame(context);
        }
        polled.map_err(Into::into)
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
        if let Some(mut connection) = self.connection.take()
            && (connection.is_free() || connection.is_ready())
        {
            self.busy.give_back(connection);
        }
    }
}
