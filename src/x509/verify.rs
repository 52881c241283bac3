//! Chains of certificates (`Certificate.Verify`).

use super::certificate::{CERT_SIGN, Certificate, ExtendedUsage};
use super::names::{self, Comparisons};
use super::signature::SignatureError;
use crate::go_text::go_quote;
use bytes::Bytes;
use jiff::Timestamp;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, pem};
use std::collections::{HashMap, HashSet};

/// The number of candidates for an issuer that one verification considers (`maxChainSignatureChecks`). A client chooses what it presents.
const CANDIDATES: usize = 100;

/// The last line of a certificate in PEM.
const END: &[u8] = b"-----END CERTIFICATE-----";

/// The purpose for which a chain is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The certificate of a client.
    ClientAuth,
    /// The certificate of a server.
    ServerAuth,
}

/// Trusted certificates (`CertPool`): authorities, and certificates that are trusted for themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    certificates: Vec<Certificate>,
    by_subject: HashMap<Bytes, Vec<usize>>,
}

/// The reason why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    /// The PEM is malformed.
    #[error("not a PEM bundle: {0:?}")]
    Pem(pem::Error),
    /// The bundle has no certificates.
    #[error("data does not contain any valid RSA or ECDSA certificates")]
    Empty,
    /// Two certificates share a line.
    #[error("not a PEM bundle: text follows an END CERTIFICATE line without a line break")]
    Glued,
    /// The certificate at this index cannot be parsed.
    #[error("certificate {0} of the bundle: {1}")]
    Certificate(usize, super::Malformed),
}

/// The time in which a chain is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    not_before: i64,
    not_after: i64,
}

impl Validity {
    /// Whether the chain is valid at this time.
    #[must_use]
    pub(crate) fn holds(self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

/// The reason why no chain is accepted, in Go's words. No text of a certificate is in it unescaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VerifyError {
    /// Nothing was presented.
    #[error("no certificate")]
    Nothing,
    /// A critical extension is unknown.
    #[error("x509: unhandled critical extension")]
    UnknownCritical,
    /// The validity has not begun.
    #[error("x509: certificate has expired or is not yet valid: current time {} is before {}", time(.0), time(.1))]
    NotYetValid(i64, i64),
    /// The validity has ended.
    #[error("x509: certificate has expired or is not yet valid: current time {} is after {}", time(.0), time(.1))]
    Expired(i64, i64),
    /// The issuer is no authority.
    #[error("x509: certificate is not authorized to sign other certificates")]
    NoAuthority,
    /// An authority allows fewer intermediate certificates.
    #[error("x509: too many intermediates for path length constraint")]
    PathLength,
    /// The issuer may not sign certificates, by its basic constraints or its key usage.
    #[error("x509: invalid signature: parent certificate cannot sign this kind of certificate")]
    MayNotSign,
    /// The signature is not verified.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// No trusted certificate ends a chain.
    #[error("x509: certificate signed by unknown authority{0}")]
    UnknownAuthority(String),
    /// Too many candidates for an issuer.
    #[error("x509: signature check attempts limit reached while verifying certificate chain")]
    TooManyCandidates,
    /// The extended usages of the chain do not have the purpose.
    #[error("x509: certificate specifies an incompatible key usage")]
    Usage,
    /// A name constraint does not permit a name.
    #[error("x509: a root or intermediate certificate is not authorized to sign for this name: {0}")]
    Name(String),
    /// The chain depends on certificate policies.
    #[error("x509: no valid chains built: 1 candidate chains with invalid policies")]
    Policies,
}

fn time(seconds: &i64) -> String {
    Timestamp::from_second(*seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

impl Roots {
    /// Reads a bundle of PEM certificates (`cert.ParseCertsPEM`).
    ///
    /// # Errors
    /// If the bundle has no certificate, or one that cannot be parsed.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, BundleError> {
        let mut roots = Self::default();
        // The PEM reader would take the next BEGIN line for a part of the END line, and silently lose a certificate.
        let mut lines = pem.split(|byte| matches!(byte, b'\n' | b'\r'));
        if lines.any(|line| line.strip_prefix(END).is_some_and(|rest| !rest.trim_ascii().is_empty())) {
            return Err(BundleError::Glued);
        }
        for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let certificate = Certificate::parse(&certificate.map_err(BundleError::Pem)?);
            roots.add(certificate.map_err(|error| BundleError::Certificate(index, error))?);
        }
        if roots.certificates.is_empty() { Err(BundleError::Empty) } else { Ok(roots) }
    }

    /// Adds a certificate.
    pub(crate) fn add(&mut self, certificate: Certificate) {
        if !self.contains(&certificate) {
            self.by_subject.entry(certificate.subject.clone()).or_default().push(self.certificates.len());
            self.certificates.push(certificate);
        }
    }

    /// The certificates, in the order of the bundle.
    pub(crate) fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The subjects of the certificates, in DER.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(|certificate| &*certificate.subject)
    }

