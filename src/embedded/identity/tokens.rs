//! Service account tokens: JSON Web Tokens with the claims of kube-apiserver (`pkg/serviceaccount`), signed with RS256 or ECDSA.

use crate::config::TokenFiles;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::RSAPublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// The issuer if the configuration names none.
const ISSUER: &str = "https://kubernetes.default.svc";
/// The curves of keys, with their algorithms.
const CURVES: [(&str, &EcdsaSigningAlgorithm); 3] = [
    ("ES256", &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
    ("ES384", &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
    ("ES512", &signature::ECDSA_P521_SHA512_FIXED_SIGNING),
];

/// The reason why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// The file has no key.
    #[error("{}: no {} in PEM form", .0.display(), .1)]
    Missing(PathBuf, &'static str),
    /// No key can be made.
    #[error("cannot make a key that signs tokens")]
    Made,
}

/// The reason why a token is invalid, with kube-apiserver's text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::embedded) enum InvalidToken {
    /// No key has the identifier that the token names.
    #[error("invalid signature, no keys found")]
    NoKey,
    /// No key has signed the token; with the text of go-jose.
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    /// The token is for other audiences.
    #[error("token audiences {given} is invalid for the target audiences {wanted}")]
    Audiences { given: String, wanted: String },
    /// The token is too old.
    #[error("service account token has expired")]
    Expired,
    /// The token is too young.
    #[error("service account token is not valid yet")]
    NotYetValid,
    /// The token is of the future.
    #[error("service account token is issued in the future")]
    NotYetIssued,
    /// The service account of this name does not exist.
    #[error("serviceaccounts {0:?} not found")]
    NoAccount(String),
    /// There is another service account of that name.
    #[error("service account UID ({found}) does not match claim ({claimed})")]
    OtherAccount { found: String, claimed: String },
    /// The service account is being deleted.
    #[error("service account {namespace}/{name} has been deleted")]
    DeletedAccount { namespace: String, name: String },
    /// An object to which the token is bound does not exist, or is being deleted.
    #[error("service account token has been invalidated")]
    Unbound,
    /// There is another object of the name to which the token is bound.
    #[error("{kind} UID ({found}) does not match service account {kind} ref claim ({claimed})")]
    OtherObject { kind: &'static str, found: String, claimed: String },
}

/// The claims of a token.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(in crate::embedded) struct Claims {
    #[serde(default, deserialize_with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
    #[serde(default)]
    pub exp: i64,
    #[serde(default)]
    pub iat: i64,
    #[serde(default)]
    pub iss: String,
    #[serde(default)]
    pub jti: String,
    #[serde(default, rename = "kubernetes.io")]
    pub kubernetes: Bound,
    #[serde(default)]
    pub nbf: i64,
    #[serde(default)]
    pub sub: String,
}

/// The objects that a token is for (`privateClaims`).
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(in crate::embedded) struct Bound {
    #[serde(default)]
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    #[serde(default)]
    pub serviceaccount: Reference,
}

/// The name and UID of an object.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(in crate::embedded) struct Reference {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[derive(Deserialize, Serialize)]
struct Header<'a> {
    alg: &'a str,
    #[serde(default)]
    kid: String,
}

/// A key that signs.
enum Signer {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(&'static str, EcdsaKeyPair),
}

/// A public key as a JSON Web Key, with the fields in go-jose's order.
#[derive(Debug, Serialize)]
pub(in crate::embedded) struct PublicKey {
    #[serde(rename = "use")]
    purpose: &'static str,
    kty: &'static str,
    kid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    /// The algorithm of signatures.
    pub(in crate::embedded) alg: &'static str,
    #[serde(flatten)]
    numbers: Numbers,
}

/// The numbers of a public key, in base64.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Numbers {
    Ecdsa { x: String, y: String },
    Rsa { n: String, e: String },
}

/// A key that verifies.
struct Verifier {
    id: String,
    algorithm: &'static str,
    check: &'static dyn VerificationAlgorithm,
    key: Vec<u8>,
}

/// The keys, issuers and audiences of tokens.
pub(crate) struct Tokens {
    issuers: Vec<String>,
    jwks_uri: Option<String>,
    audiences: Vec<String>,
    max_seconds: Option<i64>,
    /// The key that signs, and its id; `None` if no key could be made.
    signer: Option<(Signer, String)>,
    verifiers: Vec<Verifier>,
}

