//! A certificate as Go parses it (`x509.ParseCertificate`).

use super::der::{self, Reader, constructed, context};
use super::name::Name;
use super::names::{NameConstraints, SubjectNames};
use super::signature::{PublicKey, SignatureAlgorithm};
use super::{Malformed, malformed};
use bytes::Bytes;
use std::collections::HashSet;
use std::fmt::Write as _;

/// A parsed certificate. No signature is verified.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// The certificate itself.
    pub(super) raw: Bytes,
    /// The signed part.
    pub(super) tbs: Bytes,
    /// 1, 2 or 3.
    pub(super) version: u8,
    serial: Bytes,
    pub(super) issuer: Bytes,
    pub(super) subject: Bytes,
    pub(super) name: Name,
    /// Both in seconds since 1970.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    /// The key with its algorithm (`SubjectPublicKeyInfo`).
    pub(super) key_info: Bytes,
    pub(super) key: PublicKey,
    pub(super) extensions: Extensions,
    pub(super) algorithm: Option<SignatureAlgorithm>,
    pub(super) signature: Bytes,
}

/// The extensions that a verification reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Extensions {
    pub(super) basic_constraints: Option<BasicConstraints>,
    /// The first bits of the extension, from the lowest bit on; 0 without the extension, or without a bit.
    pub(super) key_usage: u16,
    pub(super) extended_usages: Vec<ExtendedUsage>,
    pub(super) names: Option<SubjectNames>,
    /// The extension of `names`.
    pub(super) raw_names: Option<Bytes>,
    pub(super) name_constraints: Option<NameConstraints>,
    pub(super) subject_key_id: Bytes,
    pub(super) authority_key_id: Bytes,
    /// Whether chains through the certificate depend on policies: `requireExplicitPolicy`, or a mapping of `anyPolicy`.
    pub(super) depends_on_policies: bool,
    /// Whether a critical extension is unknown, or has an unknown part.
    pub(super) has_unknown_critical: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BasicConstraints {
    pub(super) is_ca: bool,
    /// The number of intermediate certificates that may follow.
    pub(super) path_length: Option<u64>,
}

/// A purpose of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtendedUsage {
    Any,
    ServerAuth,
    ClientAuth,
    Other,
}

/// The bit of [`Extensions::key_usage`] for a key that signs certificates.
pub(super) const CERT_SIGN: u16 = 1 << 5;

const AUTHORITY_INFORMATION: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
const ANY_POLICY: &[u8] = &[0x55, 0x1d, 0x20, 0];

impl Certificate {
    /// Parses a certificate in DER.
    ///
    /// # Errors
    /// If Go would not parse the certificate.
    pub(crate) fn parse(der: &[u8]) -> Result<Self, Malformed> {
        let raw = Bytes::copy_from_slice(der);
        let shared = |part: &[u8]| raw.slice_ref(part);
        let mut file = Reader::new(&raw);
        let mut all = file.read(der::SEQUENCE).ok_or(malformed("malformed certificate"))?;
        if !file.is_empty() {
            return Err(malformed("trailing data"));
        }
        let tbs = all.element(der::SEQUENCE).ok_or(malformed("malformed tbs certificate"))?;
        let (signed, mut tbs) = (shared(tbs.whole), Reader::new(tbs.value));
        let version = version(&mut tbs)?;
        let serial = tbs.integer().ok_or(malformed("malformed serial number"))?;
        if serial.first().is_some_and(|byte| byte & 0x80 != 0) {
            return Err(malformed("negative serial number"));
        }
        let inner = tbs.element(der::SEQUENCE).ok_or(malformed("malformed signature algorithm identifier"))?;
        let outer = all.element(der::SEQUENCE).ok_or(malformed("malformed algorithm identifier"))?;
        if inner.value != outer.value {
            return Err(malformed("inner and outer signature algorithm identifiers don't match"));
        }
        let algorithm = SignatureAlgorithm::parse(inner.value)?;
        let issuer = tbs.element(der::SEQUENCE).ok_or(malformed("malformed issuer"))?.whole;
        Name::parse(issuer)?;
        let mut validity = tbs.read(der::SEQUENCE).ok_or(malformed("malformed validity"))?;
        let not_before = validity.time().ok_or(malformed("malformed time"))?;
        let not_after = validity.time().ok_or(malformed("malformed time"))?;
        let subject = tbs.element(der::SEQUENCE).ok_or(malformed("malformed subject"))?.whole;
        let name = Name::parse(subject)?;
        let key_info = tbs.element(der::SEQUENCE).ok_or(malformed("malformed spki"))?;
        let key = PublicKey::parse(key_info.value, &shared)?;
        let mut extensions = Extensions::default();
        if version > 1 {
            for unique_id in [1, 2] {
                tbs.optional(context(unique_id)).ok_or(malformed("malformed unique identifier"))?;
            }
        }
        if version == 3
            && let Some(found) = tbs.optional(constructed(3)).ok_or(malformed("malformed extensions"))?
        {
            extensions = Extensions::parse(found, &shared)?;
        }
        // A signature is whole bytes.
        let signature = all.bits().filter(|(unused, _)| *unused == 0).ok_or(malformed("malformed signature"))?.1;
        Ok(Self {
            tbs: signed,
            version,
            serial: shared(serial),
            issuer: shared(issuer),
            subject: shared(subject),
            name,
            not_before,
            not_after,
            key_info: shared(key_info.whole),
            key,
            extensions,
            algorithm,
            signature: shared(signature),
            raw: raw.clone(),
        })
    }

