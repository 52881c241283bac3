//! Client certificates: the common name is the user, the organizations are the groups.
//!
//! The TLS listener has only proved that the client holds the leaf's key. The check of the issuer is made here.

use super::{Failure, Outcome};
use crate::server::Connection;
use crate::user::{ALL_AUTHENTICATED, UserInfo};
use arc_swap::ArcSwapOption;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The key of the extra field that identifies the certificate (`user.CredentialIDKey`).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The attribute of the subject that has the user's UID (`asn1.X509UID`).
const UID_OID: &str = "1.3.6.1.4.1.57683.2";
const COMMON_NAME_OID: &str = "2.5.4.3";
const ORGANIZATION_OID: &str = "2.5.4.10";

/// A bundle of issuers.
pub struct CertificateAuthority {
    roots: Vec<(CertificateDer<'static>, Validity)>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAuthority").field("roots", &self.roots.len()).finish()
    }
}

/// The reason why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The PEM is malformed.
    #[error("not a PEM bundle: {0:?}")]
    Pem(rustls_pki_types::pem::Error),
    /// The bundle has no certificates.
    #[error("data does not contain any valid RSA or ECDSA certificates")]
    Empty,
    /// The certificate at this index cannot be used.
    #[error("certificate {0} of the bundle: {1}")]
    Certificate(usize, String),
}

#[derive(Clone, Copy, Debug)]
struct Validity {
    not_before: i64,
    not_after: i64,
}

impl Validity {
    fn of(der: &CertificateDer<'_>) -> Result<Self, Failure> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(Failure::of)?;
        let validity = certificate.validity();
        Ok(Self { not_before: validity.not_before.timestamp(), not_after: validity.not_after.timestamp() })
    }

    fn holds(self, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        (self.not_before..=self.not_after).contains(&now)
    }

    fn and(self, other: Self) -> Self {
        Self { not_before: self.not_before.max(other.not_before), not_after: self.not_after.min(other.not_after) }
    }
}

impl CertificateAuthority {
    /// Reads a bundle of PEM certificates.
    ///
    /// # Errors
    /// If the bundle has no certificate, or one that cannot be used.
    pub fn parse(pem: &[u8]) -> Result<Self, BundleError> {
        let mut roots = Vec::new();
        for (index, root) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let root = root.map_err(BundleError::Pem)?;
            let validity = Validity::of(&root).map_err(|error| BundleError::Certificate(index, error.to_string()))?;
            roots.push((root, validity));
        }
        if roots.is_empty() {
            return Err(BundleError::Empty);
        }
        let verifier = verifier(roots.iter().map(|(root, _)| root))
            .map_err(|error| BundleError::Certificate(roots.len().saturating_sub(1), error.to_string()))?;
        Ok(Self { roots, verifier })
    }

    /// Verifies a client's chain, leaf first, at this time: signatures, validity, client-auth usage.
    fn verify(&self, chain: &[CertificateDer<'static>], now: UnixTime) -> Result<(), Failure> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err("no certificate".into());
        };
        let expired = self.roots.iter().any(|(_, validity)| !validity.holds(now));
        // An expired root must not verify a chain: webpki does not check a root's validity, Go does.
        let verified = if expired {
            let current = self.roots.iter().filter(|(_, validity)| validity.holds(now)).map(|(root, _)| root);
            verifier(current)?.verify_client_cert(leaf, intermediates, now)
        } else {
            self.verifier.verify_client_cert(leaf, intermediates, now)
        };
        verified.map(|_| ()).map_err(Failure::of)
    }
}

fn verifier<'a>(
    roots: impl Iterator<Item = &'a CertificateDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, Failure> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(Failure::of)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider).build();
    built.map_err(Failure::of)
}

/// The verdicts about a connection's certificates, one for each bundle that can verify them: rejections too, so that
/// an unauthenticated client causes only one verification.
#[derive(Debug, Default)]
struct VerifiedCertificates {
    client: Slot,
    front_proxy: Slot,
    tenant: Slot,
}

type Slot = ArcSwapOption<Verdict>;

/// The verdict by one bundle (a reload makes another bundle). A rejection holds for the life of the connection.
#[derive(Debug)]
struct Verdict {
    authority: Arc<CertificateAuthority>,
    result: Result<Verified, Failure>,
}

/// A verified chain; the verdict holds while all certificates are valid.
#[derive(Clone, Debug)]
struct Verified {
    validity: Validity,
    identity: Arc<Identity>,
}

/// The identity in the leaf certificate.
#[derive(Debug)]
struct Identity {
    common_name: String,
    /// The user; `None` without a common name.
    user: Option<Arc<UserInfo>>,
}

