//! The TLS settings of connections to servers, with Go's rules for the certificates of both sides.

use super::ServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, Error};
use rustls_pki_types::CertificateDer;
use std::sync::Arc;

/// The accepted issuers of a server's certificate.
pub(crate) enum Issuers {
    /// The system's roots.
    System,
    /// These authorities.
    Listed(Vec<CertificateDer<'static>>),
    /// Any issuer (`insecure-skip-tls-verify`).
    Anybody,
}

/// Returns the settings of a client, which presents `identity` (see [`super::handshake::certified_key`]) to a server that asks for a certificate.
/// rustls' own functions refuse certificates of version 1 here, and authorities that webpki does not parse.
///
/// # Errors
/// If the provider supports no version of TLS.
pub(crate) fn client_config(
    issuers: &Issuers,
    identity: Option<CertifiedKey>,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientConfig, Error> {
    let verifier: Arc<dyn ServerCertVerifier> = match issuers {
        Issuers::System => ServerVerifier::of_system(provider.clone()),
        Issuers::Listed(roots) => Arc::new(ServerVerifier::of(roots, provider.clone())),
        Issuers::Anybody => Arc::new(ServerVerifier::anybody(provider.clone())),
    };
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    if let Some(identity) = identity {
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
    }
    Ok(config)
}
