//! Warm connections to one endpoint: bounded in number, closed when idle for long.

use super::connection::{Connection, Shared};
use super::endpoint::Address;
use futures_util::FutureExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Idle connections that are kept to one address, as in client-go's transport.
const IDLE_CONNECTIONS_PER_ADDRESS: usize = 25;
/// Idle connections that are kept to all addresses of a Service.
const IDLE_CONNECTIONS: usize = 100;
/// Shared connections that are kept; any further connection serves one request.
const SHARED_CONNECTIONS: usize = 4;
/// The longest time that a connection may be idle, as in Go's default transport.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest time until a connection is free after its answer was read.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The connections that wait for requests.
#[derive(Debug, Default)]
pub(super) struct Pool {
    kept: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    /// Idle connections; the last one is the most recently used.
    idle: Vec<(Connection, Instant)>,
    /// Shared connections, each with the time of its last use.
    shared: Vec<(Arc<Shared>, Instant)>,
    /// The task that closes idle connections, as long as there are connections.
    reaper: Option<AbortOnDropHandle<()>>,
}

impl Pool {
    /// Returns a connection that takes a request now, if there is one; with an address, only a connection to that address.
    pub(super) fn take(&self, to: Option<&Address>) -> Option<Connection> {
        let mut kept = self.lock();
        if let Some((shared, used)) = kept.shared.iter_mut().find(|(shared, _)| shared.has_room()) {
            *used = Instant::now();
            return Some(Connection::shared(shared));
        }
        while let Some(last) = kept.idle.iter().rposition(|(idle, _)| to.is_none() || idle.to.as_ref() == to) {
            let (connection, since) = kept.idle.remove(last);
            if connection.is_ready() && since.elapsed() < IDLE_TIMEOUT {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a new connection for other requests, if it can be shared.
    pub(super) fn share(self: &Arc<Self>, connection: &Connection) {
        let Some(shared) = connection.sharable() else { return };
        let mut kept = self.lock();
        kept.shared.retain(|(shared, _)| !shared.is_closed());
        if kept.shared.len() < SHARED_CONNECTIONS {
            kept.shared.push((shared.clone(), Instant::now()));
        }
        self.reap_later(&mut kept);
    }

    /// Keeps a connection whose answer was read to the end.
    pub(super) fn put_back(self: &Arc<Self>, mut connection: Connection) {
        if connection.sharable().is_some() {
            return;
        }
        match connection.ready().now_or_never() {
            Some(Ok(())) => self.push(connection),
            Some(Err(_)) => {}
            // hyper's task has not seen the end of the answer yet.
            None => {
                let pool = Arc::downgrade(self);
                tokio::spawn(async move {
                    if let Ok(Ok(())) = timeout(SETTLE_TIMEOUT, connection.ready()).await
                        && let Some(pool) = pool.upgrade()
                    {
                        pool.push(connection);
                    }
                });
            }
        }
    }

    fn push(self: &Arc<Self>, connection: Connection) {
        let mut kept = self.lock();
        let to_there = kept.idle.iter().filter(|(idle, _)| idle.to == connection.to).count();
        if to_there < IDLE_CONNECTIONS_PER_ADDRESS {
            if kept.idle.len() >= IDLE_CONNECTIONS {
                kept.idle.remove(0);
            }
            kept.idle.push((connection, Instant::now()));
        }
        self.reap_later(&mut kept);
    }

    fn reap_later(self: &Arc<Self>, kept: &mut Connections) {
        kept.reaper.get_or_insert_with(|| AbortOnDropHandle::new(tokio::spawn(reap(Arc::downgrade(self)))));
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes idle connections until none is left.
async fn reap(pool: Weak<Pool>) {
    loop {
        sleep(IDLE_TIMEOUT).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut kept = pool.lock();
        kept.idle.retain(|(connection, since)| !connection.is_closed() && since.elapsed() < IDLE_TIMEOUT);
        kept.shared.retain(|(shared, used)| shared.is_used() || !shared.is_closed() && used.elapsed() < IDLE_TIMEOUT);
        if kept.idle.is_empty() && kept.shared.is_empty() {
            kept.reaper = None;
            return;
        }
    }
}
