//! Front proxies: a client with a certificate of the request-header CA may name the user in headers.

use super::{CertificateAuthority, Failure, Outcome, certificate, text, unescape_extra_key};
use crate::server::Connection;
use crate::user::UserInfo;
use arc_swap::ArcSwap;
use http::header::{HeaderMap, HeaderName};
use std::sync::Arc;

/// The configuration of front proxies (`authenticatorfactory.RequestHeaderConfig`).
#[derive(Clone)]
pub(crate) struct RequestHeaderConfig {
    /// Issuers of the front proxies' certificates.
    pub(crate) ca: Arc<ArcSwap<CertificateAuthority>>,
    /// Common names that are accepted; empty accepts all.
    pub(crate) allowed_names: Vec<String>,
    /// The headers of the user's name; the first with a value counts.
    pub(crate) username_headers: Vec<HeaderName>,
    /// The headers of the user's UID; the first with a value counts.
    pub(crate) uid_headers: Vec<HeaderName>,
    /// The headers of groups; each value of each header is a group.
    pub(crate) group_headers: Vec<HeaderName>,
    /// The prefixes of headers of extra fields, in any case; the rest of a header's name is the key.
    pub(crate) extra_prefixes: Vec<String>,
}

/// Headers that are always removed, whatever is configured (`withAuthentication`).
const STANDARD: [HeaderName; 3] = [
    HeaderName::from_static("x-remote-user"),
    HeaderName::from_static("x-remote-uid"),
    HeaderName::from_static("x-remote-group"),
];
const STANDARD_EXTRA: &str = "x-remote-extra-";

/// Authenticates by the headers of a front proxy (`Verifier.AuthenticateRequest` around `requestHeaderAuthRequestHandler`).
pub(super) fn authenticate(config: &RequestHeaderConfig, headers: &HeaderMap, connection: &Connection) -> Outcome {
    let Some(common_name) = certificate::front_proxy(&config.ca.load_full(), connection)? else {
        return Ok(None);
    };
    if !config.allowed_names.is_empty() && !config.allowed_names.contains(&common_name) {
        let why = format!("x509: subject with cn={common_name} is not in the allowed list");
        return Err(Failure::Certificate(why));
    }
    let username = first_value(headers, &config.username_headers)?;
    if username.is_empty() {
        return Ok(None);
    }
    let mut user = UserInfo { username, uid: first_value(headers, &config.uid_headers)?, ..UserInfo::default() };
    for name in &config.group_headers {
        for value in headers.get_all(name) {
            let group = text(Some(value), name.as_str())?;
            if !group.is_empty() {
                user.groups.push(group.to_owned());
            }
        }
    }
    for prefix in &config.extra_prefixes {
        for (name, value) in headers {
            if let Some(key) = strip_prefix(name, prefix) {
                let value = text(Some(value), name.as_str())?.to_owned();
                user.extra.entry(unescape_extra_key(key)).or_default().push(value);
            }
        }
    }
    Ok(Some(Arc::new(user.with_authenticated_group())))
}

/// Removes the headers that only a front proxy may send (`ClearAuthenticationHeaders`).
pub(super) fn clear(headers: &mut HeaderMap, config: Option<&RequestHeaderConfig>) {
    let custom = config.into_iter().flat_map(|config| {
        [&config.username_headers, &config.uid_headers, &config.group_headers].into_iter().flatten()
    });
    custom.for_each(|name| while headers.remove(name).is_some() {});
    STANDARD.iter().for_each(|name| while headers.remove(name).is_some() {});
    let prefixes = || config.into_iter().flat_map(|config| config.extra_prefixes.iter().map(String::as_str));
    let is_extra =
        |name: &&HeaderName| prefixes().chain([STANDARD_EXTRA]).any(|prefix| strip_prefix(name, prefix).is_some());
    let extras: Vec<_> = headers.keys().filter(is_extra).cloned().collect();
    for name in extras {
        headers.remove(name);
    }
}

fn strip_prefix<'a>(name: &'a HeaderName, prefix: &str) -> Option<&'a str> {
    let (head, key) = name.as_str().split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(key)
}

fn first_value(headers: &HeaderMap, names: &[HeaderName]) -> Result<String, Failure> {
    for name in names {
        let value = text(headers.get(name), name.as_str())?;
        if !value.is_empty() {
            return Ok(value.to_owned());
        }
    }
    Ok(String::new())
}