    /// The attributes of the subject.
    #[must_use]
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// The last second of the validity, since 1970.
    #[must_use]
    pub(crate) fn not_after(&self) -> i64 {
        self.not_after
    }

    /// The public key with its algorithm (`SubjectPublicKeyInfo`).
    #[must_use]
    pub(crate) fn key_info(&self) -> &[u8] {
        &self.key_info
    }

    /// The value of the identifier of the key's algorithm, and the key.
    pub(super) fn key_parts(&self) -> Option<(&[u8], &[u8])> {
        let mut info = Reader::new(&self.key_info).read(der::SEQUENCE)?;
        Some((info.element(der::SEQUENCE)?.value, info.bits()?.1))
    }

    /// The text by which kube-apiserver's errors name a certificate (`certificateIdentifier`), with the serial number in hexadecimal.
    #[must_use]
    pub(crate) fn identifier(&self) -> String {
        let mut text = "SN=0x".to_owned();
        // Writing to a String does not fail.
        self.serial.iter().take(MAX_ID).for_each(|byte| _ = write!(text, "{byte:02x}"));
        for (name, id) in [("SKID", &self.extensions.subject_key_id), ("AKID", &self.extensions.authority_key_id)] {
            _ = write!(text, ", {name}=");
            for (index, byte) in id.iter().take(MAX_ID).enumerate() {
                _ = write!(text, "{}{byte:02X}", if index == 0 { "" } else { ":" });
            }
        }
        text
    }
}

/// The number of bytes of a serial number or a key's identifier in a text.
const MAX_ID: usize = 32;

fn version(tbs: &mut Reader<'_>) -> Result<u8, Malformed> {
    let explicit = tbs.optional(constructed(0)).ok_or(malformed("malformed version"))?;
    let Some(mut explicit) = explicit else { return Ok(1) };
    let version = explicit.small_integer(der::INTEGER).filter(|_| explicit.is_empty());
    match version {
        Some(0) => Ok(1),
        Some(1) => Ok(2),
        Some(2) => Ok(3),
        Some(3..) => Err(malformed("invalid version")),
        _ => Err(malformed("malformed version")),
    }
}

