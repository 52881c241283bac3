//! TCP connections to names.

use super::endpoint::Address;
use super::failure::Failure;
use crate::config::WebhookTargets;
use socket2::{SockRef, TcpKeepalive};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// The shortest time that a dial of one of several addresses gets.
const MIN_DIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two keep-alive probes of TCP, as in Go's dialer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The number of name lookups at the same time.
const LOOKUPS: usize = 4;

/// The name lookups of one client, a bounded number at a time: a resolver that does not answer holds a thread for longer than any call may
/// take, and other tasks need threads, too.
#[derive(Clone)]
pub(super) struct Lookups(Arc<Semaphore>);

impl Default for Lookups {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

impl Lookups {
    async fn addresses(&self, to: &Address) -> Result<Vec<SocketAddr>, Failure> {
        let Address { host, port } = to.clone();
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let permit = self.0.clone().acquire_owned().await;
        // The lookup goes on after its caller has given up, and so holds its permit until its own end.
        let lookup = tokio::spawn(async move {
            let found = lookup_host((&*host, port)).await;
            drop(permit);
            found.map(Iterator::collect).map_err(|error| Failure::of_lookup(&host, &error))
        });
        lookup.await.unwrap_or_else(|error| Err(Failure::Other(error.to_string())))
    }
}

/// The servers that a client may connect to, and the host that the client calls.
#[derive(Clone, Copy)]
pub(super) struct Confined<'a> {
    pub(super) targets: &'a WebhookTargets,
    pub(super) host: &'a str,
}

impl Confined<'_> {
    /// Returns those addresses of a name that the client may connect to.
    ///
    /// # Errors
    /// If there is none. The text is the same for a name that the network does not know: it tells nothing about the network.
    pub(super) async fn addresses(self, to: &Address, lookups: &Lookups) -> Result<Vec<SocketAddr>, Failure> {
        let mut addresses = lookups.addresses(to).await.unwrap_or_default();
        addresses.retain(|address| self.targets.allow(self.host, address.ip()));
        match addresses.is_empty() {
            true => Err(Failure::Other(format!(
                "dial tcp: lookup {}: no address that upstream.webhookTargets allows",
                self.host
            ))),
            false => Ok(addresses),
        }
    }
}

/// Connects to the first address of a name that accepts a connection.
pub(super) async fn dial(
    to: &Address,
    confined: Option<Confined<'_>>,
    lookups: &Lookups,
    deadline: Instant,
) -> Result<TcpStream, Failure> {
    let addresses = match confined {
        Some(confined) => confined.addresses(to, lookups).await?,
        None => lookups.addresses(to).await?,
    };
    let mut first = None;
    for (tried, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1);
        let failure = match timeout(share.max(MIN_DIAL_TIMEOUT), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A review is written in one piece: a wait for more bytes would only delay it.
                stream.set_nodelay(true).ok();
                SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE)).ok();
                return Ok(stream);
            }
            Ok(Err(error)) => Failure::of_dial(*address, &error),
            Err(_) => Failure::Other(format!("dial tcp {address}: i/o timeout")),
        };
        first.get_or_insert(failure);
    }
    Err(first.unwrap_or_else(|| Failure::Other(format!("dial tcp: lookup {}: no such host", to.host))))
}
