//! The listener: TLS, HTTP/1.1 and HTTP/2, reloading of certificates, drain; and the plain listener for probes.
//!
//! Nothing here knows what a request asks for: every request is handed to one handler, with its [`Connection`].

mod state;
mod listener;
pub mod tls;
pub mod certificates;
pub mod reload;
pub mod drain;
pub mod health;
pub mod descriptors;

pub use drain::Drain;
pub use listener::{Bounds, Listener};
pub use reload::Reloading;
pub use state::ConnectionState;

use crate::authn::VerifiedCertificates;
use rustls_pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;

/// What is known of the connection that a request came on; an extension of every request, in an `Arc`.
#[derive(Debug)]
pub struct Connection {
    /// The client's address.
    pub remote: SocketAddr,
    /// The certificates that the client presented, leaf first. It holds the leaf's key; nothing else is verified yet.
    pub certificates: Vec<CertificateDer<'static>>,
    /// What authentication found these certificates to be, so that it verifies them once a connection; starts empty.
    pub verified: VerifiedCertificates,
    /// Whether it speaks HTTP/2.
    pub is_http2: bool,
    /// What becomes of it.
    pub state: Arc<ConnectionState>,
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
