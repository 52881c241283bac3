//! URLs as Go's `net/url` reads them: the parts that validation needs.

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
    Url::parse_request(text).is_some()
}

impl<'a> Url<'a> {
    /// `url.Parse`; `None` for a text that is no URL.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        is_escaped(fragment, Place::Other).then_some(())?;
        Some(Self { fragment, ..Self::read(before, false)? })
    }

    /// `url.ParseRequestURI`: a URL with a scheme, or a path.
    pub(crate) fn parse_request(text: &'a str) -> Option<Self> {
        Self::read(text, true)
    }

    fn read(text: &'a str, is_request: bool) -> Option<Self> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) || (is_request && text.is_empty()) {
            return None;
        }
        let mut url = Self::default();
        if text == "*" {
            return Some(url);
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query;
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                // The rest is opaque.
                return Some(url);
            }
            let first = rest.split('/').next().unwrap_or_default();
            if is_request || first.contains(':') {
                return None;
            }
        }
        let has_authority = !scheme.is_empty() || (!is_request && !rest.starts_with("///"));
        if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
            let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
            rest = path;
            url.authority(authority)?;
        }
        is_escaped(rest, Place::Other).then_some(url)
    }

    fn authority(&mut self, authority: &'a str) -> Option<()> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        is_host(host).then_some(())?;
        (self.user, self.host) = (user, host);
        let is_user = |user: &str| {
            user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte))
        };
        user.is_none_or(|user| is_user(user) && is_escaped(user, Place::Other)).then_some(())
    }
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

fn is_host(host: &str) -> bool {
    if host.starts_with('[') {
        let Some((within, port)) = host.rsplit_once(']') else { return false };
        let (address, zone) = within.split_at(within.find("%25").unwrap_or(within.len()));
        return is_port(port)
            && is_escaped(address, Place::Host)
            && is_escaped(zone, Place::Zone)
            && address.strip_prefix('[').is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let port = host.find(':').and_then(|at| host.get(at..)).unwrap_or_default();
    is_port(port) && is_escaped(host, Place::Host)
}

/// `validOptionalPort`
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the escapes of a text are complete, and allowed in its place (`unescape`).
fn is_escaped(text: &str, place: Place) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            if place != Place::Other && byte < 0x80 && must_be_escaped(byte) {
                return false;
            }
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return false };
        let value = u8::try_from(high * 16 + low).unwrap_or_default();
        let is_allowed = match place {
            Place::Host => value >= 0x80 || value == b'%',
            Place::Zone => value == b'%' || value == b' ' || !must_be_escaped(value),
            Place::Other => true,
        };
        if !is_allowed {
            return false;
        }
    }
    true
}

fn must_be_escaped(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && !b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}
