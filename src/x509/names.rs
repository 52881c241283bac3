//! Alternative names of a subject, and the constraints that authorities set for them (`constraints.go`).
//!
//! Go sorts constraints and searches them. Here each name is compared with each constraint, and a verification has a bound of comparisons.

use super::der::{self, Reader, context};
use super::{Malformed, malformed};
use crate::cel::library::url;
use crate::go_text::go_quote;
use std::net::IpAddr;

const EMAIL: u8 = context(1);
const DNS: u8 = context(2);
const URI: u8 = context(6);
const IP: u8 = context(7);

/// The number of comparisons of names with constraints in one verification. Go until 1.25 had this limit for each chain.
const COMPARISONS: usize = 250_000;
/// The number of characters of a name in a text.
const MAX_NAME: usize = 256;

/// The comparisons that are left to a verification.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparisons(usize);

impl Default for Comparisons {
    fn default() -> Self {
        Self(COMPARISONS)
    }
}

/// The reason why a name is not permitted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotPermitted(String);

/// The alternative names of a subject.
#[derive(Clone, Debug, Default)]
pub(super) struct SubjectNames {
    dns: Vec<String>,
    emails: Vec<String>,
    ips: Vec<Box<[u8]>>,
    /// The URIs with their hosts.
    uris: Vec<(String, String)>,
}

impl SubjectNames {
    /// Reads `parseSANExtension`.
    pub(super) fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let mut names = Self::default();
        let mut all = Reader::new(value).read(der::SEQUENCE).ok_or(malformed("invalid subject alternative names"))?;
        while !all.is_empty() {
            let name = all.any().ok_or(malformed("invalid subject alternative name"))?;
            match name.tag {
                EMAIL => names.emails.push(ascii(name.value).ok_or(malformed("SAN rfc822Name is malformed"))?),
                DNS => names.dns.push(ascii(name.value).ok_or(malformed("SAN dNSName is malformed"))?),
                URI => {
                    let uri = ascii(name.value).ok_or(malformed("SAN uniformResourceIdentifier is malformed"))?;
                    let host = url::host(&uri).ok_or(malformed("cannot parse URI"))?;
                    let host = String::from_utf8(host).ok().filter(|host| is_domain(host, false));
                    names.uris.push((uri, host.ok_or(malformed("cannot parse URI: invalid domain"))?));
                }
                IP if matches!(name.value.len(), 4 | 16) => names.ips.push(name.value.into()),
                IP => return Err(malformed("cannot parse IP address")),
                _ => {}
            }
        }
        Ok(names)
    }

    /// Whether there is no name of a known kind.
    pub(super) fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.ips.is_empty() && self.uris.is_empty()
    }
}

/// The constraints of an authority. Without permitted names of a kind all are permitted.
#[derive(Clone, Debug, Default)]
pub(super) struct NameConstraints {
    permitted: Subtrees,
    excluded: Subtrees,
    /// Whether there are constraints of unknown kinds.
    pub(super) has_unknown: bool,
}

#[derive(Clone, Debug, Default)]
struct Subtrees {
    dns: Vec<String>,
    ips: Vec<Network>,
    emails: Vec<EmailConstraint>,
    uris: Vec<String>,
}

#[derive(Clone, Debug)]
struct Network {
    address: Box<[u8]>,
    mask: Box<[u8]>,
}

#[derive(Clone, Debug)]
enum EmailConstraint {
    Mailbox(Mailbox),
    Domain(String),
}

