//! CBOR with the feature gate `CBORServingAndStorage`: responses, errors and objects equal those of a kube-apiserver with the gate.

use crate::harness::{Pair, Request, User, delete, get, post};
use kubernetes_object::cbor::encode;
use serde_json::{Value, json};

const GATE: &str = "--feature-gates=CBORServingAndStorage=true";
const PLUGINS: [&str; 4] =
    ["NamespaceLifecycle", "AlwaysPullImages", "DefaultTolerationSeconds", "DenyServiceExternalIPs"];
const CBOR: &str = "application/cbor";
const APPLY: &str = "application/apply-patch+cbor";

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const FOOS: &str = "/apis/lab.dev/v1/namespaces/default/foos";

fn pair() -> Pair {
    let pair = Pair::alone(&PLUGINS, &[GATE.to_owned()], &[], &[]);
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "s": {"type": "string"}, "d": {"type": "string", "default": "x"},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.lab.dev"}, "spec": {"group": "lab.dev", "scope": "Namespaced",
        "names": {"plural": "foos", "singular": "foo", "kind": "Foo"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "subresources": {"status": {}, "scale": scale}, "schema": {"openAPIV3Schema": schema}}]}});
    pair.set_up(&[post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)]);
    pair.until(&User::admin(), &get(FOOS), "FooList");
    pair
}

fn sent(method: &str, path: &str, object: &Value) -> Request {
    Request::new(method, path).body(CBOR, encode(object))
}

fn apply(path: &str, object: &Value) -> Request {
    Request::new("PATCH", path).body(APPLY, encode(object))
}

/// Each request as admin, once for a response in JSON and once for one in CBOR.
fn in_both_forms(requests: impl IntoIterator<Item = Request>) -> Vec<(User, Request)> {
    let both =
        |request: Request| [request.clone().header("accept", "application/json"), request.header("accept", CBOR)];
    requests.into_iter().flat_map(both).map(|request| (User::admin(), request)).collect()
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": "cbor"}}, "data": data})
}

fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "lab.dev/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn writes_in_cbor_are_answered_as_by_kube_apiserver() {
    let pair = pair();
    bodies(&pair);
    objects(&pair);
    patches(&pair);
    deletes(&pair);
    refusals(&pair);
    watches(&pair);
}

