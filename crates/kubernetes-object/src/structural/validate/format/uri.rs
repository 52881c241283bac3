//! URLs as Go's `net/url` reads them: the parts that validation needs.

use crate::go_text::go_quote;
use std::net::Ipv6Addr;

/// `url.Error`
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidUrl(String);

/// The parts of a URL.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Url<'a> {
    /// The scheme, in lower case.
    pub(crate) scheme: String,
    /// The user information before the host.
    pub(crate) user: Option<&'a str>,
    /// The host with its port.
    pub(crate) host: &'a str,
    /// The text after the question mark.
    pub(crate) query: &'a str,
    /// The text after the number sign.
    pub(crate) fragment: &'a str,
}

/// `url.ParseRequestURI`
pub(crate) fn is_request_uri(text: &str) -> bool {
    Url::parse_request(text).is_ok()
}

impl<'a> Url<'a> {
    /// `url.Parse`
    ///
    /// # Errors
    /// If the text is no URL, with Go's text.
    pub(crate) fn parse(text: &'a str) -> Result<Self, InvalidUrl> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let url = Self::read(before, false).map_err(|why| wrong(before, &why))?;
        check_escapes(fragment, Place::Other).map_err(|why| wrong(text, &why))?;
        Ok(Self { fragment, ..url })
    }

    /// `url.ParseRequestURI`: a URL with a scheme, or a path.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub(crate) fn parse_request(text: &'a str) -> Result<Self, InvalidUrl> {
        Self::read(text, true).map_err(|why| wrong(text, &why))
    }

    fn read(text: &'a str, is_request: bool) -> Result<Self, InvalidUrl> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(InvalidUrl("net/url: invalid control character in URL".to_owned()));
        }
        if is_request && text.is_empty() {
            return Err(InvalidUrl("empty url".to_owned()));
        }
        let mut url = Self::default();
        if text == "*" {
            return Ok(url);
        }
        let (scheme, rest) = scheme(text).ok_or_else(|| InvalidUrl("missing protocol scheme".to_owned()))?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query;
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                // The rest is opaque.
                return Ok(url);
            }
            if is_request {
                return Err(InvalidUrl("invalid URI for request".to_owned()));
            }
            if rest.split('/').next().unwrap_or_default().contains(':') {
                return Err(InvalidUrl("first path segment in URL cannot contain colon".to_owned()));
            }
        }
        let has_authority = !scheme.is_empty() || (!is_request && !rest.starts_with("///"));
        if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
            let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
            rest = path;
            url.authority(authority)?;
        }
        check_escapes(rest, Place::Other)?;
        Ok(url)
    }

    fn authority(&mut self, authority: &'a str) -> Result<(), InvalidUrl> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host)?;
        (self.user, self.host) = (user, host);
        let Some(user) = user else { return Ok(()) };
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(is_allowed) {
            return Err(InvalidUrl("net/url: invalid userinfo".to_owned()));
        }
        check_escapes(user, Place::Other)
    }
}

/// `url.Error` of a whole text.
fn wrong(text: &str, why: &InvalidUrl) -> InvalidUrl {
    InvalidUrl(format!("parse {}: {why}", go_quote(text)))
}

/// The scheme and the rest of a URL; `None` if the scheme is empty.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return None,
            b':' => return text.split_once(':'),
            _ => break,
        }
    }
    Some(("", text))
}

/// A part of a URL with its own rules of escapes.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Host,
    Zone,
    Other,
}

fn check_host(host: &str) -> Result<(), InvalidUrl> {
    if !host.starts_with('[') {
        let port = host.find(':').and_then(|at| host.get(at..)).unwrap_or_default();
        check_port(port)?;
        return check_escapes(host, Place::Host);
    }
    let (within, port) = host.rsplit_once(']').ok_or_else(|| InvalidUrl("missing ']' in host".to_owned()))?;
    check_port(port)?;
    let (address, zone) = within.split_at(within.find("%25").unwrap_or(within.len()));
    check_escapes(address, Place::Host)?;
    check_escapes(zone, Place::Zone)?;
    let address = address.strip_prefix('[').unwrap_or(address);
    address
        .parse::<Ipv6Addr>()
        .map(drop)
        .map_err(|_| InvalidUrl(format!("invalid host: ParseAddr({}): unable to parse IP", go_quote(address))))
}

/// `validOptionalPort`
fn check_port(text: &str) -> Result<(), InvalidUrl> {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match text.is_empty() || text.strip_prefix(':').is_some_and(is_port) {
        true => Ok(()),
        false => Err(InvalidUrl(format!("invalid port {} after host", go_quote(text)))),
    }
}

/// Whether the escapes of a text are complete, and allowed in its place (`unescape`).
fn check_escapes(text: &str, place: Place) -> Result<(), InvalidUrl> {
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if character != '%' {
            let is_wrong = u8::try_from(character).is_ok_and(|byte| byte < 0x80 && must_be_escaped(byte));
            if place != Place::Other && is_wrong {
                let shown = go_quote(&character.to_string());
                return Err(InvalidUrl(format!("invalid character {shown} in host name")));
            }
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            continue;
        }
        let escape = rest.get(..3).unwrap_or(rest);
        let digits =
            escape.get(1..).filter(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let is_allowed = value.is_some_and(|value| match place {
            Place::Host => value >= 0x80 || value == b'%',
            Place::Zone => value == b'%' || value == b' ' || !must_be_escaped(value),
            Place::Other => true,
        });
        if !is_allowed {
            return Err(InvalidUrl(format!("invalid URL escape {}", go_quote(escape))));
        }
        rest = rest.get(3..).unwrap_or_default();
    }
    Ok(())
}

fn must_be_escaped(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && !b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}