impl NameConstraints {
    /// Reads `parseNameConstraintsExtension`.
    pub(super) fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let invalid = || malformed("invalid NameConstraints extension");
        let mut outer = Reader::new(value);
        let mut both = outer.read(der::SEQUENCE).filter(|_| outer.is_empty()).ok_or_else(invalid)?;
        let permitted = both.optional(der::constructed(0)).ok_or_else(invalid)?;
        let excluded = both.optional(der::constructed(1)).ok_or_else(invalid)?;
        if !both.is_empty() {
            return Err(invalid());
        }
        if [permitted, excluded].into_iter().flatten().all(Reader::is_empty) {
            return Err(malformed("empty name constraints extension"));
        }
        let mut constraints = Self::default();
        let has_unknown = &mut constraints.has_unknown;
        constraints.permitted = permitted.map_or(Ok(Subtrees::default()), |all| Subtrees::parse(all, has_unknown))?;
        constraints.excluded = excluded.map_or(Ok(Subtrees::default()), |all| Subtrees::parse(all, has_unknown))?;
        Ok(constraints)
    }

    /// Checks the names of a certificate below the authority (`chainConstraints.check`).
    fn check(&self, names: &SubjectNames, comparisons: &mut Comparisons) -> Result<(), NotPermitted> {
        for ip in &names.ips {
            // Go sorts networks by their addresses with all bits, and takes an IPv4 address that is mapped to IPv6 for an IPv4 address. Here
            // that does not permit more, and does not exclude less.
            let contains = |Network { address, mask }: &Network, excludes| {
                let has_host_bits = address.iter().zip(mask).any(|(address, mask)| address & !mask != 0);
                let is_odd = has_host_bits || is_mapped(address) || is_mapped(ip);
                contains(address, mask, ip) && (excludes || !is_odd)
            };
            self.decide("IP address", || address(ip), |trees| &trees.ips, contains, comparisons)?;
        }
        for name in &names.dns {
            if !is_domain(name, false) {
                return Err(NotPermitted(format!("cannot parse dnsName {}", go_quote(name))));
            }
            let matches = |constraint: &String, excludes| domain_matches(constraint, name, excludes);
            self.decide("DNS name", || name.clone(), |trees| &trees.dns, matches, comparisons)?;
        }
        for (uri, host) in &names.uris {
            let host = domain_of_host(host);
            let host = host
                .ok_or_else(|| NotPermitted(format!("URI {} cannot be matched against constraints", go_quote(uri))))?;
            let matches = |constraint: &String, excludes| domain_matches(constraint, &host, excludes);
            self.decide("URI", || uri.clone(), |trees| &trees.uris, matches, comparisons)?;
        }
        for email in &names.emails {
            let mailbox = Mailbox::parse(email).filter(|mailbox| is_domain(&mailbox.domain, false));
            let mailbox =
                mailbox.ok_or_else(|| NotPermitted(format!("cannot parse rfc822Name {}", go_quote(email))))?;
            let matches = |constraint: &EmailConstraint, excludes| mailbox.matches(constraint, excludes);
            self.decide("email address", || email.clone(), |trees| &trees.emails, matches, comparisons)?;
        }
        Ok(())
    }

    /// Decides on one name (`checkConstraints`). `matches` gets a constraint, and whether the constraint excludes names.
    fn decide<T>(
        &self,
        kind: &str,
        name: impl Fn() -> String,
        of_kind: impl Fn(&Subtrees) -> &[T],
        matches: impl Fn(&T, bool) -> bool,
        comparisons: &mut Comparisons,
    ) -> Result<(), NotPermitted> {
        let name = || go_quote(&name().chars().take(MAX_NAME).collect::<String>());
        let (permitted, excluded) = (of_kind(&self.permitted), of_kind(&self.excluded));
        comparisons.0 = comparisons
            .0
            .checked_sub(permitted.len() + excluded.len())
            .ok_or_else(|| NotPermitted("too many constraints".to_owned()))?;
        if !permitted.is_empty() && !permitted.iter().any(|constraint| matches(constraint, false)) {
            return Err(NotPermitted(format!("{kind} {} is not permitted by any constraint", name())));
        }
        if excluded.iter().any(|constraint| matches(constraint, true)) {
            return Err(NotPermitted(format!("{kind} {} is excluded by a constraint", name())));
        }
        Ok(())
    }
}

