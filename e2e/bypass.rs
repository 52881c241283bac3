//! No write gets past admission: everything is denied here, so whatever comes through has slipped by.

use crate::harness::{Api, ControlPlane, Proxy, Request, User, delete, get, only, post, upstream};
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

/// A trick's name, and the request.
type Trick = (String, Request);

/// Every way around that somebody thought of, for the ConfigMaps of a namespace.
fn attempts(namespace: &str) -> Vec<Trick> {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let body = config_map().to_string();
    let named = |(name, request): (&str, Request)| (name.to_owned(), request);
    let mut attempts: Vec<Trick> =
        [("a create", post(&maps, &config_map())), ("a create over HTTP/2", post(&maps, &config_map()).over_http2())]
            .map(named)
            .into();
    attempts.extend(forms(&maps, &body));
    attempts.extend(methods(&maps, &body));
    attempts.extend(
        paths(&maps)
            .map(|(name, path)| named((name, Request::new("POST", &path).body("application/json", body.clone())))),
    );
    let create = || post(&maps, &config_map());
    let headers = [
        ("a connection that becomes HTTP/2", create().header("connection", "upgrade").header("upgrade", "h2c")),
        (
            "a connection that becomes a WebSocket",
            create().header("connection", "upgrade").header("upgrade", "websocket"),
        ),
        ("headers of one connection only", create().header("connection", "content-type, content-length")),
        ("a body that is said to be packed", create().header("content-encoding", "gzip")),
        ("another URL in a header", create().header("x-original-url", "/version").header("x-rewrite-url", "/version")),
        ("another host", create().header("x-forwarded-host", "elsewhere").header("forwarded", "host=elsewhere")),
        ("a form of answer that there is not", create().header("accept", "application/json;as=Foo;v=v1;g=meta.k8s.io")),
        ("an answer that nobody has", create().header("accept", "text/html")),
        ("an answer in protobuf", create().header("accept", "application/vnd.kubernetes.protobuf")),
        ("an answer in YAML", create().header("accept", "application/yaml")),
    ];
    attempts.extend(headers.map(named));
    attempts
}

/// Bodies in other forms, and requests that name the object.
fn forms(maps: &str, body: &str) -> Vec<Trick> {
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slipped}\n";
    let apply = format!("{maps}/slipped?fieldManager=me&force=true");
    let create = |content_type: &str, body: Vec<u8>| Request::new("POST", maps).body(content_type, body);
    [
        ("YAML", create("application/yaml", yaml.into())),
        ("YAML of two documents", create("application/yaml", format!("{yaml}---\n{yaml}").into())),
        ("protobuf", create("application/vnd.kubernetes.protobuf", protobuf())),
        (
            "protobuf with more behind it",
            create("application/vnd.kubernetes.protobuf", [protobuf(), b"\x3a\x01x".to_vec()].concat()),
        ),
        ("CBOR", create("application/cbor", vec![0xd9, 0xd9, 0xf7, 0xa0])),
        ("plain text", create("text/plain", body.into())),
        ("no content type", create("", body.into())),
        ("a content type with parameters", create("application/json; stream=watch", body.into())),
        ("a content type in capitals", create("APPLICATION/JSON", body.into())),
        ("a parameter said twice", create("application/json; a=b; a=c", body.into())),
        ("two JSON documents", create("application/json", format!("{body}{body}").into())),
        ("a byte order mark", create("application/json", format!("\u{feff}{body}").into())),
        ("nothing", create("application/json", Vec::new())),
        (
            "a list",
            create("application/json", format!(r#"{{"kind":"List","apiVersion":"v1","items":[{body}]}}"#).into()),
        ),
        ("an apply", Request::new("PATCH", &apply).body("application/apply-patch+yaml", body.to_owned())),
        ("an apply in CBOR", Request::new("PATCH", &apply).body("application/apply-patch+cbor", vec![0xa0])),
        (
            "a patch of two types",
            Request::new("PATCH", &apply).body("text/plain, application/merge-patch+json", body.to_owned()),
        ),
        ("an update", Request::new("PUT", &format!("{maps}/slipped")).body("application/json", body.to_owned())),
    ]
    .map(|(name, request)| (name.to_owned(), request))
    .into()
}

/// Methods that are none, and those that stand in headers.
fn methods(maps: &str, body: &str) -> Vec<Trick> {
    let mut tricks = Vec::new();
    for method in ["post", "Post", "CREATE", "PROPFIND", "CONNECT", "OPTIONS", "TRACE", "HEAD"] {
        tricks.push((
            format!("the method {method}"),
            Request::new(method, maps).body("application/json", body.to_owned()),
        ));
    }
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        let request = Request::new("GET", maps).header(name, "POST").body("application/json", body.to_owned());
        tricks.push((format!("a GET with {name}"), request.clone()));
        tricks.push((format!("a GET with {name} over HTTP/2"), request.over_http2()));
    }
    tricks
}

