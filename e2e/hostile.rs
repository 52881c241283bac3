//! A hostile tenant against a quiet one: the quiet tenant's requests are served, and the policies apply to them, whatever the hostile
//! tenant sends.

use crate::harness::{
    Answer, ControlPlane, Proxy, Request, User, connect, delete, eventually, get, only, patch, patient, pki, post, put,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

pub const HOSTILE: &str = "/api/v1/namespaces/hostile";
pub const QUIET: &str = "/api/v1/namespaces/quiet";
const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
pub const LATE: &str = "9999-12-31T23:59:59Z";

/// Two tenants, each with all rights in a namespace of its own, and a policy with a parameter for the quiet one.
pub struct Gateway {
    pub proxy: Proxy,
    plane: ControlPlane,
}

fn object(kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

pub fn map(name: &str) -> Value {
    object("ConfigMap", name, json!({"data": {"a": "1"}}))
}

pub fn hostile() -> User {
    User::named("mallory", "tenants")
}

pub fn quiet() -> User {
    User::named("bob", "tenants")
}

impl Gateway {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// As [`Self::start`], with more flags of the proxy.
    fn with(flags: &[&str]) -> Self {
        let plane = ControlPlane::start("hostile", &only(&[]));
        let sends = |request: Request| {
            let answer = plane.send(&User::admin(), request);
            assert!(answer.status < 300, "{}", answer.text());
        };
        for (namespace, user) in [("hostile", "mallory"), ("quiet", "bob")] {
            sends(post("/api/v1/namespaces", &object("Namespace", namespace, json!({}))));
            let at = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
            let rules = json!([{"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["*"]}]);
            let version = json!({"apiVersion": "rbac.authorization.k8s.io/v1"});
            let mut role = object("Role", "tenant", json!({ "rules": rules }));
            role.as_object_mut().unwrap().extend(version.as_object().unwrap().clone());
            sends(post(&format!("{at}/roles"), &role));
            let mut binding = object(
                "RoleBinding",
                "tenant",
                json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}),
            );
            binding.as_object_mut().unwrap().extend(version.as_object().unwrap().clone());
            sends(post(&format!("{at}/rolebindings"), &binding));
            let at = format!("/api/v1/namespaces/{namespace}");
            sends(post(&format!("{at}/serviceaccounts"), &object("ServiceAccount", "default", json!({}))));
            sends(post(&format!("{at}/configmaps"), &map("own")));
            sends(post(
                &format!("{at}/secrets"),
                &object("Secret", "own", json!({"stringData": {"password": "of-bob"}})),
            ));
        }
        sends(post(
            &format!("{QUIET}/configmaps"),
            &object("ConfigMap", "forbidden", json!({"data": {"name": "evil"}})),
        ));
        let rules =
            json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]);
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "quiet"}});
        let of = |kind: &str, spec: Value| {
            let api_version = "admissionregistration.k8s.io/v1";
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "names"}, "spec": spec})
        };
        sends(post(
            &format!("{REGISTRATIONS}/validatingadmissionpolicies"),
            &of(
                "ValidatingAdmissionPolicy",
                json!({"failurePolicy": "Fail", "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                    "matchConstraints": {"resourceRules": rules, "namespaceSelector": selector},
                    "validations": [{"expression": "object.metadata.name != params.data.name", "message": "a forbidden name"}]}),
            ),
        ));
        sends(post(
            &format!("{REGISTRATIONS}/validatingadmissionpolicybindings"),
            &of(
                "ValidatingAdmissionPolicyBinding",
                json!({"policyName": "names", "validationActions": ["Deny"],
                    "paramRef": {"name": "forbidden", "namespace": "quiet", "parameterNotFoundAction": "Deny"}}),
            ),
        ));
        let plugins = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
        let proxy = Proxy::before(&plane, &[&[plugins][..], flags].concat());
        let gateway = Self { proxy, plane };
        eventually("a policy that is enforced", || (gateway.forbidden().status == 422).then_some(()));
        gateway
    }

    /// A create by the quiet tenant that the policy refuses.
    fn forbidden(&self) -> Answer {
        self.proxy.send(&quiet(), post(&format!("{QUIET}/configmaps?dryRun=All"), &map("evil")))
    }

    /// Checks that the quiet tenant is served over a connection of its own, that the policy applies to it, and that its objects are
    /// unchanged.
    fn serves_the_quiet_tenant(&self, case: &str) {
        let user = quiet();
        let created = self.proxy.send(&user, post(&format!("{QUIET}/configmaps?dryRun=All"), &map("good")));
        assert_eq!(created.status, 201, "{case}: {}", created.text());
        let refused = self.forbidden();
        assert_eq!(refused.status, 422, "{case}: {}", refused.text());
        assert!(refused.message().ends_with("a forbidden name"), "{case}: {}", refused.text());
        let own = self.proxy.send(&user, get(&format!("{QUIET}/configmaps/own"))).json();
        assert_eq!((&own["data"], &own["metadata"]["labels"]), (&json!({"a": "1"}), &Value::Null), "{case}");
        let listed = self.proxy.send(&user, get(&format!("{QUIET}/configmaps"))).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(2), "{case}: {listed}");
    }
}

