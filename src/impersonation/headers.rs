//! The user that the `Impersonate-*` headers name (`impersonation.processImpersonationHeaders`).

use crate::authn::{NotUtf8, text, unescape_extra_key};
use crate::go_text::go_quote;
use crate::user::UserInfo;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Removes the headers, also unknown ones: the upstream must not interpret them.
pub(super) fn take(headers: &mut HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let names: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    let mut taken = Vec::new();
    for name in names {
        if let http::header::Entry::Occupied(entry) = headers.entry(&name) {
            let (name, values) = entry.remove_entry_mult();
            taken.extend(values.map(|value| (name.clone(), value)));
        }
    }
    taken
}

/// Returns the headers that impersonation knows.
pub(super) fn meaningful(taken: Vec<(HeaderName, HeaderValue)>) -> Vec<(HeaderName, HeaderValue)> {
    let known = |name: &str| matches!(name, USER | UID | GROUP) || name.starts_with(EXTRA_PREFIX);
    taken.into_iter().filter(|(name, _)| known(name.as_str())).collect()
}

/// The reason why impersonation headers name no user, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidHeaders {
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    #[error("requested {0} without impersonating a user name")]
    NoName(String),
}

/// Returns the user that the headers name, if any; or the error of inconsistent headers.
pub(super) fn wanted_user(taken: &[(HeaderName, HeaderValue)]) -> Result<Option<UserInfo>, InvalidHeaders> {
    let mut wanted = UserInfo::default();
    let (mut seen_user, mut seen_uid) = (false, false);
    for (name, value) in taken {
        let value = text(Some(value), name.as_str())?.to_owned();
        match name.as_str() {
            // Of several headers, the first counts.
            USER if !seen_user => (wanted.username, seen_user) = (value, true),
            UID if !seen_uid => (wanted.uid, seen_uid) = (value, true),
            GROUP => wanted.groups.push(value),
            extra => {
                if let Some(key) = extra.strip_prefix(EXTRA_PREFIX) {
                    wanted.extra.entry(unescape_extra_key(key)).or_default().push(value);
                }
            }
        }
    }
    if !wanted.username.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == UserInfo::default() {
        return Ok(None);
    }
    Err(InvalidHeaders::NoName(in_go_syntax(&wanted)))
}

/// Formats a user like `%#v` of a `*user.DefaultInfo`.
fn in_go_syntax(user: &UserInfo) -> String {
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:{}}}",
        go_quote(&user.username),
        go_quote(&user.uid),
        strings(&user.groups),
        map(&user.extra)
    )
}

fn strings(values: &[String]) -> String {
    if values.is_empty() {
        return "[]string(nil)".into();
    }
    let values: Vec<_> = values.iter().map(|value| go_quote(value)).collect();
    format!("[]string{{{}}}", values.join(", "))
}

fn map(extra: &BTreeMap<String, Vec<String>>) -> String {
    if extra.is_empty() {
        return "map[string][]string(nil)".into();
    }
    let entries: Vec<_> = extra.iter().map(|(key, values)| format!("{}:{}", go_quote(key), strings(values))).collect();
    format!("map[string][]string{{{}}}", entries.join(", "))
}
