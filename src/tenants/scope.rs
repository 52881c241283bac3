//! The part of the API server that a request concerns, for tenants that are confined to their own namespaces.

use crate::request::RequestInfo;
use http::Method;

/// The requirement of a request on the namespace that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceNeed<'a> {
    /// No object: the answer contains no object, or only data about the caller.
    Nothing,
    /// The namespace must be the tenant's own.
    Namespace(&'a str),
    /// The request creates a namespace, which becomes the tenant's.
    NewNamespace,
    /// The request concerns several namespaces, or an object of the cluster.
    Cluster,
}

/// Paths of discovery and of the server's state, which have no objects. Paths below those that end with a slash count too.
const PATHS: [&str; 11] =
    ["/", "/api", "/api/", "/apis", "/apis/", "/openapi/", "/version", "/version/", "/healthz", "/livez", "/readyz"];
/// Resources whose objects are questions about the caller.
const ABOUT_ONESELF: [(&str, &str); 3] = [
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

/// Returns the requirement of a request, whose path must be canonical.
pub(crate) fn need<'a>(method: &Method, info: &'a RequestInfo) -> NamespaceNeed<'a> {
    if !info.is_resource_request {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let is_known = PATHS
            .iter()
            .any(|path| info.path == *path || path.len() > 1 && path.ends_with('/') && info.path.starts_with(path));
        return if is_read && is_known { NamespaceNeed::Nothing } else { NamespaceNeed::Cluster };
    }
    // `/api/v1/namespaces/a/namespaces/b` and namespaces of another group: no server has them, but another reading could.
    let is_namespaces = info.resource == "namespaces";
    if is_namespaces && (!info.api_group.is_empty() || info.name != info.namespace) {
        return NamespaceNeed::Cluster;
    }
    let resource = (info.api_group.as_str(), info.resource.as_str());
    let is_create = info.verb == "create" && *method == Method::POST && info.subresource.is_empty();
    match info.namespace.as_str() {
        "" if is_create && info.name.is_empty() && resource == ("", "namespaces") => NamespaceNeed::NewNamespace,
        "" if is_create && ABOUT_ONESELF.contains(&resource) => NamespaceNeed::Nothing,
        "" => NamespaceNeed::Cluster,
        namespace => NamespaceNeed::Namespace(namespace),
    }
}
