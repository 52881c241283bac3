//! Warm connections to one endpoint: bounded in number, closed when idle for long.

use super::failure::{Failure, Route};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Body, Frame, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

/// How many idle connections an endpoint keeps, as client-go's transport.
const IDLE_CONNECTIONS: usize = 25;
/// How long a connection may be idle, as in Go's default transport.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// How long a connection may take to become free after its answer was read.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// An HTTP/1.1 connection. Dropping it while a request is under way ends it.
#[derive(Debug)]
pub struct Connection {
    /// Sends requests on it, one at a time.
    pub sender: SendRequest<Chunks>,
    /// From where to where it leads, for error texts.
    pub route: Route,
}

impl Connection {
    /// Speaks HTTP/1.1 on the stream.
    pub async fn new<S>(stream: S, route: Route) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http1::Builder::new().handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| Failure::of_hyper(&error, &route, "EOF"))?;
        // The task ends with the connection, which ends when its sender is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to a webhook ended");
            }
        });
        Ok(Self { sender, route })
    }
}

/// The idle connections, the most recently used last.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<Vec<(Connection, Instant)>>,
    reaping: AtomicBool,
}

impl Pool {
    /// A connection that is free, if there is one.
    pub fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((connection, since)) = idle.pop() {
            if connection.sender.is_ready() && since.elapsed() < IDLE_TIMEOUT {
                return Some(connection);
            }
        }
        None
    }

    /// Takes a connection back whose answer was read to the end.
    pub fn put_back(self: &Arc<Self>, mut connection: Connection) {
        match connection.sender.ready().now_or_never() {
            Some(Ok(())) => self.push(connection),
            Some(Err(_)) => {}
            // hyper's task has yet to see the end of the answer.
            None => {
                let pool = self.clone();
                tokio::spawn(async move {
                    if let Ok(Ok(())) = tokio::time::timeout(SETTLE_TIMEOUT, connection.sender.ready()).await {
                        pool.push(connection);
                    }
                });
            }
        }
    }

    fn push(self: &Arc<Self>, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS {
            idle.push((connection, Instant::now()));
        }
        drop(idle);
        if !self.reaping.swap(true, Ordering::AcqRel) {
            tokio::spawn(reap(Arc::downgrade(self)));
        }
    }
}

/// Closes connections that stay idle, until there is none.
async fn reap(pool: Weak<Pool>) {
    loop {
        sleep(IDLE_TIMEOUT).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(connection, since)| !connection.sender.is_closed() && since.elapsed() < IDLE_TIMEOUT);
        if idle.is_empty() {
            pool.reaping.store(false, Ordering::Release);
            return;
        }
    }
}

/// A body in pieces that are shared with other requests.
#[derive(Clone, Debug)]
pub struct Chunks {
    chunks: [Bytes; 4],
    next: usize,
}

impl Chunks {
    /// A body of these pieces.
    pub fn new(chunks: [Bytes; 4]) -> Self {
        Self { chunks, next: 0 }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.next;
        self.next += 1;
        Poll::Ready(self.chunks.get_mut(next).map(|chunk| Ok(Frame::data(std::mem::take(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.chunks.len()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.chunks.iter().skip(self.next).map(|chunk| chunk.len() as u64).sum();
        SizeHint::with_exact(left)
    }
}
