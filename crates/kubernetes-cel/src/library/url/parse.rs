//! URLs as Go's `net/url` reads and writes them. Unescaped parts are bytes, since they may be no text.

use crate::library::net;
use kubernetes_object::go_text::go_quote;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// `url.Error`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::library) struct InvalidUrl(String);

/// `url.URL`.
#[derive(Clone, Debug, Default)]
pub(super) struct Url {
    /// The scheme, in lower case.
    pub(super) scheme: String,
    /// The text after a scheme without a slash.
    opaque: String,
    user: Option<User>,
    /// The host with its port.
    pub(super) host: Vec<u8>,
    path: Vec<u8>,
    /// The path as written, if that is not its default escaped form.
    raw_path: String,
    query: String,
    /// Whether the URL has a question mark without a query.
    has_empty_query: bool,
    has_no_host: bool,
    fragment: Vec<u8>,
    raw_fragment: String,
}

#[derive(Clone, Debug)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// The part of a URL that is escaped (`encoding`).
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Host,
    Zone,
    User,
    Path,
    Query,
    Fragment,
}

impl Place {
    /// Whether a byte is written without an escape.
    fn keeps(self, byte: u8) -> bool {
        let kept: &[u8] = match self {
            Self::Host | Self::Zone => b"!\"$&'()*+,:;<=>[]",
            Self::User => b"$&+,;=",
            Self::Path => b"$&+,/:;=@",
            Self::Query => b"",
            Self::Fragment => b"!$&()*+,/:;=?@",
        };
        byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept.contains(&byte)
    }
}

impl Url {
    /// `url.Parse`.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::read(before, false).map_err(|error| wrong(before, &error))?;
        if !fragment.is_empty() {
            url.fragment = unescape(fragment, Place::Fragment).map_err(|error| wrong(text, &error))?;
            if escape(&url.fragment, Place::Fragment) != fragment.as_bytes() {
                url.raw_fragment = fragment.to_owned();
            }
        }
        Ok(url)
    }

    /// `url.ParseRequestURI`: requires a scheme, or an absolute path.
    pub(super) fn parse_request(text: &str) -> Result<Self, InvalidUrl> {
        Self::read(text, true).map_err(|error| wrong(text, &error))
    }

    fn read(text: &str, is_request: bool) -> Result<Self, InvalidUrl> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(InvalidUrl("net/url: invalid control character in URL".to_owned()));
        }
        if text.is_empty() && is_request {
            return Err(InvalidUrl("empty url".to_owned()));
        }
        if text == "*" {
            return Ok(Self { path: text.into(), ..Self::default() });
        }
        let (scheme, rest) = scheme(text)?;
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), ..Self::default() };
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.has_empty_query = query.is_empty() && text.ends_with('?');
        url.query = query.to_owned();
        let has_scheme = !url.scheme.is_empty();
        if !rest.starts_with('/') {
            if has_scheme {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            if is_request {
                return Err(InvalidUrl("invalid URI for request".to_owned()));
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err(InvalidUrl("first path segment in URL cannot contain colon".to_owned()));
            }
        }
        let may_have_host = has_scheme || !is_request && !rest.starts_with("///");
        if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_host) {
            let authority;
            (authority, rest) = after.split_at(after.find('/').unwrap_or(after.len()));
            (url.user, url.host) = authority_of(&url.scheme, authority)?;
        } else if has_scheme && rest.starts_with('/') {
            url.has_no_host = true;
        }
        url.path = unescape(rest, Place::Path)?;
        if escape(&url.path, Place::Path) != rest.as_bytes() {
            url.raw_path = rest.to_owned();
        }
        Ok(url)
    }

    /// The host without brackets, and the port; the port is empty if there is none (`splitHostPort`).
    pub(super) fn host_and_port(&self) -> (&[u8], &[u8]) {
        let colon = self.host.iter().rposition(|byte| *byte == b':');
        let (host, port) = match colon.map(|colon| self.host.split_at(colon)) {
            Some((host, [_, port @ ..])) if port.iter().all(u8::is_ascii_digit) => (host, port),
            _ => (&*self.host, &[][..]),
        };
        let inside = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
        (inside.unwrap_or(host), port)
    }

    /// The path as written if that is a valid form, otherwise escaped.
    pub(super) fn escaped_path(&self) -> Cow<'_, [u8]> {
        if self.path == b"*" {
            return Cow::Borrowed(b"*");
        }
        written(&self.raw_path, &self.path, Place::Path)
    }

    /// The values of each key. Skips malformed pairs (`url.Values`).
    pub(super) fn query(&self) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
        let mut query: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(key), Ok(value)) = (unescape(key, Place::Query), unescape(value, Place::Query)) {
                query.entry(key).or_default().push(value);
            }
        }
        query
    }

    /// `String`.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut text = self.scheme.clone().into_bytes();
        let has_scheme = !text.is_empty();
        if has_scheme {
            text.push(b':');
        }
        if self.opaque.is_empty() {
            let has_host = !self.host.is_empty() || self.user.is_some();
            if has_host || has_scheme && !self.has_no_host {
                if has_host || !self.path.is_empty() {
                    text.extend(b"//");
                }
                if let Some(user) = &self.user {
                    text.extend(escape(&user.name, Place::User));
                    if let Some(password) = &user.password {
                        text.push(b':');
                        text.extend(escape(password, Place::User));
                    }
                    text.push(b'@');
                }
                text.extend(escape(&self.host, Place::Host));
            }
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
                text.push(b'/');
            }
            if text.is_empty() && path.split(|byte| *byte == b'/').next().is_some_and(|first| first.contains(&b':')) {
                text.extend(b"./");
            }
            text.extend(&*path);
        } else {
            text.extend(self.opaque.as_bytes());
        }
        if self.has_empty_query || !self.query.is_empty() {
            text.push(b'?');
            text.extend(self.query.as_bytes());
        }
        if !self.fragment.is_empty() {
            text.push(b'#');
            text.extend(&*written(&self.raw_fragment, &self.fragment, Place::Fragment));
        }
        text
    }
}

