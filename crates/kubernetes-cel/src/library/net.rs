//! Addresses as Go's `net/netip` reads them: decimal without leading zeros, zones.

use kubernetes_object::go_text::go_quote;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason why a text is no address or no prefix, with Go's text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidAddress(String);

/// Parses an address and its zone, which is empty if there is none (`netip.ParseAddr`).
///
/// # Errors
/// If the text is no address.
pub(super) fn address(text: &str) -> Result<(IpAddr, &str), InvalidAddress> {
    let parser = Parser { text };
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => Ok((Ipv4Addr::from(parser.four(text)?).into(), "")),
        Some(b':') => parser.six(),
        Some(_) => parser.wrong("missing IPv6 address", ""),
        None => parser.wrong("unable to parse IP", ""),
    }
}

/// Parses an address and the number of its prefix bits (`netip.ParsePrefix`).
///
/// # Errors
/// If the text is no prefix.
pub(super) fn prefix(text: &str) -> Result<(IpAddr, u8), InvalidAddress> {
    let wrong = |why: &str| Err(InvalidAddress(format!("netip.ParsePrefix({}): {why}", go_quote(text))));
    let Some((before, bits)) = text.rsplit_once('/') else { return wrong("no '/'") };
    let (address, zone) = match address(before) {
        Ok(address) => address,
        Err(error) => return wrong(&error.to_string()),
    };
    if !zone.is_empty() {
        return wrong("IPv6 zones cannot be present in a prefix");
    }
    let is_plain = bits.len() == 1 || !bits.starts_with('0');
    if !is_plain || bits.is_empty() || !bits.bytes().all(|digit| digit.is_ascii_digit()) || bits.parse::<i64>().is_err()
    {
        return wrong(&format!("bad bits after slash: {}", go_quote(bits)));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse() {
        Ok(bits) if bits <= most => Ok((address, bits)),
        _ => wrong("prefix length out of range"),
    }
}

struct Parser<'t> {
    text: &'t str,
}

impl<'t> Parser<'t> {
    fn wrong<T>(&self, why: &str, at: &str) -> Result<T, InvalidAddress> {
        let at = if at.is_empty() { String::new() } else { format!(" (at {})", go_quote(at)) };
        Err(InvalidAddress(format!("ParseAddr({}): {why}{at}", go_quote(self.text))))
    }

    /// `parseIPv4Fields`.
    fn four(&self, text: &str) -> Result<[u8; 4], InvalidAddress> {
        // The fields before a dot.
        let mut fields = Vec::with_capacity(3);
        let (mut digits, mut value) = (0, 0_u32);
        for (at, character) in text.char_indices() {
            if let Some(digit) = character.to_digit(10) {
                if digits == 1 && value == 0 {
                    return self.wrong("IPv4 field has octet with leading zero", "");
                }
                (digits, value) = (digits + 1, value * 10 + digit);
                if value > 255 {
                    return self.wrong("IPv4 field has value >255", "");
                }
            } else if character != '.' {
                return self.wrong("unexpected character", text.get(at..).unwrap_or_default());
            } else if digits == 0 || at == text.len() - 1 {
                return self.wrong("IPv4 field must have at least one digit", text.get(at..).unwrap_or_default());
            } else if fields.len() == 3 {
                return self.wrong("IPv4 address too long", "");
            } else {
                fields.push(value as u8);
                (digits, value) = (0, 0);
            }
        }
        match *fields {
            [a, b, c] => Ok([a, b, c, value as u8]),
            _ => self.wrong("IPv4 address too short", ""),
        }
    }

    /// `parseIPv6`.
    fn six(&self) -> Result<(IpAddr, &'t str), InvalidAddress> {
        let (mut rest, zone) = self.text.split_once('%').unwrap_or((self.text, ""));
        if zone.is_empty() && rest.len() < self.text.len() {
            return self.wrong("zone must be a non-empty string", "");
        }
        let mut bytes = Vec::with_capacity(16);
        let mut gap = None;
        if let Some(after) = rest.strip_prefix("::") {
            (rest, gap) = (after, Some(0));
        }
        let mut is_done = gap.is_some() && rest.is_empty();
        while !is_done && bytes.len() < 16 {
            let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
            if length > 4 {
                return self.wrong("each group must have 4 or less digits", rest);
            }
            let (digits, after) = rest.split_at(length);
            let Ok(group) = u16::from_str_radix(digits, 16) else {
                return self.wrong("each colon-separated field must have at least one digit", rest);
            };
            if after.starts_with('.') {
                if gap.is_none() && bytes.len() != 12 {
                    return self.wrong("embedded IPv4 address must replace the final 2 fields of the address", rest);
                }
                if bytes.len() > 12 {
                    return self.wrong("too many hex fields to fit an embedded IPv4 at the end of the address", rest);
                }
                bytes.extend(self.four(rest)?);
                rest = "";
                break;
            }
            bytes.extend(group.to_be_bytes());
            rest = after;
            if rest.is_empty() {
                break;
            }
            let Some(after) = rest.strip_prefix(':') else {
                return self.wrong("unexpected character, want colon", rest);
            };
            if after.is_empty() {
                return self.wrong("colon must be followed by more characters", rest);
            }
            rest = after;
            if let Some(after) = rest.strip_prefix(':') {
                if gap.is_some() {
                    return self.wrong("multiple :: in address", rest);
                }
                (rest, gap) = (after, Some(bytes.len()));
                is_done = rest.is_empty();
            }
        }
        if !rest.is_empty() {
            return self.wrong("trailing garbage after address", rest);
        }
        match gap {
            None if bytes.len() < 16 => return self.wrong("address string too short", ""),
            Some(_) if bytes.len() == 16 => return self.wrong("the :: must expand to at least one field of zeros", ""),
            None => {}
            Some(gap) => {
                let zeros = 16 - bytes.len();
                bytes.splice(gap..gap, std::iter::repeat_n(0, zeros));
            }
        }
        match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => Ok((Ipv6Addr::from(bytes).into(), zone)),
            Err(_) => self.wrong("unable to parse IP", ""),
        }
    }
}
