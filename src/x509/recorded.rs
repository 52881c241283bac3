//! Chains of certificates with the answers of a kube-apiserver, which `tools/certificate-chains` has recorded.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use serde::Deserialize;
use std::collections::HashMap;

/// A time at which the certificates are valid, in seconds since 1970: 2027-01-15.
pub(crate) const NOW: i64 = 1_800_000_000;

/// A chain and its answer.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bundle: Vec<CertificateDer<'static>>,
    /// What the client presents, leaf first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// The client's key in PKCS #8, if it is short.
    pub(crate) key: Vec<u8>,
    /// The status code; 0 for a refused handshake.
    pub(crate) code: u16,
    pub(crate) user: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Certificate {
        certificate: String,
        der: String,
    },
    Case {
        case: String,
        bundle: Vec<String>,
        chain: Vec<String>,
        #[serde(default)]
        key: String,
        code: u16,
        #[serde(default)]
        user: String,
        #[serde(default)]
        uid: String,
        #[serde(default)]
        groups: Vec<String>,
    },
}

/// Returns all cases.
pub(crate) fn cases() -> Vec<Case> {
    let mut certificates: HashMap<String, CertificateDer<'static>> = HashMap::new();
    let mut cases = Vec::new();
    for line in include_str!("recorded.jsonl").lines() {
        match serde_json::from_str(line).unwrap() {
            Line::Certificate { certificate, der } => {
                certificates.insert(certificate, STANDARD.decode(der).unwrap().into());
            }
            Line::Case { case: name, bundle, chain, key, code, user, uid, groups } => {
                let named = |names: &[String]| names.iter().map(|name| certificates[name].clone()).collect();
                let (bundle, chain, key) = (named(&bundle), named(&chain), STANDARD.decode(key).unwrap());
                cases.push(Case { name, bundle, chain, key, code, user, uid, groups });
            }
        }
    }
    cases
}

/// Returns the case of this name.
pub(crate) fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap()
}
