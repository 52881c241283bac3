//! The server side of the listener's TLS handshakes.

use super::certificates;
use super::reload::{self, Reloading};
use crate::config::{CertificateFiles, NamedCertificate, TlsProtocol};
use crate::x509::{Roots, handshake};
use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why a serving certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
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

/// Serving certificates by TLS server name in lower case; the first label of a name may be `*`.
pub(crate) type Certificates = HashMap<String, Arc<CertifiedKey>>;

/// The common parts of the handshakes of a listener, for all its certificates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handshake {
    /// The files of the CAs whose client certificates the handshake requests. Without files it requests any certificate.
    pub(crate) authorities: Vec<PathBuf>,
    /// The versions and cipher suites.
    pub(crate) protocol: TlsProtocol,
    /// The certificates of server names. The first with the name counts.
    pub(crate) named: Vec<Arc<ArcSwap<Certificates>>>,
}

impl Handshake {
    /// Builds the server's configuration with this certificate chain and key: HTTP/2 before HTTP/1.1.
    ///
    /// # Errors
    /// If the PEM is broken, certificate and key do not belong together, or a file of an authority cannot be read.
    pub(crate) fn config(&self, certificate_pem: &[u8], key_pem: &[u8]) -> Result<ServerConfig, TlsError> {
        let pem = self.authorities.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        self.config_naming(certificate_pem, key_pem, names(&pem.join(&b'\n')))
    }

    /// Builds the configuration of [`Self::config`] with these names of CAs in place of those from files.
    ///
    /// # Errors
    /// If the PEM is broken, or certificate and key do not belong together.
    pub(crate) fn config_naming(
        &self,
        certificate_pem: &[u8],
        key_pem: &[u8],
        authorities: Vec<DistinguishedName>,
    ) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(provider(&self.protocol));
        let certificate = read_certified_key(certificate_pem, key_pem, &provider)?;
        let verifier = Arc::new(AnyClientCertificate::of(&provider, authorities));
        let versions = if self.protocol.only_13 { &[&rustls::version::TLS13][..] } else { rustls::ALL_VERSIONS };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certificate)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if !self.named.is_empty() {
            config.cert_resolver = Arc::new(ByName { named: self.named.clone(), other: config.cert_resolver });
        }
        Ok(config)
    }

    /// Builds the configuration of [`Self::config`] from files, and follows them.
    ///
    /// # Errors
    /// If a file cannot be read or used at the start.
    pub(crate) fn watch(self, files: &CertificateFiles) -> Result<Reloading<ServerConfig>, TlsError> {
        let CertificateFiles { certificate, key } = files.clone();
        let paths = [certificate.clone(), key.clone()].into_iter().chain(self.authorities.clone()).collect();
        reload::watch(paths, move || self.config(&read(&certificate)?, &read(&key)?))
    }

    /// Builds the configuration of [`Self::config`], and follows the files of the authorities.
    ///
    /// # Errors
    /// If certificate and key cannot be used, or a file cannot be read at the start.
    pub(crate) fn watch_authorities(
        self,
        certificate_pem: String,
        key_pem: String,
    ) -> Result<Reloading<ServerConfig>, TlsError> {
        reload::watch(self.authorities.clone(), move || self.config(certificate_pem.as_bytes(), key_pem.as_bytes()))
    }
}

/// Returns the library's algorithms, with these cipher suites of TLS 1.2 alone.
fn provider(protocol: &TlsProtocol) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(named) = &protocol.cipher_suites {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || named.contains(&suite.suite()));
    }
    provider
}

/// Reads a certificate chain with its key.
///
/// # Errors
/// If the PEM is broken, or certificate and key do not belong together.
pub(crate) fn certified_key(certificate_pem: &[u8], key_pem: &[u8]) -> Result<CertifiedKey, TlsError> {
    read_certified_key(certificate_pem, key_pem, &aws_lc_rs::default_provider())
}

fn read_certified_key(
    certificate_pem: &[u8],
    key_pem: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = chain_of(certificate_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| TlsError::Key)?;
    Ok(handshake::certified_key(chain, key, provider)?)
}

