//! The verification of servers.

use super::{Certificate, Purpose, Roots, handshake};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::{Arc, OnceLock};

/// Go's verification of a server's certificate.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    /// `None` accepts any certificate, as long as the server has its key.
    roots: Option<Roots>,
    provider: Arc<CryptoProvider>,
}

impl ServerVerifier {
    /// Accepts any certificate that Go parses, as long as the server has its key.
    #[must_use]
    pub(crate) fn anybody(provider: Arc<CryptoProvider>) -> Self {
        Self { roots: None, provider }
    }

    /// Accepts servers of these authorities. Certificates that cannot be parsed verify nothing (`AppendCertsFromPEM`).
    #[must_use]
    pub(crate) fn of(listed: &[CertificateDer<'_>], provider: Arc<CryptoProvider>) -> Self {
        let mut roots = Roots::default();
        listed.iter().filter_map(|certificate| Certificate::parse(certificate).ok()).for_each(|root| roots.add(root));
        Self { roots: Some(roots), provider }
    }

    /// Returns the verifier with the system's roots, which are read once.
    pub(crate) fn of_system(provider: Arc<CryptoProvider>) -> Arc<Self> {
        static VERIFIER: OnceLock<Arc<ServerVerifier>> = OnceLock::new();
        let read = || Arc::new(Self::of(&rustls_native_certs::load_native_certs().certs, provider));
        VERIFIER.get_or_init(read).clone()
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let presented = [leaf].into_iter().chain(intermediates).map(handshake::parse);
        let presented = presented.collect::<Result<Vec<_>, _>>()?;
        let Some(roots) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        // Go checks the validity, then the name, then the chain.
        presented.first().map_or(Ok(()), |leaf| leaf.check_leaf(now)).map_err(handshake::refusal)?;
        verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
        roots.verify(&presented, Purpose::ServerAuth, now).map_err(handshake::refusal)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
