//! Request info: the properties of a request that follow from its method and URL alone.

use super::query;
use crate::names::is_path_segment;
use crate::object::selector::{FieldSelector, LabelSelector};
use http::{Method, Uri};

/// kube-apiserver's `request.RequestInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the request is for a resource of the API, rather than for another path of the server.
    pub(crate) is_resource_request: bool,
    /// The path, percent-decoded.
    pub(crate) path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, `proxy`; the method in lower case otherwise.
    pub(crate) verb: String,
    /// `api` or `apis`.
    pub(crate) api_prefix: String,
    pub(crate) api_group: String,
    pub(crate) api_version: String,
    /// Namespace; for a request for a namespace, the name of that namespace.
    pub(crate) namespace: String,
    /// Plural resource name.
    pub(crate) resource: String,
    /// Subresource, one path segment.
    pub(crate) subresource: String,
    /// Name of the object; empty if the URL has no name.
    pub(crate) name: String,
    /// The path from the resource on.
    pub(crate) parts: Vec<String>,
    /// `fieldSelector` of list, watch and deletecollection.
    pub(crate) field_selector: String,
    /// `labelSelector` of list, watch and deletecollection.
    pub(crate) label_selector: String,
}

/// Path segments in the place of a resource that are verbs (`specialVerbs`).
const PATH_VERBS: [&str; 2] = ["proxy", "watch"];
/// Subresources of a namespace; any other segment after its name is a resource in the namespace (`namespaceSubresources`).
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];
/// `BasicLongRunningRequestCheck`, as kube-apiserver sets it up.
const LONG_RUNNING_VERBS: [&str; 2] = ["watch", "proxy"];
const LONG_RUNNING_SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

impl RequestInfo {
    /// Whether the URL names an API but nothing in it (`/api/v1/watch`): kube-apiserver answers 500 before anything else.
    pub(crate) fn is_undetermined(&self) -> bool {
        self.is_resource_request && self.parts.is_empty()
    }

    /// Whether the request has no time limit: watches, logs, exec and the like.
    pub(crate) fn is_long_running(&self) -> bool {
        LONG_RUNNING_VERBS.contains(&&*self.verb)
            || (self.is_resource_request && LONG_RUNNING_SUBRESOURCES.contains(&&*self.subresource))
            || (!self.is_resource_request && self.path.starts_with("/debug/pprof/"))
    }
}

/// Returns the request info (`RequestInfoFactory.NewRequestInfo`).
///
/// A path with a malformed escape, which no Go server accepts, is no resource request and keeps its raw form.
pub fn request_info(method: &Method, uri: &Uri) -> RequestInfo {
    let decoded = query::percent_decode(uri.path());
    let is_readable = decoded.is_some();
    let path = decoded.map_or_else(|| uri.path().to_owned(), |path| String::from_utf8_lossy(&path).into_owned());
    let mut info = RequestInfo { verb: method.as_str().to_ascii_lowercase(), ..RequestInfo::default() };
    let trimmed = path.trim_matches('/');
    let segments: Vec<&str> = trimmed.split('/').collect();
    let by_path = match segments.as_slice() {
        [prefix @ "api", version, rest @ ..] if is_readable && !rest.is_empty() => {
            info.locate(method, [prefix, "", version], rest)
        }
        [prefix @ "apis", group, version, rest @ ..] if is_readable && !rest.is_empty() => {
            info.locate(method, [prefix, group, version], rest)
        }
        // `/apis/{group}/{version}` is no resource request, but kube-apiserver sets the prefix.
        [prefix @ "apis", _, _] if is_readable => {
            info.api_prefix = (*prefix).to_owned();
            false
        }
        _ => false,
    };
    if info.is_resource_request && !info.is_undetermined() {
        info.refine(uri.query().unwrap_or_default(), by_path);
    }
    info.path = path;
    info
}