/// The bodies whose decoding was recorded, and each of them as an apply configuration.
fn bodies(pair: &Pair) {
    let mut steps = Vec::new();
    for line in include_str!("../src/request/body/cbor.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let Some(hex) = case["body"].as_str().filter(|body| !body.contains('*')) else { continue };
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        let body: Vec<u8> = (0..hex.len() / 2).map(byte).collect();
        let path = match case["kind"].as_str().unwrap() {
            "/v1/ConfigMap" => MAPS,
            "/v1/Pod" => PODS,
            "lab.dev/v1/Foo" => FOOS,
            _ => "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        };
        for validation in ["", "&fieldValidation=Strict"] {
            let create = Request::new("POST", &format!("{path}?dryRun=All{validation}")).body(CBOR, body.clone());
            steps.push((User::admin(), create));
        }
        let path = format!("{path}/a?dryRun=All&fieldManager=m");
        steps.push((User::admin(), Request::new("PATCH", &path).body(APPLY, body)));
    }
    pair.compare(steps);
}

fn objects(pair: &Pair) {
    let mut later = config_map("one", json!({"a": "c"}));
    later["binaryData"] = json!(null);
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "a": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}},
        "b": {"type": "object", "additionalProperties": true, "default": {"a": [1, 1.5, null, {"b": "c"}]}},
        "c": {"type": "number", "minimum": 1.5, "maximum": 5, "x-kubernetes-int-or-string": false},
        "d": {"type": "array", "items": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}}}});
    let definition = json!({"metadata": {"name": "bars.lab.dev"}, "spec": {"group": "lab.dev", "scope": "Cluster",
        "names": {"plural": "bars", "singular": "bar", "kind": "Bar"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let binding = json!({"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n"}});
    let asked = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let deployment = json!({"metadata": {"name": "one"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "0.1", "memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"httpGet": {"port": "http"}}}]}}}});
    pair.compare(in_both_forms([
        sent("POST", MAPS, &config_map("one", json!({"a": "b"}))),
        sent("PUT", &format!("{MAPS}/one"), &later),
        sent("PUT", &format!("{MAPS}/none"), &config_map("none", json!({}))),
        sent("PUT", &format!("{MAPS}/one"), &config_map("two", json!({}))),
        sent("POST", &format!("{PODS}?dryRun=All"), &pod("one")),
        sent("POST", PODS, &pod("one")),
        sent("POST", "/apis/apps/v1/namespaces/default/deployments", &deployment),
        sent("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", &definition),
        sent("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &asked),
        sent("POST", &format!("{PODS}/one/binding?dryRun=All"), &binding),
        sent("POST", &format!("{PODS}/one/eviction?dryRun=All"), &json!({"metadata": {"name": "one"}})),
        sent(
            "PUT",
            &format!("{PODS}/one/status"),
            &json!({"metadata": {"name": "one"}, "status": {"phase": "Running"}}),
        ),
        sent("POST", FOOS, &foo("one", json!({"replicas": 1, "any": {"a": [1, -2, null, {"b": "c"}]}, "gone": 1}))),
        sent("PUT", &format!("{FOOS}/one/scale"), &json!({"metadata": {"name": "one"}, "spec": {"replicas": 3}})),
        sent("POST", FOOS, &foo("two", json!({"replicas": 1.5}))),
        get(&format!("{MAPS}/one")),
        get(&format!("{FOOS}?limit=1")),
    ]));
}

fn patches(pair: &Pair) {
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": data});
    let one = |query: &str| format!("{MAPS}/one?{query}");
    pair.compare(in_both_forms([
        apply(&one("fieldManager=m"), &map(json!({"x": "y"}))),
        apply(&one("fieldManager=m"), &map(json!({"a": "z"}))),
        apply(&one("fieldManager=m&force=true"), &map(json!({"a": "z"}))),
        apply(&one(""), &map(json!({}))),
        apply(&format!("{MAPS}/applied?fieldManager=m"), &config_map("applied", json!({"x": "y"}))),
        apply(&format!("{MAPS}/other?fieldManager=m"), &config_map("applied", json!({"x": "y"}))),
        apply(&one("fieldManager=m"), &json!([])),
        apply(&one("fieldManager=m"), &json!({"apiVersion": "v1", "kind": "ConfigMap", "foo": 1})),
        apply(&format!("{PODS}/applied?fieldManager=m"), &{
            let mut pod = pod("applied");
            (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
            pod
        }),
        apply(&format!("{FOOS}/applied?fieldManager=m"), &foo("applied", json!({"s": "x"}))),
        apply(&format!("{FOOS}/applied?fieldManager=m"), &foo("applied", json!({"s": 5}))),
        Request::new("PATCH", &one("")).body("application/merge-patch+json", r#"{"data":{"m":"n"}}"#),
        Request::new("PATCH", &one("")).body("application/merge-patch+json", encode(&json!({"data": {"m": "n"}}))),
        Request::new("PATCH", &format!("{FOOS}/one")).body("application/strategic-merge-patch+json", "{}"),
        Request::new("PATCH", &one("")).body(CBOR, encode(&json!({}))),
        Request::new("PATCH", &one("")).body("text/plain,application/apply-patch+cbor", encode(&json!({}))),
    ]));
}

fn deletes(pair: &Pair) {
    let named = |name: &str| sent("POST", MAPS, &config_map(name, json!({})));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
    pair.set_up(&[named("d1"), named("d2")]);
    pair.compare(in_both_forms([
        sent("DELETE", &format!("{MAPS}/d1"), &json!({"dryRun": ["All"]})),
        sent("DELETE", &format!("{MAPS}/d1"), &json!({"preconditions": {"uid": 5}})),
        sent("DELETE", &format!("{MAPS}/d1"), &json!({"dryRun": "All"})),
        sent("DELETE", &format!("{MAPS}/d1"), &json!({"gracePeriodSeconds": 1.5, "x": 1})),
        sent("DELETE", &format!("{MAPS}/d1"), &json!({"kind": "Other", "apiVersion": "v1"})),
        sent("DELETE", &format!("{MAPS}/d1"), &json!([])),
        Request::new("DELETE", &format!("{MAPS}/d1")).body(CBOR, vec![0xff]),
        sent("DELETE", &format!("{MAPS}/d1"), &options),
        delete(&format!("{FOOS}/applied")),
        sent("DELETE", &format!("{MAPS}?labelSelector=of%3Dcbor"), &json!({"dryRun": ["All"]})),
        sent("DELETE", &format!("{MAPS}?labelSelector=of%3Dcbor"), &options),
        sent("DELETE", FOOS, &options),
    ]));
}

fn refusals(pair: &Pair) {
    let map = config_map("refused", json!({}));
    let service = json!({"metadata": {"name": "s"}, "spec": {"externalIPs": ["1.2.3.4"], "ports": [{"port": 1}]}});
    pair.compare(in_both_forms([
        sent("POST", "/api/v1/namespaces/none/configmaps", &map),
        sent("POST", "/api/v1/namespaces/default/services", &service),
        sent("POST", "/api/v1/namespaces/default/nothing", &map),
        sent("PUT", MAPS, &map),
        Request::new("POST", MAPS).body("text/plain", "x"),
        Request::new("POST", FOOS).body("text/plain", "x"),
        Request::new("PUT", &format!("{FOOS}/one")).body("text/plain", "x"),
        Request::new("POST", MAPS).body("application/cbor-seq", encode(&map)),
        sent("POST", &format!("{MAPS}?fieldValidation=Maybe"), &map),
        sent("POST", &format!("{MAPS}?timeout=abc"), &map),
    ]));
    let nobody = User::named("nobody", "nobodies");
    let mut steps = vec![(nobody, sent("POST", MAPS, &map).header("accept", CBOR))];
    for accept in [
        "application/cbor-seq",
        "application/*",
        "*/*",
        "application/cbor,application/json",
        "application/json,application/cbor",
        "application/json;q=0.5,application/cbor",
        "application/cbor;as=Table;g=meta.k8s.io;v=v1",
        "application/cbor;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/cbor;as=Foo;g=meta.k8s.io;v=v1",
        "application/cbor;stream=watch",
        "application/cbor;pretty=1",
        "application/vnd.kubernetes.protobuf;q=0.1,application/cbor",
    ] {
        for (path, object) in [(MAPS, &map), (FOOS, &foo("refused", json!({})))] {
            let create = sent("POST", &format!("{path}?dryRun=All"), object).header("accept", accept);
            let missing = sent("PUT", &format!("{path}/refused"), object).header("accept", accept);
            steps.extend([create, missing].map(|request| (User::admin(), request)));
        }
    }
    pair.compare(steps);
}

fn watches(pair: &Pair) {
    pair.set_up(&[sent("POST", MAPS, &config_map("watched", json!({})))]);
    for accept in ["application/cbor", "application/cbor;stream=watch", "application/cbor-seq"] {
        let [expected, found] = pair.sides().map(|api| {
            let watch = get(&format!("{MAPS}?watch=true")).header("accept", accept);
            let mut answer = api.stream(&User::admin(), watch);
            let is_event = answer.next_bytes(4) == b"\xd9\xd9\xf7\xa2";
            (answer.status, answer.headers.get("content-type").cloned(), is_event)
        });
        assert_eq!(expected, found, "{accept}");
    }
}
