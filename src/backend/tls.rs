//! TLS to webhooks: the issuers of a webhook's certificate (a CA bundle, or else the system's roots), and the client's certificate.

use crate::x509::{Issuers, client_config, handshake};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

/// The name of HTTP/2 in a handshake.
pub(super) const HTTP2: &[u8] = b"h2";

/// The reason why connections to a server cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
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
pub(crate) enum Source {
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
pub(crate) struct KeyPair {
    pub(crate) certificate: Source,
    /// The private key.
    pub(crate) key: Source,
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
    let issuers = match trust {
        Trust::Anybody => Issuers::Anybody,
        Trust::System => Issuers::System,
        Trust::Bundle(_) => Issuers::Listed(bundle(&inputs.bundle)?),
    };
    let pair = shows_certificate.then(|| certified_key(inputs, &provider)).transpose()?;
    let mut config = client_config(&issuers, pair, &provider).map_err(TlsError::Versions)?;
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
    handshake::certified_key(chain, key, provider).map_err(TlsError::Pair)
}

fn bundle(ca: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(ca).filter_map(Result::ok).collect();
    if certificates.is_empty() {
        return Err(TlsError::NoRoots);
    }
    Ok(certificates)
}
