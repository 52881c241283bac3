//! Validates the address of a webhook (`webhook.ValidateWebhookURL`, `ValidateWebhookService`).

use super::{Faults, given, text};
use crate::go_text::go_quote;
use crate::names::dns_1123_subdomain_errors;
use serde_json::Value;

const FORM: &str = "; desired format: https://host[/path]";

/// Validates a clientConfig.
pub(super) fn check(config: &Value, path: &str, faults: &mut Faults) {
    match (given(config, "url"), config.get("service").filter(|service| !service.is_null())) {
        (Some(url), None) => self::url(url, &format!("{path}.url"), faults),
        (None, Some(service)) => self::service(service, &format!("{path}.service"), faults),
        _ => faults.required(path, "exactly one of url or service is required"),
    }
}

fn url(url: &str, field: &str, faults: &mut Faults) {
    let parsed = match Parsed::new(url) {
        Ok(parsed) => parsed,
        Err(why) => {
            let why = format!("url must be a valid URL: parse {}: {why}{FORM}", go_quote(url));
            return faults.required(field, &why);
        }
    };
    if parsed.scheme != "https" {
        faults.invalid(field, &parsed.scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parsed.host.is_empty() {
        faults.invalid(field, "", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = parsed.user {
        faults.invalid(field, user, "user information is not permitted in the URL");
    }
    if !parsed.fragment.is_empty() {
        faults.invalid(field, parsed.fragment, "fragments are not permitted in the URL");
    }
    if !parsed.query.is_empty() {
        faults.invalid(field, parsed.query, "query parameters are not permitted in the URL");
    }
}

fn service(service: &Value, field: &str, faults: &mut Faults) {
    // kube-apiserver passes name and namespace to `ValidateWebhookService` in the wrong order.
    for (shown, name) in [("name", "namespace"), ("namespace", "name")] {
        if text(service, name).is_empty() {
            faults.required(&format!("{field}.{shown}"), "");
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        faults.invalid_value(&format!("{field}.port"), port, why);
    }
    let (field, path) = (format!("{field}.path"), text(service, "path"));
    match path {
        "" | "/" => return,
        "//" => return faults.invalid(&field, path, "segment[0] may not be empty"),
        _ if !path.starts_with('/') => faults.invalid(&field, path, "must start with a '/'"),
        _ => {}
    }
    // The first character is skipped even if it is not a slash, as in kube-apiserver.
    let rest = path.char_indices().nth(1).and_then(|(at, _)| path.get(at..)).unwrap_or_default();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            faults.invalid(&field, path, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for error in dns_1123_subdomain_errors(segment) {
            faults.invalid(&field, path, &format!("segment[{index}]: {error}"));
        }
    }
}

/// `url.Error`
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InvalidUrl(String);

/// A URL with the components of Go's `url.Parse`.
struct Parsed<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Parsed<'a> {
    fn new(url: &'a str) -> Result<Self, InvalidUrl> {
        if url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(InvalidUrl("net/url: invalid control character in URL".into()));
        }
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        check_escapes(fragment)?;
        let (scheme, rest) = scheme(url)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut user, mut host, mut path) = (None, "", rest);
        if let Some(rest) = rest.strip_prefix("//") {
            let authority;
            (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
            (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            check_host(host)?;
        } else if scheme.is_empty() && rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(InvalidUrl("first path segment in URL cannot contain colon".into()));
        }
        check_escapes(path)?;
        Ok(Self { scheme: scheme.to_ascii_lowercase(), user, host, query, fragment })
    }
}

/// `url.getScheme`
fn scheme(url: &str) -> Result<(&str, &str), InvalidUrl> {
    let Some((scheme, rest)) = url.split_once(':') else { return Ok(("", url)) };
    let is_letter = |c: char| c.is_ascii_alphabetic();
    if scheme.is_empty() {
        return Err(InvalidUrl("missing protocol scheme".into()));
    }
    let is_scheme = scheme.starts_with(is_letter)
        && scheme.chars().all(|c| is_letter(c) || c.is_ascii_digit() || "+-.".contains(c));
    Ok(if is_scheme { (scheme, rest) } else { ("", url) })
}

/// `url.parseHost`
fn check_host(host: &str) -> Result<(), InvalidUrl> {
    let port = if host.starts_with('[') {
        let Some((_, after)) = host.rsplit_once(']') else { return Err(InvalidUrl("missing ']' in host".into())) };
        after
    } else {
        host.rfind(':').map_or("", |colon| host.split_at(colon).1)
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(InvalidUrl(format!("invalid port {} after host", go_quote(port))));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "-_.~$&+,/:;=?@!'()*[]<>\"%".contains(c);
    match host.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(InvalidUrl(format!("invalid character {} in host name", go_quote(&c.to_string())))),
        None => Ok(()),
    }
}

/// `url.unescape`, only its errors.
fn check_escapes(text: &str) -> Result<(), InvalidUrl> {
    for (at, _) in text.match_indices('%') {
        let (_, rest) = text.as_bytes().split_at(at);
        if !matches!(rest, [_, high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()) {
            let shown = String::from_utf8_lossy(rest.get(..3).unwrap_or(rest));
            return Err(InvalidUrl(format!("invalid URL escape {}", go_quote(&shown))));
        }
    }
    Ok(())
}
