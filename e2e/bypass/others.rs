//! Writes of objects other than ConfigMaps.

use super::tricks::Trick;
use crate::harness::{Request, delete, post};
use serde_json::{Value, json};

/// Writes to all other resources.
pub fn other_writes() -> Vec<Trick> {
    let review =
        |kind: &str, group: &str, spec: Value| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
    let authorization = "/apis/authorization.k8s.io/v1";
    let authentication = "/apis/authentication.k8s.io/v1";
    let default = "/api/v1/namespaces/default";
    let attributes = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let of_user = json!({"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}});
    let own = "authentication.k8s.io";
    let access = "authorization.k8s.io";
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "configmaps.slipped.example"},
        "spec": {"group": "slipped.example", "scope": "Namespaced",
            "names": {"plural": "configmaps", "singular": "configmap", "kind": "ConfigMap", "listKind": "ConfigMapList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.slipped.example"},
        "spec": {"group": "slipped.example", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}});
    let mut writes = vec![
        ("a binding", post(&format!("{default}/bindings"), &binding)),
        ("a pod's binding", post(&format!("{default}/pods/p/binding"), &binding)),
        ("an eviction", post(&format!("{default}/pods/p/eviction"), &eviction)),
        ("a token", post(&format!("{default}/serviceaccounts/default/token"), &review("TokenRequest", own, json!({})))),
        (
            "a review of oneself",
            post(&format!("{authentication}/selfsubjectreviews"), &review("SelfSubjectReview", own, json!(null))),
        ),
        (
            "a review of a token",
            post(&format!("{authentication}/tokenreviews"), &review("TokenReview", own, json!({"token": "x"}))),
        ),
        (
            "a review of one's access",
            post(
                &format!("{authorization}/selfsubjectaccessreviews"),
                &review("SelfSubjectAccessReview", access, attributes),
            ),
        ),
        (
            "a review of one's rules",
            post(
                &format!("{authorization}/selfsubjectrulesreviews"),
                &review("SelfSubjectRulesReview", access, json!({"namespace": "default"})),
            ),
        ),
        (
            "a review of somebody's access",
            post(
                &format!("{authorization}/subjectaccessreviews"),
                &review("SubjectAccessReview", access, of_user.clone()),
            ),
        ),
        (
            "a review of somebody's access to a namespace",
            post(
                &format!("{authorization}/namespaces/default/localsubjectaccessreviews"),
                &review("LocalSubjectAccessReview", access, of_user),
            ),
        ),
        ("a namespace", post("/api/v1/namespaces", &namespace("slipped"))),
        ("a namespace within one", post(&format!("{default}/namespaces"), &namespace("slipped"))),
        (
            "a namespace's end",
            Request::new("PUT", &format!("{default}/finalize"))
                .body("application/json", namespace("default").to_string()),
        ),
        (
            "a namespace's status",
            Request::new("PUT", &format!("{default}/status"))
                .body("application/json", namespace("default").to_string()),
        ),
        ("a namespace's death", delete("/api/v1/namespaces/default")),
        ("the death of all namespaces", delete("/api/v1/namespaces")),
        ("a definition of what there is", post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)),
        ("an API", post("/apis/apiregistration.k8s.io/v1/apiservices", &service)),
        ("an API in capitals", post("/apis/ApiRegistration.k8s.io/v1/apiservices", &service)),
        ("a watch that deletes", delete("/api/v1/watch/namespaces/default/configmaps")),
        ("a proxy that deletes", delete("/api/v1/proxy/namespaces/default/configmaps")),
        (
            "a delete with a kind of its own",
            delete(&format!("{default}/configmaps"))
                .body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1"}"#),
        ),
    ];
    for (content_type, body) in [
        ("application/json-patch+json", r#"[{"op":"add","path":"/metadata/labels/slipped","value":"x"}]"#),
        ("application/merge-patch+json", r#"{"metadata":{"labels":{"slipped":"x"}}}"#),
        ("application/strategic-merge-patch+json", r#"{"metadata":{"labels":{"slipped":"x"}}}"#),
        (
            "application/apply-patch+yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {slipped: x}}\n",
        ),
        ("application/json-patch+json; a=b", r#"[{"op":"test","path":"/x","value":"x"}]"#),
        ("Application/Merge-Patch+JSON", "{}"),
    ] {
        let path = format!("{default}?fieldManager=me");
        writes.push(("a patch", Request::new("PATCH", &path).body(content_type, body)));
    }
    let mut writes: Vec<_> =
        writes.into_iter().map(|(name, request)| (format!("{name}: {:?}", request.headers), request)).collect();
    let connects = [
        "pods/p/exec?command=ls",
        "pods/p/attach",
        "pods/p/portforward?ports=80",
        "pods/p/proxy",
        "services/s/proxy/a/b",
    ];
    let connects =
        connects.iter().map(|path| format!("{default}/{path}")).chain(["/api/v1/nodes/n/proxy/run".to_owned()]);
    for path in connects {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
            let request = Request::new(method, &path);
            writes.push((format!("{method} {path}"), request.clone()));
            if method == "GET" {
                let websocket = request.header("connection", "Upgrade").header("upgrade", "websocket");
                let websocket = websocket
                    .header("sec-websocket-version", "13")
                    .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
                writes.push((
                    format!("{path} by WebSocket"),
                    websocket.header("sec-websocket-protocol", "v5.channel.k8s.io"),
                ));
            }
        }
    }
    writes
}
