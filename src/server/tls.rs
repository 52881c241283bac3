//! The server side of the listener's TLS handshakes.

use super::reload::{self, Reloading};
use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why a serving certificate cannot be used.
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
    /// Certificate and key do not belong together, or rustls does not support them.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// Builds the server's configuration with this certificate chain and key: TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1. `authorities` are
/// the names of the CAs whose client certificates the handshake requests; if empty, it requests any certificate.
///
/// # Errors
/// If the PEM is broken, or certificate and key do not belong together.
pub fn server_config(
    certificate_pem: &[u8],
    key_pem: &[u8],
    authorities: Vec<DistinguishedName>,
) -> Result<ServerConfig, TlsError> {
    let chain = chain_of(certificate_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| TlsError::Key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyClientCertificate::of(&provider, authorities));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serving certificates by TLS server name, which can be replaced while the server runs.
#[derive(Debug, Default)]
pub struct NamedCertificates(ArcSwap<HashMap<String, Arc<CertifiedKey>>>);

impl NamedCertificates {
    /// Replaces all certificates. The names are in lower case.
    pub fn replace(&self, certificates: HashMap<String, Arc<CertifiedKey>>) {
        self.0.store(Arc::new(certificates));
    }
}

/// Reads a certificate chain with its key.
///
/// # Errors
/// If the PEM is broken, or certificate and key do not belong together.
pub fn certified_key(certificate_pem: &[u8], key_pem: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain = chain_of(certificate_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| TlsError::Key)?;
    Ok(CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?)
}

/// Presents the certificate of the client's server name if it has one, else that of the server.
#[derive(Debug)]
struct ByName {
    named: Arc<NamedCertificates>,
    other: Arc<dyn ResolvesServerCert>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.named.0.load().get(&name.to_ascii_lowercase()).cloned());
        named.or_else(|| self.other.resolve(hello))
    }
}

/// Adds certificates of server names to a configuration, if there are any.
#[must_use]
pub fn with_names(mut config: ServerConfig, named: Option<&Arc<NamedCertificates>>) -> ServerConfig {
    if let Some(named) = named {
        config.cert_resolver = Arc::new(ByName { named: named.clone(), other: config.cert_resolver });
    }
    config
}

fn chain_of(certificate_pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificate_pem).collect::<Result<Vec<_>, _>>();
    chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::Certificate)
}

/// Builds the configuration of [`server_config`] from files, and follows them. `authorities` are the files of client CAs, `named` further
/// certificates.
///
/// # Errors
/// If a file cannot be read or used at the start.
pub fn watch_certificate(
    certificate: &Path,
    key: &Path,
    authorities: Vec<PathBuf>,
    named: Option<Arc<NamedCertificates>>,
) -> Result<Reloading<ServerConfig>, TlsError> {
    let (certificate, key) = (certificate.to_owned(), key.to_owned());
    let paths = [certificate.clone(), key.clone()].into_iter().chain(authorities.clone()).collect();
    reload::watch(paths, move || {
        let config = server_config(&read(&certificate)?, &read(&key)?, names_in(&authorities)?)?;
        Ok(with_names(config, named.as_ref()))
    })
}

/// Builds the configuration of [`server_config`] with the names of CAs from files, and follows the files.
///
/// # Errors
/// If certificate and key cannot be used, or a file cannot be read at the start.
pub fn watch_authorities(
    certificate_pem: String,
    key_pem: String,
    authorities: Vec<PathBuf>,
    named: Option<Arc<NamedCertificates>>,
) -> Result<Reloading<ServerConfig>, TlsError> {
    reload::watch(authorities.clone(), move || {
        let config = server_config(certificate_pem.as_bytes(), key_pem.as_bytes(), names_in(&authorities)?)?;
        Ok(with_names(config, named.as_ref()))
    })
}

/// Builds the configuration of [`server_config`] with the names of CAs from files.
///
/// # Errors
/// If certificate and key cannot be used, or a file cannot be read.
pub fn with_authorities(
    certificate_pem: &str,
    key_pem: &str,
    authorities: &[PathBuf],
) -> Result<ServerConfig, TlsError> {
    server_config(certificate_pem.as_bytes(), key_pem.as_bytes(), names_in(authorities)?)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error))
}

fn names_in(authorities: &[PathBuf]) -> Result<Vec<DistinguishedName>, TlsError> {
    let pem = authorities.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    Ok(names(&pem.concat()))
}

/// Returns the subjects of CA certificates in PEM form, for [`server_config`]. Empty if one of the certificates cannot be read: clients of
/// its CA would only see the names of the others, and send no certificate.
pub fn names(authorities_pem: &[u8]) -> Vec<DistinguishedName> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities_pem) {
        let Ok(Ok(())) = certificate.map(|certificate| roots.add(certificate)) else { return Vec::new() };
    }
    roots.subjects()
}

/// A verifier that requests a client certificate and accepts any, or none (Go's `tls.RequestClientCert`). It verifies that the client holds
/// the certificate's key; authentication checks the issuer, and answers with a 401.
#[derive(Debug)]
struct AnyClientCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    /// The CA names in the certificate request; a client without a certificate of these CAs may send none.
    authorities: Vec<DistinguishedName>,
}

impl AnyClientCertificate {
    fn of(provider: &CryptoProvider, authorities: Vec<DistinguishedName>) -> Self {
        Self { algorithms: provider.signature_verification_algorithms, authorities }
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
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
        let config = |certificate: &str, key: &str| server_config(certificate.as_bytes(), key.as_bytes(), Vec::new());
        assert!(config(&one.certificate_pem, &one.key_pem).is_ok());
        assert!(matches!(config("", &one.key_pem), Err(TlsError::Certificate)));
        assert!(matches!(config(&one.certificate_pem, "x"), Err(TlsError::Key)));
        assert!(matches!(config(&one.certificate_pem, &other.key_pem), Err(TlsError::Rustls(_))));
    }

    #[test]
    fn names_of_authorities_are_the_subjects_of_their_certificates() {
        let [one, other] = ["one", "other"].map(|name| Authority::generate(name).unwrap().pem());
        let found = names(format!("{one}{other}").as_bytes());
        let has = |name: &str| found.iter().any(|subject| subject.as_ref().ends_with(name.as_bytes()));
        assert_eq!((found.len(), has("one"), has("other")), (2, true, true));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(names(format!("{one}{broken}").as_bytes()).is_empty());
        assert!(names(b"").is_empty());
    }
}
