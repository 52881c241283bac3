//! Attempts of a member of one tenant to reach another. Each is refused, and no answer contains data about an object of the other.

use super::{Folder, blue, config_map, green, namespace, of, ok, operator};
use crate::harness::{Answer, Proxy, Request, User, delete, get, patch, post, put};
use serde_json::{Value, json};

const LABEL: &str = "kube-admission-proxy.dev/tenant";
/// Texts that only green's objects have.
const SECRETS: [&str; 3] = ["of-green", "hidden-map", "team-green"];

/// The attempts that end the connection, or that no HTTP client can send.
const WITHOUT_ANSWER: [&str; 0] = [];

/// A write of a namespace whose label is green's.
fn moved(name: &str, to: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {LABEL: to}}})
}

fn of_green(path: &str) -> String {
    format!("/api/v1/namespaces/green-a{path}")
}

/// The attempts of blue: a description, and the request.
fn attempts() -> Vec<(&'static str, Request)> {
    let map = config_map("slipped");
    let maps = of_green("/configmaps");
    let blue_maps = "/api/v1/namespaces/blue-a/configmaps";
    let as_green =
        |request: Request| request.header("impersonate-user", "gus").header("impersonate-group", "team-green");
    let event = |field: &str, version: &str| {
        json!({"apiVersion": version, "kind": "Event", "metadata": {"name": "slipped", "namespace": "blue-a"},
            field: {"kind": "Pod", "namespace": "green-a", "name": "p"}, "reason": "r", "type": "Normal",
            "action": "a", "reportingController": "c", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z"})
    };
    let owned = |api_version: &str, kind: &str, name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slipped", "ownerReferences": [
            {"apiVersion": api_version, "kind": kind, "name": name, "uid": "1", "blockOwnerDeletion": true}]}})
    };
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "slipped"}});
    let binding = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}})
    };
    let eviction = |namespace: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}});
    let web_socket = |request: Request| {
        let request = request.header("connection", "Upgrade").header("upgrade", "websocket");
        let request =
            request.header("sec-websocket-version", "13").header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        request.header("sec-websocket-protocol", "v5.channel.k8s.io")
    };
    let mut stowed = map.clone();
    stowed["metadata"]["namespace"] = json!("green-a");
    vec![
        // Addresses.
        ("the path of another", post(&format!("/tenants/green{maps}"), &map)),
        ("a read by the path of another", get(&format!("/tenants/green{maps}/hidden-map"))),
        ("the server name of another", post(&maps, &map).with_server_name("green.example.com")),
        ("the host of another", post(&maps, &map).header("host", "green.example.com")),
        (
            "a host against the server name",
            post(&maps, &map).with_server_name("blue.example.com").header("host", "green.example.com"),
        ),
        (
            "a path against the server name",
            post(&format!("/tenants/green{maps}"), &map).with_server_name("blue.example.com"),
        ),
        (
            "a path against the host",
            post(&format!("/tenants/blue{blue_maps}"), &map).header("host", "green.example.com"),
        ),
        (
            "an authority against the server name",
            post(&maps, &map)
                .over_http2()
                .with_server_name("blue.example.com")
                .header(":authority", "green.example.com"),
        ),
        ("an authority against the host", post(blue_maps, &map).over_http2().header("host", "green.example.com")),
        ("dots after the tenant", post(&format!("/tenants/blue/../green{maps}"), &map)),
        ("dots for the tenant", post(&format!("/tenants/../tenants/green{maps}"), &map)),
        ("escaped dots", post(&format!("/tenants/blue/%2e%2e/green{maps}"), &map)),
        ("an escaped tenant", post(&format!("/tenants/gr%65en{maps}"), &map)),
        ("escaped tenants", post(&format!("/%74enants/green{maps}"), &map)),
        ("an escaped slash", post("/tenants/blue%2f..%2fgreen/api/v1/namespaces/green-a/configmaps", &map)),
        ("two tenants", post(&format!("/tenants/blue/tenants/green{maps}"), &map)),
        ("two slashes", post(&format!("//tenants/green{maps}"), &map)),
        ("two slashes inside", post(&format!("/tenants//green{maps}"), &map)),
        ("upper case", post(&format!("/tenants/GREEN{maps}"), &map)),
        ("the tenant of everybody", post("/tenants/default/api/v1/namespaces/green-a/configmaps", &map)),
        ("the tenant of operators", post(&format!("/tenants/operators{maps}"), &map)),
        ("a tenant that is none", get("/tenants/nobody/api")),
        ("no tenant", get("/tenants/")),
        ("a tenant with a parameter", post(&format!("/tenants/green;a=b{maps}"), &map)),
        ("a tenant with an escaped null", post(&format!("/tenants/green%00{maps}"), &map)),
        ("a tenant with a dot at its end", post(&format!("/tenants/green.{maps}"), &map)),
        ("a backslash", post(&format!("/tenants/blue\\..\\green{maps}"), &map)),
        ("escapes of escapes", post(&format!("/tenants/blue/%252e%252e/green{maps}"), &map)),
        ("a fragment of an escape", post(&format!("/tenants/gr%6{maps}"), &map)),
        (
            "tenants of a proxied service",
            get("/api/v1/namespaces/blue-a/services/s/proxy/../../../../../../tenants/green/api"),
        ),
        ("an absolute URL of another", Request::new("POST", &format!("https://green.example.com{maps}"))),
        ("a host with a port", post(&maps, &map).header("host", "green.example.com:6443")),
        ("a host in upper case with a dot", post(&maps, &map).header("host", "GREEN.example.com.")),
        ("a host with a user", post(&maps, &map).header("host", "blue.example.com@green.example.com")),
        ("two hosts", post(blue_maps, &map).header("host", "blue.example.com").header("host", "green.example.com")),
        (
            "a forwarded host",
            get(&maps).header("x-forwarded-host", "green.example.com").header("forwarded", "host=green.example.com"),
        ),
        (
            "an original URL",
            get(&maps)
                .header("x-original-url", &format!("/tenants/green{maps}"))
                .header("x-rewrite-url", "/tenants/green/api"),
        ),
        ("another method", get(&maps).header("x-http-method-override", "POST")),
        // Namespaces in the URL.
        ("a create", post(&maps, &map)),
        ("a read", get(&format!("{maps}/hidden-map"))),
        ("a list", get(&maps)),
        ("a watch", get(&format!("{maps}?watch=1"))),
        ("a watch by the old path", get("/api/v1/watch/namespaces/green-a/configmaps")),
        ("an update", put(&format!("{maps}/hidden-map"), &config_map("hidden-map"))),
        ("a create by an update", put(&format!("{maps}/slipped"), &map)),
        ("a patch", patch(&format!("{maps}/hidden-map"), "merge", &json!({"data": {"a": "b"}}))),
        ("an apply", patch(&format!("{maps}/slipped?fieldManager=m"), "apply", &map)),
        ("a delete", delete(&format!("{maps}/hidden-map"))),
        ("a deletecollection", delete(&maps)),
        ("a deletecollection over all namespaces", delete("/api/v1/configmaps")),
        ("a deletecollection of namespaces", delete("/api/v1/namespaces")),
        ("exec", get(&of_green("/pods/p/exec?command=ls"))),
        ("a log", get(&of_green("/pods/p/log"))),
        ("exec by the path of another", get(&format!("/tenants/green{}", of_green("/pods/p/exec?command=ls")))),
        ("exec over a WebSocket", web_socket(get(&of_green("/pods/p/exec?command=ls")))),
        ("a watch over a WebSocket", web_socket(get(&format!("{maps}?watch=1")))),
        ("attach", post(&of_green("/pods/p/attach"), &json!({}))),
        ("a port of a pod", get(&of_green("/pods/p/portforward?ports=80"))),
        ("a proxy to a service", get(&of_green("/services/s/proxy/"))),
        ("a proxy to a pod", get(&of_green("/pods/p:80/proxy/x"))),
        ("a proxy to a pod by the old path", get("/api/v1/proxy/namespaces/green-a/pods/p/x")),
        ("a write through a proxy to a pod", post(&of_green("/pods/p/proxy/x"), &map)),
        ("a proxy to a node", get("/api/v1/nodes/n/proxy/pods")),
        (
            "a proxy out of the namespace",
            get("/api/v1/namespaces/blue-a/services/s/proxy/../../../../green-a/configmaps"),
        ),
        ("a binding", post(&of_green("/pods/p/binding"), &binding("green-a"))),
        ("a binding by the old path", post(&of_green("/bindings"), &binding("green-a"))),
        ("a binding that names another", post("/api/v1/namespaces/blue-a/pods/p/binding", &binding("green-a"))),
        ("an eviction", post(&of_green("/pods/p/eviction"), &eviction("green-a"))),
        ("an eviction that names another", post("/api/v1/namespaces/blue-a/pods/p/eviction", &eviction("green-a"))),
        (
            "a scale",
            patch("/apis/apps/v1/namespaces/green-a/deployments/d/scale", "merge", &json!({"spec": {"replicas": 0}})),
        ),
        ("a status", patch(&format!("{maps}/hidden-map/status"), "merge", &json!({"data": {"a": "b"}}))),
        ("an ephemeral container", patch(&of_green("/pods/p/ephemeralcontainers"), "strategic", &json!({"spec": {}}))),
        ("an approval", put("/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval", &json!({}))),
        (
            "a signing request",
            post(
                "/apis/certificates.k8s.io/v1/certificatesigningrequests",
                &json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "slipped"},
            "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "request": ""}}),
            ),
        ),
        (
            "a token",
            post(
                &of_green("/serviceaccounts/default/token"),
                &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
            ),
        ),
        ("dots in the namespace", get("/api/v1/namespaces/blue-a/../green-a/configmaps")),
        ("an escaped namespace", get("/api/v1/namespaces/gr%65en-a/configmaps")),
        ("a namespace below a namespace", get("/api/v1/namespaces/blue-a/namespaces/green-a")),
        ("a namespace in the body", post(blue_maps, &stowed)),
        ("a namespace that is nobody's", post("/api/v1/namespaces/default/configmaps", &map)),
        // All namespaces, and the cluster.
        ("a list of all namespaces", get("/api/v1/configmaps")),
        ("a watch of all namespaces", get("/api/v1/configmaps?watch=1")),
        ("a watch by label", get("/api/v1/configmaps?watch=1&labelSelector=kubernetes.io%2Fmetadata.name%3Dgreen-a")),
        ("a list by name", get("/api/v1/configmaps?fieldSelector=metadata.name%3Dhidden-map")),
        ("a list by field", get("/api/v1/configmaps?fieldSelector=metadata.namespace%3Dblue-a")),
        ("a list that goes on", get("/api/v1/configmaps?limit=1&continue=e30")),
        (
            "a table of all namespaces",
            get("/api/v1/configmaps").header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        ),
        (
            "the metadata of all namespaces",
            get("/api/v1/configmaps")
                .header("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        ),
        ("a create without a namespace", post("/api/v1/configmaps", &stowed)),
        ("a watch of a namespace by the old path", get("/api/v1/watch/namespaces/green-a")),
        ("a watch of all by the old path", get("/api/v1/watch/configmaps")),
        ("a watch by field", get("/api/v1/configmaps?watch=1&fieldSelector=metadata.namespace%3Dgreen-a")),
        ("a list of namespaces", get("/api/v1/namespaces")),
        ("a watch of namespaces", get("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dgreen-a")),
        ("a cluster role", post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)),
        (
            "a review of another's rights",
            post(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "gus"}}),
            ),
        ),
        (
            "a review of another's rights in one's own namespace",
            post(
                "/apis/authorization.k8s.io/v1/namespaces/blue-a/localsubjectaccessreviews",
                &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": "blue-a"},
                    "spec": {"user": "gus", "resourceAttributes": {"namespace": "green-a", "verb": "get", "resource": "configmaps"}}}),
            ),
        ),
        (
            "a local review in another's namespace",
            post(
                "/apis/authorization.k8s.io/v1/namespaces/green-a/localsubjectaccessreviews",
                &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": "green-a"},
                    "spec": {"user": "gus", "resourceAttributes": {"namespace": "green-a", "verb": "get", "resource": "configmaps"}}}),
            ),
        ),
        (
            "a review of a token",
            post(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}}),
            ),
        ),
        (
            "a policy",
            post(
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
                &json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "slipped"}, "spec": {}}),
            ),
        ),
        (
            "a volume",
            post(
                "/api/v1/persistentvolumes",
                &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "slipped"}}),
            ),
        ),
        ("a kind of the cluster", post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &json!({}))),
        ("metrics", get("/metrics")),
        ("profiles", get("/debug/pprof/heap")),
        ("logs of the server", get("/logs/kube-apiserver.log")),
        ("flags of the server", get("/flagz")),
        ("the state of the server", get("/statusz")),
        ("a path of no API", post("/configz", &json!({}))),
        ("a write of discovery", post("/api", &json!({}))),
        ("a tunnel", Request::new("CONNECT", "green.example.com:443")),
        ("a trace", Request::new("TRACE", &maps)),
        ("an unknown method", Request::new("PROPFIND", &maps)),
        // The label.
        ("a namespace with the label of another", post("/api/v1/namespaces", &moved("new", "green"))),
        ("a namespace with the name of another", post("/api/v1/namespaces", &namespace("green-new"))),
        (
            "a generated name of another",
            post(
                "/api/v1/namespaces",
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "green-"}}),
            ),
        ),
        (
            "a namespace by apply",
            patch("/api/v1/namespaces/green-new?fieldManager=m", "apply", &namespace("green-new")),
        ),
        ("a label by update", put("/api/v1/namespaces/blue-a", &moved("blue-a", "green"))),
        ("a label by update that is gone", put("/api/v1/namespaces/blue-a", &namespace("blue-a"))),
        (
            "a label by merge patch",
            patch("/api/v1/namespaces/blue-a", "merge", &json!({"metadata": {"labels": {LABEL: "green"}}})),
        ),
        (
            "a label that a merge patch removes",
            patch("/api/v1/namespaces/blue-a", "merge", &json!({"metadata": {"labels": null}})),
        ),
        (
            "a label by JSON patch",
            patch(
                "/api/v1/namespaces/blue-a",
                "json",
                &json!([{"op": "replace", "path": "/metadata/labels/kube-admission-proxy.dev~1tenant", "value": "green"}]),
            ),
        ),
        (
            "a label by apply",
            patch("/api/v1/namespaces/blue-a?fieldManager=m&force=true", "apply", &moved("blue-a", "green")),
        ),
        (
            "a label by status",
            patch("/api/v1/namespaces/blue-a/status", "merge", &json!({"metadata": {"labels": {LABEL: "green"}}})),
        ),
        ("a label by finalize", put("/api/v1/namespaces/blue-a/finalize", &moved("blue-a", "green"))),
        (
            "the label of another's namespace",
            patch("/api/v1/namespaces/green-a", "merge", &json!({"metadata": {"labels": {LABEL: "blue"}}})),
        ),
        // References.
        ("an event about another's object", post("/api/v1/namespaces/blue-a/events", &event("involvedObject", "v1"))),
        (
            "a new event about another's object",
            post("/apis/events.k8s.io/v1/namespaces/blue-a/events", &event("regarding", "events.k8s.io/v1")),
        ),
        ("an owner that is another's namespace", post(blue_maps, &owned("v1", "Namespace", "green-a"))),
        ("an owner of the cluster", post(blue_maps, &owned("v1", "Node", "n"))),
        ("an owner of an unknown kind", post(blue_maps, &owned("x.example.com/v1", "X", "x"))),
        // Users.
        ("impersonation", as_green(post(&maps, &map))),
        ("impersonation by the path", as_green(get(&format!("/tenants/green{maps}/hidden-map")))),
        (
            "impersonation of an operator",
            get(&maps).header("impersonate-user", "olga").header("impersonate-group", "operators"),
        ),
        ("impersonation of nobody", get("/api/v1/namespaces/default/configmaps").header("impersonate-user", "nobody")),
        (
            "impersonation of a group of operators",
            get(&maps).header("impersonate-user", "bea").header("impersonate-group", "operators"),
        ),
        (
            "impersonation of the masters",
            get(&maps).header("impersonate-user", "bea").header("impersonate-group", "system:masters"),
        ),
        ("impersonation by an UID alone", get(&maps).header("impersonate-uid", "1")),
        (
            "impersonation of a service account",
            get(&maps).header("impersonate-user", "system:serviceaccount:green-a:default"),
        ),
        ("a user in a header", get(&maps).header("x-remote-user", "gus").header("x-remote-group", "team-green")),
    ]
}

