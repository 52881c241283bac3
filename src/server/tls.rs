//! What the listener offers in a TLS handshake.

use super::reload::{self, Reloading};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a serving certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// The certificate's PEM is broken or holds no certificate.
    #[error("no certificate in PEM form")]
    Certificate,
    /// The key's PEM is broken or holds no key.
    #[error("no private key in PEM form")]
    Key,
    /// The two do not belong together, or rustls does not support them.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// The server side's configuration with this certificate chain and key: TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1.
///
/// # Errors
/// When the PEM is broken or certificate and key do not belong together.
pub fn server_config(certificate_pem: &[u8], key_pem: &[u8]) -> Result<ServerConfig, TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificate_pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| TlsError::Certificate)?;
    if chain.is_empty() {
        return Err(TlsError::Certificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| TlsError::Key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyClientCertificate::of(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The same from files, following them.
///
/// # Errors
/// When the files as they are now cannot be used.
pub fn watch_certificate(certificate: &Path, key: &Path) -> Result<Reloading<ServerConfig>, TlsError> {
    let paths = vec![certificate.to_owned(), key.to_owned()];
    let (certificate, key) = (certificate.to_owned(), key.to_owned());
    let read = |path: &Path| std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error));
    reload::watch(paths, move || server_config(&read(&certificate)?, &read(&key)?))
}

/// Asks for a client certificate and takes any, or none (Go's `tls.RequestClientCert`). That the client holds its key
/// is verified here; whether a known authority signed it is authentication's work, which answers with a 401.
#[derive(Debug)]
struct AnyClientCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClientCertificate {
    fn of(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None, which is "any": a client that sees names it does not know sends nothing.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificates::Authority;
    use super::*;

    #[test]
    fn refuses_what_is_no_certificate_and_a_key_of_another() {
        let authority = Authority::generate("test").unwrap();
        let one = authority.serving(&["localhost".into()]).unwrap();
        let other = authority.serving(&["localhost".into()]).unwrap();
        assert!(server_config(one.certificate_pem.as_bytes(), one.key_pem.as_bytes()).is_ok());
        assert!(matches!(server_config(b"", one.key_pem.as_bytes()), Err(TlsError::Certificate)));
        assert!(matches!(server_config(one.certificate_pem.as_bytes(), b"x"), Err(TlsError::Key)));
        let mismatch = server_config(one.certificate_pem.as_bytes(), other.key_pem.as_bytes());
        assert!(matches!(mismatch, Err(TlsError::Rustls(_))));
    }
}
