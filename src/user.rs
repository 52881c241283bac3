//! The user of a request.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The user of a request without credentials (`user.Anonymous`).
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of all users with valid credentials (`user.AllAuthenticated`).
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of all users without valid credentials (`user.AllUnauthenticated`).
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";

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
    pub fn is_privileged(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
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