/// Paths and queries that two readers could take for different ones.
fn paths(maps: &str) -> impl Iterator<Item = (&'static str, String)> {
    let with = |part: &str, other: &str| maps.replace(part, other);
    [
        ("a slash before the path", format!("/{maps}")),
        ("a slash behind the path", format!("{maps}/")),
        ("two slashes behind the path", format!("{maps}//")),
        ("two slashes", with("/configmaps", "//configmaps")),
        ("a dot", with("/configmaps", "/./configmaps")),
        ("two dots", with("/configmaps", "/x/../configmaps")),
        ("two dots, escaped", with("/configmaps", "/%2e%2e/configmaps")),
        ("a slash, escaped", with("/configmaps", "%2fconfigmaps")),
        ("a backslash, escaped", with("/configmaps", "%5cconfigmaps")),
        ("a letter, escaped", with("/configmaps", "/%63onfigmaps")),
        ("a parameter of the path", with("/configmaps", "/configmaps;x=y")),
        ("a NUL", with("/configmaps", "/configmaps%00")),
        ("a space", with("/configmaps", "/configmaps%20")),
        ("the resource in capitals", with("/configmaps", "/ConfigMaps")),
        ("the resource in the singular", with("/configmaps", "/configmap")),
        ("the prefix in capitals", with("/api/", "/API/")),
        ("two slashes behind the prefix", with("/api/", "/api//")),
        ("a watch", with("/api/v1", "/api/v1/watch")),
        ("a proxy", with("/api/v1", "/api/v1/proxy")),
        ("the core group among the others", with("/api/v1", "/apis/v1")),
        ("an empty group", with("/api/v1", "/apis//v1")),
        ("another version", with("/api/v1", "/api/v2")),
        ("out of /version", with("/api/v1", "/version/../api/v1")),
        ("out of /healthz", with("/api/v1", "/healthz/../api/v1")),
        ("out of the OpenAPI document", with("/api/v1", "/openapi/v3/../../api/v1")),
        ("a create that watches", format!("{maps}?watch=true")),
        ("an empty dry run", format!("{maps}?dryRun=")),
        ("a dry run of None", format!("{maps}?dryRun=None")),
        ("a method in the query", format!("{maps}?_method=GET")),
        ("a time that is none", format!("{maps}?timeout=5")),
    ]
    .into_iter()
}

/// Tricks that a kube-apiserver takes for something else than the proxy does, which refuses what two readers could take for
/// two things.
const REFUSED_OUTRIGHT: [&str; 4] =
    ["two slashes behind the path", "a slash, escaped", "a backslash, escaped", "an empty group"];

fn nothing_slips_past(proxy: &Proxy, behind: &Api, namespace: &str) {
    let stored = || {
        let list = behind.send(&User::admin(), get(&format!("/api/v1/namespaces/{namespace}/configmaps")));
        list.json()["items"].as_array().unwrap().len()
    };
    for user in [User::admin(), User::developer()] {
        for (name, request) in attempts(namespace) {
            let what = format!("{name}: {} {} {:?}", request.method, request.path, request.headers);
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
    for (_, request) in attempts {
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

#[test]
fn every_trick_has_the_code_that_a_real_server_gives_it() {
    let reference = ControlPlane::start("tricked", &only(&[])).restarted(&only(&["AlwaysDeny"]));
    let proxy = Proxy::before(
        upstream(),
        &["--enable-admission-plugins=AlwaysDeny", "--disable-admission-plugins=NamespaceLifecycle"],
    );
    let code = |api: &Api, request: Request| api.try_send(&User::admin(), request).map_or(0, |answer| answer.status);
    let mut differences = Vec::new();
    for (name, request) in attempts("default") {
        let (expected, found) = (code(&reference, request.clone()), code(&proxy, request));
        if expected != found && !REFUSED_OUTRIGHT.contains(&&*name) {
            differences.push(format!("{name}: {expected} there, {found} here"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
