//! The forms of texts that several kinds have (`k8s.io/apimachinery/pkg/util/validation`, `apimachineryvalidation.NameIs*`).

use super::node::{Causes, Node};
use crate::names::{
    dns_1123_label_errors, dns_1123_subdomain_errors, domain_prefixed_path_errors, mask_trailing_dash,
    path_segment_errors, qualified_name_errors,
};
use regex::Regex;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// `DNS1123SubdomainMaxLength`
const MAX_SUBDOMAIN_BYTES: usize = 253;

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($pattern).ok());)*
    };
}

const UNDERSCORED: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";

patterns! {
    PERCENT = "^[0-9]+%$";
    HEADER = "^[-A-Za-z0-9]+$";
    WITH_UNDERSCORES = &format!("^{UNDERSCORED}$");
    SYSCTL = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
}

/// `NameIsDNSSubdomain`
pub(super) fn subdomain(name: &str, is_prefix: bool) -> Vec<String> {
    if is_prefix { dns_1123_subdomain_errors(mask_trailing_dash(name)) } else { dns_1123_subdomain_errors(name) }
}

/// `NameIsDNSLabel`
pub(super) fn label(name: &str, is_prefix: bool) -> Vec<String> {
    if is_prefix { dns_1123_label_errors(mask_trailing_dash(name)) } else { dns_1123_label_errors(name) }
}

/// `content.IsPathSegmentName`
pub(super) fn segment(name: &str, _is_prefix: bool) -> Vec<String> {
    path_segment_errors(name)
}

/// The names of kinds whose validation requires no form.
pub(super) fn any_name(_name: &str, _is_prefix: bool) -> Vec<String> {
    Vec::new()
}

/// `IsValidPortName`
pub(super) fn port_name_errors(name: &str) -> Vec<String> {
    const MOST_BYTES: usize = 15;
    let is_character = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let found = [
        (name.len() > MOST_BYTES, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_character),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    found.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, why)| why.to_owned()).collect()
}

/// `IsValidPortNum`
pub(super) fn port_number(port: &Node<'_>, out: &mut Causes) {
    out.in_range(port, 1, 65_535);
}

/// `ValidatePortNumOrName`
pub(super) fn port(port: &Node<'_>, out: &mut Causes) {
    match port.optional_text() {
        Some(name) => out.texts(port, port_name_errors(name)),
        None => port_number(port, out),
    }
}

/// `IsValidPercent`
pub(super) fn percent_errors(text: &str) -> Vec<String> {
    let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
               validation is '[0-9]+%')";
    if matches(&PERCENT, text) { Vec::new() } else { vec![why.to_owned()] }
}

/// `IsHTTPHeaderName`
pub(super) fn header_errors(name: &str) -> Vec<String> {
    let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation \
               is '[-A-Za-z0-9]+')";
    if matches(&HEADER, name) { Vec::new() } else { vec![why.to_owned()] }
}

/// `IsRelaxedEnvVarName`
pub(super) fn variable_errors(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let is_valid = name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if is_valid { Vec::new() } else { vec![why.to_owned()] }
}

/// `IsConfigMapKey`
pub(super) fn config_key_errors(key: &str) -> Vec<String> {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let mut errors = Vec::new();
    if key.len() > MAX_SUBDOMAIN_BYTES {
        errors.push(format!("must be no more than {MAX_SUBDOMAIN_BYTES} characters"));
    }
    if key.is_empty() || !key.bytes().all(is_character) {
        let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  \
                   or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        errors.push(why.to_owned());
    }
    match key {
        "." | ".." => errors.push(format!("must not be '{key}'")),
        key if key.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// `IsWildcardDNS1123Subdomain`
pub(super) fn wildcard_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_SUBDOMAIN_BYTES {
        errors.push(format!("must be no more than {MAX_SUBDOMAIN_BYTES} characters"));
    }
    let rest = name.strip_prefix("*.").filter(|rest| {
        rest.split('.').all(|label| {
            let has_characters =
                label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            !label.is_empty() && has_characters && !label.starts_with('-') && !label.ends_with('-')
        })
    });
    if rest.is_none() {
        let why = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower \
                   case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used \
                   for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        errors.push(why.to_owned());
    }
    errors
}

/// `IsDNS1123SubdomainWithUnderscore`
pub(super) fn underscored_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_SUBDOMAIN_BYTES {
        errors.push(format!("must be no more than {MAX_SUBDOMAIN_BYTES} characters"));
    }
    if !matches(&WITH_UNDERSCORES, name) {
        errors.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and \
             end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{UNDERSCORED}')"
        ));
    }
    errors
}