impl Subtrees {
    fn parse(mut all: Reader<'_>, has_unknown: &mut bool) -> Result<Self, Malformed> {
        let mut trees = Self::default();
        let domain = |value: &[u8]| {
            let text = ascii(value).ok_or(malformed("invalid constraint value"))?;
            is_domain(&text, true).then_some(text).ok_or(malformed("failed to parse a constraint"))
        };
        while !all.is_empty() {
            let base = all.read(der::SEQUENCE).and_then(|mut tree| tree.any());
            let base = base.ok_or(malformed("invalid NameConstraints extension"))?;
            match base.tag {
                DNS => trees.dns.push(domain(base.value)?),
                URI => {
                    let text = domain(base.value)?;
                    if text.parse::<IpAddr>().is_ok() {
                        return Err(malformed("failed to parse URI constraint: cannot be IP address"));
                    }
                    trees.uris.push(text);
                }
                EMAIL if base.value.contains(&b'@') => {
                    let mailbox = ascii(base.value).and_then(|text| Mailbox::parse(&text));
                    let mailbox = mailbox.ok_or(malformed("failed to parse rfc822Name constraint"))?;
                    trees.emails.push(EmailConstraint::Mailbox(mailbox));
                }
                EMAIL => trees.emails.push(EmailConstraint::Domain(domain(base.value)?)),
                IP if matches!(base.value.len(), 8 | 32) => {
                    let (network, mask) = base.value.split_at(base.value.len() / 2);
                    if !is_mask(mask) {
                        return Err(malformed("IP constraint contained invalid mask"));
                    }
                    trees.ips.push(Network { address: network.into(), mask: mask.into() });
                }
                IP => return Err(malformed("IP constraint contained value of a wrong length")),
                _ => *has_unknown = true,
            }
        }
        Ok(trees)
    }
}

/// Checks the names of each certificate of a chain against the constraints of all that follow it (`checkChainConstraints`), within what is left
/// of the comparisons.
///
/// # Errors
/// If a name is not permitted, with the reason.
pub(super) fn check<'a>(
    chain: impl Iterator<Item = (Option<&'a SubjectNames>, Option<&'a NameConstraints>)>,
    comparisons: &mut Comparisons,
) -> Result<(), NotPermitted> {
    let chain: Vec<_> = chain.collect();
    for (index, (names, _)) in chain.iter().enumerate() {
        let Some(names) = names else { continue };
        for (_, constraints) in chain.iter().skip(index + 1) {
            constraints.map_or(Ok(()), |constraints| constraints.check(names, comparisons))?;
        }
    }
    Ok(())
}

fn ascii(value: &[u8]) -> Option<String> {
    if value.is_ascii() { String::from_utf8(value.to_vec()).ok() } else { None }
}

fn address(ip: &[u8]) -> String {
    match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
        (Ok(ip), _) => IpAddr::from(ip).to_string(),
        (_, Ok(ip)) => IpAddr::from(ip).to_string(),
        _ => String::new(),
    }
}

fn contains(network: &[u8], mask: &[u8], ip: &[u8]) -> bool {
    let mut bytes = network.iter().zip(mask).zip(ip);
    network.len() == ip.len() && bytes.all(|((network, mask), ip)| network & mask == ip & mask)
}

/// Whether the address is that of an IPv4 host in IPv6 (`IP.To4`).
fn is_mapped(ip: &[u8]) -> bool {
    <[u8; 16]>::try_from(ip).is_ok_and(|ip| std::net::Ipv6Addr::from(ip).to_ipv4_mapped().is_some())
}

/// Whether the mask is ones and then zeros (`isValidIPMask`).
fn is_mask(mask: &[u8]) -> bool {
    let mut rest = mask.iter().skip_while(|byte| **byte == 0xff);
    rest.next().is_none_or(|byte| byte.leading_ones() == byte.count_ones()) && rest.all(|byte| *byte == 0)
}

/// Whether each label has a character, and none has an invalid one (`domainNameValid`). A constraint may begin with a dot.
fn is_domain(text: &str, is_constraint: bool) -> bool {
    if text.is_empty() {
        return true;
    }
    let labels = text.strip_prefix('.').filter(|_| is_constraint).unwrap_or(text);
    text.bytes().all(|byte| (33..=126).contains(&byte)) && labels.split('.').all(|label| !label.is_empty())
}