impl Extensions {
    fn parse(mut explicit: Reader<'_>, shared: &impl Fn(&[u8]) -> Bytes) -> Result<Self, Malformed> {
        let mut found = Self::default();
        let mut all = explicit.read(der::SEQUENCE).ok_or(malformed("malformed extensions"))?;
        let mut seen = HashSet::new();
        while !all.is_empty() {
            let mut extension = all.read(der::SEQUENCE).ok_or(malformed("malformed extension"))?;
            let id = extension.oid().ok_or(malformed("malformed extension OID field"))?;
            let is_critical = match extension.has(der::BOOLEAN) {
                true => extension.boolean().ok_or(malformed("malformed extension critical field"))?,
                false => false,
            };
            let value = extension.element(der::OCTET_STRING).ok_or(malformed("malformed extension value field"))?;
            if !seen.insert(id) {
                return Err(malformed("certificate contains duplicate extensions"));
            }
            let is_known = found.read(id, is_critical, value.value, shared)?;
            found.has_unknown_critical |= is_critical && !is_known;
        }
        Ok(found)
    }

    /// Reads one extension (`processExtensions`). Returns whether all of it is known.
    fn read(
        &mut self,
        id: &[u8],
        is_critical: bool,
        value: &[u8],
        shared: &impl Fn(&[u8]) -> Bytes,
    ) -> Result<bool, Malformed> {
        match id {
            [0x55, 0x1d, 14] if is_critical => {
                return Err(malformed("subject key identifier incorrectly marked critical"));
            }
            [0x55, 0x1d, 14] => {
                let id = Reader::new(value).element(der::OCTET_STRING);
                self.subject_key_id = shared(id.ok_or(malformed("invalid subject key identifier"))?.value);
            }
            [0x55, 0x1d, 15] => self.key_usage = key_usage(value).ok_or(malformed("invalid key usage"))?,
            [0x55, 0x1d, 17] => {
                let names = SubjectNames::parse(value)?;
                let is_known = !names.is_empty();
                (self.names, self.raw_names) = (Some(names), Some(shared(value)));
                return Ok(is_known);
            }
            [0x55, 0x1d, 19] => {
                let constraints = basic_constraints(value).ok_or(malformed("invalid basic constraints"))?;
                self.basic_constraints = Some(constraints);
            }
            [0x55, 0x1d, 30] => {
                let constraints = NameConstraints::parse(value)?;
                let is_known = !constraints.has_unknown;
                self.name_constraints = Some(constraints);
                return Ok(is_known);
            }
            [0x55, 0x1d, 31] => distribution_points(value).ok_or(malformed("invalid CRL distribution points"))?,
            [0x55, 0x1d, 32] => policies(value).ok_or(malformed("invalid certificate policies"))?,
            [0x55, 0x1d, 33] => {
                let maps_any = maps_any_policy(value).ok_or(malformed("invalid policy mappings extension"))?;
                self.depends_on_policies |= maps_any;
            }
            [0x55, 0x1d, 35] if is_critical => {
                return Err(malformed("authority key identifier incorrectly marked critical"));
            }
            [0x55, 0x1d, 35] => {
                let id = authority_key_id(value).ok_or(malformed("invalid authority key identifier"))?;
                self.authority_key_id = id.map(shared).unwrap_or_default();
            }
            [0x55, 0x1d, 36] => {
                let required = requires_policy(value).ok_or(malformed("invalid policy constraints extension"))?;
                self.depends_on_policies |= required;
            }
            [0x55, 0x1d, 37] => {
                self.extended_usages = extended_usages(value).ok_or(malformed("invalid extended key usages"))?;
            }
            [0x55, 0x1d, 54] => {
                let count = Reader::new(value).small_integer(der::INTEGER);
                count.ok_or(malformed("invalid inhibit any policy extension"))?;
            }
            AUTHORITY_INFORMATION if is_critical => {
                return Err(malformed("authority info access incorrectly marked critical"));
            }
            AUTHORITY_INFORMATION => {
                authority_information(value).ok_or(malformed("invalid authority info access"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn key_usage(value: &[u8]) -> Option<u16> {
    let (_, bytes) = Reader::new(value).bits()?;
    let bit = |bit: usize| bytes.get(bit / 8).is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0);
    Some((0..9).filter(|index| bit(*index)).fold(0, |usage, index| usage | (1 << index)))
}

fn basic_constraints(value: &[u8]) -> Option<BasicConstraints> {
    let mut sequence = Reader::new(value).read(der::SEQUENCE)?;
    let is_ca = if sequence.has(der::BOOLEAN) { sequence.boolean()? } else { false };
    let path_length = match sequence.has(der::INTEGER) {
        true => Some(u64::try_from(sequence.small_integer(der::INTEGER)?).ok()?),
        false => None,
    };
    Some(BasicConstraints { is_ca, path_length })
}

fn extended_usages(value: &[u8]) -> Option<Vec<ExtendedUsage>> {
    let mut sequence = Reader::new(value).read(der::SEQUENCE)?;
    let mut usages = Vec::new();
    while !sequence.is_empty() {
        usages.push(match sequence.oid()? {
            [0x55, 0x1d, 37, 0] => ExtendedUsage::Any,
            [0x2b, 6, 1, 5, 5, 7, 3, 1] => ExtendedUsage::ServerAuth,
            [0x2b, 6, 1, 5, 5, 7, 3, 2] => ExtendedUsage::ClientAuth,
            _ => ExtendedUsage::Other,
        });
    }
    Some(usages)
}

#[expect(clippy::option_option, reason = "malformed, missing, present")]
fn authority_key_id(value: &[u8]) -> Option<Option<&[u8]>> {
    let mut sequence = Reader::new(value).read(der::SEQUENCE)?;
    match sequence.has(context(0)) {
        true => Some(Some(sequence.element(context(0))?.value)),
        false => Some(None),
    }
}

/// Checks `parseCertificatePoliciesExtension`.
fn policies(value: &[u8]) -> Option<()> {
    let mut sequence = Reader::new(value).read(der::SEQUENCE)?;
    let mut seen = HashSet::new();
    while !sequence.is_empty() {
        let policy = sequence.read(der::SEQUENCE)?.element(der::OBJECT_IDENTIFIER)?.value;
        if !is_long_oid(policy) || !seen.insert(policy) {
            return None;
        }
    }
    Some(())
}

/// Whether each number is complete and in its shortest form (`newOIDFromDER`). Policies may have numbers of any size.
fn is_long_oid(value: &[u8]) -> bool {
    let mut numbers = value.split_inclusive(|byte| byte & 0x80 == 0);
    value.last().is_some_and(|byte| byte & 0x80 == 0) && numbers.all(|number| number.first() != Some(&0x80))
}

/// Whether a policy is mapped to or from `anyPolicy`, which `policiesValid` refuses.
fn maps_any_policy(value: &[u8]) -> Option<bool> {
    let mut sequence = Reader::new(value).read(der::SEQUENCE)?;
    let mut maps_any = false;
    while !sequence.is_empty() {
        let mut mapping = sequence.read(der::SEQUENCE)?;
        let (issuer, subject) = (mapping.element(der::OBJECT_IDENTIFIER)?, mapping.element(der::OBJECT_IDENTIFIER)?);
        maps_any |= issuer.value == ANY_POLICY || subject.value == ANY_POLICY;
    }
    Some(maps_any)
}

/// Whether policy constraints have `requireExplicitPolicy`.
fn requires_policy(value: &[u8]) -> Option<bool> {
    let mut sequence = Reader::new(value).read(der::SEQUENCE)?;
    let mut count = |number| match sequence.has(context(number)) {
        true => sequence.small_integer(context(number)).map(Some),
        false => Some(None),
    };
    let (explicit, _mapping) = (count(0)?, count(1)?);
    Some(explicit.is_some())
}

fn distribution_points(value: &[u8]) -> Option<()> {
    let mut points = Reader::new(value).read(der::SEQUENCE)?;
    while !points.is_empty() {
        let mut point = points.read(der::SEQUENCE)?;
        let Some(mut name) = point.optional(constructed(0))? else { continue };
        let mut names = name.read(constructed(0))?;
        while names.has(context(6)) {
            names.element(context(6))?;
        }
    }
    Some(())
}

fn authority_information(value: &[u8]) -> Option<()> {
    let mut all = Reader::new(value).read(der::SEQUENCE)?;
    while !all.is_empty() {
        let mut access = all.read(der::SEQUENCE)?;
        access.oid()?;
        if access.has(context(6)) {
            access.element(context(6))?;
        }
    }
    Some(())
}