/// `IsValidSysctlName`
pub(super) fn is_sysctl(name: &str) -> bool {
    name.len() <= MAX_SUBDOMAIN_BYTES && matches(&SYSCTL, name)
}

/// `IsDomainPrefixedPath`
pub(super) fn domain_prefixed_path(node: &Node<'_>, out: &mut Causes) {
    if !out.require(node) {
        return;
    }
    for (part, why) in domain_prefixed_path_errors(node.text()) {
        out.invalid(node, crate::go_text::go_quote(part), &why);
    }
}

/// `ValidateQualifiedName`
pub(super) fn qualified_name(node: &Node<'_>, out: &mut Causes) {
    out.texts(node, qualified_name_errors(node.text()));
}

/// `ValidateDNS1123Label`
pub(super) fn label_text(node: &Node<'_>, out: &mut Causes) {
    out.texts(node, dns_1123_label_errors(node.text()));
}

/// `ValidateDNS1123Subdomain`
pub(super) fn subdomain_text(node: &Node<'_>, out: &mut Causes) {
    out.texts(node, dns_1123_subdomain_errors(node.text()));
}

/// `netutils.ParseIPSloppy`: leading zeros are allowed.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(IpAddr::V6(address));
    }
    if let Some(parsed) = parse_ipv4(text) {
        return Some(IpAddr::V4(parsed));
    }
    // An IPv6 address may end in an IPv4 address with leading zeros.
    let (before, last) = text.rsplit_once(':')?;
    let last = parse_ipv4(last)?;
    format!("{before}:{last}").parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let trimmed = part.trim_start_matches('0');
        let number = if trimmed.is_empty() { 0 } else { trimmed.parse::<u8>().ok()? };
        *parts.get_mut(count)? = number;
        count += 1;
    }
    (count == 4).then(|| Ipv4Addr::from(parts))
}

/// `netutils.IsIPv6`: an IPv4 address in an IPv6 address counts as IPv4.
pub(super) fn is_ipv6(text: &str) -> bool {
    matches!(parse_ip(text), Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none())
}

/// The text that Go writes for an address (`net.IP.String`).
pub(super) fn canonical_ip(address: IpAddr) -> String {
    match address {
        IpAddr::V6(address) => {
            address.to_ipv4_mapped().map_or_else(|| address.to_string(), |mapped| mapped.to_string())
        }
        IpAddr::V4(address) => address.to_string(),
    }
}

const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// `IsValidIPForLegacyField` with strict validation. An address that the old object has is valid.
pub(super) fn legacy_ip(node: &Node<'_>, old: &HashSet<&str>, out: &mut Causes) -> bool {
    let why = (!old.contains(node.text())).then(|| ip_error(node.text())).flatten();
    if let Some(why) = why {
        out.text(node, why);
    }
    why.is_none()
}

/// The error of an address that is not strictly valid (`parseIP`).
fn ip_error(text: &str) -> Option<&'static str> {
    if parse_ip(text).is_none() {
        return Some(NO_IP);
    }
    if text.parse::<IpAddr>().is_err() {
        return Some("must not have leading 0s");
    }
    let is_mapped = matches!(text.parse::<Ipv6Addr>(), Ok(address) if address.to_ipv4_mapped().is_some());
    is_mapped.then_some("must not be an IPv4-mapped IPv6 address")
}

