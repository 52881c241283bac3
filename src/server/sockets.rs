//! Accepts connections at several sockets. Accepting waits for nothing but connections.

use super::budget::ConnectionBudget;
use futures_util::FutureExt;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// The pause after the kernel failed to hand out a connection, in which the connections that end close their descriptors.
const PAUSE: Duration = Duration::from_millis(10);
/// The time between two warnings about failures.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The sockets of a server.
pub(super) struct Sockets {
    all: Vec<TcpListener>,
    turn: usize,
    warned: Option<Instant>,
}

impl Sockets {
    pub(super) fn new(all: Vec<TcpListener>) -> Self {
        Self { all, turn: 0, warned: None }
    }

    /// Accepts the next connection of any socket. The sockets take turns, so that many connections to one do not keep the others waiting. If
    /// the process has no file descriptor left, connections of the budget end.
    pub(super) async fn accept(&mut self, budget: &ConnectionBudget) -> (TcpStream, SocketAddr) {
        loop {
            let error = match self.next().await {
                Ok(accepted) => return accepted,
                Err(error) => error,
            };
            if self.warned.is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL) {
                tracing::warn!(%error, "cannot accept a connection");
                self.warned = Some(Instant::now());
            }
            // Any other error is that of one connection, which the kernel has taken out of its queue.
            if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
            {
                budget.relieve();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn next(&mut self) -> std::io::Result<(TcpStream, SocketAddr)> {
        self.turn = self.turn.wrapping_add(1);
        let (later, sooner) = self.all.split_at(self.turn % self.all.len().max(1));
        std::future::poll_fn(|context| {
            let mut polled = sooner.iter().chain(later).map(|socket| socket.poll_accept(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

/// Whether the first byte of a client is there, as it is if many connections wait to be accepted.
pub(super) fn has_spoken(stream: &TcpStream) -> bool {
    speaks(stream).now_or_never() == Some(true)
}

/// Waits for the first byte of a client, which stays in the stream; false if the connection ends first.
pub(super) async fn speaks(stream: &TcpStream) -> bool {
    // The readiness of a new stream alone says nothing.
    stream.peek(&mut [0]).await.is_ok_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_sockets_take_turns() {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let second = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let mut clients = Vec::new();
        for address in ["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"] {
            clients.push(TcpStream::connect((address, port)).await.unwrap());
        }
        let (mut sockets, budget) = (Sockets::new(vec![first, second]), ConnectionBudget::new(1));
        let mut accepted = Vec::new();
        for _ in 0..2 {
            let (stream, _) = sockets.accept(&budget).await;
            accepted.push(stream.local_addr().unwrap().ip().to_string());
        }
        accepted.sort();
        assert_eq!(accepted, ["127.0.0.1", "127.0.0.2"]);
    }
}