/// Checks that an answer is a refusal, and has nothing of green's objects but what the request itself has.
fn tells_nothing(what: &str, path: &str, answer: &Answer) {
    assert!(answer.status >= 400, "{what}: {} {}", answer.status, answer.text());
    for secret in SECRETS.into_iter().filter(|secret| !path.contains(secret)) {
        assert!(!answer.text().contains(secret), "{what}: {}", answer.text());
    }
}

/// Two tenants with a namespace each; green has a config map.
fn with_namespaces() -> (Folder, Proxy) {
    let tenants = Folder::blue_and_green();
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-a")));
    ok(&proxy, &green(), post("/api/v1/namespaces", &namespace("green-a")));
    ok(&proxy, &green(), post(&of_green("/configmaps"), &config_map("hidden-map")));
    (tenants, proxy)
}

#[test]
fn every_escape_is_refused_and_told_nothing() {
    let (_tenants, proxy) = with_namespaces();
    let stored = || {
        let green_maps = ok(&proxy, &green(), get(&of_green("/configmaps")));
        let namespaces = ok(&proxy, &operator(), get("/api/v1/namespaces"));
        let blue_maps = ok(&proxy, &blue(), get("/api/v1/namespaces/blue-a/configmaps"));
        [green_maps["items"].clone(), namespaces["items"].clone(), blue_maps["items"].clone()]
    };
    let before = stored();
    let attempts = attempts();
    assert!(attempts.len() >= 100, "{}", attempts.len());
    let mut unanswered = Vec::new();
    for (what, request) in attempts {
        let path = request.path.clone();
        match proxy.try_send(&blue(), request) {
            Ok(answer) => tells_nothing(what, &path, &answer),
            Err(_) => unanswered.push(what),
        }
        assert_eq!(stored(), before, "{what}");
    }
    assert_eq!(unanswered, WITHOUT_ANSWER);
    // The ways of the attempts lead somewhere: to blue's own objects.
    let maps = "/api/v1/namespaces/blue-a/configmaps";
    for request in [
        get(maps).with_server_name("blue.example.com"),
        get(maps).header("host", "blue.example.com"),
        get(maps).over_http2().header(":authority", "blue.example.com").with_server_name("blue.example.com"),
        get(&format!("/tenants/blue{maps}")).header("host", "blue.example.com:6443"),
    ] {
        ok(&proxy, &blue(), request);
    }
}

