//! The user of a request.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The user of a request without credentials (`user.Anonymous`).
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The group of all users with valid credentials (`user.AllAuthenticated`).
pub(crate) const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of all users without valid credentials (`user.AllUnauthenticated`).
pub(crate) const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The extra field by which the API server behind recognizes requests that the proxy has admitted. No client can have it.
pub(crate) const ADMITTED_EXTRA: &str = "kube-admission-proxy.dev/admitted";

/// An `authentication.k8s.io/v1` `UserInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserInfo {
    /// User name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// UID, if the authenticator has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups in the authenticator's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Other attributes of the user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Returns the user of a request without credentials.
    pub fn anonymous() -> Self {
        Self { username: ANONYMOUS.into(), groups: vec![ALL_UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// `filters.isAnonymousUser`.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.username == ANONYMOUS || self.groups.iter().any(|group| group == ALL_UNAUTHENTICATED)
    }

    /// Whether the limits on requests do not apply to the user (`user.SystemPrivilegedGroup`).
    pub(crate) fn is_privileged(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }

    /// Whether the user has the mark of admitted requests, in any case: API servers read header names in lower case.
    pub(crate) fn has_admitted_mark(&self) -> bool {
        self.extra.keys().any(|key| key.eq_ignore_ascii_case(ADMITTED_EXTRA))
    }

    /// Removes the mark of admitted requests.
    pub(crate) fn without_admitted_mark(mut self) -> Self {
        self.extra.retain(|key, _| !key.eq_ignore_ascii_case(ADMITTED_EXTRA));
        self
    }

    /// Adds the mark of admitted requests.
    pub(crate) fn with_admitted_mark(self, mark: &str) -> Self {
        let mut marked = self.without_admitted_mark();
        marked.extra.insert(ADMITTED_EXTRA.to_owned(), vec![mark.to_owned()]);
        marked
    }

    /// Prepends the prefix to the names of all groups, except for Kubernetes' own (`system:…`).
    pub(crate) fn with_group_prefix(mut self, prefix: &str) -> Self {
        self.groups
            .iter_mut()
            .filter(|group| !group.starts_with("system:"))
            .for_each(|group| group.insert_str(0, prefix));
        self
    }

    /// Removes the prefix from the names of groups that have it.
    pub(crate) fn without_group_prefix(mut self, prefix: &str) -> Self {
        for group in &mut self.groups {
            if let Some(name) = group.strip_prefix(prefix) {
                *group = name.to_owned();
            }
        }
        self
    }

    /// Adds `system:authenticated` to the groups of every user but the anonymous one (`AuthenticatedGroupAdder`).
    pub(crate) fn with_authenticated_group(mut self) -> Self {
        let decided = |group: &String| group == ALL_AUTHENTICATED || group == ALL_UNAUTHENTICATED;
        if self.username != ANONYMOUS && !self.groups.iter().any(decided) {
            self.groups.push(ALL_AUTHENTICATED.into());
        }
        self
    }
}

/// Returns the reason why this cannot be a prefix of groups: with `system:` a client's group could become one of Kubernetes' own.
pub(crate) fn invalid_group_prefix(prefix: &str) -> Option<&'static str> {
    if !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("must have visible ASCII characters only");
    }
    let is_of_kubernetes = "system:".starts_with(prefix) && !prefix.is_empty() || prefix.starts_with("system:");
    is_of_kubernetes.then_some("must not be the beginning of Kubernetes' own groups (system:)")
}

impl From<k8s_openapi::api::authentication::v1::UserInfo> for UserInfo {
    fn from(user: k8s_openapi::api::authentication::v1::UserInfo) -> Self {
        Self {
            username: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_replaces_every_forged_one() {
        let forged = ["kube-admission-proxy.dev/admitted", "Kube-Admission-Proxy.dev/ADMITTED", "scopes"];
        let extra = forged.map(|key| (key.to_owned(), vec!["forged".to_owned()])).into();
        let user = UserInfo { extra, ..UserInfo::default() };
        assert!(user.has_admitted_mark());
        let scopes = ("scopes".to_owned(), vec!["forged".to_owned()]);
        let stripped = user.clone().without_admitted_mark();
        assert!(!stripped.has_admitted_mark());
        assert_eq!(stripped.extra, BTreeMap::from([scopes.clone()]));
        let mark = (ADMITTED_EXTRA.to_owned(), vec!["ns/main".to_owned()]);
        assert_eq!(user.with_admitted_mark("ns/main").extra, BTreeMap::from([mark, scopes]));
    }

    #[test]
    fn kubernetes_own_groups_get_no_prefix() {
        let groups = ["dev", "via:dev", "system:masters", "systems", ""].map(String::from).into();
        let user = UserInfo { groups, ..UserInfo::default() };
        assert_eq!(
            user.with_group_prefix("via:").groups,
            ["via:dev", "via:via:dev", "system:masters", "via:systems", "via:"]
        );
    }
}
