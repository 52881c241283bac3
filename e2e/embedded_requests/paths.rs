//! Methods, and paths that are no objects.

use super::{define, with_embedded};
use crate::harness::{Request, get};

/// Paths of objects of all namespaces.
const OF_ALL: [&str; 3] = ["/api/v1/secrets", "/api/v1/namespaces", "/api/v1/watch/secrets"];

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

#[test]
fn methods_of_resources_are_allowed_and_refused_as_by_kube_apiserver() {
    with_embedded("resource-methods", |servers, place| {
        let custom = define(servers, place, "methods.e2e.test");
        let namespace = &place.0;
        let mut paths: Vec<String> = [
            "secrets",
            "secrets/a",
            "pods/x/status",
            "pods/x/log",
            "pods/x/binding",
            "pods/x/eviction",
            "bindings",
            "bindings/x",
            "serviceaccounts/x/token",
            "secrets/a/x",
            "none",
            "none/x",
        ]
        .map(|path| format!("/api/v1/namespaces/{namespace}/{path}"))
        .into();
        paths.extend(["", "/status", "/finalize"].map(|of| format!("/api/v1/namespaces/{namespace}{of}")));
        paths.extend(["scale", "none"].map(|of| format!("/apis/apps/v1/namespaces/{namespace}/deployments/x/{of}")));
        paths.extend(
            ["", "/a", "/a/status", "/a/scale", "/a/none", "/none/status", "/none/scale"].map(|of| custom.clone() + of),
        );
        paths.extend(
            [
                "/api/v1/secrets",
                "/api/v1/secrets/a",
                "/api/v1/namespaces",
                "/api/v1/nodes/x",
                "/api/v1/componentstatuses/none",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews/x",
                "/apis/methods.e2e.test/v1/wids",
                "/apis/methods.e2e.test/v1/wids/a",
                "/apis/methods.e2e.test/v9/wids",
                "/apis/methods.e2e.test/v1/none",
                "/api/v1/watch/secrets",
            ]
            .map(str::to_owned),
        );
        for path in paths {
            for method in METHODS {
                // The objects of other tests differ.
                if method == "GET" && OF_ALL.contains(&&*path) {
                    continue;
                }
                let query = match method {
                    "DELETE" | "PATCH" => "?dryRun=All",
                    _ => "?timeoutSeconds=1",
                };
                let request = Request::new(method, &format!("{path}{query}"));
                servers.compare(match method {
                    "POST" | "PUT" => request.body("application/json", "{}"),
                    "PATCH" => request.body("application/merge-patch+json", "{}"),
                    _ => request,
                });
            }
        }
    });
}

#[test]
fn paths_that_are_no_resources_are_answered_as_by_kube_apiserver() {
    with_embedded("generic-paths", |servers, _| {
        for path in [
            "/version",
            "/version/",
            "/version/x",
            "/healthz",
            "/healthz/",
            "/healthz/ping",
            "/healthz/none",
            "/livez",
            "/livez/ping",
            "/readyz",
            "/readyz/ping",
            "/api",
            "/api/",
            "/api/v1/",
            "/api/v2",
            "/api/x",
            "/apis/apps",
            "/apis/apps/",
            "/apis/apps/v9",
            "/apis/none",
            "/apis/none/v1",
            "/apis/none/v1/x",
            "/foo",
            "/foo/bar",
            "/openapi",
            "/openapi/v3/none",
            "/swagger.json",
            "/robots.txt",
            "/api/v1/none",
            "/apis/apps/v1/none",
        ] {
            for method in METHODS {
                // The build and the address are those of the server.
                if method == "GET" && ["/version", "/version/", "/api", "/api/"].contains(&path) {
                    continue;
                }
                servers.compare(Request::new(method, path));
            }
        }
    });
}

#[test]
fn odd_names_are_answered_as_by_kube_apiserver() {
    with_embedded("odd-names", |servers, place| {
        let custom = define(servers, place, "odd.e2e.test");
        let long = "x".repeat(260);
        for name in [
            ".", "..", "%2E", "a%2Fb", "a%25b", "A", "%20", "a;b", "a%3Bb", "%5C", "a:b", &*long, "%C3%A9", "a%3Fb",
            "~",
        ] {
            for of in ["", "/status"] {
                for path in [&*place.path("/api/v1/secrets"), &*custom, "/api/v1/nodes", "/api/v1/namespaces"] {
                    servers.compare(get(&format!("{path}/{name}{of}")));
                }
            }
            servers.compare(get(&format!("/api/v1/namespaces/{name}/secrets")));
            servers.compare(get(&format!("/api/v1/namespaces/{name}/secrets/a")));
            servers.compare(get(&format!("/apis/odd.e2e.test/v1/namespaces/{name}/wids")));
        }
    });
}