impl Default for Tokens {
    /// Tokens with a new key.
    fn default() -> Self {
        let without_keys = |issuers: Vec<String>| Self {
            audiences: issuers.clone(),
            issuers,
            jwks_uri: None,
            max_seconds: None,
            signer: None,
            verifiers: Vec::new(),
        };
        Self::from_files(&TokenFiles::default()).unwrap_or_else(|_| without_keys(vec![ISSUER.to_owned()]))
    }
}

impl Tokens {
    /// Reads the keys.
    ///
    /// # Errors
    /// If a file cannot be read or has no key.
    pub(crate) fn from_files(files: &TokenFiles) -> Result<Self, KeyError> {
        let signer = match &files.signing_key {
            Some(path) => private_keys(&read(path)?)
                .pop()
                .ok_or_else(|| KeyError::Missing(path.clone(), "RSA or ECDSA private key"))?,
            None => Signer::make().ok_or(KeyError::Made)?,
        };
        let mut verifiers = Vec::new();
        for path in &files.keys {
            let found = verifiers_of(&read(path)?);
            if found.is_empty() {
                return Err(KeyError::Missing(path.clone(), "RSA or ECDSA key"));
            }
            verifiers.extend(found);
        }
        let own = signer.public_key().ok_or(KeyError::Made)?;
        let own = Verifier::of(&own).ok_or(KeyError::Made)?;
        let id = own.id.clone();
        if files.keys.is_empty() {
            verifiers.push(own);
        }
        let default = |values: &[String], default: &[String]| match values {
            [] => default.to_vec(),
            values => values.to_vec(),
        };
        let issuers = default(&files.issuers, &[ISSUER.to_owned()]);
        let audiences = default(&files.audiences, &issuers);
        let jwks_uri = files.jwks_uri.clone();
        Ok(Self { issuers, jwks_uri, audiences, max_seconds: files.max_seconds, signer: Some((signer, id)), verifiers })
    }

    /// The issuer of new tokens.
    pub(in crate::embedded) fn issuer(&self) -> Option<&str> {
        self.issuers.first().map(String::as_str)
    }

    /// The URL of the keys, if the configuration names one.
    pub(in crate::embedded) fn jwks_uri(&self) -> Option<&str> {
        self.jwks_uri.as_deref()
    }

    /// The keys that verify.
    pub(in crate::embedded) fn public_keys(&self) -> Vec<PublicKey> {
        self.verifiers.iter().filter_map(Verifier::public).collect()
    }

    /// The audiences of the API server.
    pub(in crate::embedded) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The longest lifetime of a token, in seconds.
    pub(in crate::embedded) fn max_seconds(&self) -> Option<i64> {
        self.max_seconds
    }

    /// Signs a token with these claims, as the first issuer; `None` if no key signs.
    pub(in crate::embedded) fn sign(&self, mut claims: Claims) -> Option<String> {
        let (signer, id) = self.signer.as_ref()?;
        claims.iss = self.issuers.first()?.clone();
        let header = Header { alg: signer.algorithm(), kid: id.clone() };
        let part = |bytes: Vec<u8>| URL_SAFE_NO_PAD.encode(bytes);
        let signed = format!("{}.{}", part(serde_json::to_vec(&header).ok()?), part(serde_json::to_vec(&claims).ok()?));
        let signature = part(signer.sign(signed.as_bytes())?);
        Some(format!("{signed}.{signature}"))
    }