/// A JSON patch that moves a long list at every operation.
pub fn moving_patch(items: usize, operations: usize) -> Request {
    let mut patch = vec![json!({"op": "add", "path": "/x", "value": vec![1; items]})];
    patch.resize(operations, json!({"op": "add", "path": "/x/0", "value": 1}));
    Request::new("PATCH", &format!("{HOSTILE}/configmaps/own"))
        .body("application/json-patch+json", Value::Array(patch).to_string())
}

/// Requests of the hostile tenant that the proxy must reject, with the codes of the rejection.
pub fn refused() -> Vec<(&'static str, Request, &'static [u16])> {
    let theirs = |rest: &str| get(&format!("{QUIET}{rest}"));
    let create = |path: &str| post(path, &map("planted"));
    let maps = format!("{HOSTILE}/configmaps");
    let raw = |content_type: &str, body: String| Request::new("POST", &maps).body(content_type, body);
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let aliases: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
    let aliases = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bomb}}\na0: &a0 [x]\n{aliases}");
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice","namespace":"hostile","namespace":"quiet"}}"#;
    let moved = object("ConfigMap", "own", json!({"metadata": {"name": "own", "namespace": "quiet"}}));
    let reviewed = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "secrets"}}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let owner = json!({"metadata": {"name": "owned", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u",
        "blockOwnerDeletion": true}]}});
    let copies: Vec<Value> = (0..60).map(|_| json!({"op": "copy", "from": "/data", "path": "/data/a"})).collect();
    vec![
        ("reads a secret", theirs("/secrets/own"), &[403]),
        ("lists secrets", theirs("/secrets"), &[403]),
        ("watches everything", theirs("/configmaps?watch=1"), &[403]),
        ("lists all namespaces' objects", get("/api/v1/secrets"), &[403]),
        ("reads a log", theirs("/pods/p/log"), &[403]),
        ("opens a shell", post(&format!("{QUIET}/pods/p/exec?command=sh"), &json!({})), &[403]),
        ("reaches through a proxy", theirs("/services/s/proxy/"), &[403]),
        ("creates", create(&format!("{QUIET}/configmaps")), &[403]),
        ("tries to create", create(&format!("{QUIET}/configmaps?dryRun=All")), &[403]),
        ("replaces", put(&format!("{QUIET}/configmaps/own"), &map("own")), &[403]),
        (
            "patches",
            patch(&format!("{QUIET}/configmaps/own"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            &[403],
        ),
        ("applies", patch(&format!("{QUIET}/configmaps/own?fieldManager=m&force=true"), "apply", &map("own")), &[403]),
        ("deletes", delete(&format!("{QUIET}/configmaps/own")), &[403]),
        ("deletes all", delete(&format!("{QUIET}/configmaps")), &[403]),
        ("deletes the parameter", delete(&format!("{QUIET}/configmaps/forbidden")), &[403]),
        ("deletes the namespace", delete(QUIET), &[403]),
        ("deletes the policy", delete(&format!("{REGISTRATIONS}/validatingadmissionpolicies/names")), &[403]),
        ("takes a token", post(&format!("{QUIET}/serviceaccounts/default/token"), &token), &[403]),
        ("asks what others may", post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &reviewed), &[403]),
        ("climbs by dots", create(&format!("{HOSTILE}/../quiet/configmaps")), &[301, 400, 403, 404, 405]),
        ("climbs by escaped dots", create(&format!("{HOSTILE}/%2e%2e/quiet/configmaps")), &[301, 400, 403, 404, 405]),
        ("hides a slash", create("/api/v1/namespaces/hostile%2f..%2fquiet/configmaps"), &[400, 403, 404]),
        ("hides a query", create("/api/v1/namespaces/quiet%3f/configmaps"), &[400, 403, 404]),
        ("hides a fragment", create("/api/v1/namespaces/quiet%23/configmaps"), &[400, 403, 404]),
        ("doubles a slash", create("//api/v1/namespaces/quiet/configmaps"), &[301, 307, 308, 400, 403, 404]),
        ("is somebody else", theirs("/secrets/own").header("impersonate-user", "bob"), &[403]),
        ("is a master", theirs("/secrets/own").header("impersonate-group", "system:masters"), &[400, 403, 500]),
        (
            "is an account",
            theirs("/secrets/own").header("impersonate-user", "system:serviceaccount:quiet:default"),
            &[403],
        ),
        (
            "is a front proxy",
            theirs("/secrets/own").header("x-remote-user", "admin").header("x-remote-group", "system:masters"),
            &[403],
        ),
        (
            "has a header taken out",
            theirs("/secrets/own")
                .header("connection", "x-remote-user, impersonate-user")
                .header("x-remote-user", "admin"),
            &[400, 403],
        ),
        ("overrides the method", theirs("/configmaps/own").header("x-http-method-override", "DELETE"), &[400, 403]),
        ("names another namespace", post(&maps, &moved), &[400]),
        ("names two namespaces", raw("application/json", twice.to_owned()), &[400]),
        (
            "moves an object",
            patch(&format!("{maps}/own"), "merge", &json!({"metadata": {"namespace": "quiet"}})),
            &[400, 422],
        ),
        ("renames an object", put(&format!("{maps}/own"), &map("other")), &[400]),
        ("nests deeply", raw("application/json", deep.clone()), &[400]),
        ("nests deeply in YAML", raw("application/yaml", deep), &[400]),
        ("repeats by aliases", raw("application/yaml", aliases), &[400]),
        (
            "sends nonsense",
            raw("application/vnd.kubernetes.protobuf", "k8s\0\u{7f}\u{7f}\u{7f}\u{7f}".to_owned()),
            &[400],
        ),
        ("sends too much", raw("application/json", " ".repeat(4 << 20)), &[413]),
        ("sends another form", raw("application/x-nothing", "{}".to_owned()), &[415]),
        ("moves lists for ever", moving_patch(100_000, 9_990), &[400, 413, 422]),
        ("copies for ever", patch(&format!("{maps}/own"), "json", &json!(copies)), &[400, 413, 422]),
        ("has too many operations", moving_patch(1, 10_001), &[413]),
        ("blocks the deletion of others", post(&maps, &object("ConfigMap", "owned", owner)), &[403]),
        (
            "has a long manager",
            patch(&format!("{maps}/own?fieldManager={}", "m".repeat(200)), "merge", &json!({})),
            &[400, 422],
        ),
        ("selects nonsense", get(&format!("{maps}?labelSelector={}", "(".repeat(5_000))), &[400]),
        ("has no time", get(&format!("{maps}?timeout=nonsense")), &[200, 400]),
    ]
}