    fn of_subject(&self, subject: &[u8]) -> impl Iterator<Item = &Certificate> {
        let indices = self.by_subject.get(subject).into_iter().flatten();
        indices.filter_map(|index| self.certificates.get(*index))
    }

    fn contains(&self, certificate: &Certificate) -> bool {
        self.of_subject(&certificate.subject).any(|root| root.raw == certificate.raw)
    }

    /// Verifies a chain, leaf first; the other certificates may be in any order. Returns the time in which the accepted chain is valid.
    ///
    /// # Errors
    /// If no chain leads from the leaf to a root.
    pub(crate) fn verify(
        &self,
        presented: &[Certificate],
        purpose: Purpose,
        now: i64,
    ) -> Result<Validity, VerifyError> {
        let (leaf, others) = presented.split_first().ok_or(VerifyError::Nothing)?;
        leaf.check_leaf(now)?;
        if self.contains(leaf) {
            return judge(&[leaf], purpose, &mut Comparisons::default());
        }
        let mut known = HashSet::new();
        let others = others.iter().filter(|other| known.insert(&*other.raw)).collect();
        let (comparisons, hint) = Default::default();
        let mut search = Search { roots: self, others, purpose, now, considered: 0, comparisons, refusal: None, hint };
        let found = search.extend(&mut vec![leaf])?;
        let Search { refusal, hint, .. } = search;
        found.ok_or_else(|| refusal.unwrap_or(VerifyError::UnknownAuthority(hint)))
    }
}

/// The role of a certificate in a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Leaf,
    Intermediate,
    Root,
}

/// The search for a chain, depth first, in Go's order (`buildChains`). Go collects all chains, and judges them afterwards; here the first that is
/// accepted ends the search.
struct Search<'a> {
    roots: &'a Roots,
    others: Vec<&'a Certificate>,
    purpose: Purpose,
    now: i64,
    considered: usize,
    comparisons: Comparisons,
    /// Why the first complete chain was refused.
    refusal: Option<VerifyError>,
    /// Why the first candidate was refused.
    hint: String,
}

