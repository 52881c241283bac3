//! Whom a webhook's certificate must come from: the hook's CA bundle, or else the system's roots.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::{Arc, OnceLock};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The name that a host's certificate must have.
///
/// # Errors
/// When it can be in no certificate.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|_| format!("invalid host name \"{host}\""))
}

/// The TLS configuration for a CA bundle; an empty one stands for the system's roots.
///
/// # Errors
/// In the words of client-go, when the bundle holds no certificate.
pub fn config(ca: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let anchors = if ca.is_empty() { system_roots() } else { bundle(ca)?.into() };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let error = |error: &dyn std::fmt::Display| format!("unable to load root certificates: {error}");
    let verifier = Verifier::new(anchors, provider.clone()).map_err(|why| error(&why))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| error(&why))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn bundle(ca: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(ca).filter_map(Result::ok).collect();
    if certificates.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".into());
    }
    Ok(certificates)
}

/// The system's roots, read once.
fn system_roots() -> Arc<[CertificateDer<'static>]> {
    static ROOTS: OnceLock<Arc<[CertificateDer<'static>]>> = OnceLock::new();
    ROOTS.get_or_init(|| rustls_native_certs::load_native_certs().certs.into()).clone()
}

/// rustls' verification, and what Go accepts beyond it: a server certificate that is itself among the roots.
#[derive(Debug)]
struct Verifier {
    /// None if there are no roots at all: then only what is listed itself is accepted, so nothing.
    chain: Option<Arc<WebPkiServerVerifier>>,
    roots: Arc<[CertificateDer<'static>]>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(roots: Arc<[CertificateDer<'static>]>, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().cloned());
        let chain = if store.is_empty() {
            None
        } else {
            let built = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build();
            Some(built.map_err(|error| error.to_string())?)
        };
        Ok(Self { chain, roots, provider })
    }

    /// Checks a certificate that is itself a root: its name, its dates and what it is for.
    fn verify_root(leaf: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let unix = |seconds: i64| {
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        };
        let (not_before, not_after) = (parsed.validity.not_before.timestamp(), parsed.validity.not_after.timestamp());
        if seconds < not_before {
            return Err(CertificateError::NotValidYetContext { time: now, not_before: unix(not_before) }.into());
        }
        if seconds > not_after {
            return Err(CertificateError::ExpiredContext { time: now, not_after: unix(not_after) }.into());
        }
        if let Ok(Some(usage)) = parsed.extended_key_usage()
            && !usage.value.any
            && !usage.value.server_auth
        {
            return Err(CertificateError::InvalidPurpose.into());
        }
        verify_server_name(&ParsedCertificate::try_from(leaf)?, name)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = Err(Error::from(CertificateError::UnknownIssuer));
        let chain = self.chain.as_ref();
        match chain.map_or(unknown, |chain| chain.verify_server_cert(leaf, intermediates, name, ocsp, now)) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_)))
                if self.roots.iter().any(|root| root == leaf) =>
            {
                Self::verify_root(leaf, name, now).map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(
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
        rustls::crypto::verify_tls13_signature(
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
