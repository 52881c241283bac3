//! The check of a certificate and its key (`tls.X509KeyPair`), with Go's words.

use super::Certificate;
use rustls::SignatureAlgorithm;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::PrivateKeyDer;
use thiserror::Error;
use x509_parser::pem::Pem;

/// The object identifiers of public keys, in DER.
const KEYS: [(&[u8], SignatureAlgorithm); 3] = [
    (&[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1], SignatureAlgorithm::RSA),
    (&[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1], SignatureAlgorithm::ECDSA),
    (&[6, 3, 0x2b, 0x65, 0x70], SignatureAlgorithm::ED25519),
];

/// A certificate and a key that do not belong together, or that Go does not read, with Go's text.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Mismatch(String);

/// Checks that the first certificate of a text in PEM has the key of another text in PEM.
///
/// # Errors
/// If one is missing or broken, or if the key is another's.
pub(crate) fn check_key_pair(certificate: &[u8], key: &[u8]) -> Result<(), Mismatch> {
    const NO_CERTIFICATE: &str = "tls: failed to find any PEM data in certificate input";
    const NO_KEY: &str = "tls: failed to find any PEM data in key input";
    let is_key = |block: &Pem| block.label == "PRIVATE KEY" || block.label.ends_with(" PRIVATE KEY");
    let (mut leaf, mut skipped) = (None, Vec::new());
    for block in blocks(certificate) {
        match block.label.as_str() {
            "CERTIFICATE" => drop(leaf.get_or_insert(block.contents)),
            _ => skipped.push(block.label),
        }
    }
    let Some(leaf) = leaf else {
        return Err(Mismatch(match skipped.as_slice() {
            [] => NO_CERTIFICATE.to_owned(),
            [label] if label.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
                    .to_owned()
            }
            labels => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                labels.join(" ")
            ),
        }));
    };
    let (mut found, mut skipped) = (None, Vec::new());
    for block in blocks(key) {
        if is_key(&block) {
            found = Some(block.contents);
            break;
        }
        skipped.push(block.label);
    }
    let Some(key) = found else {
        return Err(Mismatch(match skipped.as_slice() {
            [] => NO_KEY.to_owned(),
            [label] if label == "CERTIFICATE" => {
                "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
            }
            labels => format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following \
                 types: [{}]",
                labels.join(" ")
            ),
        }));
    };
    let leaf = Certificate::parse(&leaf).map_err(|error| Mismatch(error.to_string()))?;
    let key = PrivateKeyDer::try_from(key).map_err(drop);
    let key = key.and_then(|key| default_provider().key_provider.load_private_key(key).map_err(drop));
    let key = key.map_err(|()| Mismatch("tls: failed to parse private key".to_owned()))?;
    let public = leaf.key_info();
    // The identifier stands at the begin of the key's information, after the heads of two sequences of at most four bytes each.
    let begin = public.get(..public.len().min(24)).unwrap_or_default();
    let of_leaf = KEYS.iter().find(|(identifier, _)| begin.windows(identifier.len()).any(|part| part == *identifier));
    match of_leaf {
        None => Err(Mismatch("tls: unknown public key algorithm".to_owned())),
        Some((_, algorithm)) if *algorithm != key.algorithm() => {
            Err(Mismatch("tls: private key type does not match public key type".to_owned()))
        }
        Some(_) if key.public_key().is_some_and(|own| own.as_ref() != public) => {
            Err(Mismatch("tls: private key does not match public key".to_owned()))
        }
        Some(_) => Ok(()),
    }
}

/// The blocks of a text in PEM, up to one that is broken.
fn blocks(text: &[u8]) -> impl Iterator<Item = Pem> {
    Pem::iter_from_buffer(text).map_while(Result::ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, generate_simple_self_signed};

    #[test]
    fn a_pair_is_checked_with_the_words_of_go() {
        let issued = generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
        let (certificate, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
        let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
        let of_other_type = KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem();
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (certificate, key, expected) in [
            (certificate.as_str(), key.as_str(), None),
            ("", "", Some("tls: failed to find any PEM data in certificate input")),
            ("x", &key, Some("tls: failed to find any PEM data in certificate input")),
            (&certificate, "x", Some("tls: failed to find any PEM data in key input")),
            (
                &key,
                &certificate,
                Some(
                    "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been \
                     switched",
                ),
            ),
            (
                &certificate,
                &certificate,
                Some("tls: found a certificate rather than a key in the PEM for the private key"),
            ),
            (&certificate, broken, Some("tls: failed to parse private key")),
            (&certificate, &other, Some("tls: private key does not match public key")),
            (&certificate, &of_other_type, Some("tls: private key type does not match public key type")),
        ] {
            let found = check_key_pair(certificate.as_bytes(), key.as_bytes());
            assert_eq!(found.err().map(|error| error.to_string()).as_deref(), expected, "{certificate}{key}");
        }
    }
}