    /// Verifies the issuer and the signature of a token; `None` for a token of another issuer (`jwtTokenAuthenticator.AuthenticateToken`).
    ///
    /// # Errors
    /// If no key has signed the token.
    pub(in crate::embedded) fn verify(&self, token: &str) -> Result<Option<Claims>, InvalidToken> {
        let Some((signed, signature)) = token.rsplit_once('.') else { return Ok(None) };
        let Some((header, payload)) = signed.split_once('.').filter(|(_, payload)| !payload.contains('.')) else {
            return Ok(None);
        };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let (Some(header), Some(payload), Some(signature)) = (decode(header), decode(payload), decode(signature))
        else {
            return Ok(None);
        };
        let (Ok(header), Ok(claims)) =
            (serde_json::from_slice::<Header<'_>>(&header), serde_json::from_slice::<Claims>(&payload))
        else {
            return Ok(None);
        };
        if !self.issuers.contains(&claims.iss) {
            return Ok(None);
        }
        let mut keys = self.verifiers.iter().filter(|key| header.kid.is_empty() || key.id == header.kid).peekable();
        if keys.peek().is_none() {
            return Err(InvalidToken::NoKey);
        }
        let is_signed_by = |key: &Verifier| {
            let check = UnparsedPublicKey::new(key.check, &key.key);
            key.algorithm == header.alg && check.verify(signed.as_bytes(), &signature).is_ok()
        };
        if !keys.any(is_signed_by) {
            return Err(InvalidToken::Signature);
        }
        Ok(Some(claims))
    }
}

impl Signer {
    /// A new ECDSA key.
    fn make() -> Option<Self> {
        let [(name, algorithm), ..] = CURVES;
        EcdsaKeyPair::generate(algorithm).ok().map(|key| Self::Ecdsa(name, key))
    }

    /// The private key in DER form: PKCS #8, PKCS #1 or SEC 1.
    fn from_der(der: &[u8]) -> Option<Self> {
        if let Ok(key) = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)) {
            return Some(Self::Rsa(Box::new(key)));
        }
        let key = |(name, algorithm)| Some(Self::Ecdsa(name, EcdsaKeyPair::from_private_key_der(algorithm, der).ok()?));
        CURVES.into_iter().find_map(key)
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::Ecdsa(name, _) => name,
        }
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            Self::Ecdsa(_, key) => key.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec()),
        }
    }

    /// The public key as a SubjectPublicKeyInfo.
    fn public_key(&self) -> Option<Vec<u8>> {
        let der: PublicKeyX509Der<'_> = match self {
            Self::Rsa(key) => key.public_key().as_der().ok()?,
            Self::Ecdsa(_, key) => key.public_key().as_der().ok()?,
        };
        Some(der.as_ref().to_vec())
    }
}

impl Verifier {
    /// The key in a SubjectPublicKeyInfo.
    fn of(der: &[u8]) -> Option<Self> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).ok()?;
        let key = info.subject_public_key.data.to_vec();
        // An uncompressed point has two coordinates and a prefix.
        let (algorithm, check): (_, &'static dyn VerificationAlgorithm) =
            match (info.algorithm.algorithm.to_id_string().as_str(), key.len()) {
                ("1.2.840.113549.1.1.1", _) => ("RS256", &signature::RSA_PKCS1_2048_8192_SHA256),
                ("1.2.840.10045.2.1", 65) => ("ES256", &signature::ECDSA_P256_SHA256_FIXED),
                ("1.2.840.10045.2.1", 97) => ("ES384", &signature::ECDSA_P384_SHA384_FIXED),
                ("1.2.840.10045.2.1", 133) => ("ES512", &signature::ECDSA_P521_SHA512_FIXED),
                _ => return None,
            };
        // `keyIDFromPublicKey`
        Some(Self { id: URL_SAFE_NO_PAD.encode(Sha256::digest(der)), algorithm, check, key })
    }

    /// The key for others (`jwkFromPublicKey`).
    fn public(&self) -> Option<PublicKey> {
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        // The bytes of a DER integer begin with a zero if the number's first bit is one.
        let positive = |bytes: &[u8]| number(bytes.strip_prefix(&[0]).unwrap_or(bytes));
        let (crv, numbers) = match self.algorithm {
            "RS256" => {
                let (_, key) = RSAPublicKey::from_der(&self.key).ok()?;
                (None, Numbers::Rsa { n: positive(key.modulus), e: positive(key.exponent) })
            }
            algorithm => {
                let curve = match algorithm {
                    "ES256" => "P-256",
                    "ES384" => "P-384",
                    _ => "P-521",
                };
                let coordinates = self.key.get(1..)?;
                let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
                (Some(curve), Numbers::Ecdsa { x: number(x), y: number(y) })
            }
        };
        let kty = if crv.is_some() { "EC" } else { "RSA" };
        Some(PublicKey { purpose: "sig", kty, kid: self.id.clone(), crv, alg: self.algorithm, numbers })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KeyError> {
    std::fs::read(path).map_err(|error| KeyError::Read(path.to_owned(), error))
}

fn private_keys(pem: &[u8]) -> Vec<Signer> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).filter_map(Result::ok);
    sections.filter_map(|(_, der)| Signer::from_der(&der)).collect()
}

