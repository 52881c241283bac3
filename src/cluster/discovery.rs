//! Discovery: which kind, scope and subresources a resource of the API server behind has.

use crate::object::GroupVersionKind;
use std::collections::HashMap;
use std::sync::Arc;

/// What discovery says of one resource of one group and version.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Kind of its objects; group and version may differ from the URL's (`pods/eviction`).
    pub kind: GroupVersionKind,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// `create`, `get`, …
    pub verbs: Vec<String>,
    /// By name: the kind of the subresource's body, and its verbs.
    pub subresources: HashMap<String, Subresource>,
}

/// What discovery says of a subresource.
#[derive(Clone, Debug, PartialEq)]
pub struct Subresource {
    /// Kind of its body.
    pub kind: GroupVersionKind,
    /// `create`, `get`, …
    pub verbs: Vec<String>,
}

/// The API server's discovery, kept and refreshed.
pub struct Discovery {}

impl Discovery {
    /// The resource, from what is known; after one refresh (bounded in rate) if it is not known.
    pub async fn resource(&self, _group: &str, _version: &str, _resource: &str) -> Option<Arc<Resource>> {
        None
    }
}
