//! X.509 certificates, as Go's `crypto/x509` parses and verifies them: kube-apiserver's answer to a certificate is Go's.
//!
//! rustls-webpki, which verifies for rustls, takes every certificate of a bundle as an authority, and parses none of version 1. aws-lc's own
//! verification has no safe interface, and other rules than Go. So the rules are here, one function for each of Go's; cryptography is not.

mod der;
mod name;
mod names;
mod signature;
mod certificate;
mod verify;
mod server;
mod client;
mod key_pair;
pub(crate) mod handshake;

pub(crate) use certificate::Certificate;
pub(crate) use client::{Issuers, client_config};
pub(crate) use key_pair::check_key_pair;
pub(crate) use name::Name;
pub(crate) use server::ServerVerifier;
#[cfg(test)]
pub(crate) use verify::BundleError;
pub(crate) use verify::{Purpose, Roots, Validity, VerifyError};

/// The reason why a certificate cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("x509: {0}")]
pub(crate) struct Malformed(&'static str);

const fn malformed(why: &'static str) -> Malformed {
    Malformed(why)
}

#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
mod tests;