#[test]
fn requests_of_one_tenant_do_not_affect_another() {
    let gateway = Gateway::start();
    let cases = refused();
    assert!(cases.len() >= 40, "{}", cases.len());
    for (case, request, codes) in cases {
        // A closed connection is a refusal, too.
        if let Ok(answer) = gateway.proxy.try_send(&hostile(), request) {
            assert!(codes.contains(&answer.status), "{case}: {} {}", answer.status, answer.text());
            assert!(!answer.text().contains("of-bob"), "{case}: {}", answer.text());
        }
        gateway.serves_the_quiet_tenant(case);
    }
    assert!(!gateway.proxy.output().contains("of-bob"));
}

/// Objects of the hostile tenant that kube-apiserver stores.
#[test]
fn objects_of_one_tenant_do_not_affect_another() {
    let gateway = Gateway::start();
    let proxy = &gateway.proxy;
    let pills = [
        ("configmaps", object("ConfigMap", "pill", json!({"data": {"k": "v"}}))),
        ("services", object("Service", "pill", json!({"spec": {"ports": [{"port": 80}]}}))),
        ("serviceaccounts", object("ServiceAccount", "pill", json!({}))),
        ("secrets", object("Secret", "pill", json!({}))),
        (
            "resourcequotas",
            object("ResourceQuota", "pill", json!({"spec": {"hard": {"count/pods": "9223372036854775807"}}})),
        ),
        ("limitranges", object("LimitRange", "pill", json!({"spec": {"limits": []}}))),
    ];
    for (resource, mut pill) in pills {
        // A field with an owner.
        pill["metadata"]["annotations"] = json!({"k": "v"});
        let created = proxy.send(&hostile(), post(&format!("{HOSTILE}/{resource}"), &pill));
        assert_eq!(created.status, 201, "{resource}: {}", created.text());
        let late = json!([{"op": "add", "path": "/metadata/managedFields/0/time", "value": LATE},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
        let patched =
            proxy.send(&hostile(), patch(&format!("{HOSTILE}/{resource}/pill?fieldManager=other"), "json", &late));
        assert_eq!(patched.status, 200, "{resource}: {}", patched.text());
        assert!(patched.text().contains(LATE), "{resource}: {}", patched.text());
        gateway.serves_the_quiet_tenant(resource);
    }
    // The caches still follow the API server: a change of the parameter changes the refusals.
    let changed = json!({"data": {"name": "good"}});
    let answer = proxy.send(&quiet(), patch(&format!("{QUIET}/configmaps/forbidden"), "merge", &changed));
    assert_eq!(answer.status, 200, "{}", answer.text());
    eventually("a parameter that counts", || {
        let refused = proxy.send(&quiet(), post(&format!("{QUIET}/configmaps?dryRun=All"), &map("good")));
        (refused.status == 422).then_some(())
    });
}

/// Serves the quiet tenant until the attack ends, and at least three times.
fn meanwhile(gateway: &Gateway, case: &str, attack: impl FnOnce() + Send) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            attack();
            ended.store(true, Ordering::Release);
        });
        let mut served = 0;
        while served < 3 || !ended.load(Ordering::Acquire) {
            gateway.serves_the_quiet_tenant(case);
            let (code, text) = gateway.proxy.health("/readyz").unwrap_or_default();
            assert_eq!(code, 200, "{case}: {text}");
            served += 1;
        }
    });
}