fn wrong(url: &str, error: &InvalidUrl) -> InvalidUrl {
    InvalidUrl(format!("parse {}: {error}", go_quote(url)))
}

/// `getScheme`; empty if the text before the colon is no scheme.
fn scheme(text: &str) -> Result<(&str, &str), InvalidUrl> {
    let end = text.bytes().position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)));
    let parts = end.map(|end| text.split_at(end)).and_then(|(scheme, rest)| Some((scheme, rest.strip_prefix(':')?)));
    match parts {
        Some(("", _)) => Err(InvalidUrl("missing protocol scheme".to_owned())),
        Some((scheme, rest)) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => Ok((scheme, rest)),
        _ => Ok(("", text)),
    }
}

/// `parseAuthority`.
fn authority_of(scheme: &str, authority: &str) -> Result<(Option<User>, Vec<u8>), InvalidUrl> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let host = host_of(scheme, host)?;
    let Some(user) = user else { return Ok((None, host)) };
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_valid) {
        return Err(InvalidUrl("net/url: invalid userinfo".to_owned()));
    }
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (user, None),
    };
    let name = unescape(name, Place::User)?;
    let password = password.map(|password| unescape(password, Place::User)).transpose()?;
    Ok((Some(User { name, password }), host))
}

/// `parseHost`.
fn host_of(scheme: &str, host: &str) -> Result<Vec<u8>, InvalidUrl> {
    match host.rsplit_once('[') {
        Some(("", inside)) => bracketed(inside),
        Some(_) => Err(InvalidUrl("invalid IP-literal".to_owned())),
        None => {
            // Only web addresses may have no more than one colon.
            let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
            check_port(colon.map_or("", |colon| host.split_at(colon).1))?;
            unescape(host, Place::Host)
        }
    }
}

/// Parses `[::1]:80`, without the first bracket.
fn bracketed(host: &str) -> Result<Vec<u8>, InvalidUrl> {
    let (inside, port) = host.rsplit_once(']').ok_or_else(|| InvalidUrl("missing ']' in host".to_owned()))?;
    check_port(port)?;
    let port = unescape(port, Place::Host)?;
    let (address, zone) = inside.split_at(inside.find("%25").unwrap_or(inside.len()));
    let address = [unescape(address, Place::Host)?, unescape(zone, Place::Zone)?].concat();
    // Bytes that are no text are no address either.
    let text = String::from_utf8_lossy(&address);
    match net::address(&text) {
        Err(error) => Err(InvalidUrl(format!("invalid host: {error}"))),
        Ok((IpAddr::V4(_), _)) => Err(InvalidUrl("invalid IP-literal".to_owned())),
        Ok(_) => Ok([b"[", &*address, b"]", &*port].concat()),
    }
}

/// `validOptionalPort`.
fn check_port(port: &str) -> Result<(), InvalidUrl> {
    let digits = port.strip_prefix(':');
    if port.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit())) {
        return Ok(());
    }
    Err(InvalidUrl(format!("invalid port {} after host", go_quote(port))))
}

fn hexadecimal(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The byte that `%41` stands for.
fn escaped(text: &[u8]) -> Option<u8> {
    match text {
        [b'%', high, low, ..] => Some(hexadecimal(*high)? << 4 | hexadecimal(*low)?),
        _ => None,
    }
}

fn unescape(text: &str, place: Place) -> Result<Vec<u8>, InvalidUrl> {
    let wrong_escape = |text: &[u8]| {
        let escape = String::from_utf8_lossy(text.get(..3).unwrap_or(text));
        Err(InvalidUrl(format!("invalid URL escape {}", go_quote(&escape))))
    };
    let (mut unescaped, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [byte, after @ ..] = rest {
        match byte {
            b'%' => {
                let Some(code) = escaped(rest) else { return wrong_escape(rest) };
                // In a host only bytes outside of ASCII may be escaped, and the percent sign of a zone.
                let is_refused = match place {
                    Place::Host => code < 0x80 && code != b'%',
                    Place::Zone => code != b'%' && code != b' ' && !Place::Host.keeps(code),
                    _ => false,
                };
                if is_refused {
                    return wrong_escape(rest);
                }
                unescaped.push(code);
                rest = rest.get(3..).unwrap_or_default();
                continue;
            }
            b'+' if place == Place::Query => unescaped.push(b' '),
            byte if matches!(place, Place::Host | Place::Zone) && byte.is_ascii() && !place.keeps(*byte) => {
                let character = go_quote(&char::from(*byte).to_string());
                return Err(InvalidUrl(format!("invalid character {character} in host name")));
            }
            byte => unescaped.push(*byte),
        }
        rest = after;
    }
    Ok(unescaped)
}

fn escape(bytes: &[u8], place: Place) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if place.keeps(*byte) {
            text.push(*byte);
        } else {
            text.extend(format!("%{byte:02X}").into_bytes());
        }
    }
    text
}

/// The raw form of a part, if it is valid (`validEncoded`), otherwise the default escaped form.
fn written<'u>(raw: &'u str, plain: &[u8], place: Place) -> Cow<'u, [u8]> {
    let is_valid = |byte: u8| b"!$&'()*+,;=:@[]%".contains(&byte) || place.keeps(byte);
    if !raw.is_empty() && raw.bytes().all(is_valid) && unescape(raw, place).is_ok_and(|unescaped| unescaped == plain) {
        return Cow::Borrowed(raw.as_bytes());
    }
    Cow::Owned(escape(plain, place))
}