/// The keys in a file with public keys, private keys or certificates (`keyutil.PublicKeysFromFile`).
fn verifiers_of(pem: &[u8]) -> Vec<Verifier> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).filter_map(Result::ok);
    let public_key = |(kind, der): (SectionKind, Vec<u8>)| match kind {
        SectionKind::PublicKey => Some(der),
        SectionKind::Certificate => {
            X509Certificate::from_der(&der).ok().map(|(_, certificate)| certificate.public_key().raw.to_vec())
        }
        _ => Signer::from_der(&der)?.public_key(),
    };
    sections.filter_map(public_key).filter_map(|der| Verifier::of(&der)).collect()
}

/// `jwt.Audience.UnmarshalJSON`
fn one_or_several<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        _ => Err(serde::de::Error::custom("an audience is no string")),
    };
    match Value::deserialize(deserializer)? {
        Value::Array(values) => values.into_iter().map(text).collect(),
        value => Ok(vec![text(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::rsa::KeySize;

    fn claims() -> Claims {
        Claims { aud: vec!["a".to_owned()], sub: "s".to_owned(), exp: 2, ..Claims::default() }
    }

    fn with(signing: &str, keys: &[&str]) -> Result<Tokens, KeyError> {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: String, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let keys = keys.iter().enumerate().map(|(at, text)| file(at.to_string(), text)).collect();
        Tokens::from_files(&TokenFiles {
            signing_key: Some(file("key".to_owned(), signing)),
            keys,
            ..TokenFiles::default()
        })
    }

    #[test]
    fn keys_of_every_kind_sign_and_verify() {
        let ecdsa = rcgen::KeyPair::generate().unwrap();
        let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let rsa = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&rsa).unwrap();
        let rsa = rcgen::KeyPair::try_from(rsa.as_ref()).unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&ecdsa).unwrap().pem();
        for (key, algorithm, public) in [
            (&ecdsa, "ES256", ecdsa.public_key_pem()),
            (&ecdsa, "ES256", certificate),
            (&p384, "ES384", p384.serialize_pem()),
            (&rsa, "RS256", rsa.public_key_pem()),
            (&rsa, "RS256", rsa.serialize_pem()),
        ] {
            let tokens = with(&key.serialize_pem(), &[&public]).unwrap();
            let token = tokens.sign(claims()).unwrap();
            let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&header).unwrap()["alg"], algorithm);
            let verified = tokens.verify(&token).unwrap().unwrap();
            assert_eq!((verified.iss.as_str(), verified.sub.as_str(), verified.exp), (ISSUER, "s", 2));
        }
    }

    #[test]
    fn a_token_of_another_key_or_issuer_is_refused() {
        let (tokens, others) = (Tokens::default(), Tokens::default());
        let token = tokens.sign(claims()).unwrap();
        assert_eq!(others.verify(&token).unwrap_err().to_string(), "invalid signature, no keys found");
        let other = tokens.sign(Claims::default()).unwrap();
        let (signed, _) = token.rsplit_once('.').unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        let forged = tokens.verify(&format!("{signed}.{signature}"));
        assert_eq!(forged.unwrap_err().to_string(), "go-jose/go-jose: error in cryptographic primitive");
        for none in ["", "a", "a.b.c", "a.b.c.d", "eyJhbGciOiJub25lIn0.e30."] {
            assert!(matches!(tokens.verify(none), Ok(None)), "{none}");
        }
        let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let payload = token.split('.').nth(1).unwrap();
        assert!(tokens.verify(&format!("{unsigned}.{payload}.")).is_err());
    }

    #[test]
    fn a_file_without_keys_is_an_error_that_names_the_file() {
        let error = with("nothing", &[]).err().unwrap().to_string();
        assert!(error.ends_with("/key: no RSA or ECDSA private key in PEM form"), "{error}");
    }
}