#[test]
fn work_and_connections_of_one_tenant_leave_another_served() {
    let gateway = Gateway::start();
    let port = gateway.proxy.port;
    meanwhile(&gateway, "patches that move long lists", || {
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    gateway.proxy.try_send(&hostile(), moving_patch(100_000, 9_990)).map(drop).unwrap_or_default()
                });
            }
        });
    });
    let codes = [AtomicUsize::new(0), AtomicUsize::new(0)];
    meanwhile(&gateway, "made-up tokens", || {
        for number in 0..200 {
            let user = User::Token(format!("made-up-{number}"));
            let code = gateway.proxy.try_send(&user, get("/version")).map_or(0, |answer| answer.status);
            codes[usize::from(![401, 429].contains(&code))].fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(codes.map(AtomicUsize::into_inner), [200, 0], "401 or 429, and anything else");
    // Sockets with half a request, on the port of probes.
    let health = gateway.proxy.health_port();
    let half: Vec<TcpStream> = (0..130)
        .map(|_| {
            let mut socket = TcpStream::connect(("127.0.0.1", health)).unwrap();
            socket.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
            socket
        })
        .collect();
    meanwhile(&gateway, "half requests to the probes' port", || {});
    drop(half);
    let idle: Vec<_> =
        (0..300).map(|_| crate::harness::block_on(connect(port, &User::Anonymous, b"h2")).unwrap()).collect();
    meanwhile(&gateway, "idle connections", || {});
    drop(idle);
    meanwhile(&gateway, "watches that are cancelled", || {
        for _ in 0..100 {
            drop(gateway.proxy.stream(&hostile(), get(&format!("{HOSTILE}/configmaps?watch=1")).over_http2()));
        }
    });
    let upgrades: Vec<_> = (0..50)
        .map(|_| {
            let upgrade = get(&format!("{HOSTILE}/configmaps?watch=1"))
                .header("connection", "Upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            gateway.proxy.stream(&hostile(), upgrade)
        })
        .collect();
    meanwhile(&gateway, "watches over WebSockets", || {});
    drop(upgrades);
}

/// Responses of which the client reads only the head, over `connections` connections with `streams` streams each.
pub fn unread_answers(gateway: &Gateway, connections: usize, streams: usize) -> impl Sized {
    (0..connections)
        .map(|_| {
            crate::harness::block_on(async {
                let io = TokioIo::new(connect(gateway.proxy.port, &hostile(), b"h2").await.unwrap());
                // With the smallest window, a response stays in the proxy.
                let mut builder = http2::Builder::new(TokioExecutor::new());
                let builder = builder.initial_stream_window_size(1).initial_connection_window_size(65_535);
                let (sender, connection) = builder.handshake(io).await.unwrap();
                tokio::spawn(connection);
                let answers = (0..streams).map(|_| {
                    let mut sender = sender.clone();
                    async move {
                        let uri = format!("https://127.0.0.1{HOSTILE}/configmaps");
                        let request = http::Request::get(uri).body(Full::new(Bytes::new())).unwrap();
                        let head = tokio::time::timeout(patient(Duration::from_secs(5)), sender.send_request(request));
                        // The body stays unread and alive together with the response.
                        head.await.ok().and_then(Result::ok).map(|answer| answer.into_body().boxed())
                    }
                });
                futures_util::future::join_all(answers).await
            })
        })
        .collect::<Vec<_>>()
}

#[test]
fn answers_that_one_tenant_does_not_read_leave_another_served() {
    let gateway = Gateway::start();
    let answers = unread_answers(&gateway, 4, 200);
    meanwhile(&gateway, "answers that nobody reads", || {});
    drop(answers);
}

#[test]
fn curl_receives_every_early_answer_over_http2() {
    let gateway = Gateway::start();
    let [admin, nobody] = [Some(("admin", "system:masters")), None];
    let body = map("early").to_string();
    for (path, user, expected) in [
        (format!("{QUIET}/configmaps"), nobody, "401"),
        (format!("{HOSTILE}/configmaps"), Some(("bob", "tenants")), "403"),
        ("/apis/nowhere.dev/v1/things".to_owned(), admin, "404"),
        ("/nowhere".to_owned(), admin, "404"),
    ] {
        for number in 0..12 {
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--http2", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"]);
            curl.args(["-H", "Content-Type: application/json", "-d", &body]).arg("--cacert").arg(pki().ca());
            if let Some((name, group)) = user {
                let pair = pki().client(name, group);
                curl.arg("--cert").arg(&pair.certificate).arg("--key").arg(&pair.key);
            }
            let output = curl.arg(format!("{}{path}", gateway.proxy.url())).output().unwrap();
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(text, format!("2 {expected}"), "{path}, request {number}");
        }
    }
}

/// The tokens of service accounts that the hostile tenant makes, which may write as the tenant does.
fn accounts(gateway: &Gateway, count: usize) -> Vec<String> {
    let version = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": format!("{version}/v1"), "kind": "RoleBinding", "metadata": {"name": "accounts"},
        "roleRef": {"apiGroup": version, "kind": "Role", "name": "tenant"},
        "subjects": [{"apiGroup": version, "kind": "Group", "name": "system:serviceaccounts:hostile"}]});
    let bound = gateway
        .plane
        .send(&User::admin(), post(&format!("/apis/{version}/v1/namespaces/hostile/rolebindings"), &binding));
    assert_eq!(bound.status, 201, "{}", bound.text());
    let sends = |path: &str, object: &Value| {
        let answer = gateway.proxy.send(&hostile(), post(&format!("{HOSTILE}/serviceaccounts{path}"), object));
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    };
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let accounts = (0..count).map(|number| {
        let name = format!("account-{number}");
        sends("", &object("ServiceAccount", &name, json!({})));
        sends(&format!("/{name}/token"), &token)["status"]["token"].as_str().unwrap().to_owned()
    });
    let accounts: Vec<String> = accounts.collect();
    eventually("accounts that may write", || {
        let create = post(&format!("{HOSTILE}/configmaps?dryRun=All"), &map("of-account"));
        let answer = gateway.proxy.send(&User::Token(accounts.last().unwrap().clone()), create);
        (answer.status == 201).then_some(())
    });
    accounts
}

