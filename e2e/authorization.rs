//! Authorization: requests are rejected before anything happens, with the API server's text.

use crate::harness::{Proxy, Request, User, Webhook, delete, get, patch, post, proxy_only, put, unique, upstream};
use serde_json::json;

fn requests(namespace: &str) -> Vec<Request> {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    vec![
        get(&maps),
        get(&format!("{maps}?watch=true")),
        get(&format!("{maps}/one")),
        post(&maps, &map),
        put(&format!("{maps}/one"), &map),
        patch(&format!("{maps}/one"), "merge", &json!({})),
        delete(&format!("{maps}/one")),
        delete(&maps),
        get("/api/v1/nodes"),
        get("/apis/apps/v1/namespaces/default/deployments/one/scale"),
        get("/metrics"),
        // The response reveals neither whether a resource is served nor how.
        get(&format!("/api/v1/namespaces/{namespace}/nodes/one/proxy")),
        post(&format!("/api/v1/namespaces/{namespace}/pods/one/log"), &map),
        put(&format!("/api/v1/namespaces/{namespace}/pods/one/exec"), &map),
    ]
}

#[test]
fn a_refusal_reads_as_the_api_servers() {
    let proxy = Proxy::before(upstream(), &[]);
    let nobody = User::named("mallory", "");
    for request in requests("default") {
        let what = format!("{} {}", request.method, request.path);
        let direct = upstream().send(&nobody, request.clone());
        let through = proxy.send(&nobody, request);
        assert_eq!(direct.status, 403, "{what}");
        assert_eq!((through.status, through.json()), (direct.status, direct.json()), "{what}");
        assert_eq!(through.header("content-type"), direct.header("content-type"), "{what}");
    }
}

#[test]
fn an_unauthorized_write_causes_no_call_of_a_webhook() {
    let proxy = Proxy::before(upstream(), &[]);
    let webhook = Webhook::start();
    let namespace = proxy.namespace("guarded");
    let configuration = webhook.configuration("Mutating", &namespace, &namespace, &["/allow"]);
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(proxy.send(&User::admin(), post(path, &configuration)).status, 201);
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    crate::harness::eventually("a webhook that is known", || {
        proxy.send(&User::admin(), post(&format!("{maps}?dryRun=All"), &map));
        (!webhook.take().is_empty()).then_some(())
    });
    for request in requests(&namespace) {
        assert_eq!(proxy.send(&User::named("mallory", ""), request).status, 403);
    }
    assert_eq!(webhook.take(), []);
}

#[test]
fn with_always_allow_the_api_server_refuses_itself() {
    let proxy = Proxy::before(upstream(), &["--authorization-mode=AlwaysAllow"]);
    let answer = proxy.send(&User::named("mallory", ""), get("/api/v1/nodes"));
    assert_eq!(answer.status, 403);
    let message =
        "nodes is forbidden: User \"mallory\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    assert_eq!(answer.message(), message);
}

/// The proxy reads objects that the caller may not read: a refusal because of such an object must not reveal the object.
#[test]
fn always_allow_does_not_disclose_objects_that_a_caller_may_not_write() {
    let proxy = Proxy::before(upstream(), &["--authorization-mode=AlwaysAllow"]);
    let namespace = proxy.namespace("untold");
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let (one, missing) = (format!("{secrets}/one"), format!("{secrets}/missing"));
    let secret = |metadata: serde_json::Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let mut stored = secret(json!({"name": "one"}));
    stored["stringData"] = json!({"k": "a word"});
    proxy.accepts(post(&secrets, &stored));
    let guess = |value: &str| json!([{"op": "test", "path": "/data/k", "value": value}]);
    let nobody = User::named("mallory", "");
    for (what, request) in [
        ("a guess that is wrong", patch(&one, "json", &guess("x"))),
        ("a guess that is right", patch(&one, "json", &guess("YSB3b3Jk"))),
        (
            "a patch that makes no object",
            patch(&one, "json", &json!([{"op": "add", "path": "/metadata/labels", "value": 7}])),
        ),
        ("a merge that makes no object", patch(&one, "merge", &json!({"metadata": {"labels": 7}}))),
        ("another UID", put(&one, &secret(json!({"name": "one", "uid": "x"})))),
        ("an old version", put(&one, &secret(json!({"name": "one", "resourceVersion": "1"})))),
        ("an update of what is missing", put(&missing, &secret(json!({"name": "missing"})))),
        ("a patch of what is missing", patch(&missing, "merge", &json!({}))),
        ("a delete of what is missing", delete(&missing)),
        (
            "a delete of another",
            delete(&one).body("application/json", json!({"preconditions": {"uid": "x"}}).to_string()),
        ),
        ("a delete of none", delete(&format!("{secrets}?labelSelector=none"))),
        (
            "a create where nothing can be",
            post(&secrets.replace(&namespace, "missing"), &secret(json!({"name": "one"}))),
        ),
    ] {
        let direct = upstream().send(&nobody, request.clone());
        let through = proxy.send(&nobody, request.clone());
        assert_eq!(direct.status, 403, "{what}");
        assert_eq!((through.status, through.json()), (direct.status, direct.json()), "{what}");
        // A user with the permission gets the real error.
        assert_ne!(proxy.send(&User::admin(), request).status, 403, "{what}");
    }
}

