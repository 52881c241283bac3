//! The listener: TLS, HTTP/1.1 and HTTP/2, reloading of certificates, drain; and the plain listener for probes.
//!
//! This module knows nothing of a request's purpose: every request is handed to one handler, with its [`Connection`].

mod refusals;
mod state;
mod budget;
mod sockets;
mod hello;
mod heads;
mod listener;
pub(crate) mod tls;
pub(crate) mod certificates;
pub(crate) mod reload;
pub(crate) mod renewal;
pub(crate) mod drain;
pub(crate) mod health;
mod unread;
pub(crate) mod descriptors;
pub(crate) mod memory;

pub(crate) use budget::ConnectionBudget;
pub use drain::Drain;
pub(crate) use listener::Listener;
pub(crate) use refusals::Refusals;
pub(crate) use reload::Reloading;
pub(crate) use state::ConnectionState;
pub(crate) use unread::Unread;

use rustls_pki_types::CertificateDer;
use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// The client's connection of a request; an extension of every request, in an `Arc`.
#[derive(Debug)]
pub struct Connection {
    /// The client's address.
    pub remote: SocketAddr,
    /// The certificates that the client presented, leaf first. The client holds the leaf's key; nothing else is verified yet.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The value of [`Connection::kept`].
    pub kept: ConnectionCache,
    /// The name that the client gave in the TLS handshake (SNI), in lower case.
    pub server_name: Option<String>,
    /// Whether the connection speaks HTTP/2.
    pub is_http2: bool,
    /// The state of the connection.
    pub state: Arc<ConnectionState>,
}

/// A value of a layer above that is kept as long as the connection.
#[derive(Debug, Default)]
pub struct ConnectionCache(OnceLock<Box<dyn Any + Send + Sync>>);

impl Connection {
    /// Returns the value that another layer keeps with the connection, so that it verifies certificates once. There is only one:
    /// `None` if a value of another type was requested first.
    pub fn kept<T: Any + Default + Send + Sync>(&self) -> Option<&T> {
        self.kept.0.get_or_init(|| Box::<T>::default()).downcast_ref()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
