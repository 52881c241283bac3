//! Client certificates: the common name is the user, the organizations are the groups.
//!
//! The TLS listener has only proved that the client holds the leaf's key. The check of the issuer is made here.

use super::{CertificateAuthority, Failure, Metrics, Outcome};
use crate::server::{Connection, Refusals};
use crate::user::{ALL_AUTHENTICATED, UserInfo};
use crate::x509::{Certificate, Name, Purpose, Validity};
use arc_swap::ArcSwapOption;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

/// The key of the extra field that identifies the certificate (`user.CredentialIDKey`).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The issuers of a tenant's client certificates.
#[derive(Clone, Debug)]
pub struct TenantAuthority {
    /// The issuers.
    pub(crate) authority: Arc<CertificateAuthority>,
    /// The names that the issuers may give. `None`: all, because nobody but the tenant has rights on its API server.
    pub(crate) names: Option<TenantNames>,
}

/// The names that the issuers of a tenant's certificates may give on an API server where others have rights too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TenantNames {
    pub(crate) tenant: String,
    /// The users who are members of the tenant by name.
    pub(crate) users: BTreeSet<String>,
    /// The groups whose users are members of the tenant.
    pub(crate) groups: BTreeSet<String>,
}

impl TenantNames {
    /// Returns the user with the names that count: a name that is not a member's has no rights anywhere.
    fn confine(&self, user: &UserInfo) -> UserInfo {
        let username = match self.users.contains(&user.username) {
            true => user.username.clone(),
            false => format!("tenant:{}:{}", self.tenant, user.username),
        };
        let groups = user.groups.iter().filter(|group| *group == ALL_AUTHENTICATED || self.groups.contains(*group));
        UserInfo { username, uid: String::new(), groups: groups.cloned().collect(), extra: user.extra.clone() }
    }
}

/// The verdicts about a connection's certificates, one for each bundle that can verify them: rejections too, so that
/// an unauthenticated client causes only one verification a second.
#[derive(Debug, Default)]
struct VerifiedCertificates {
    client: Slot,
    front_proxy: Slot,
    tenant: Slot,
    /// The last second of the leaf's validity; `None` if it cannot be parsed.
    not_after: OnceLock<Option<i64>>,
}

type Slot = ArcSwapOption<Verdict>;

/// The verdict by one bundle (a reload makes another bundle). A rejection holds for one second: a certificate may become valid.
#[derive(Debug)]
struct Verdict {
    authority: Arc<CertificateAuthority>,
    /// The second of the verification.
    at: i64,
    result: Result<Verified, Failure>,
}

/// A verified chain; the verdict holds while all its certificates are valid.
#[derive(Clone, Debug)]
struct Verified {
    validity: Validity,
    identity: Arc<Identity>,
}

/// The identity in the leaf certificate.
#[derive(Debug)]
struct Identity {
    common_name: String,
    /// The user; none without a common name.
    user: Outcome,
}

/// Returns the user of the connection's certificate, if it has one (`x509.Authenticator.AuthenticateRequest`).
pub(super) fn authenticate(
    authority: &Arc<CertificateAuthority>,
    connection: &Connection,
    metrics: Option<&Metrics>,
) -> Outcome {
    if let (Some(metrics), Some(not_after)) = (metrics, not_after(connection)) {
        metrics.certificate(not_after.saturating_sub(now()));
    }
    let identity = verified(authority, connection, |certificates| &certificates.client)?;
    identity.map_or(Ok(None), |identity| identity.user.clone())
}