/// Returns the user of the connection's certificate, if it has one (`x509.Authenticator.AuthenticateRequest`).
pub(super) fn authenticate(authority: &Arc<CertificateAuthority>, connection: &Connection) -> Outcome {
    let identity = verified(authority, connection, |certificates| &certificates.client)?;
    Ok(identity.and_then(|identity| identity.user.clone()))
}

/// Returns the user of the connection's certificate that an authority of a tenant signed. Such an authority must not name users and groups
/// that have rights by their names.
pub(super) fn of_tenant(authority: &Arc<CertificateAuthority>, connection: &Connection) -> Outcome {
    let identity = verified(authority, connection, |certificates| &certificates.tenant)?;
    let Some(user) = identity.and_then(|identity| identity.user.clone()) else { return Ok(None) };
    let is_system = |name: &String| name.starts_with("system:");
    match is_system(&user.username) || user.groups.iter().any(|group| is_system(group) && group != ALL_AUTHENTICATED) {
        true => Err("a tenant's authority signed a certificate of a system user or group".into()),
        false => Ok(Some(user)),
    }
}

/// Returns the common name of the connection's certificate, if it has one and a front proxy's issuer has signed it.
pub(super) fn front_proxy(
    authority: &Arc<CertificateAuthority>,
    connection: &Connection,
) -> Result<Option<String>, Failure> {
    let identity = verified(authority, connection, |certificates| &certificates.front_proxy)?;
    Ok(identity.map(|identity| identity.common_name.clone()))
}

fn verified(
    authority: &Arc<CertificateAuthority>,
    connection: &Connection,
    slot: fn(&VerifiedCertificates) -> &Slot,
) -> Result<Option<Arc<Identity>>, Failure> {
    let Some(leaf) = connection.certificates.first() else {
        return Ok(None);
    };
    let now = UnixTime::now();
    let slot = connection.kept().map(slot);
    if let Some(known) = slot.and_then(|slot| slot.load_full())
        && Arc::ptr_eq(&known.authority, authority)
    {
        match &known.result {
            Ok(verified) if verified.validity.holds(now) => return Ok(Some(verified.identity.clone())),
            Ok(_) => {}
            Err(refusal) => return Err(refusal.clone()),
        }
    }
    let result = verify(authority, leaf, &connection.certificates, now);
    if let Some(slot) = slot {
        slot.store(Some(Arc::new(Verdict { authority: authority.clone(), result: result.clone() })));
    }
    result.map(|verified| Some(verified.identity))
}

fn verify(
    authority: &CertificateAuthority,
    leaf: &CertificateDer<'static>,
    presented: &[CertificateDer<'static>],
    now: UnixTime,
) -> Result<Verified, Failure> {
    authority.verify(presented, now).map_err(|error| format!("verifying the client certificate failed: {error}"))?;
    let identity = Arc::new(identity(leaf)?);
    let mut validity = Validity::of(leaf)?;
    for presented in presented.iter().skip(1) {
        validity = validity.and(Validity::of(presented)?);
    }
    validity = authority.roots.iter().fold(validity, |validity, (_, root)| validity.and(*root));
    Ok(Verified { validity, identity })
}

/// Reads the identity from the leaf's subject (`x509.CommonNameUserConversion`).
fn identity(leaf: &CertificateDer<'_>) -> Result<Identity, Failure> {
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(Failure::of)?;
    let (mut common_name, mut groups, mut uids) = (String::new(), Vec::new(), Vec::new());
    for attribute in certificate.subject().iter_attributes() {
        let oid = attribute.attr_type().to_id_string();
        if ![COMMON_NAME_OID, ORGANIZATION_OID, UID_OID].contains(&oid.as_str()) {
            continue;
        }
        let value =
            attribute.as_str().map_err(|_| format!("unable to parse attribute {oid} of the subject"))?.to_owned();
        match oid.as_str() {
            // Go keeps the last common name.
            COMMON_NAME_OID => common_name = value,
            ORGANIZATION_OID => groups.push(value),
            _ => uids.push(value),
        }
    }
    if common_name.is_empty() {
        return Ok(Identity { common_name, user: None });
    }
    let uid = match uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err("UID cannot be an empty string".into()),
        [uid] => uid.clone(),
        _ => return Err(format!("expected 1 UID, but found multiple: {uids:?}").into()),
    };
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![credential_id(leaf)])]);
    let user = UserInfo { username: common_name.clone(), uid, groups, extra }.with_authenticated_group();
    Ok(Identity { common_name, user: Some(Arc::new(user)) })
}

fn credential_id(leaf: &CertificateDer<'_>) -> String {
    Sha256::digest(leaf).iter().fold("X509SHA256=".to_owned(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