/// Reads the certificates of server names from files, and follows them. As in kube-apiserver (`BuildNamedCertificates`), names that are given
/// count before names of a certificate, and the first of two files with the same name counts.
///
/// # Errors
/// If a file cannot be read or used at the start.
pub(crate) fn watch_named(named: Vec<NamedCertificate>) -> Result<Reloading<Certificates>, TlsError> {
    let paths = named.iter().flat_map(|named| [named.files.certificate.clone(), named.files.key.clone()]).collect();
    reload::watch(paths, move || {
        let (mut given, mut own) = (Certificates::new(), Certificates::new());
        for NamedCertificate { files, names } in &named {
            let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
            let certificate = Arc::new(certified_key(&certificate, &key)?);
            for name in names {
                given.entry(name.clone()).or_insert_with(|| certificate.clone());
            }
            if names.is_empty() {
                for name in certificates::server_names(&certificate.cert) {
                    own.entry(name.to_ascii_lowercase()).or_insert_with(|| certificate.clone());
                }
            }
        }
        own.extend(given);
        Ok(own)
    })
}

/// Presents the certificate of the client's server name if it has one, else that of the server.
#[derive(Debug)]
struct ByName {
    named: Vec<Arc<ArcSwap<Certificates>>>,
    other: Arc<dyn ResolvesServerCert>,
}

impl ByName {
    /// Returns the certificate of the name, or of the name with `*` as its first label.
    fn of(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        self.named.iter().find_map(|certificates| {
            let certificates = certificates.load();
            let wildcard = || certificates.get(&format!("*.{}", name.split_once('.')?.1));
            certificates.get(&name).or_else(wildcard).cloned()
        })
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        hello.server_name().and_then(|name| self.of(name)).or_else(|| self.other.resolve(hello))
    }
}

fn chain_of(certificate_pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificate_pem).collect::<Result<Vec<_>, _>>();
    chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::Certificate)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error))
}

/// Returns the subjects of CA certificates in PEM form, for [`Handshake::config_naming`]. Empty if one of the certificates cannot be read: clients of
/// its CA would only see the names of the others, and send no certificate.
pub(crate) fn names(authorities_pem: &[u8]) -> Vec<DistinguishedName> {
    let roots = Roots::parse(authorities_pem).unwrap_or_default();
    roots.subjects().map(|subject| subject.to_vec().into()).collect()
}

