//! Attempts to bypass admission, as requests that a client can send.

use crate::harness::{Request, field, post, protobuf_of};
use kubernetes_object::cbor::encode as cbor;
use serde_json::{Value, json};

/// The object that must not be stored.
pub fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slipped"}, "data": {"k": "v"}})
}

/// A ConfigMap in kube-apiserver's protobuf: `k8s\0`, a `runtime.Unknown` with its type and the object's bytes.
fn protobuf() -> Vec<u8> {
    protobuf_of("v1", "ConfigMap", &field(1, &field(1, b"slipped")))
}

/// Text with two bytes for each character, the low byte first, after a byte order mark.
fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().fold(vec![0xff, 0xfe], |mut bytes, unit| {
        bytes.extend(unit.to_le_bytes());
        bytes
    })
}

/// A trick's name, and the request.
pub type Trick = (String, Request);

/// All attempts, for the ConfigMaps of a namespace.
pub fn attempts(namespace: &str) -> Vec<Trick> {
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
        ("two content types", create().header("content-type", "application/yaml")),
        ("two content types, of which only one is read", create().header("content-type", "text/plain")),
        ("an expectation", create().header("expect", "100-continue")),
        ("trailers that are taken", create().header("te", "trailers")),
        ("a path that a gateway took away", create().header("x-forwarded-prefix", "/version")),
        (
            "a path in a header",
            create().header("x-forwarded-uri", "/version").header("x-envoy-original-path", "/version"),
        ),
        ("a host over HTTP/2", create().header("host", "elsewhere").over_http2()),
        ("a front proxy's word", create().header("x-remote-user", "admin").header("x-remote-group", "system:masters")),
        ("a front proxy's word, with underscores", create().header("x_remote_user", "admin")),
        (
            "a front proxy's word of one connection only",
            create().header("connection", "x-remote-user").header("x-remote-user", "admin"),
        ),
        ("an impersonated administrator", create().header("Impersonate-User", "admin")),
        ("an impersonated administrator, with an underscore", create().header("impersonate_user", "admin")),
        (
            "an impersonated administrator of one connection only",
            create().header("connection", "impersonate-user").header("impersonate-user", "admin"),
        ),
        ("two impersonated users", create().header("impersonate-user", "nobody").header("impersonate-user", "admin")),
        ("an impersonated group alone", create().header("impersonate-group", "system:masters")),
        ("a token of nobody's", create().header("authorization", "Bearer nobody")),
        ("a password", create().header("authorization", "Basic YWRtaW46YWRtaW4=")),
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
        ("CBOR", create("application/cbor", cbor(&config_map()))),
        ("CBOR without its mark", create("application/cbor", cbor(&config_map())[3..].to_vec())),
        ("CBOR of two items", create("application/cbor", [cbor(&config_map()), cbor(&config_map())].concat())),
        ("CBOR in a tag", create("application/cbor", [b"\xc6".to_vec(), cbor(&config_map())].concat())),
        ("CBOR with a key twice", create("application/cbor", cbor_with(b"\x48metadata\xa1\x44name\x45other"))),
        ("CBOR with a key in text, too", create("application/cbor", cbor_with(b"\x68metadata\xa1\x64name\x65other"))),
        (
            "CBOR with a key in chunks, too",
            create("application/cbor", cbor_with(b"\x5f\x44meta\x44data\xff\xa1\x44name\x45other")),
        ),
        ("CBOR with the kind twice", create("application/cbor", cbor_with(b"\x64kind\x66Secret"))),
        ("CBOR with a kind that has a tag", create("application/cbor", cbor_with(b"\xd6\x44kind\x46Secret"))),
        ("CBOR that is said to be JSON", create("application/json", cbor(&config_map()))),
        ("JSON that is said to be CBOR", create("application/cbor", body.into())),
        ("plain text", create("text/plain", body.into())),
        ("no content type", create("", body.into())),
        ("a content type with parameters", create("application/json; stream=watch", body.into())),
        ("a content type in capitals", create("APPLICATION/JSON", body.into())),
        ("a parameter said twice", create("application/json; a=b; a=c", body.into())),
        ("two JSON documents", create("application/json", format!("{body}{body}").into())),
        ("a byte order mark", create("application/json", format!("\u{feff}{body}").into())),
        ("nothing", create("application/json", Vec::new())),
        ("a NUL behind the document", create("application/json", format!("{body}\0").into())),
        ("a comment", create("application/json", format!("/* x */ {body}").into())),
        ("JSON of two bytes a character", create("application/json", utf16(body))),
        ("YAML of two bytes a character", create("application/yaml", utf16(yaml))),
        ("a byte order mark before YAML", create("application/yaml", format!("\u{feff}{yaml}").into())),
        ("YAML with an anchor", create("application/yaml", format!("{yaml}data: {{a: &a x, b: *a}}\n").into())),
        ("YAML with a merge", create("application/yaml", format!("x: &x {{a: b}}\n{yaml}data: {{<<: *x}}\n").into())),
        (
            "YAML with tags",
            create("application/yaml", format!("{yaml}data: {{a: !!str 1, b: !!binary eA==}}\n").into()),
        ),
        ("YAML with a directive", create("application/yaml", format!("%YAML 1.1\n---\n{yaml}").into())),
        ("YAML with a key twice", create("application/yaml", format!("{yaml}kind: ConfigMap\n").into())),
        ("JSON that is said to be YAML", create("application/yaml", body.into())),
        ("YAML that is said to be JSON", create("application/json", yaml.into())),
        ("a key twice", create("application/json", body.replace("{\"k\"", "{\"k\":\"w\",\"k\"").into())),
        ("the kind twice", create("application/json", body.replacen('{', "{\"kind\":\"Secret\",", 1).into())),
        ("the kind in capitals too", create("application/json", body.replacen('{', "{\"KIND\":\"Secret\",", 1).into())),
        ("metadata in capitals", create("application/json", body.replace("\"metadata\"", "\"Metadata\"").into())),
        ("a number that is too large", create("application/json", body.replace("\"v\"", "1e400").into())),
        ("no number", create("application/json", body.replace("\"v\"", "NaN").into())),
        ("a number for a text", create("application/json", body.replace("\"v\"", "1").into())),
        ("half of a character", create("application/json", body.replace("\"v\"", "\"\\ud800\"").into())),
        ("an escaped key", create("application/json", body.replace("\"name\"", "\"n\\u0061me\"").into())),
        ("another kind", create("application/json", body.replace("ConfigMap", "Secret").into())),
        ("another API", create("application/json", body.replace("\"v1\"", "\"apps/v1\"").into())),
        ("no kind", create("application/json", body.replace("\"kind\":\"ConfigMap\"", "\"kind\":\"\"").into())),
        (
            "another namespace",
            create("application/json", body.replace("\"name\"", "\"namespace\":\"other\",\"name\"").into()),
        ),
        ("a generated name", create("application/json", body.replace("\"name\"", "\"generateName\"").into())),
        ("no name", create("application/json", body.replace("\"name\"", "\"x\"").into())),
        (
            "protobuf of another kind",
            create(
                "application/vnd.kubernetes.protobuf",
                protobuf_of("v1", "Secret", &field(1, &field(1, b"slipped"))),
            ),
        ),
        (
            "protobuf of another API",
            create(
                "application/vnd.kubernetes.protobuf",
                protobuf_of("apps/v1", "ConfigMap", &field(1, &field(1, b"slipped"))),
            ),
        ),
        (
            "protobuf that does not say its kind",
            create("application/vnd.kubernetes.protobuf", protobuf_of("", "", &field(1, &field(1, b"slipped")))),
        ),
        (
            "protobuf with its metadata twice",
            create(
                "application/vnd.kubernetes.protobuf",
                protobuf_of(
                    "v1",
                    "ConfigMap",
                    &[field(1, &field(1, b"other")), field(1, &field(1, b"slipped"))].concat(),
                ),
            ),
        ),
        (
            "protobuf with an unknown field",
            create(
                "application/vnd.kubernetes.protobuf",
                protobuf_of("v1", "ConfigMap", &[field(1, &field(1, b"slipped")), field(15, b"x")].concat()),
            ),
        ),
        (
            "JSON in protobuf's envelope",
            create(
                "application/vnd.kubernetes.protobuf",
                [b"k8s\0".to_vec(), field(2, b"{}"), field(4, b"application/json")].concat(),
            ),
        ),
        (
            "protobuf without an envelope",
            create("application/vnd.kubernetes.protobuf", field(1, &field(1, b"slipped"))),
        ),
        ("protobuf that is said to be JSON", create("application/json", protobuf())),
        ("a form", create("application/x-www-form-urlencoded", b"kind=ConfigMap".to_vec())),
        (
            "an update under another name",
            Request::new("PUT", &format!("{maps}/other")).body("application/json", body.to_owned()),
        ),
        ("an update of the collection", Request::new("PUT", maps).body("application/json", body.to_owned())),
        (
            "a create under a name",
            Request::new("POST", &format!("{maps}/slipped")).body("application/json", body.to_owned()),
        ),
        (
            "a patch of what is not there",
            Request::new("PATCH", &format!("{maps}/slipped")).body("application/merge-patch+json", body.to_owned()),
        ),
        (
            "an apply of two documents",
            Request::new("PATCH", &apply).body("application/apply-patch+yaml", format!("{yaml}---\n{yaml}")),
        ),
        (
            "an apply with an anchor",
            Request::new("PATCH", &apply)
                .body("application/apply-patch+yaml", format!("{yaml}data: {{a: &a x, b: *a}}\n")),
        ),
        (
            "an apply under another name",
            Request::new("PATCH", &apply.replace("slipped", "other"))
                .body("application/apply-patch+yaml", yaml.to_owned()),
        ),
        (
            "a list",
            create("application/json", format!(r#"{{"kind":"List","apiVersion":"v1","items":[{body}]}}"#).into()),
        ),
        ("an apply", Request::new("PATCH", &apply).body("application/apply-patch+yaml", body.to_owned())),
        ("an apply in CBOR", Request::new("PATCH", &apply).body("application/apply-patch+cbor", cbor(&config_map()))),
        (
            "an apply in CBOR with a key twice",
            Request::new("PATCH", &apply).body("application/apply-patch+cbor", cbor_with(b"\x64kind\x66Secret")),
        ),
        (
            "an update in CBOR",
            Request::new("PUT", &format!("{maps}/slipped")).body("application/cbor", cbor(&config_map())),
        ),
        (
            "a patch of two types",
            Request::new("PATCH", &apply).body("text/plain, application/merge-patch+json", body.to_owned()),
        ),
        ("an update", Request::new("PUT", &format!("{maps}/slipped")).body("application/json", body.to_owned())),
    ]
    .map(|(name, request)| (name.to_owned(), request))
    .into()
}

/// The object in CBOR, with another field at its end.
fn cbor_with(field: &[u8]) -> Vec<u8> {
    let mut body = cbor(&config_map());
    // The head of the map has a higher count.
    body[3] += 1;
    body.extend_from_slice(field);
    body
}

/// Methods that do not exist, and method override headers.
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

/// Paths and queries that two parsers could interpret differently.
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
        ("an overlong slash", with("/configmaps", "%c0%afconfigmaps")),
        ("overlong dots", with("/configmaps", "/%c0%ae%c0%ae/configmaps")),
        ("a slash, escaped twice", with("/configmaps", "%252fconfigmaps")),
        ("an escape that is none", with("/configmaps", "/configmaps%zz")),
        ("an escape of another kind", with("/configmaps", "%u002fconfigmaps")),
        ("two dots with a parameter", with("/configmaps", "/..;/configmaps")),
        ("a tab, escaped", with("/configmaps", "/configmaps%09")),
        ("a line, escaped", with("/configmaps", "/configmaps%0d%0ax:y")),
        ("a question mark, escaped", with("/configmaps", "/configmaps%3fx")),
        ("a hash sign, escaped", with("/configmaps", "/configmaps%23x")),
        ("a soft hyphen", with("/configmaps", "/config%c2%admaps")),
        ("wide letters", with("/configmaps", "/%ef%bd%83onfigmaps")),
        ("a subresource that there is not", format!("{maps}/slipped/status")),
        ("a watch of an object", with("/api/v1", "/api/v1/watch") + "/slipped"),
        ("two dry runs", format!("{maps}?dryRun=All&dryRun=")),
        ("a dry run behind a semicolon", format!("{maps}?a=b;dryRun=All")),
        ("a dry run in capitals", format!("{maps}?DRYRUN=All")),
        ("two managers", format!("{maps}?fieldManager=a&fieldManager=b%0a")),
        ("two ways to validate", format!("{maps}?fieldValidation=Ignore&fieldValidation=Some")),
        ("a query with an escape that is none", format!("{maps}?dryRun=%zz")),
        ("a second question mark", format!("{maps}?x?dryRun=All")),
    ]
    .into_iter()
}
