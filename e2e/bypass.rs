//! No write gets past admission: everything is denied here, so whatever comes through has slipped by.

use crate::harness::{Api, Proxy, Request, User, delete, get, post, upstream};
use serde_json::{Value, json};

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slipped"}, "data": {"k": "v"}})
}

/// A ConfigMap as kube-apiserver's protobuf: `k8s\0`, a `runtime.Unknown` of its type and the object's bytes.
fn protobuf() -> Vec<u8> {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }
    let type_meta = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    let object = field(1, &field(1, b"slipped"));
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &object)].concat()
}

/// Every way around that somebody thought of, for the ConfigMaps of a namespace.
fn attempts(namespace: &str) -> Vec<Request> {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let body = config_map().to_string();
    let json = "application/json";
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slipped}\n";
    let apply = format!("{maps}/slipped?fieldManager=me&force=true");
    let mut attempts = vec![
        post(&maps, &config_map()),
        post(&maps, &config_map()).over_http2(),
        Request::new("POST", &maps).body("application/yaml", yaml),
        Request::new("POST", &maps).body("application/vnd.kubernetes.protobuf", protobuf()),
        Request::new("POST", &maps).body("application/cbor", vec![0xd9, 0xd9, 0xf7, 0xa0]),
        Request::new("POST", &maps).body("text/plain", body.clone()),
        Request::new("POST", &maps).body("", body.clone()),
        Request::new("POST", &maps).body("application/json; stream=watch", body.clone()),
        Request::new("PATCH", &apply).body("application/apply-patch+yaml", body.clone()),
        Request::new("PATCH", &apply).body("application/apply-patch+cbor", vec![0xa0]),
        Request::new("PUT", &format!("{maps}/slipped")).body(json, body.clone()),
    ];
    for method in ["post", "Post", "CREATE", "PROPFIND", "CONNECT", "OPTIONS", "TRACE", "HEAD"] {
        attempts.push(Request::new(method, &maps).body(json, body.clone()));
    }
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        attempts.push(Request::new("GET", &maps).header(name, "POST").body(json, body.clone()));
        attempts.push(Request::new("GET", &maps).header(name, "POST").body(json, body.clone()).over_http2());
    }
    let paths = [
        format!("/{maps}"),
        format!("{maps}/"),
        maps.replace("/configmaps", "//configmaps"),
        maps.replace("/configmaps", "/./configmaps"),
        maps.replace("/configmaps", "/x/../configmaps"),
        maps.replace("/configmaps", "/%2e%2e/configmaps"),
        maps.replace("/configmaps", "%2fconfigmaps"),
        maps.replace("/configmaps", "/%63onfigmaps"),
        maps.replace("/configmaps", "/configmaps;x=y"),
        maps.replace("/configmaps", "/configmaps%00"),
        maps.replace("/api/", "/API/"),
        maps.replace("/api/", "/api//"),
        maps.replace("/api/v1", "/api/v1/watch"),
        maps.replace("/api/v1", "/api/v1/proxy"),
        maps.replace("/api/v1", "/apis/v1"),
        maps.replace("/api/v1", "/version/../api/v1"),
        maps.replace("/api/v1", "/healthz/../api/v1"),
        maps.replace("/api/v1", "/openapi/v3/../../api/v1"),
        format!("{maps}?watch=true"),
        format!("{maps}?dryRun="),
        format!("{maps}?dryRun=None"),
        format!("{maps}?_method=GET"),
    ];
    attempts.extend(paths.iter().map(|path| Request::new("POST", path).body(json, body.clone())));
    // A connection that asks to become another, and a request within the request.
    attempts.push(post(&maps, &config_map()).header("connection", "upgrade").header("upgrade", "h2c"));
    attempts.push(post(&maps, &config_map()).header("connection", "upgrade").header("upgrade", "websocket"));
    attempts.push(post(&maps, &config_map()).header("connection", "content-type, content-length"));
    attempts.push(post(&maps, &config_map()).header("content-encoding", "gzip"));
    attempts.push(post(&maps, &config_map()).header("x-original-url", "/version").header("x-rewrite-url", "/version"));
    attempts
}

fn nothing_slips_past(proxy: &Proxy, behind: &Api, namespace: &str) {
    let stored = || {
        let list = behind.send(&User::admin(), get(&format!("/api/v1/namespaces/{namespace}/configmaps")));
        list.json()["items"].as_array().unwrap().len()
    };
    for user in [User::admin(), User::developer()] {
        for request in attempts(namespace) {
            let what = format!("{} {} {:?}", request.method, request.path, request.headers);
            let reads = matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
            // A connection that is closed in answer to nonsense is an answer too.
            if let Ok(answer) = proxy.try_send(&user, request) {
                assert!(reads || answer.status >= 400, "{what}: {} {}", answer.status, answer.text());
            }
            assert_eq!(stored(), 0, "{what}: slipped past");
        }
    }
}

#[test]
fn many_of_the_attempts_do_write_where_nothing_is_denied() {
    let namespace = upstream().namespace("bypass");
    let slipped = format!("/api/v1/namespaces/{namespace}/configmaps/slipped");
    let attempts = attempts(&namespace);
    let mut written = 0;
    for request in attempts {
        let _ = upstream().try_send(&User::admin(), request);
        written += u32::from(upstream().send(&User::admin(), delete(&slipped)).status == 200);
    }
    assert!(written >= 17, "only {written}");
}

#[test]
fn no_write_slips_past_admission_to_a_real_server() {
    let namespace = upstream().namespace("bypass");
    let proxy = Proxy::before(upstream(), &["--enable-admission-plugins=AlwaysDeny"]);
    nothing_slips_past(&proxy, upstream(), &namespace);
}

#[test]
fn no_write_slips_past_admission_to_the_embedded_server() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=AlwaysDeny"]);
    nothing_slips_past(&proxy, &proxy, "default");
}
