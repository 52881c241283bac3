//! The TLS versions, cipher suites and further certificates of the listener.

use rustls::CipherSuite;
use std::path::PathBuf;

/// The TLS versions and cipher suites that a listener offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsProtocol {
    /// Whether TLS 1.2 is refused.
    pub(crate) only_13: bool,
    /// The cipher suites of TLS 1.2; `None` stands for all that rustls has. Those of TLS 1.3 are always offered, as in Go.
    pub(crate) cipher_suites: Option<Vec<CipherSuite>>,
}

/// A serving certificate for TLS server names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedCertificate {
    /// The certificate, followed by its chain, and its key.
    pub(crate) files: super::CertificateFiles,
    /// The names in lower case, whose first label may be `*`. If there are none, those of the certificate count.
    pub(crate) names: Vec<String>,
}

/// The reason why a value of a TLS flag is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsFlagError {
    /// A name that is no version.
    #[error("is not a TLS version: use VersionTLS12 or VersionTLS13")]
    Version,
    /// A name that Go does not have either.
    #[error("Cipher suite {0} not supported or doesn't exist")]
    CipherSuite(String),
    /// A list of names without a name.
    #[error("empty names list is not allowed")]
    NoNames,
    /// Not two files.
    #[error("expected comma separated certificate and key file paths")]
    Files,
}

/// The cipher suites that Go has and rustls does not: CBC, RC4 and 3DES, and those without forward secrecy.
const GO_ONLY: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

impl TlsProtocol {
    /// Parses `--tls-min-version` and `--tls-cipher-suites`. rustls has no version before TLS 1.2, so that an older version stands for 1.2.
    ///
    /// # Errors
    /// For a version or a cipher suite that kube-apiserver does not know.
    pub(crate) fn parse(version: Option<&str>, cipher_suites: &[String]) -> Result<Self, TlsFlagError> {
        let only_13 = match version {
            None | Some("VersionTLS10" | "VersionTLS11" | "VersionTLS12") => false,
            Some("VersionTLS13") => true,
            Some(_) => return Err(TlsFlagError::Version),
        };
        let suites = cipher_suites.iter().filter_map(|name| cipher_suite(name).transpose());
        let suites = suites.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { only_13, cipher_suites: (!cipher_suites.is_empty()).then_some(suites) })
    }
}

/// Returns the cipher suite of Go's name (`cliflag.TLSCipherSuites`), or `None` for one that rustls does not have.
fn cipher_suite(name: &str) -> Result<Option<CipherSuite>, TlsFlagError> {
    Ok(Some(match name.trim() {
        "TLS_AES_128_GCM_SHA256" => CipherSuite::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_256_GCM_SHA384" => CipherSuite::TLS13_AES_256_GCM_SHA384,
        "TLS_CHACHA20_POLY1305_SHA256" => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" | "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" => {
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" | "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" => {
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        }
        known if GO_ONLY.contains(&known) => return Ok(None),
        unknown => return Err(TlsFlagError::CipherSuite(unknown.to_owned())),
    }))
}

impl NamedCertificate {
    /// Parses a value of `--tls-sni-cert-key`: `certificate,key`, or `certificate,key:name,…` (`cliflag.NamedCertKey`).
    ///
    /// # Errors
    /// If there are not two files, or no names after the colon.
    pub(crate) fn parse(value: &str) -> Result<Self, TlsFlagError> {
        let (files, names) = match value.split_once(':') {
            Some((_, names)) if names.trim().is_empty() => return Err(TlsFlagError::NoNames),
            Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_ascii_lowercase()).collect()),
            None => (value, Vec::new()),
        };
        let mut files = files.split(',').map(|path| PathBuf::from(path.trim()));
        match (files.next(), files.next(), files.next()) {
            (Some(certificate), Some(key), None) => {
                Ok(Self { files: super::CertificateFiles { certificate, key }, names })
            }
            _ => Err(TlsFlagError::Files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_cipher_suites_have_the_names_of_kube_apiserver() {
        let parse = |version, suites: &[&str]| {
            TlsProtocol::parse(version, &suites.iter().map(|&suite| suite.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(parse(None, &[]), Ok(TlsProtocol::default()));
        for version in ["VersionTLS10", "VersionTLS12"] {
            assert!(!parse(Some(version), &[]).unwrap().only_13, "{version}");
        }
        assert!(parse(Some("VersionTLS13"), &[]).unwrap().only_13);
        assert_eq!(parse(Some("TLS13"), &[]), Err(TlsFlagError::Version));
        let mixed = ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_AES_128_CBC_SHA", " TLS_AES_128_GCM_SHA256"];
        assert_eq!(
            parse(None, &mixed).unwrap().cipher_suites,
            Some(vec![CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, CipherSuite::TLS13_AES_128_GCM_SHA256])
        );
        // A list of unsupported suites is not the default list.
        assert_eq!(parse(None, &["TLS_RSA_WITH_RC4_128_SHA"]).unwrap().cipher_suites, Some(Vec::new()));
        let error = parse(None, &["TLS_NULL"]).unwrap_err().to_string();
        assert_eq!(error, "Cipher suite TLS_NULL not supported or doesn't exist");
    }

    #[test]
    fn certificates_of_names_are_two_files_and_perhaps_names() {
        let parse = |value: &str| {
            NamedCertificate::parse(value).map(|named| (named.files.certificate, named.files.key, named.names))
        };
        let files = |names: &[&str]| {
            Ok((
                PathBuf::from("foo.crt"),
                PathBuf::from("foo.key"),
                names.iter().map(|&name| name.to_owned()).collect(),
            ))
        };
        assert_eq!(parse("foo.crt,foo.key"), files(&[]));
        assert_eq!(parse(" foo.crt , foo.key : *.Foo.com, foo.com "), files(&["*.foo.com", "foo.com"]));
        assert_eq!(parse("foo.crt,foo.key: "), Err(TlsFlagError::NoNames));
        assert_eq!(parse("foo.crt"), Err(TlsFlagError::Files));
        assert_eq!(parse("a,b,c:d"), Err(TlsFlagError::Files));
    }
}
