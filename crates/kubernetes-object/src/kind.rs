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

/// Returns `group/version`, or `version` for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits an `apiVersion` into group and version, as the inverse of [`api_version`].
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl GroupVersionKind {
    /// Creates the kind from its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns the `apiVersion` of an object of this kind.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Whether this apiVersion and kind name this kind.
    pub fn matches_type(&self, api_version: &str, kind: &str) -> bool {
        let version = match self.group.as_str() {
            "" => Some(api_version),
            group => api_version.strip_prefix(group).and_then(|rest| rest.strip_prefix('/')),
        };
        self.kind == kind && version == Some(&*self.version)
    }
}

impl GroupVersionResource {
    /// Creates the resource from its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }
}