/// The writes that are in flight, or whose bodies arrive.
fn writes_in_flight(gateway: &Gateway) -> usize {
    let (_, text) = gateway.proxy.health("/metrics").unwrap();
    let counts = ["write", "body"].map(|kind| {
        let name = format!("kube_admission_proxy_requests_inflight{{kind=\"{kind}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<usize>().ok()).unwrap_or_default()
    });
    counts.iter().sum()
}

#[test]
fn accounts_and_addresses_of_one_tenant_leave_another_served() {
    let gateway = Gateway::with(&["--max-mutating-requests-inflight=16"]);
    let port = gateway.proxy.port;
    // Each account begins writes whose bodies never end.
    let mut stalled = Vec::new();
    for token in accounts(&gateway, 6) {
        let head = format!(
            "POST {HOSTILE}/configmaps HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
        );
        for _ in 0..8 {
            let mut io = crate::harness::block_on(connect(port, &User::Anonymous, b"http/1.1")).unwrap();
            crate::harness::block_on(io.write_all(head.as_bytes())).unwrap();
            stalled.push(io);
        }
    }
    eventually("writes in flight", || (writes_in_flight(&gateway) >= 16).then_some(()));
    meanwhile(&gateway, "bodies that accounts do not send", || {});
    drop(stalled);
    // Sockets from several addresses, on which nothing is sent.
    let silent = |port: u16, count: u8| -> Vec<_> {
        let from = (2..2 + count).map(|last| async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 2 + last % 8], 0).into()).unwrap();
            socket.connect(([127, 0, 0, 1], port).into()).await.unwrap()
        });
        from.map(crate::harness::block_on).collect()
    };
    let mut sockets = silent(gateway.proxy.health_port(), 250);
    for _ in 0..3 {
        sockets.extend(silent(port, 250));
    }
    meanwhile(&gateway, "silent sockets", || {});
    drop(sockets);
}