impl<'a> Search<'a> {
    fn extend(&mut self, chain: &mut Vec<&'a Certificate>) -> Result<Option<Validity>, VerifyError> {
        let Some(child) = chain.last().copied() else { return Ok(None) };
        let roots = self.roots.of_subject(&child.issuer).map(|root| (Role::Root, root));
        let others = self.others.iter().filter(|other| other.subject == child.issuer);
        let others = others.map(|other| (Role::Intermediate, *other));
        let mut candidates: Vec<_> = roots.chain(others).collect();
        // A stable sort (`findPotentialParents`): roots go first, and those with the key's identifier first among them.
        candidates.sort_by_key(|(role, candidate)| (*role == Role::Intermediate, distance(child, candidate)));
        for (role, candidate) in candidates {
            self.considered += 1;
            if self.considered > CANDIDATES {
                return Err(self.refusal.take().unwrap_or(VerifyError::TooManyCandidates));
            }
            if is_in(candidate, chain) {
                continue;
            }
            // The number of intermediate certificates between the leaf and the candidate.
            let between = chain.len() - 1;
            let checked = child.check_signature_from(candidate);
            if let Err(why) = checked.and_then(|()| candidate.check(role, between, self.now)) {
                if self.hint.is_empty() {
                    self.hint = hint(candidate, &why);
                }
                continue;
            }
            chain.push(candidate);
            let found = match role {
                Role::Root => match judge(chain, self.purpose, &mut self.comparisons) {
                    Ok(validity) => Some(validity),
                    Err(why) => {
                        self.refusal.get_or_insert(why);
                        None
                    }
                },
                Role::Intermediate | Role::Leaf => self.extend(chain)?,
            };
            chain.pop();
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// The likelihood that the parent has signed the child, by the identifiers of keys; the lowest is the most likely.
fn distance(child: &Certificate, parent: &Certificate) -> u8 {
    let (wanted, given) = (&child.extensions.authority_key_id, &parent.extensions.subject_key_id);
    match (wanted == given, wanted.is_empty() != given.is_empty()) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

fn hint(candidate: &Certificate, why: &VerifyError) -> String {
    /// The number of characters of a name in a text.
    const MAX_NAME: usize = 64;
    let name = candidate.name();
    let organization = || name.organizations.first().map_or_else(|| candidate.identifier(), Clone::clone);
    let name = if name.common_name.is_empty() { organization() } else { name.common_name.clone() };
    let (why, name) = (go_quote(&why.to_string()), go_quote(&name.chars().take(MAX_NAME).collect::<String>()));
    format!(" (possibly because of {why} while trying to verify candidate authority certificate {name})")
}

/// Whether a chain has the candidate's subject with its key and alternative names (`alreadyInChain`): two authorities may have signed each other.
fn is_in(candidate: &Certificate, chain: &[&Certificate]) -> bool {
    let mut alike =
        chain.iter().filter(|other| other.subject == candidate.subject && other.key_info == candidate.key_info);
    alike.any(|other| other.extensions.raw_names == candidate.extensions.raw_names)
}

/// Decides on a complete chain, leaf first.
fn judge(chain: &[&Certificate], purpose: Purpose, comparisons: &mut Comparisons) -> Result<Validity, VerifyError> {
    let below = chain.split_last().map_or(&[][..], |(_, below)| below);
    // `policiesValid` is true for all other chains.
    if below.iter().any(|certificate| certificate.extensions.depends_on_policies) {
        return Err(VerifyError::Policies);
    }
    // Each certificate with usages must have the purpose (`checkChainForKeyUsage`).
    let usage = match purpose {
        Purpose::ClientAuth => ExtendedUsage::ClientAuth,
        Purpose::ServerAuth => ExtendedUsage::ServerAuth,
    };
    let serves = |certificate: &&Certificate| {
        let usages = &certificate.extensions.extended_usages;
        usages.is_empty() || usages.contains(&ExtendedUsage::Any) || usages.contains(&usage)
    };
    if !chain.iter().all(serves) {
        return Err(VerifyError::Usage);
    }
    let names = chain.iter().map(|certificate| &certificate.extensions);
    names::check(names.map(|of| (of.names.as_ref(), of.name_constraints.as_ref())), comparisons)
        .map_err(|why| VerifyError::Name(why.to_string()))?;
    let not_before = chain.iter().map(|certificate| certificate.not_before).max();
    let not_after = chain.iter().map(|certificate| certificate.not_after).min();
    not_before
        .zip(not_after)
        .map(|(not_before, not_after)| Validity { not_before, not_after })
        .ok_or(VerifyError::Nothing)
}

impl Certificate {
    /// Checks a certificate of the other side without its issuer: the validity, and that all critical extensions are known.
    ///
    /// # Errors
    /// If the certificate is not to be accepted, whoever issued it.
    pub(crate) fn check_leaf(&self, now: i64) -> Result<(), VerifyError> {
        self.check(Role::Leaf, 0, now)
    }

    /// Checks a certificate in its role, with this number of intermediate certificates between it and the leaf (`isValid`).
    fn check(&self, role: Role, between: usize, now: i64) -> Result<(), VerifyError> {
        if self.extensions.has_unknown_critical {
            return Err(VerifyError::UnknownCritical);
        }
        if now < self.not_before {
            return Err(VerifyError::NotYetValid(now, self.not_before));
        }
        if now > self.not_after {
            return Err(VerifyError::Expired(now, self.not_after));
        }
        let constraints = self.extensions.basic_constraints;
        if role == Role::Intermediate && !constraints.is_some_and(|constraints| constraints.is_ca) {
            return Err(VerifyError::NoAuthority);
        }
        let longest = constraints.and_then(|constraints| constraints.path_length);
        if role != Role::Leaf && longest.is_some_and(|longest| between as u64 > longest) {
            return Err(VerifyError::PathLength);
        }
        Ok(())
    }

    /// Whether the certificate may sign others. Another certificate in a bundle admits itself alone.
    pub(crate) fn may_sign(&self) -> bool {
        let is_authority = match self.extensions.basic_constraints {
            Some(constraints) => constraints.is_ca,
            // Versions 1 and 2 have no extensions.
            None => self.version != 3,
        };
        let usage = self.extensions.key_usage;
        is_authority && (usage == 0 || usage & CERT_SIGN != 0)
    }

    /// Verifies that the parent may sign, and has signed (`CheckSignatureFrom`).
    fn check_signature_from(&self, parent: &Certificate) -> Result<(), VerifyError> {
        if !parent.may_sign() {
            return Err(VerifyError::MayNotSign);
        }
        Ok(parent.key.verify(self.algorithm, &self.tbs, &self.signature)?)
    }
}