#[test]
fn callers_of_no_tenant_and_without_credentials_get_nowhere() {
    let (_tenants, proxy) = with_namespaces();
    let nobody = User::named("ann", "");
    for (user, prefix) in
        [(&nobody, ""), (&nobody, "/tenants/green"), (&User::Anonymous, ""), (&User::Anonymous, "/tenants/green")]
    {
        for request in [
            get(&format!("{prefix}{}", of_green("/configmaps/hidden-map"))),
            get(&format!("{prefix}/api/v1/configmaps")),
            post(&format!("{prefix}{}", of_green("/configmaps")), &config_map("slipped")),
            delete(&format!("{prefix}{}", of_green(""))),
        ] {
            let what = format!("{prefix} {} {}", request.method, request.path);
            let path = request.path.clone();
            tells_nothing(&what, &path, &proxy.send(user, request));
        }
    }
}

#[test]
fn another_namespace_and_no_namespace_have_the_same_answer() {
    let (_tenants, proxy) = with_namespaces();
    for path in ["", "/configmaps", "/configmaps/hidden-map", "/pods/p/log"] {
        let answer = |namespace: &str| {
            let answer = proxy.send(&blue(), get(&format!("/api/v1/namespaces/{namespace}{path}")));
            (answer.status, answer.text().replace(namespace, "NAMESPACE"))
        };
        assert_eq!(answer("green-a"), answer("green-b"), "{path}");
        assert_eq!(answer("green-a"), answer("missing"), "{path}");
    }
}