impl RequestInfo {
    /// Reads the path after prefix, group and version. Returns whether the path contains the verb.
    fn locate(&mut self, method: &Method, [prefix, group, version]: [&str; 3], rest: &[&str]) -> bool {
        self.is_resource_request = true;
        self.api_prefix = prefix.to_owned();
        self.api_group = group.to_owned();
        self.api_version = version.to_owned();
        let (rest, by_path) = match rest {
            [verb] if PATH_VERBS.contains(verb) => return true,
            [verb, rest @ ..] if PATH_VERBS.contains(verb) => {
                self.verb = (*verb).to_owned();
                (rest, true)
            }
            rest => {
                self.verb = verb_of(method).to_owned();
                (rest, false)
            }
        };
        if let ["namespaces", namespace, ..] = rest {
            self.namespace = (*namespace).to_owned();
        }
        let parts = match rest {
            ["namespaces", _, inside @ ..]
                if inside.first().is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(next)) =>
            {
                inside
            }
            rest => rest,
        };
        self.parts = parts.iter().map(|part| (*part).to_owned()).collect();
        let part = |at: usize| parts.get(at).map(|part| (*part).to_owned()).unwrap_or_default();
        self.resource = part(0);
        self.name = part(1);
        // `specialVerbsNoSubresources`
        if self.verb != "proxy" {
            self.subresource = part(2);
        }
        by_path
    }

    /// Completes the verb, the name and the selectors from the query.
    fn refine(&mut self, query: &str, by_path: bool) {
        if self.name.is_empty() && self.verb == "get" {
            let watch = query::query_value(query, "watch").is_some_and(|value| query::is_true(&value));
            self.verb = if watch { "watch" } else { "list" }.to_owned();
            if let Some(name) = selected_name(query) {
                self.name = name;
            }
        }
        if self.name.is_empty() && self.verb == "delete" {
            self.verb = "deletecollection".to_owned();
        }
        if !by_path && matches!(&*self.verb, "list" | "watch" | "deletecollection") {
            self.field_selector = query::query_value(query, "fieldSelector").unwrap_or_default();
            self.label_selector = query::query_value(query, "labelSelector").unwrap_or_default();
        }
    }
}

fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Returns the name that the field selector of a list or watch requires, if the ListOptions can be decoded.
fn selected_name(query: &str) -> Option<String> {
    let is_integer = |key| query::query_value(query, key).is_none_or(|value| value.parse::<i64>().is_ok());
    if !is_integer("timeoutSeconds") || !is_integer("limit") {
        return None;
    }
    LabelSelector::parse(&query::query_value(query, "labelSelector").unwrap_or_default()).ok()?;
    let fields = FieldSelector::parse(&query::query_value(query, "fieldSelector")?).ok()?;
    let name = fields.exact_match("metadata.name")?;
    is_path_segment(name).then(|| name.to_owned())
}

/// Whether every parser reads the path of this URL in the same way.
///
/// A path is not canonical if it has empty or dot segments, or encoded slashes, percent signs, backslashes, semicolons or control
/// characters in any form. A mutating request with such a path is refused, because admission could see another object than the
/// upstream. The path after a `proxy` subresource belongs to the proxied server; only dot segments and control characters count
/// there.
pub fn is_canonical(uri: &Uri) -> bool {
    let raw = uri.path();
    if raw == "*" || raw.is_empty() || is_evidently_canonical(raw) {
        return true;
    }
    let Some(inner) = raw.strip_prefix('/') else { return false };
    let segments: Vec<&str> = inner.strip_suffix('/').unwrap_or(inner).split('/').collect();
    if segments == [""] {
        return raw == "/";
    }
    let own = segments.len().min(proxied_from(&segments));
    let (own, proxied) = segments.split_at(own);
    own.iter().all(|segment| is_plain(segment)) && proxied.iter().all(|segment| stays_below(segment))
}

/// Whether each byte shows that the path is canonical, as in most paths: no character is escaped or unusual, and no segment is
/// empty or begins with a dot.
fn is_evidently_canonical(raw: &str) -> bool {
    let mut previous = b'/';
    let mut bytes = raw.bytes();
    if bytes.next() != Some(b'/') {
        return false;
    }
    for byte in bytes {
        match byte {
            b'/' | b'.' if previous == b'/' => return false,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b'/' => previous = byte,
            _ => return false,
        }
    }
    previous != b'/'
}

/// Returns the index of the first segment that only a proxied server reads.
fn proxied_from(segments: &[&str]) -> usize {
    let resource = match segments {
        ["api", _, "namespaces", _, _, ..] => 4,
        ["api", ..] => 2,
        _ => return usize::MAX,
    };
    match segments.get(resource..) {
        Some(["pods" | "services" | "nodes", _, "proxy", ..]) => resource + 3,
        _ => usize::MAX,
    }
}