/// Opens connections of a user that send the beginning of a request, and no end, as far as the proxy reads it.
fn begun(gateway: &Gateway, user: &User, count: usize, beginning: &[u8]) -> impl Sized {
    crate::harness::block_on(async {
        let send = async || {
            let mut stream = connect(gateway.proxy.port, user, b"http/1.1").await.unwrap();
            // The proxy does not read more than it has room for, and ends some of the connections.
            let _sent = tokio::time::timeout(patient(Duration::from_secs(2)), stream.write_all(beginning)).await;
            stream
        };
        futures_util::future::join_all((0..count).map(|_| send())).await
    })
}

#[test]
fn heads_and_bodies_that_one_tenant_does_not_end_take_a_bounded_memory() {
    let gateway = Gateway::with(&["--memory-limit=256Mi"]);
    gateway.serves_the_quiet_tenant("before");
    let before = gateway.proxy.resident_bytes();
    let head = format!("GET /version HTTP/1.1\r\nHost: localhost\r\nX: {}", "a".repeat(900_000));
    let (nobody, mallory) = (User::Anonymous, hostile());
    let heads = begun(&gateway, &nobody, 60, head.as_bytes());
    let body = format!(
        "POST {HOSTILE}/configmaps?dryRun=All HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: 3000000\r\n\r\n{{\"metadata\":{{\"name\":\"{}",
        "a".repeat(2_900_000)
    );
    let bodies = begun(&gateway, &mallory, 40, body.as_bytes());
    let grown = gateway.proxy.resident_bytes().saturating_sub(before) >> 20;
    assert!(grown < 90, "{grown} MiB");
    meanwhile(&gateway, "requests without an end", || {});
    drop((heads, bodies));
}
