//! The user of a request, from headers: the proxy in front has authenticated the user.

use crate::user::UserInfo;
use http::HeaderMap;
use percent_encoding::percent_decode_str;

/// The number of groups and extra values that are read from one request.
const MAX_VALUES: usize = 1024;

/// The user in the impersonation headers, or in a front proxy's; an administrator without either.
pub(in crate::embedded) fn caller(headers: &HeaderMap) -> UserInfo {
    named(headers, "impersonate-user", "impersonate-uid", "impersonate-group", "impersonate-extra-")
        .or_else(|| named(headers, "x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-"))
        .unwrap_or_else(|| UserInfo {
            username: "system:admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..UserInfo::default()
        })
}

fn named(headers: &HeaderMap, user: &str, uid: &str, group: &str, extra: &str) -> Option<UserInfo> {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let mut caller = UserInfo {
        username: text(user).filter(|user| !user.is_empty())?,
        uid: text(uid).unwrap_or_default(),
        ..UserInfo::default()
    };
    let groups = headers.get_all(group).iter().take(MAX_VALUES);
    caller.groups = groups.map(|group| String::from_utf8_lossy(group.as_bytes()).into_owned()).collect();
    for (name, value) in headers.iter().take(MAX_VALUES) {
        if let Some(key) = name.as_str().strip_prefix(extra) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            caller.extra.entry(key).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
    }
    // kube-apiserver adds this group to an impersonated user (`filters.WithImpersonation`).
    let anonymous = caller.username == "system:anonymous";
    let everyone = if anonymous { "system:unauthenticated" } else { "system:authenticated" };
    if !caller.groups.iter().any(|group| group == "system:authenticated" || group == "system:unauthenticated") {
        caller.groups.push(everyone.to_owned());
    }
    Some(caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_impersonated_user_counts_before_the_front_proxys() {
        let caller = caller(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-uid", "7"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-extra-example.org%2fteam", "red"),
            ("x-remote-user", "proxy"),
        ]));
        assert_eq!((caller.username.as_str(), caller.uid.as_str()), ("jane", "7"));
        assert_eq!(caller.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(caller.extra["example.org/team"], ["red"]);
    }

    #[test]
    fn a_request_without_a_user_is_an_administrators() {
        assert_eq!(caller(&HeaderMap::new()).groups[0], "system:masters");
        assert_eq!(caller(&headers(&[("x-remote-user", "joe")])).username, "joe");
    }
}