/// Whether a constraint matches a domain: itself and those below it, or only those below it if the constraint begins with a dot. A constraint
/// that excludes also matches a wildcard that may stand for its domain (`dnsConstraints.query`).
fn domain_matches(constraint: &str, name: &str, excludes: bool) -> bool {
    let ends_with = |constraint: &str| {
        let Some(start) = name.len().checked_sub(constraint.len()) else { return false };
        let (Some(head), Some(tail)) = (name.as_bytes().get(..start), name.as_bytes().get(start..)) else {
            return false;
        };
        let is_at_label = constraint.starts_with('.') || head.last().is_none_or(|byte| *byte == b'.');
        is_at_label && tail.eq_ignore_ascii_case(constraint.as_bytes())
    };
    let may_be = |constraint: &str| {
        let parents = constraint.find('.').zip(name.find('.'));
        let parents = parents.and_then(|(one, other)| constraint.get(one..).zip(name.get(other..)));
        name.starts_with('*') && parents.is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
    };
    constraint.is_empty() || ends_with(constraint) || (excludes && may_be(constraint))
}

/// Returns the domain of a URL's host without its port; `None` for an address, and without a host (`parseURIs`).
fn domain_of_host(host: &str) -> Option<String> {
    let domain = if host.ends_with(']') { host } else { host.rsplit_once(':').map_or(host, |(domain, _)| domain) };
    let is_address = domain.starts_with('[') || domain.contains(':') || domain.parse::<IpAddr>().is_ok();
    (!domain.is_empty() && !is_address).then(|| domain.to_ascii_lowercase())
}

/// An address of e-mail; the domain is in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mailbox {
    local: Vec<u8>,
    domain: String,
}

impl Mailbox {
    /// Reads `parseRFC2821Mailbox`.
    fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (local, rest) = match bytes.split_first() {
            Some((b'"', quoted)) => quoted_local(quoted)?,
            _ => plain_local(bytes)?,
        };
        let domain = std::str::from_utf8(rest.strip_prefix(b"@")?).ok()?;
        let is_valid = |label: &str| !label.is_empty() && label.bytes().all(|byte| (33..=126).contains(&byte));
        let domain = (domain.is_empty() || domain.split('.').all(is_valid)).then(|| domain.to_ascii_lowercase())?;
        Some(Self { local, domain })
    }

    fn matches(&self, constraint: &EmailConstraint, excludes: bool) -> bool {
        match constraint {
            EmailConstraint::Mailbox(mailbox) => mailbox == self,
            EmailConstraint::Domain(domain) => domain_matches(domain, &self.domain, excludes),
        }
    }
}

/// Reads the part after the opening quote; returns it without quotes and escapes, and the rest.
fn quoted_local(mut input: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut local = Vec::new();
    loop {
        let (byte, rest) = input.split_first()?;
        input = rest;
        match byte {
            b'"' => return Some((local, input)),
            b'\\' => {
                let (escaped, rest) = input.split_first()?;
                if !matches!(escaped, 1..=9 | 11 | 12 | 14..=127) {
                    return None;
                }
                local.push(*escaped);
                input = rest;
            }
            1..=8 | 11 | 12 | 14..=33 | 35..=91 | 93..=127 => local.push(*byte),
            _ => return None,
        }
    }
}

