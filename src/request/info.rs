//! Request info: what a request asks for, from its method and URL alone.

/// What kube-apiserver's `request.RequestInfo` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether it is about a resource of the API, rather than another path of the server.
    pub is_resource_request: bool,
    /// The path, percent-decoded.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, `proxy`; the method in lower case otherwise.
    pub verb: String,
    /// `api` or `apis`.
    pub api_prefix: String,
    /// API group.
    pub api_group: String,
    /// API version.
    pub api_version: String,
    /// Namespace; for a request on a namespace itself its own name.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Subresource, one path segment.
    pub subresource: String,
    /// Name of the object; empty where the URL has none.
    pub name: String,
    /// The path from the resource on.
    pub parts: Vec<String>,
    /// `fieldSelector` of list, watch and deletecollection.
    pub field_selector: String,
    /// `labelSelector` of list, watch and deletecollection.
    pub label_selector: String,
}
