//! Names of kinds and resources: group, version, kind, plural.

use serde::{Deserialize, Serialize};

/// A group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// API group; empty is the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// A group, version and plural resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionResource {
    /// API group; empty is the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
}

/// `group/version`, or `version` in the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The inverse of [`api_version`]: group and version of an `apiVersion`.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl GroupVersionKind {
    /// From its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// As an object writes it.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Whether an object with this apiVersion and kind is of this kind.
    pub fn is_said(&self, api_version: &str, kind: &str) -> bool {
        let version = match self.group.as_str() {
            "" => Some(api_version),
            group => api_version.strip_prefix(group).and_then(|rest| rest.strip_prefix('/')),
        };
        self.kind == kind && version == Some(&*self.version)
    }
}

impl GroupVersionResource {
    /// From its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }
}