/// The errors of an address that is strictly valid and canonical (`IsValidIP`).
pub(super) fn strict_ip_errors(text: &str) -> Vec<String> {
    if let Some(why) = ip_error(text) {
        return vec![why.to_owned()];
    }
    let Some(address) = parse_ip(text) else { return Vec::new() };
    match canonical_ip(address) {
        canonical if canonical == text => Vec::new(),
        canonical => vec![format!("must be in canonical form (\"{canonical}\")")],
    }
}

/// The network and the length of its prefix (`netutils.ParseCIDRSloppy`).
pub(super) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address = parse_ip(address)?;
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse::<u32>().ok().filter(|_| is_number)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then(|| Some((masked(address, length), u8::try_from(length).ok()?)))?
}

/// The address with the bits after a prefix cleared.
pub(super) fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}

/// `IsValidCIDRForLegacyField` with strict validation.
pub(super) fn legacy_cidr(node: &Node<'_>, old: &HashSet<&str>, out: &mut Causes) {
    cidr_text(node, node.text(), old, out);
}

/// As [`legacy_cidr`], for a text that differs from the value.
pub(super) fn cidr_text(node: &Node<'_>, text: &str, old: &HashSet<&str>, out: &mut Causes) {
    if let Some(why) = cidr_error(text).filter(|_| !old.contains(text)) {
        out.invalid(node, crate::go_text::go_quote(text), why);
    }
}

/// The error of a network that is not strictly valid (`parseCIDR`).
fn cidr_error(text: &str) -> Option<&'static str> {
    let Some((network, _)) = parse_cidr(text) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let (address, written) = text.split_once('/').unwrap_or_default();
    let is_zero_led = written.len() > 1 && written.starts_with('0');
    let Some(address) = address.parse::<IpAddr>().ok().filter(|_| !is_zero_led) else {
        return Some("must not have leading 0s in IP or prefix length");
    };
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Some("must not have an IPv4-mapped IPv6 address");
    }
    (address != network).then_some("must not have bits set beyond the prefix length")
}

/// The errors of a network that is strictly valid and canonical (`IsValidCIDR`).
pub(super) fn strict_cidr_errors(text: &str) -> Vec<String> {
    if let Some(why) = cidr_error(text) {
        return vec![why.to_owned()];
    }
    let canonical = parse_cidr(text).map(|(network, length)| format!("{network}/{length}")).unwrap_or_default();
    if canonical == text { Vec::new() } else { vec![format!("must be in canonical form (\"{canonical}\")")] }
}

/// `ValidateEndpointIP`
pub(super) fn endpoint_ip(node: &Node<'_>, out: &mut Causes) {
    let Some(address) = parse_ip(node.text()) else {
        return out.text(node, "must be a valid IP address");
    };
    let address = match address {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4),
        address => address,
    };
    if address.is_unspecified() {
        out.text(node, &format!("may not be unspecified ({})", node.text()));
    }
    if address.is_loopback() {
        out.text(node, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (is_local, is_multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), matches!(address.octets(), [224, 0, 0, _])),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    if is_local {
        out.text(node, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_multicast {
        out.text(node, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// `ValidatePositiveIntOrPercent`
pub(super) fn int_or_percent(node: &Node<'_>, out: &mut Causes) {
    match node.optional_text() {
        Some(text) => out.texts(node, percent_errors(text)),
        None => out.non_negative(node),
    }
}

/// The number of a percentage (`getPercentValue`).
pub(super) fn percent(node: &Node<'_>) -> Option<i64> {
    let text = node.optional_text().filter(|text| percent_errors(text).is_empty())?;
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// `getIntOrPercentValue`
pub(super) fn int_or_percent_value(node: &Node<'_>) -> i64 {
    percent(node).unwrap_or_else(|| node.optional_text().map_or(node.int(), |text| text.parse().unwrap_or_default()))
}

/// `IsNotMoreThan100Percent`
pub(super) fn at_most_100_percent(node: &Node<'_>, out: &mut Causes) {
    if percent(node).is_some_and(|percent| percent > 100) {
        out.value(node, "must not be greater than 100%");
    }
}