/// A verifier that requests a client certificate and accepts any that Go parses, or none (Go's `tls.RequestClientCert`). It verifies that the
/// client holds the certificate's key; authentication checks the issuer, and answers with a 401.
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
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        for certificate in [leaf].into_iter().chain(others) {
            handshake::parse(certificate)?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificates::Authority;
    use super::*;
    use crate::x509::recorded;

    #[test]
    fn refuses_what_is_no_certificate_and_a_key_of_another() {
        let authority = Authority::generate("test").unwrap();
        let one = authority.serving(&["localhost".into()]).unwrap();
        let other = authority.serving(&["localhost".into()]).unwrap();
        let config = |certificate: &str, key: &str| Handshake::default().config(certificate.as_bytes(), key.as_bytes());
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

    #[tokio::test]
    async fn certificates_of_names_are_chosen_as_by_kube_apiserver() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test").unwrap();
        let named = |file: &str, own: &[&str], names: &[&str]| {
            let issued = authority.serving(&own.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
            let path = |end: &str| folder.path().join(format!("{file}.{end}"));
            std::fs::write(path("crt"), &issued.certificate_pem).unwrap();
            std::fs::write(path("key"), &issued.key_pem).unwrap();
            let files = CertificateFiles { certificate: path("crt"), key: path("key") };
            let certificate = chain_of(issued.certificate_pem.as_bytes()).unwrap().remove(0);
            (NamedCertificate { files, names: names.iter().map(|&name| name.to_owned()).collect() }, certificate)
        };
        let certificates = [
            named("own", &["a.example.com", "b.example.com", "10.0.0.1"], &[]),
            named("later", &["b.example.com", "*.example.com"], &[]),
            named("given", &["x.test"], &["a.example.com", "*.foo.test"]),
        ];
        let watched = watch_named(certificates.iter().map(|(named, _)| named.clone()).collect()).unwrap();
        let by_name = ByName { named: vec![watched.shared()], other: Arc::new(NoCertificate) };
        for (name, wanted) in [
            ("A.example.com", Some(2)),
            ("b.example.com", Some(0)),
            ("c.example.com", Some(1)),
            ("deep.c.example.com", None),
            ("x.foo.test", Some(2)),
            ("foo.test", None),
            ("x.test", None),
            ("10.0.0.1", None),
        ] {
            let found = by_name.of(name).map(|found| found.cert[0].clone());
            assert_eq!(found.as_ref(), wanted.map(|index: usize| &certificates[index].1), "{name}");
        }
    }

    /// Performs a handshake in memory; returns the certificates that the server has accepted.
    fn shake_hands(
        client: Vec<CertificateDer<'static>>,
        key: &[u8],
        version: &'static rustls::SupportedProtocolVersion,
    ) -> Result<Vec<CertificateDer<'static>>, rustls::Error> {
        let authority = Authority::generate("test").unwrap();
        let serving = authority.serving(&["localhost".into()]).unwrap();
        let server = Handshake::default().config(serving.certificate_pem.as_bytes(), serving.key_pem.as_bytes());
        let mut server = rustls::ServerConnection::new(Arc::new(server.unwrap())).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let key = PrivateKeyDer::try_from(key.to_vec()).unwrap();
        let pair = CertifiedKey::new(client, provider.key_provider.load_private_key(key).unwrap());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(pair));
        let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        while server.is_handshaking() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            let mut read = bytes.as_slice();
            while !read.is_empty() {
                server.read_tls(&mut read).unwrap();
                server.process_new_packets()?;
            }
            bytes.clear();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            let mut read = bytes.as_slice();
            while !read.is_empty() {
                client.read_tls(&mut read).unwrap();
                client.process_new_packets()?;
            }
        }
        Ok(server.peer_certificates().unwrap_or_default().iter().map(|der| der.clone().into_owned()).collect())
    }

    #[test]
    fn a_handshake_takes_the_certificates_that_go_takes_from_the_holders_of_their_keys() {
        let names = ["a leaf of an authority", "version 1", "version 1 with an RSA key", "a leaf with the key Ed25519"];
        let names = names.into_iter().chain(["a leaf with the key P384", "an unknown critical extension"]);
        let cases: Vec<_> = names.map(recorded::case).collect();
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            for case in &cases {
                let what = format!("{} {version:?}", case.name);
                assert_eq!(shake_hands(case.chain.clone(), &case.key, version), Ok(case.chain.clone()), "{what}");
                // Another key of the same kind, and one of another kind.
                for other in cases.iter().filter(|other| other.name != case.name) {
                    assert!(shake_hands(case.chain.clone(), &other.key, version).is_err(), "{what}: {}", other.name);
                }
            }
        }
    }

    #[test]
    fn a_handshake_refuses_certificates_that_go_does_not_parse() {
        let mut refused = recorded::cases();
        refused.retain(|case| case.code == 0 && !case.key.is_empty());
        assert!(refused.len() >= 10, "{}", refused.len());
        for case in refused {
            for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
                assert!(shake_hands(case.chain.clone(), &case.key, version).is_err(), "{}", case.name);
            }
        }
    }

    #[derive(Debug)]
    struct NoCertificate;

    impl ResolvesServerCert for NoCertificate {
        fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            None
        }
    }

    #[test]
    fn cipher_suites_of_tls_13_are_always_offered() {
        let names = |protocol| provider(&protocol).cipher_suites.iter().map(|suite| suite.suite()).collect::<Vec<_>>();
        let all = names(TlsProtocol::default());
        let one = rustls::CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
        let some = names(TlsProtocol { only_13: false, cipher_suites: Some(vec![one]) });
        assert!(all.len() > 4 && some.len() == 4 && some.contains(&one), "{all:?} {some:?}");
    }

    #[test]
    fn a_client_without_tls_13_is_refused_if_that_is_the_lowest_version() {
        let issued = Authority::generate("test").unwrap().serving(&["localhost".into()]).unwrap();
        let shakes = |only_13| {
            let protocol = TlsProtocol { only_13, cipher_suites: None };
            let handshake = Handshake { protocol, ..Handshake::default() };
            let config = handshake.config(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
            let mut server = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            let client = rustls::ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
                .with_protocol_versions(&[&rustls::version::TLS12])
                .unwrap()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            let mut client = rustls::ClientConnection::new(client.into(), "localhost".try_into().unwrap()).unwrap();
            let mut hello = Vec::new();
            client.write_tls(&mut hello).unwrap();
            server.read_tls(&mut hello.as_slice()).unwrap();
            server.process_new_packets().is_ok()
        };
        assert_eq!((shakes(false), shakes(true)), (true, false));
    }
}
