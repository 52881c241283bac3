//! TLS to webhooks: the issuers of a webhook's certificate (a CA bundle, or else the system's roots), and the client's certificate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fs, io};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The name of HTTP/2 in a handshake.
pub(super) const HTTP2: &[u8] = b"h2";

/// The reason why connections to a server cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate can have the name of the host.
    #[error("invalid host name \"{0}\"")]
    HostName(String),
    /// A file of certificates or keys cannot be read.
    #[error("open {}: {why}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The CA bundle has no certificate.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    NoRoots,
    /// No verifier can be built from the roots.
    #[error("unable to load root certificates: {0}")]
    Roots(#[from] VerifierBuilderError),
    /// rustls supports no version of TLS.
    #[error("unable to load root certificates: {0}")]
    Versions(Error),
    /// The client has no certificate.
    #[error("tls: failed to find any PEM data in certificate input")]
    NoCertificate,
    /// The client's certificate has no key.
    #[error("tls: failed to find any PEM data in key input")]
    NoKey,
    /// The client's certificate and key are no pair, or of no known algorithm.
    #[error("tls: the client's certificate and key cannot be used: {0}")]
    Pair(Error),
}

/// Returns the name that a host's certificate must have.
///
/// # Errors
/// If no certificate can have the name.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::HostName(host.to_owned()))
}

/// PEM, in memory or in a file. A file is read again for each new connection, as client-go does.
#[derive(Clone)]
pub enum Source {
    /// The PEM itself.
    Data(Vec<u8>),
    /// The path of the file.
    File(PathBuf),
}

impl Source {
    fn read_now(&self) -> Result<Vec<u8>, TlsError> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => fs::read(path).map_err(|why| TlsError::Unreadable { path: path.clone(), why }),
        }
    }

    async fn read(&self) -> Result<Vec<u8>, TlsError> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => {
                tokio::fs::read(path).await.map_err(|why| TlsError::Unreadable { path: path.clone(), why })
            }
        }
    }

    fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// A client certificate and its key.
#[derive(Clone)]
pub struct KeyPair {
    /// The certificate.
    pub certificate: Source,
    /// The private key.
    pub key: Source,
}

/// The accepted issuers of a server's certificate.
pub(super) enum Trust {
    /// The system's roots.
    System,
    /// A CA bundle.
    Bundle(Source),
    /// Any issuer (`insecure-skip-tls-verify`).
    Anybody,
}

/// The TLS settings of connections to one endpoint.
pub(super) struct Tls {
    trust: Trust,
    certificate: Option<KeyPair>,
    offers_http2: bool,
    made: Mutex<(Inputs, Arc<ClientConfig>)>,
}

/// The inputs of a TLS configuration.
#[derive(Clone, Default, PartialEq)]
struct Inputs {
    bundle: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads the inputs. `offers_http2` offers HTTP/2 besides HTTP/1.1.
    ///
    /// # Errors
    /// If the bundle has no certificate, or the client's certificate and key are no pair.
    pub(super) fn new(trust: Trust, certificate: Option<KeyPair>, offers_http2: bool) -> Result<Self, TlsError> {
        let mut inputs = Inputs::default();
        if let Trust::Bundle(source) = &trust {
            inputs.bundle = source.read_now()?;
        }
        if let Some(pair) = &certificate {
            inputs.certificate = pair.certificate.read_now()?;
            inputs.key = pair.key.read_now()?;
        }
        let config = config(&trust, certificate.is_some(), &inputs, offers_http2)?;
        Ok(Self { trust, certificate, offers_http2, made: Mutex::new((inputs, config)) })
    }

    /// Returns the configuration for the next connection.
    ///
    /// # Errors
    /// If a file is missing, or cannot be used.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let (mut inputs, made) = self.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = inputs.clone();
        if let Trust::Bundle(source) = &self.trust
            && source.is_file()
        {
            inputs.bundle = source.read().await?;
        }
        if let Some(pair) = &self.certificate
            && (pair.certificate.is_file() || pair.key.is_file())
        {
            inputs.certificate = pair.certificate.read().await?;
            inputs.key = pair.key.read().await?;
        }
        if inputs == before {
            return Ok(made);
        }
        let config = config(&self.trust, self.certificate.is_some(), &inputs, self.offers_http2)?;
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = (inputs, config.clone());
        Ok(config)
    }
}

fn config(
    trust: &Trust,
    shows_certificate: bool,
    inputs: &Inputs,
    offers_http2: bool,
) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(Verifier::anybody(provider.clone())),
        Trust::System => Verifier::of_system(provider.clone())?,
        Trust::Bundle(_) => Arc::new(Verifier::of(bundle(&inputs.bundle)?, provider.clone())?),
    };
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    if shows_certificate {
        let pair = certified_key(inputs, &provider)?;
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(pair));
    }
    let offered: &[&[u8]] = if offers_http2 { &[HTTP2, b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = offered.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Creates the client's key pair (`tls.X509KeyPair`).
fn certified_key(inputs: &Inputs, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&inputs.certificate).filter_map(Result::ok).collect();
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(&inputs.key).map_err(|_| TlsError::NoKey)?;
    CertifiedKey::from_der(chain, key, provider).map_err(TlsError::Pair)
}

fn bundle(ca: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(ca).filter_map(Result::ok).collect();
    if certificates.is_empty() {
        return Err(TlsError::NoRoots);
    }
    Ok(certificates)
}

/// rustls' verification, plus a case that Go accepts: a server certificate that is itself among the roots.
#[derive(Debug)]
struct Verifier {
    /// `None` accepts any certificate, as long as the server has its key.
    roots: Option<Roots>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct Roots {
    /// `None` without any usable root: then only a listed certificate itself could be accepted, so none is.
    chain: Option<Arc<WebPkiServerVerifier>>,
    listed: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn anybody(provider: Arc<CryptoProvider>) -> Self {
        Self { roots: None, provider }
    }

    fn of(listed: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, VerifierBuilderError> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(listed.iter().cloned());
        let chain = if store.is_empty() {
            None
        } else {
            Some(WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build()?)
        };
        Ok(Self { roots: Some(Roots { chain, listed }), provider })
    }

    /// Returns the verifier with the system's roots, which are read once.
    fn of_system(provider: Arc<CryptoProvider>) -> Result<Arc<Self>, VerifierBuilderError> {
        static VERIFIER: OnceLock<Result<Arc<Verifier>, VerifierBuilderError>> = OnceLock::new();
        let read = || Self::of(rustls_native_certs::load_native_certs().certs, provider).map(Arc::new);
        VERIFIER.get_or_init(read).clone()
    }

    /// Verifies a certificate that is itself a root: its name, its validity and its usage.
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
        let Some(Roots { chain, listed }) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        let unknown = Err(Error::from(CertificateError::UnknownIssuer));
        match chain.as_ref().map_or(unknown, |chain| chain.verify_server_cert(leaf, intermediates, name, ocsp, now)) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_)))
                if listed.iter().any(|root| root == leaf) =>
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