#[test]
fn a_tenant_that_is_not_confined_writes_into_no_namespace_of_another() {
    let (tenants, proxy) = with_namespaces();
    tenants.write(
        "blue",
        &of(
            "team-blue",
            &json!({"namespaces": {"names": ["blue-*"]},
        "authorization": {"ownNamespacesOnly": false}}),
        ),
    );
    let list = get("/api/v1/namespaces");
    crate::harness::eventually("a tenant that is not confined", || {
        (proxy.send(&blue(), list.clone()).status == 200).then_some(())
    });
    for request in [
        post(&of_green("/configmaps"), &config_map("slipped")),
        delete(&of_green("/configmaps/hidden-map")),
        delete(&of_green("")),
        get(&of_green("/pods/p/exec?command=ls")),
        patch("/api/v1/namespaces/green-a", "merge", &json!({"metadata": {"labels": {LABEL: "blue"}}})),
        post("/api/v1/namespaces", &moved("new", "green")),
        post("/api/v1/namespaces/default/configmaps", &config_map("slipped")),
    ] {
        let what = format!("{} {}", request.method, request.path);
        assert_eq!(proxy.send(&blue(), request).status, 403, "{what}");
    }
    ok(&proxy, &green(), get(&of_green("/configmaps/hidden-map")));
}