/// A ClusterRoleBinding for a user, and the ClusterRole in it.
fn may(user: &str, rules: &serde_json::Value) -> [(&'static str, serde_json::Value); 2] {
    let (version, name) = ("rbac.authorization.k8s.io/v1", unique("revoked"));
    let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
    [("clusterroles", role), ("clusterrolebindings", binding)]
}

/// Cached decisions do not expire in this test.
#[test]
fn rights_granted_and_revoked_through_the_proxy_take_effect_at_once() {
    let flags =
        ["--authorization-webhook-cache-authorized-ttl=1h", "--authorization-webhook-cache-unauthorized-ttl=1h"];
    let proxy = Proxy::before(upstream(), &flags);
    let (trudy, path) = (User::named("trudy", ""), "/apis/rbac.authorization.k8s.io/v1");
    let as_root =
        || get("/api/v1/nodes").header("impersonate-user", "root").header("impersonate-group", "system:masters");
    let is = |status: u16| move |answer: crate::harness::Answer| (answer.status == status).then_some(());
    assert_eq!(proxy.send(&trudy, as_root()).status, 403);
    let rules = json!([{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]);
    let granted = may("trudy", &rules);
    for (resource, object) in &granted {
        assert_eq!(proxy.send(&User::admin(), post(&format!("{path}/{resource}"), object)).status, 201);
    }
    // The API server's authorizer reads from a cache.
    crate::harness::eventually("a grant", || is(200)(proxy.send(&trudy, as_root())));
    // By then the proxy caches decisions again.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert_eq!(proxy.send(&trudy, as_root()).status, 200);
    let name = granted[1].1["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(proxy.send(&User::admin(), delete(&format!("{path}/clusterrolebindings/{name}"))).status, 200);
    crate::harness::eventually("a refusal", || is(403)(proxy.send(&trudy, as_root())));
}

#[test]
fn always_allow_lets_no_plugin_act_for_an_unauthorized_caller() {
    for view in ["stored", "submitted"] {
        let flags = ["--authorization-mode=AlwaysAllow".to_owned(), format!("--validation-view={view}")];
        let with = |more: &[&str]| {
            let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
            Proxy::before(upstream(), &flags)
        };
        let missing = unique("unmade");
        let provisioning = with(&["--enable-admission-plugins=NamespaceAutoProvision"]);
        is_refused_as_by_the_api_server(&provisioning, &missing, "one");
        assert_eq!(provisioning.send(&User::admin(), get(&format!("/api/v1/namespaces/{missing}"))).status, 404);
        charges_no_quota_for_an_unauthorized_caller(&with(&[]));
    }
}

/// Sends a create as a user without rights, directly and through the proxy.
fn is_refused_as_by_the_api_server(proxy: &Proxy, namespace: &str, name: &str) {
    let (nobody, map) =
        (User::named("mallory", ""), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
    let request = post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map);
    let direct = upstream().send(&nobody, request.clone());
    let through = proxy.send(&nobody, request);
    assert_eq!((through.status, through.json()), (direct.status, direct.json()));
    assert_eq!(through.status, 403);
}

fn charges_no_quota_for_an_unauthorized_caller(proxy: &Proxy) {
    let (admin, namespace) = (User::admin(), proxy.namespace("others-quota"));
    let quotas = format!("/api/v1/namespaces/{namespace}/resourcequotas");
    let hard = json!({"count/configmaps": "5"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    let mut stored = upstream().accepts(post(&quotas, &quota));
    // No controller sets the quota's status.
    stored["status"] = json!({"hard": hard, "used": {"count/configmaps": "0"}});
    assert_eq!(upstream().send(&admin, put(&format!("{quotas}/q/status"), &stored)).status, 200);
    let used =
        || upstream().send(&admin, get(&format!("{quotas}/q"))).json()["status"]["used"]["count/configmaps"].clone();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}});
    crate::harness::eventually("a quota that is charged", || {
        let made = proxy.send(&admin, post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map)).status;
        assert!(matches!(made, 201 | 409));
        (used() != "0").then_some(())
    });
    let before = used();
    for name in ["one", "two"] {
        is_refused_as_by_the_api_server(proxy, &namespace, name);
    }
    assert_eq!(used(), before);
}

#[test]
fn an_unauthorized_connect_is_forbidden_before_it_is_not_found() {
    let proxy = Proxy::before(upstream(), &[]);
    for path in ["/api/v1/namespaces/default/nodes/a/proxy", "/api/v1/namespaces/default/configmaps/a/proxy"] {
        for (user, status) in [(User::named("mallory", ""), 403), (User::admin(), 404)] {
            let direct = upstream().send(&user, get(path));
            let through = proxy.send(&user, get(path));
            assert_eq!((through.status, direct.status), (status, status), "{path}");
            if status == 403 {
                assert_eq!(through.json(), direct.json());
            }
        }
    }
}

/// A controller fills each object as soon as the API server has stored it.
#[test]
fn the_answer_to_a_create_has_nothing_that_a_controller_writes_meanwhile() {
    let (admin, creator) = (User::admin(), User::named("carl", ""));
    let webhook = Webhook::start();
    let [on, off] = proxy_only(&["MutatingAdmissionWebhook"]);
    let proxy = Proxy::before(upstream(), &[&on, &off]);
    let namespace = upstream().namespace("filled");
    let configuration = webhook.configuration("Mutating", &namespace, &namespace, &["/label/team/a"]);
    upstream().accepts(post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", &configuration));
    let at = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]);
    let metadata = json!({"name": "creators"});
    let version = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules});
    let binding = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "creators"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carl"}]});
    assert_eq!(upstream().send(&admin, post(&format!("{at}/roles"), &role)).status, 201);
    assert_eq!(upstream().send(&admin, post(&format!("{at}/rolebindings"), &binding)).status, 201);
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}});
    crate::harness::eventually("a caller that may create, and a webhook", || {
        let made = proxy.send(&creator, post(&format!("{maps}?dryRun=All"), &map("probe")));
        (made.json()["metadata"]["labels"]["team"] == "a").then_some(())
    });
    let mut watch = upstream().stream(&admin, get(&format!("{maps}?watch=true")));
    let filled = maps.clone();
    let controller = std::thread::spawn(move || {
        while let Some(event) = watch.next_json() {
            let name = event["object"]["metadata"]["name"].as_str().unwrap();
            if name == "last" {
                return;
            }
            if event["type"] == "ADDED" && event["object"]["data"]["a"] == "1" {
                let token = json!({"data": {"token": "of-others"}});
                let fill = patch(&format!("{filled}/{name}"), "merge", &token);
                assert_eq!(upstream().send(&User::admin(), fill).status, 200);
            }
        }
    });
    for number in 0..30 {
        let accept = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"][number % 3];
        let create = post(&maps, &map(&format!("map-{number}"))).header("accept", accept);
        let answer = proxy.send(&creator, create);
        assert_eq!((answer.status, &*answer.header("content-type")[0]), (201, accept), "{}", answer.text());
        assert!(!answer.text().contains("token") && !answer.text().contains("of-others"), "{}", answer.text());
    }
    assert_eq!(proxy.send(&creator, get(&format!("{maps}/map-0"))).status, 403);
    assert_eq!(upstream().send(&admin, post(&maps, &map("last"))).status, 201);
    controller.join().unwrap();
}