fn plain_local(mut input: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut local = Vec::new();
    while let Some((byte, rest)) = input.split_first() {
        let (byte, rest) = match byte {
            b'\\' => rest.split_first()?,
            byte if byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(byte) => (byte, rest),
            _ => break,
        };
        local.push(*byte);
        input = rest;
    }
    let has_dots = local.starts_with(b".") || local.ends_with(b".") || local.windows(2).any(|two| two == b"..");
    (!local.is_empty() && !has_dots).then_some((local, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_matches_as_in_go() {
        for (constraint, name, permitted, excluded) in [
            ("", "a.com", true, true),
            ("example.com", "example.com", true, true),
            ("example.com", "EXAMPLE.com", true, true),
            ("example.com", "a.example.com", true, true),
            ("example.com", "anexample.com", false, false),
            (".example.com", "a.example.com", true, true),
            (".example.com", "example.com", false, false),
            ("a.example.com", "example.com", false, false),
            ("example.com", "*.example.com", true, true),
            ("a.example.com", "*.example.com", false, true),
            ("b.a.example.com", "*.example.com", false, false),
            ("com", "*", false, false),
        ] {
            assert_eq!(domain_matches(constraint, name, false), permitted, "{constraint} {name}");
            assert_eq!(domain_matches(constraint, name, true), excluded, "{constraint} {name}");
        }
    }

    #[test]
    fn mailboxes_are_those_of_go() {
        let parsed = |text: &str| Mailbox::parse(text).map(|mailbox| (mailbox.local, mailbox.domain));
        for (text, local, domain) in [
            ("a@Example.com", "a", "example.com"),
            ("a.b+c@x", "a.b+c", "x"),
            ("a@", "a", ""),
            ("a\\@b@x", "a@b", "x"),
            ("\"a b\"@x", "a b", "x"),
            ("\"a\\\"b\"@x", "a\"b", "x"),
        ] {
            assert_eq!(parsed(text), Some((local.into(), domain.into())), "{text}");
        }
        for text in
            ["", "a", "@x", ".a@x", "a.@x", "a..b@x", "a b@x", "a@x.", "a@x..y", "a@ x", "\"a@x", "\"a\"x@y", "a\\"]
        {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_of_uris_are_domains() {
        for (uri, domain) in [
            ("spiffe://Trust.example.com/a", Some("trust.example.com")),
            ("https://u:p@a.com:80/x", Some("a.com")),
            ("https://10.0.0.1/", None),
            ("https://[::1]/", None),
            ("https://[::1]:1/", None),
            ("mailto:a@b", None),
        ] {
            let host = String::from_utf8(url::host(uri).unwrap()).unwrap();
            assert_eq!(domain_of_host(&host).as_deref(), domain, "{uri}");
        }
    }

    #[test]
    fn masks_are_ones_and_then_zeros() {
        for (mask, wanted) in [
            (&[0xff, 0xff, 0, 0][..], true),
            (&[0xff, 0xf0, 0, 0], true),
            (&[0, 0, 0, 0], true),
            (&[0xff; 4], true),
            (&[0xff, 0, 0xff, 0], false),
            (&[0xff, 0x0f, 0, 0], false),
        ] {
            assert_eq!(is_mask(mask), wanted, "{mask:x?}");
        }
    }

    #[test]
    fn odd_networks_permit_nothing_and_exclude_all_the_same() {
        let v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec();
        for (network, mask, ip, is_in) in [
            (vec![10, 0, 0, 0], vec![255, 0, 0, 0], vec![10, 0, 0, 1], true),
            // Bits of hosts.
            (vec![10, 0, 0, 5], vec![255, 0, 0, 0], vec![10, 0, 0, 1], false),
            // Addresses of IPv4 in IPv6.
            (vec![0; 16], vec![0; 16], v6("::ffff:1.2.3.4"), false),
            (v6("::ffff:1.2.3.4"), vec![255; 16], v6("::ffff:1.2.3.4"), false),
        ] {
            let names = SubjectNames { ips: vec![ip.into()], ..SubjectNames::default() };
            let trees =
                Subtrees { ips: vec![Network { address: network.into(), mask: mask.into() }], ..Subtrees::default() };
            let permitted = NameConstraints { permitted: trees.clone(), ..NameConstraints::default() };
            let excluded = NameConstraints { excluded: trees, ..NameConstraints::default() };
            let check = |constraints: &NameConstraints| constraints.check(&names, &mut Comparisons::default()).is_ok();
            assert_eq!((check(&permitted), check(&excluded)), (is_in, false), "{names:?}");
        }
    }

    #[test]
    fn comparisons_are_bounded() {
        let names = SubjectNames { dns: vec!["a.com".to_owned(); 1000], ..SubjectNames::default() };
        let few = NameConstraints {
            excluded: Subtrees { dns: vec!["b.com".to_owned(); 250], ..Subtrees::default() },
            ..NameConstraints::default()
        };
        let chain = [(Some(&names), None), (None, Some(&few))];
        assert_eq!(check(chain.into_iter(), &mut Comparisons::default()), Ok(()));
        let chain = [(Some(&names), None), (None, Some(&few)), (None, Some(&few))];
        let too_many = Err(NotPermitted("too many constraints".to_owned()));
        assert_eq!(check(chain.into_iter(), &mut Comparisons::default()), too_many);
        // The chains of one verification share the bound.
        let mut left = Comparisons::default();
        let results = [(); 2].map(|()| check([(Some(&names), None), (None, Some(&few))].into_iter(), &mut left));
        assert_eq!(results, [Ok(()), too_many]);
    }
}