#[test]
fn a_connection_of_one_server_name_reaches_no_other_tenant() {
    let (_tenants, proxy) = with_namespaces();
    let maps = of_green("/configmaps");
    for (first, second) in [("green.example.com", "blue.example.com"), ("blue.example.com", "green.example.com")] {
        // The connection has the first server name; its second request names the second tenant.
        let requests = [
            get("/api/v1/namespaces/blue-a/configmaps").over_http2().header(":authority", first),
            get(&maps).over_http2().header(":authority", second),
            post(&format!("/tenants/green{maps}"), &config_map("slipped")).over_http2().header(":authority", first),
        ];
        let name = Some(first.to_owned());
        let answers = proxy.send_together(&blue(), name, requests.to_vec());
        for (answer, wanted) in answers.iter().zip([if first.starts_with("blue") { 200 } else { 403 }, 421, 0]) {
            match wanted {
                200 => assert_eq!(answer.status, 200, "{}", answer.text()),
                421 => assert_eq!(answer.status, 421, "{}", answer.text()),
                _ => tells_nothing("a second request", &maps, answer),
            }
        }
    }
    assert_eq!(proxy.send(&green(), get(&format!("{maps}/slipped"))).status, 404);
}

#[test]
fn a_token_of_another_tenants_service_account_leads_nowhere() {
    let tenants = Folder::blue_and_green();
    let member = |namespace: &str| json!([{"kind": "ServiceAccount", "namespace": namespace, "name": "*"}]);
    for name in ["blue", "green"] {
        let mut spec = of(&format!("team-{name}"), &json!({"namespaces": {"names": [format!("{name}-*")]}}));
        let more = member(&format!("{name}-a"));
        spec["members"].as_array_mut().unwrap().extend(more.as_array().unwrap().clone());
        tenants.write(name, &spec);
    }
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    for (name, user) in [("blue-a", blue()), ("green-a", green())] {
        ok(&proxy, &user, post("/api/v1/namespaces", &namespace(name)));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
        ok(&proxy, &user, post(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account));
    }
    ok(&proxy, &green(), post(&of_green("/configmaps"), &config_map("hidden-map")));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = |user: &User, name: &str| {
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts/bot/token");
        let made = ok(&proxy, user, post(&path, &request));
        User::Token(made["status"]["token"].as_str().unwrap().to_owned())
    };
    let (of_blue, of_green_bot) = (token(&blue(), "blue-a"), token(&green(), "green-a"));
    ok(&proxy, &of_green_bot, get(&of_green("/configmaps/hidden-map")));
    for path in [of_green("/configmaps/hidden-map"), format!("/tenants/green{}", of_green("/configmaps/hidden-map"))] {
        tells_nothing("a token of blue", &path, &proxy.send(&of_blue, get(&path)));
    }
    tells_nothing(
        "a token of green",
        "",
        &proxy.send(&of_green_bot, get("/tenants/blue/api/v1/namespaces/blue-a/configmaps")),
    );
    // A token in place of the certificate's user.
    let User::Token(text) = &of_green_bot else { unreachable!() };
    let both = get(&of_green("/configmaps/hidden-map")).header("authorization", &format!("Bearer {text}"));
    tells_nothing("a certificate and a token", &both.path.clone(), &proxy.send(&blue(), both));
}