fn is_plain(raw: &str) -> bool {
    let Some(decoded) = query::percent_decode(raw) else { return false };
    std::str::from_utf8(&decoded).is_ok_and(|segment| {
        !matches!(segment, "" | "." | "..")
            && !segment.contains(|c: char| c.is_control() || matches!(c, '/' | '\\' | '%' | ';'))
    })
}

fn stays_below(raw: &str) -> bool {
    let Some(decoded) = query::percent_decode(raw) else { return false };
    std::str::from_utf8(&decoded).is_ok_and(|segment| {
        !segment.contains(char::is_control) && segment.split(['/', '\\']).all(|part| !matches!(part, "." | ".."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns verb, group/version, namespace, resource, subresource and name; or verb and path.
    fn summary(method: &str, uri: &str) -> String {
        let info = request_info(&method.parse().unwrap(), &uri.parse().unwrap());
        if !info.is_resource_request {
            return format!("{} {}", info.verb, info.path);
        }
        let RequestInfo { verb, api_prefix, api_group, api_version, namespace, resource, subresource, name, .. } = info;
        format!("{verb} {api_prefix}|{api_group}|{api_version}|{namespace}|{resource}|{subresource}|{name}")
    }

    #[test]
    fn reads_every_form_of_url() {
        #[rustfmt::skip]
        let rows = [
            // methods
            ("GET",    "/api/v1/namespaces/ns/pods/p",    "get api||v1|ns|pods||p"),
            ("HEAD",   "/api/v1/namespaces/ns/pods/p",    "get api||v1|ns|pods||p"),
            ("GET",    "/api/v1/namespaces/ns/pods",      "list api||v1|ns|pods||"),
            ("HEAD",   "/api/v1/namespaces/ns/pods",      "list api||v1|ns|pods||"),
            ("POST",   "/api/v1/namespaces/ns/pods",      "create api||v1|ns|pods||"),
            ("POST",   "/api/v1/namespaces/ns/pods/p",    "create api||v1|ns|pods||p"),
            ("PUT",    "/api/v1/namespaces/ns/pods/p",    "update api||v1|ns|pods||p"),
            ("PUT",    "/api/v1/namespaces/ns/pods",      "update api||v1|ns|pods||"),
            ("PATCH",  "/api/v1/namespaces/ns/pods/p",    "patch api||v1|ns|pods||p"),
            ("DELETE", "/api/v1/namespaces/ns/pods/p",    "delete api||v1|ns|pods||p"),
            ("DELETE", "/api/v1/namespaces/ns/pods",      "deletecollection api||v1|ns|pods||"),
            ("OPTIONS","/api/v1/namespaces/ns/pods/p",    " api||v1|ns|pods||p"),
            ("get",    "/api/v1/namespaces/ns/pods/p",    " api||v1|ns|pods||p"),
            ("FETCH",  "/healthz",                        "fetch /healthz"),
            // groups, scopes
            ("GET",    "/api/v1/pods",                    "list api||v1||pods||"),
            ("GET",    "/api/v1/nodes/n",                 "get api||v1||nodes||n"),
            ("GET",    "/apis/apps/v1/namespaces/ns/deployments/d", "get apis|apps|v1|ns|deployments||d"),
            ("GET",    "/apis/apps/v1/deployments",       "list apis|apps|v1||deployments||"),
            ("PUT",    "/apis/apps/v1/namespaces/ns/deployments/d/scale", "update apis|apps|v1|ns|deployments|scale|d"),
            ("GET",    "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", "get apis|rbac.authorization.k8s.io|v1||clusterroles||system:node"),
            // namespaces
            ("GET",    "/api/v1/namespaces",              "list api||v1||namespaces||"),
            ("GET",    "/api/v1/namespaces?watch=1",      "watch api||v1||namespaces||"),
            ("POST",   "/api/v1/namespaces",              "create api||v1||namespaces||"),
            ("GET",    "/api/v1/namespaces/ns",           "get api||v1|ns|namespaces||ns"),
            ("DELETE", "/api/v1/namespaces/ns",           "delete api||v1|ns|namespaces||ns"),
            ("PUT",    "/api/v1/namespaces/ns/finalize",  "update api||v1|ns|namespaces|finalize|ns"),
            ("PATCH",  "/api/v1/namespaces/ns/status",    "patch api||v1|ns|namespaces|status|ns"),
            ("GET",    "/api/v1/namespaces/ns/status/x",  "get api||v1|ns|namespaces|status|ns"),
            ("GET",    "/api/v1/namespaces/ns/namespaces","list api||v1|ns|namespaces||"),
            ("GET",    "/api/v1/namespaces/ns/namespaces/x", "get api||v1|ns|namespaces||x"),
            ("GET",    "/api/v1/namespaces/ns/widgets",   "list api||v1|ns|widgets||"),
            ("GET",    "/apis/g/v1/namespaces/ns",        "get apis|g|v1|ns|namespaces||ns"),
            ("GET",    "/apis/g/v1/namespaces/ns/status", "get apis|g|v1|ns|namespaces|status|ns"),
            ("DELETE", "/api/v1/namespaces",              "deletecollection api||v1||namespaces||"),
            // subresources
            ("GET",    "/api/v1/namespaces/ns/pods/p/log?follow=1", "get api||v1|ns|pods|log|p"),
            ("POST",   "/api/v1/namespaces/ns/pods/p/binding", "create api||v1|ns|pods|binding|p"),
            ("POST",   "/api/v1/namespaces/ns/pods/p/eviction", "create api||v1|ns|pods|eviction|p"),
            ("GET",    "/api/v1/namespaces/ns/pods/p/exec?command=ls", "get api||v1|ns|pods|exec|p"),
            ("POST",   "/api/v1/namespaces/ns/serviceaccounts/s/token", "create api||v1|ns|serviceaccounts|token|s"),
            ("GET",    "/api/v1/namespaces/ns/services/https:s:443/proxy/a/b?watch=1", "get api||v1|ns|services|proxy|https:s:443"),
            ("POST",   "/api/v1/nodes/n/proxy/run",       "create api||v1||nodes|proxy|n"),
            ("GET",    "/api/v1/nodes/n/proxy/",          "get api||v1||nodes|proxy|n"),
            // watch
            ("GET",    "/api/v1/pods?watch=true",         "watch api||v1||pods||"),
            ("GET",    "/api/v1/pods?watch",              "watch api||v1||pods||"),
            ("GET",    "/api/v1/pods?watch=",             "watch api||v1||pods||"),
            ("GET",    "/api/v1/pods?watch=no",           "watch api||v1||pods||"),
            ("GET",    "/api/v1/pods?watch=0",            "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?watch=FALSE&watch=1","list api||v1||pods||"),
            ("GET",    "/api/v1/pods?Watch=1",            "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?%77atch=1",          "watch api||v1||pods||"),
            ("GET",    "/api/v1/pods?watch=1;a=b",        "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?watch=%zz",          "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?limit=x&watch=1",    "watch api||v1||pods||"),
            ("GET",    "/api/v1/namespaces/ns/pods/p?watch=1", "get api||v1|ns|pods||p"),
            ("POST",   "/api/v1/namespaces/ns/pods?watch=1", "create api||v1|ns|pods||"),
            // verbs in the path
            ("GET",    "/api/v1/watch/pods",              "watch api||v1||pods||"),
            ("GET",    "/api/v1/watch/namespaces",        "watch api||v1||namespaces||"),
            ("GET",    "/api/v1/watch/namespaces/ns",     "watch api||v1|ns|namespaces||ns"),
            ("GET",    "/api/v1/watch/namespaces/ns/pods","watch api||v1|ns|pods||"),
            ("GET",    "/api/v1/watch/namespaces/ns/pods/p", "watch api||v1|ns|pods||p"),
            ("DELETE", "/api/v1/watch/pods",              "watch api||v1||pods||"),
            ("GET",    "/apis/apps/v1/watch/deployments", "watch apis|apps|v1||deployments||"),
            ("GET",    "/api/v1/proxy/nodes/n",           "proxy api||v1||nodes||n"),
            ("POST",   "/api/v1/proxy/namespaces/ns/services/s/a/b", "proxy api||v1|ns|services||s"),
            ("GET",    "/api/v1/watch",                   "get api||v1||||"),
            ("POST",   "/apis/g/v1/proxy",                "post apis|g|v1||||"),
            ("GET",    "/api/v1/pods/watch",              "get api||v1||pods||watch"),
            // one name by field selector
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name%3Da", "list api||v1||pods||a"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name==a&watch=1", "watch api||v1||pods||a"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name!=a", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=spec.x=1,metadata.name=a", "list api||v1||pods||a"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=a/b", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=..", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=a%2525", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=a&limit=x", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=a&limit=5", "list api||v1||pods||a"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=a&timeoutSeconds=", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=a&labelSelector=(", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=metadata.name=a,b", "list api||v1||pods||"),
            ("GET",    "/api/v1/pods?fieldSelector=x&fieldSelector=metadata.name=a", "list api||v1||pods||"),
            ("DELETE", "/api/v1/pods?fieldSelector=metadata.name=a", "deletecollection api||v1||pods||"),
            ("GET",    "/api/v1/watch/pods?fieldSelector=metadata.name=a", "watch api||v1||pods||"),
            // paths of the server
            ("GET",    "/",                               "get /"),
            ("GET",    "/api",                            "get /api"),
            ("GET",    "/api/v1",                         "get /api/v1"),
            ("GET",    "/api/v1/",                        "get /api/v1/"),
            ("GET",    "/apis",                           "get /apis"),
            ("GET",    "/apis/apps",                      "get /apis/apps"),
            ("GET",    "/apis/apps/v1",                   "get /apis/apps/v1"),
            ("GET",    "/healthz/ping/x",                 "get /healthz/ping/x"),
            ("POST",   "/openapi/v3/apis/apps/v1",        "post /openapi/v3/apis/apps/v1"),
            ("GET",    "/API/v1/pods",                    "get /API/v1/pods"),
            ("GET",    "/apisx/a/b/c",                    "get /apisx/a/b/c"),
            ("OPTIONS","*",                               "options *"),
            // forms that clients should not send
            ("GET",    "//api/v1/pods",                   "list api||v1||pods||"),
            ("GET",    "/api//v1/pods",                   "get api||||v1||pods"),
            ("GET",    "/api/v1//pods",                   "get api||v1||||pods"),
            ("GET",    "/api/v1/pods//",                  "list api||v1||pods||"),
            ("GET",    "/api/v1/namespaces//pods",        "list api||v1||pods||"),
            ("GET",    "/api/v1/namespaces/ns/",          "get api||v1|ns|namespaces||ns"),
            ("GET",    "/api/v1/namespaces/ns//p",        "get api||v1|ns|||p"),
            ("DELETE", "/api/v1/namespaces/ns/pods//status", "deletecollection api||v1|ns|pods|status|"),
            ("GET",    "/api/v1/pods/../secrets",         "get api||v1||pods|secrets|.."),
            ("GET",    "/api/v1/./pods",                  "get api||v1||.||pods"),
            ("GET",    "/%61pi/v1/p%6Fds/a%2Fb",          "get api||v1||pods|b|a"),
            ("GET",    "/api/v1/pods/a%252Fb",            "get api||v1||pods||a%2Fb"),
            ("GET",    "/api/v1/pods/a+b",                "get api||v1||pods||a+b"),
            ("GET",    "/api/v1/pods/%zz",                "get /api/v1/pods/%zz"),
            ("GET",    "/api/v1/pods/a%",                 "get /api/v1/pods/a%"),
            ("GET",    "/api/v1/PODS/P",                  "get api||v1||PODS||P"),
            ("GET",    "/api/v1/Namespaces/ns/pods",      "get api||v1||Namespaces|pods|ns"),
            ("GET",    "/api/v1/pods;x/p",                "get api||v1||pods;x||p"),
            ("GET",    "https://host:6443/api/v1/pods?watch=1", "watch api||v1||pods||"),
        ];
        for (method, uri, expected) in rows {
            assert_eq!(summary(method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn keeps_the_selectors_of_what_selects() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods?fieldSelector=a%3Db&labelSelector=c", ("a=b", "c")),
            ("GET", "/api/v1/pods?fieldSelector=((&labelSelector=c,d", ("((", "c,d")),
            ("GET", "/api/v1/pods?watch=1&labelSelector=c&labelSelector=d", ("", "c")),
            ("DELETE", "/api/v1/pods?labelSelector=c", ("", "c")),
            ("GET", "/api/v1/namespaces/ns/pods/p?labelSelector=c", ("", "")),
            ("GET", "/api/v1/watch/pods?labelSelector=c", ("", "")),
            ("POST", "/api/v1/namespaces/ns/pods?labelSelector=c", ("", "")),
        ] {
            let info = request_info(&method.parse().unwrap(), &uri.parse().unwrap());
            assert_eq!((&*info.field_selector, &*info.label_selector), expected, "{method} {uri}");
        }
    }

    #[test]
    fn parts_begin_with_the_resource() {
        for (uri, expected) in [
            ("/api/v1/namespaces/ns/services/s/proxy/a//b", "services s proxy a  b"),
            ("/api/v1/namespaces/ns/finalize", "namespaces ns finalize"),
            ("/api/v1/namespaces/ns/status/x", "namespaces ns status x"),
            ("/api/v1/namespaces/ns", "namespaces ns"),
            ("/api/v1/namespaces", "namespaces"),
            ("/api/v1/watch", ""),
            ("/version", ""),
        ] {
            assert_eq!(request_info(&Method::GET, &uri.parse().unwrap()).parts.join(" "), expected, "{uri}");
        }
        assert!(request_info(&Method::GET, &Uri::from_static("/api/v1/watch")).is_undetermined());
        assert!(!request_info(&Method::GET, &Uri::from_static("/api/v1//x")).is_undetermined());
    }

    #[test]
    fn knows_what_runs_long() {
        for (uri, expected) in [
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/watch/pods", true),
            ("/api/v1/namespaces/ns/pods/p/log", true),
            ("/api/v1/namespaces/ns/pods/p/exec", true),
            ("/api/v1/namespaces/ns/services/s/proxy/x", true),
            ("/debug/pprof/profile", true),
            ("/api/v1/pods", false),
            ("/api/v1/namespaces/ns/pods/p/status", false),
            ("/version/log", false),
        ] {
            assert_eq!(request_info(&Method::GET, &uri.parse().unwrap()).is_long_running(), expected, "{uri}");
        }
    }

    #[test]
    fn tells_paths_that_parsers_could_read_differently() {
        for uri in [
            "/",
            "/api",
            "/api/v1/namespaces/ns/pods/p",
            "/api/v1/namespaces/ns/",
            "/apis/g/v1/x/a:b@c",
            "/api/v1/x/%C3%A9",
            "/api/v1/x/%61",
            "/api/v1/x/..a",
            "/api/v1/x?a=/../;%2f",
            "*",
            "/api/v1/nodes/n/proxy//a/b%2Fc;d%25",
            "/api/v1/namespaces/ns/services/s/proxy/",
            "https://host/api/v1/pods",
        ] {
            assert!(is_canonical(&uri.parse().unwrap()), "{uri}");
        }
        for uri in [
            "//",
            "//api/v1/pods",
            "/api//v1",
            "/api/v1/pods//",
            "/./api",
            "/api/v1/../x",
            "/api/v1/%2e%2E/x",
            "/api/v1/.%2e",
            "/api/v1/x/a%2Fb",
            "/api/v1/x/a%5cb",
            "/api/v1/x/a%252Fb",
            "/api/v1/x/a;b",
            "/api/v1/x/a%3Bb",
            "/api/v1/x/%00",
            "/api/v1/x/%7f",
            "/api/v1/x/%0a",
            "/api/v1/x/%ff",
            "/api/v1/x/%zz",
            "/api/v1/x/%",
            "/api/v1/nodes/n/proxy/../x",
            "/api/v1/nodes/n/proxy/a%2f..%2fb",
            "/api/v1/nodes/n/proxy/%0a",
            "/apis/g/v1/nodes/n/proxy//a",
            "/api/v1/nodes//proxy/a",
        ] {
            assert!(!is_canonical(&uri.parse().unwrap()), "{uri}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_url_panics_and_canonical_ones_round_trip(path in "(/(api|apis|watch|proxy|namespaces|%2e|%2f|\\.|[a-z%;]{0,3})){0,8}", query in "[a-zA-Z=&%+,!();]{0,20}") {
            if let Ok(uri) = format!("{path}?{query}").parse::<Uri>() {
                for method in [Method::GET, Method::DELETE, Method::OPTIONS] {
                    let info = request_info(&method, &uri);
                    if is_canonical(&uri) && info.is_resource_request {
                        proptest::prop_assert!(!info.parts.iter().any(|part| part == "." || part == ".."));
                    }
                }
            }
        }
    }
}
