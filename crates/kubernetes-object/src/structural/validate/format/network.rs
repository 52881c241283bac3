//! Names and addresses of hosts.

use super::pattern;
use regex::Regex;
use std::net::Ipv6Addr;
use std::sync::LazyLock;

static SYMBOL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\p{S}\p{L}]$"));
static LETTER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\p{L}$"));

/// `strfmt.IsHostname`: one label, or labels and a top-level domain of letters.
pub(super) fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    match text.rsplit_once('.') {
        None => {
            let mut characters = text.chars();
            let starts = characters.next().is_some_and(is_letter_digit_or_symbol);
            let rest = characters.as_str();
            starts && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_letter_digit_or_symbol)
        }
        Some((labels, domain)) => {
            let is_label = |label: &str| {
                !label.is_empty()
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label.chars().all(|character| character == '-' || is_letter_digit_or_symbol(character))
            };
            domain.chars().count() >= 2 && domain.chars().all(is_letter) && labels.split('.').all(is_label)
        }
    }
}

fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || (!character.is_ascii() && LETTER.is_match(character.encode_utf8(&mut [0; 4])))
}

/// ASCII symbols count too, as in `\p{S}`.
fn is_letter_digit_or_symbol(character: char) -> bool {
    character.is_ascii_alphanumeric() || SYMBOL.is_match(character.encode_utf8(&mut [0; 4]))
}

/// An address that Go reads leniently (`ParseIPSloppy`) and that has a dot.
pub(super) fn is_ipv4(text: &str) -> bool {
    sloppy_ipv4(text) || (text.contains('.') && sloppy_ipv6(text))
}

/// `govalidator.IsIPv6`
pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

/// `ParseCIDRSloppy`
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match (sloppy_ipv4(address), sloppy_ipv6(address)) {
        (true, _) => 32,
        (false, true) => 128,
        (false, false) => return false,
    };
    decimal(bits).is_some_and(|bits| bits <= most)
}

/// Four decimal numbers, which may have leading zeros.
fn sloppy_ipv4(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    parts.len() == 4 && parts.iter().all(|part| decimal(part).is_some_and(|number| number <= 255))
}

fn sloppy_ipv6(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((before, last)) if last.contains('.') => {
            sloppy_ipv4(last) && format!("{before}:1.2.3.4").parse::<Ipv6Addr>().is_ok()
        }
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

fn decimal(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.trim_start_matches('0')).and_then(|digits| match digits {
        "" => Some(0),
        digits => digits.parse().ok(),
    })
}

/// `net.ParseMAC`: 6, 8 or 20 bytes.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (separator, digits) = match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => (*separator, 2),
        (_, Some(b'.')) => (b'.', 4),
        _ => return false,
    };
    let groups: Vec<_> = bytes.split(|byte| *byte == separator).collect();
    let size = groups.len() * digits / 2;
    matches!(size, 6 | 8 | 20)
        && groups.iter().all(|group| group.len() == digits && group.iter().all(u8::is_ascii_hexdigit))
}