#[test]
fn nobody_but_operators_makes_the_namespace_of_an_operators_service_account() {
    let tenants = Folder::blue_and_green();
    tenants.write(
        "operators",
        &json!({"members": [{"kind": "Group", "name": "operators"}, {"kind": "ServiceAccount", "namespace": "deployer", "name": "*"}]}),
    );
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    for user in [blue(), User::named("nobody", "")] {
        let refused = proxy.send(&user, post("/api/v1/namespaces", &namespace("deployer")));
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.message().ends_with("only operators of the gateway may create it"), "{}", refused.text());
    }
    ok(&proxy, &operator(), post("/api/v1/namespaces", &namespace("deployer")));
}

#[test]
fn a_watch_ends_at_the_namespaces_of_its_tenant() {
    let (_tenants, proxy) = with_namespaces();
    let maps = "/api/v1/namespaces/blue-a/configmaps";
    let mut watch = proxy.stream(&blue(), get(&format!("{maps}?watch=1")));
    ok(&proxy, &green(), post(&of_green("/configmaps"), &config_map("another-map")));
    ok(&proxy, &blue(), post(maps, &config_map("own-map")));
    // Every namespace has a map with the authorities.
    let names = std::iter::from_fn(|| watch.next_json()).map(|event| {
        assert_eq!(event["object"]["metadata"]["namespace"], "blue-a", "{event}");
        event["object"]["metadata"]["name"].as_str().unwrap().to_owned()
    });
    assert_eq!(names.filter(|name| name != "kube-root-ca.crt").take(1).collect::<Vec<_>>(), ["own-map"]);
}