/// Returns the user of the connection's certificate that an authority of a tenant signed. Such an authority must not name users and groups
/// that have rights by their names.
pub(super) fn of_tenant(authority: &TenantAuthority, connection: &Connection) -> Outcome {
    let identity = verified(&authority.authority, connection, |certificates| &certificates.tenant)?;
    let user = identity.map_or(Ok(None), |identity| identity.user.clone())?;
    let Some(user) = user else { return Ok(None) };
    // An API server may read a name without the spaces before it, which HTTP removes from headers.
    let is_space = |character: char| character.is_whitespace() || character.is_control();
    let is_system = |name: &String| name.trim_start_matches(is_space).starts_with("system:");
    if is_system(&user.username) || user.groups.iter().any(|group| is_system(group) && group != ALL_AUTHENTICATED) {
        let why = "a tenant's authority signed a certificate of a system user or group";
        return Err(refused(why.to_owned()));
    }
    Ok(Some(authority.names.as_ref().map_or(user.clone(), |names| Arc::new(names.confine(&user)))))
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
    let now = now();
    let slot = connection.kept().map(slot);
    if let Some(known) = slot.and_then(|slot| slot.load_full())
        && Arc::ptr_eq(&known.authority, authority)
    {
        match &known.result {
            Ok(verified) if verified.validity.holds(now) => return Ok(Some(verified.identity.clone())),
            Err(refusal) if known.at == now => return Err(refusal.clone()),
            Ok(_) | Err(_) => {}
        }
    }
    let result = verify(authority, leaf, &connection.certificates, now);
    if let Some(slot) = slot {
        slot.store(Some(Arc::new(Verdict { authority: authority.clone(), at: now, result: result.clone() })));
    }
    result.map(|verified| Some(verified.identity))
}

fn verify(
    authority: &CertificateAuthority,
    leaf: &CertificateDer<'_>,
    presented: &[CertificateDer<'_>],
    now: i64,
) -> Result<Verified, Failure> {
    let presented = presented.iter().map(|certificate| Certificate::parse(certificate));
    let presented = presented.collect::<Result<Vec<_>, _>>().map_err(|error| refused(error.to_string()))?;
    let Some(parsed) = presented.first() else { return Err(refused("no certificate".to_owned())) };
    let verified = authority.verify(&presented, Purpose::ClientAuth, now);
    let why = |error| refused(format!("verifying certificate {} failed: {error}", parsed.identifier()));
    let validity = verified.map_err(why)?;
    let name = parsed.name();
    let identity = Identity { common_name: name.common_name.clone(), user: user(name, leaf) };
    Ok(Verified { validity, identity: Arc::new(identity) })
}

/// Reads the user from the leaf's subject (`x509.CommonNameUserConversion`).
fn user(name: &Name, leaf: &CertificateDer<'_>) -> Outcome {
    if name.common_name.is_empty() {
        return Ok(None);
    }
    let uid = match name.uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err(refused("UID cannot be an empty string".to_owned())),
        [uid] => uid.clone(),
        uids => return Err(refused(format!("expected 1 UID, but found multiple: {uids:?}"))),
    };
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![credential_id(leaf)])]);
    let (username, groups) = (name.common_name.clone(), name.organizations.clone());
    Ok(Some(Arc::new(UserInfo { username, uid, groups, extra }.with_authenticated_group())))
}

fn not_after(connection: &Connection) -> Option<i64> {
    let leaf = connection.certificates.first()?;
    let read = || Certificate::parse(leaf).ok().map(|leaf| leaf.not_after());
    connection.kept::<VerifiedCertificates>().map_or_else(read, |kept| *kept.not_after.get_or_init(read))
}

fn refused(why: String) -> Failure {
    Failure::Certificate(why)
}

/// The present time, in seconds since 1970.
fn now() -> i64 {
    i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX)
}

/// Logs that nobody was authenticated by the connection's certificate, if it has one.
pub(super) fn report(refusals: &Refusals, connection: &Connection, failures: &[Failure]) {
    let reasons = failures.iter().filter(|failure| matches!(failure, Failure::Certificate(_)));
    let reasons = reasons.map(Failure::to_string).collect::<Vec<_>>();
    let Some(leaf) = connection.certificates.first().filter(|_| !reasons.is_empty()) else { return };
    let subject = Certificate::parse(leaf).map(|leaf| leaf.name().clone()).unwrap_or_default();
    let subject = format!("CN={} O={}", subject.common_name, subject.organizations.join(","));
    refusals.certificate(connection.remote, &subject, &reasons.join("; "));
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
