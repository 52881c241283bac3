//! The users of requests.

use super::pki::{Pair, pki};
use std::path::PathBuf;
use std::sync::Arc;

/// The user of a request.
#[derive(Clone, Debug)]
pub enum User {
    /// A user with a certificate.
    Certificate(Arc<Pair>),
    /// A user with a bearer token.
    Token(String),
    /// A user without credentials.
    Anonymous,
}

impl User {
    /// A user who may do everything.
    pub fn admin() -> Self {
        Self::named("admin", "system:masters")
    }

    /// A user who may do everything but escalate on a real API server, so that a refusal comes from admission.
    pub fn developer() -> Self {
        Self::named("alice", "developers")
    }

    /// A user with the certificate and the key in these files.
    pub fn of_files(certificate: PathBuf, key: PathBuf) -> Self {
        Self::Certificate(Arc::new(Pair { certificate, key }))
    }

    /// A user with a certificate, in at most one group.
    pub fn named(name: &str, group: &str) -> Self {
        Self::Certificate(pki().client(name, group))
    }
}
