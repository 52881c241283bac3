//! Compares CustomResourceDefinitions and custom objects of the embedded API server with kube-apiserver's.

use crate::harness::{
    Api, Proxy, Request, User, delete, eventually, get, patch, patience, post, proxy_only, put, seconds, upstream,
};
use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The response to one request: code, warnings and body.
#[derive(Debug, PartialEq)]
struct Seen {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

fn step(api: &Api, request: &Request) -> Seen {
    // kube-apiserver answers 429 while it starts the storage of a new or changed definition.
    let answer = eventually("the storage of the definition", || {
        let answer = api.send(&User::admin(), request.clone());
        (answer.status != 429).then_some(answer)
    });
    let mut body = answer.json();
    normalize(&mut body);
    Seen { code: answer.status, warnings: answer.header("warning"), body }
}

/// Replaces what differs from server to server, and sorts what kube-apiserver lists in any order.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in
                ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime"]
            {
                if let Some(text) = fields.get_mut(name).filter(|value| value.is_string()) {
                    *text = format!("<{name}>").into();
                }
            }
            for name in ["causes", "managedFields"] {
                if let Some(Value::Array(items)) = fields.get_mut(name) {
                    items.iter_mut().for_each(normalize);
                    items.sort_by_key(Value::to_string);
                }
            }
            if fields.get("kind") == Some(&json!("Status")) && count_causes(fields) > 1 {
                fields.remove("message");
            }
            fields.values_mut().for_each(normalize);
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

fn count_causes(status: &Map<String, Value>) -> usize {
    let causes = status.get("details").and_then(|details| details.get("causes"));
    causes.and_then(Value::as_array).map_or(0, Vec::len)
}

/// Creates the definition on both servers, sends the requests once its kind is served, and compares each response.
#[track_caller]
fn compare(definition: &Value, namespace: &str, steps: &[Request]) {
    let embedded = serving(definition, namespace);
    compare_steps([upstream(), &embedded], steps);
}

/// Creates the definition on kube-apiserver and on an embedded API server, which is returned once both serve its kind.
fn serving(definition: &Value, namespace: &str) -> Proxy {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1]]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    for api in sides {
        api.accepts(post("/api/v1/namespaces", &object));
        api.accepts(post(DEFINITIONS, definition));
        let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
        eventually("an established definition", || {
            let stored = api.send(&User::admin(), get(&path)).json();
            let conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|each| each["type"] == "Established" && each["status"] == "True").then_some(())
        });
        let spec = &definition["spec"];
        let (group, version) = (spec["group"].as_str().unwrap(), spec["versions"][0]["name"].as_str().unwrap());
        for path in [format!("/apis/{group}/{version}"), format!("/openapi/v3/apis/{group}/{version}")] {
            eventually("discovery and OpenAPI of the kind", || {
                (api.send(&User::admin(), get(&path)).status == 200).then_some(())
            });
        }
    }
    embedded
}

/// Sends the requests to both servers, and compares each response.
#[track_caller]
fn compare_steps(sides: [&Api; 2], steps: &[Request]) {
    let mut differences = Vec::new();
    for request in steps {
        let [expected, got] = sides.map(|api| step(api, request));
        if expected != got {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            differences.push(format!(
                "{} {} {body}\n  kube-apiserver: {} {:?} {}\n  embedded:       {} {:?} {}",
                request.method,
                request.path,
                expected.code,
                expected.warnings,
                expected.body,
                got.code,
                got.warnings,
                got.body
            ));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["name"], "properties": {
        "name": text, "protocol": {"type": "string", "default": "TCP"}, "port": {"x-kubernetes-int-or-string": true}}});
    let spec = json!({"type": "object", "description": "The wish.", "default": {},
    "x-kubernetes-validations": [{"rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
        "messageExpression": "'low' + ' is above high'", "fieldPath": ".low"}],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "maximum": 10},
        "color": {"type": "string", "default": "red", "enum": ["red", "green", "blue"]},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 8,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "name is immutable"}]},
        "ratio": {"type": "number"},
        "empty": {"type": "string", "nullable": true},
        "low": {"type": "integer"},
        "high": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 100", "reason": "FieldValueForbidden"}]},
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "ports": {"type": "array", "maxItems": 4, "items": port, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
    }});
    let status = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "selector": text,
        "conditions": {"type": "array", "items": {"type": "object", "properties": {"type": text, "status": text}}},
    }});
    json!({"type": "object", "description": "A thing.", "properties": {"spec": spec, "status": status}})
}

/// The definition of things, in a group of its own.
fn definition(group: &str) -> Value {
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "priority": 1},
        {"name": "Ports", "type": "string", "jsonPath": ".spec.ports[*].name", "description": "The ports."},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
        {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio"},
    ]);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": format!("things.{group}")},
    "spec": {"group": group, "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"], "categories": ["e2e"]},
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema()},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": columns,
                "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]},
            {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            {"name": "v1alpha1", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ]}})
}

struct Things {
    group: &'static str,
    collection: String,
}

impl Things {
    fn new(group: &'static str, namespace: &str) -> Self {
        Self { group, collection: format!("/apis/{group}/v1/namespaces/{namespace}/things") }
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.collection)
    }

    fn thing(&self, name: &str, spec: Value) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
    }

    fn create(&self, name: &str, spec: Value) -> Request {
        post(&self.collection, &self.thing(name, spec))
    }
}

#[test]
fn custom_objects_are_written_and_read_as_in_kube_apiserver() {
    let namespace = "embedded-things";
    let things = Things::new("things.e2e.test", namespace);
    let (a, all) = (things.at("a"), &things.collection);
    let beta = format!("/apis/things.e2e.test/v1beta1/namespaces/{namespace}/things");
    let merge = |path: &str, body: Value| patch(path, "merge", &body);
    let finalizers = json!({"metadata": {"finalizers": ["hold", "example.com/hold"]}});
    let mut versioned = things.thing("b", json!({}));
    versioned["metadata"]["resourceVersion"] = json!("3");
    let steps = vec![
        get("/apis/things.e2e.test"),
        get("/apis/things.e2e.test/v1"),
        get("/apis/things.e2e.test/v1beta1"),
        get(all),
        things.create("a", json!({"size": 1, "none": 1, "empty": null, "free": {"x": null}, "ports": [{"name": "p"}]})),
        things.create("a", json!({})),
        things.create("b", json!({"size": 11, "color": "pink", "name": "UPPER"})),
        things.create("b", json!({"size": "one", "tags": ["x", "x"], "ports": [{"name": "p"}, {"name": "p"}, {}]})),
        things.create("b", json!({"low": 5, "high": 2})),
        things.create("b", json!({"low": 5, "high": 200})),
        things.create("B_", json!({})),
        // etcd refuses the object.
        things.create("large", json!({"free": {"x": "x".repeat(1_700_000)}})),
        post(&format!("{all}?fieldValidation=Strict"), &things.thing("b", json!({"none": 1, "free": {"y": 1}}))),
        post(&format!("{all}?fieldValidation=Ignore&dryRun=All"), &things.thing("b", json!({"none": 1}))),
        post(&format!("{all}?dryRun=All"), &versioned),
        post(all, &versioned),
        post(all, &json!({"apiVersion": "things.e2e.test/v1", "kind": "Other", "metadata": {"name": "b"}})),
        post(all, &json!({"apiVersion": "things.e2e.test/v2", "kind": "Thing", "metadata": {"name": "b"}})),
        post(all, &json!({"apiVersion": "things.e2e.test/v1", "kind": "Thing", "metadata": {}})),
        things.create("b", json!({"size": 2, "color": "blue", "name": "bee", "ratio": 1.5, "tags": ["x", "y"]})),
        get(&a),
        get(&things.at("none")),
        put(&a, &things.thing("a", json!({"size": 2}))),
        put(&things.at("none"), &things.thing("none", json!({}))),
        merge(&a, json!({"spec": {"size": 3, "none": 2}, "status": {"size": 1}})),
        merge(&a, json!({"spec": {"size": -1}})),
        merge(&a, json!({"metadata": {"labels": {"l": "1"}}})),
        merge(&a, json!({"metadata": {"name": "b"}})),
        merge(&a, json!({"metadata": {"resourceVersion": "1"}})),
        merge(&a, finalizers),
        patch(&a, "json", &json!([{"op": "replace", "path": "/spec/color", "value": "green"}])),
        patch(&a, "json", &json!([{"op": "test", "path": "/spec/color", "value": "red"}])),
        patch(&a, "strategic", &json!({"spec": {"size": 4}})),
        merge(&things.at("b"), json!({"spec": {"name": "cee"}})),
        merge(
            &format!("{a}/status"),
            json!({"spec": {"size": 9}, "status": {"size": 1, "selector": "a=b",
            "conditions": [{"type": "Ready", "status": "True"}]}}),
        ),
        merge(&format!("{a}/status"), json!({"status": {"size": "one"}})),
        get(&format!("{a}/status")),
        get(&format!("{a}/scale")),
        get(&format!("{a}/none")),
        merge(&format!("{a}/scale"), json!({"spec": {"replicas": 5}})),
        merge(&format!("{a}/scale"), json!({"spec": {"replicas": -5}})),
        merge(&format!("{a}/scale"), json!({"spec": {"replicas": 50}})),
        put(
            &format!("{a}/scale"),
            &json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
            "spec": {"replicas": 6}}),
        ),
        get(&format!("{beta}/a")),
        get(&a),
        get(&format!("{all}?labelSelector=l=1")),
        get(&format!("{all}?fieldSelector=spec.color=blue")),
        get(&format!("{all}?fieldSelector=spec.size=6")),
        get(&format!("{all}?fieldSelector=spec.name=bee")),
        get(&format!("{all}?fieldSelector=metadata.name=b")),
        get(all).header("accept", TABLE),
        get(&a).header("accept", TABLE),
        get(&a).header("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        Request::new("PUT", all).body("application/json", "{}"),
        delete(&a),
        delete(&a),
        merge(&a, json!({"metadata": {"finalizers": ["example.com/other"]}})),
        merge(&a, json!({"metadata": {"finalizers": null}})),
        get(&a),
        Request::new("DELETE", all),
        get(all),
    ];
    compare(&definition("things.e2e.test"), namespace, &steps);
}

#[test]
fn custom_objects_are_applied_as_in_kube_apiserver() {
    let namespace = "embedded-applied";
    let things = Things::new("applied.e2e.test", namespace);
    let apply = |name: &str, by: &str, spec: Value| {
        patch(&format!("{}?fieldManager={by}", things.at(name)), "apply", &things.thing(name, spec))
    };
    let port = |name: &str, port: Value| json!({"name": name, "port": port});
    let steps = vec![
        apply("a", "one", json!({"size": 1, "tags": ["x"], "ports": [port("p", json!(1))]})),
        apply("a", "two", json!({"size": 2})),
        apply("a", "two", json!({"tags": ["y"], "ports": [port("q", json!("http"))], "free": {"f": 1}})),
        apply("a", "one", json!({"size": 1, "ports": []})),
        apply("a", "two&force=true", json!({"size": 2, "limits": {"cpu": 1}})),
        apply("a", "one", json!({"none": 1})),
        apply("a", "one", json!({"size": "one"})),
        apply("a", "one", json!({"size": 99})),
        put(&format!("{}?fieldManager=putter", things.at("a")), &things.thing("a", json!({"size": 5}))),
        patch(
            &format!("{}?fieldManager=patcher", things.at("a")),
            "merge",
            &json!({"spec": {"ratio": 2, "color": "blue"}}),
        ),
        patch(
            &format!("{}/status?fieldManager=status", things.at("a")),
            "apply",
            &json!({"apiVersion": "applied.e2e.test/v1", "kind": "Thing", "metadata": {"name": "a"}, "status": {"size": 1}}),
        ),
        patch(&format!("{}/scale?fieldManager=scaler", things.at("a")), "merge", &json!({"spec": {"replicas": 7}})),
        get(&things.at("a")),
        patch(&format!("{}/status?fieldManager=status", things.at("none")), "apply", &things.thing("none", json!({}))),
    ];
    compare(&definition("applied.e2e.test"), namespace, &steps);
}

/// The part of OpenAPI v2 that is about a group, without the descriptions of operations.
fn part_of_v2(api: &Api, group: &str) -> Option<Value> {
    let mut document = api.send(&User::admin(), get("/openapi/v2").header("accept", "application/json")).json();
    let mut part = |name: &str, prefix: &str| {
        let mut all = document[name].take().as_object().cloned().unwrap_or_default();
        all.retain(|name, _| name.starts_with(prefix));
        all
    };
    let model: Vec<&str> = group.rsplit('.').collect();
    let definitions = part("definitions", &format!("{}.", model.join(".")));
    let mut paths = Value::from(part("paths", &format!("/apis/{group}/")));
    let items = paths.as_object_mut()?.values_mut().filter_map(Value::as_object_mut).flat_map(|item| item.values_mut());
    items.for_each(without_descriptions);
    (!definitions.is_empty()).then(|| json!({"definitions": definitions, "paths": paths}))
}

/// Removes the descriptions of an operation, and of its parameters.
fn without_descriptions(operation: &mut Value) {
    match operation {
        Value::Object(fields) => {
            fields.remove("description");
            fields.get_mut("parameters").into_iter().for_each(without_descriptions);
        }
        Value::Array(parameters) => {
            parameters.iter_mut().for_each(without_descriptions);
            parameters.sort_by_key(|parameter| parameter["name"].to_string());
        }
        _ => {}
    }
}

#[test]
fn custom_resources_are_in_openapi_v2_as_in_kube_apiserver() {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1]]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    for (group, scope) in [("namespaced.v2.e2e.test", "Namespaced"), ("cluster.v2.e2e.test", "Cluster")] {
        let mut definition = definition(group);
        definition["spec"]["scope"] = json!(scope);
        let text = json!({"type": "string"});
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["other"] = json!({
        "type": "object", "required": ["null", "a"], "properties": {
            "null": {"type": "array", "nullable": true, "items": text},
            "a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"b": text}},
            "free": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true, "properties": {"b": text}},
            "list": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "map": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer", "nullable": true}},
            "one": {"type": "object", "properties": {"a": text}, "oneOf": [{"required": ["a"]}, {"required": []}],
                "externalDocs": {"url": "https://example.com"}, "example": {"a": "b"}, "x-kubernetes-map-type": "atomic"},
            "not": {"type": "string", "not": {"enum": ["x"]}, "title": "No x"},
            "number": {"type": "number", "minimum": 0.5, "exclusiveMinimum": true, "multipleOf": 0.5},
        }});
        let [expected, got] = sides.map(|api| {
            api.accepts(post(DEFINITIONS, &definition));
            eventually("the kind in OpenAPI v2", || part_of_v2(api, group))
        });
        for part in ["definitions", "paths"] {
            let names = |of: &Value| of[part].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&got), names(&expected));
            for name in names(&expected) {
                assert_eq!(got[part][&name], expected[part][&name], "{name}");
            }
        }
        let path = format!("{DEFINITIONS}/things.{group}");
        sides.iter().for_each(|api| drop(api.send(&User::admin(), delete(&path))));
        assert!(part_of_v2(&embedded, group).is_none(), "the kind leaves OpenAPI v2 with its definition");
    }
}

#[test]
fn definitions_are_written_and_deleted_as_in_kube_apiserver() {
    let namespace = "embedded-definitions";
    let path = format!("{DEFINITIONS}/things.defined.e2e.test");
    let merge = |body: Value| patch(&path, "merge", &body);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut other = definition("other.e2e.test");
        change(&mut other);
        post(DEFINITIONS, &other)
    };
    let things = Things::new("defined.e2e.test", namespace);
    let steps = vec![
        get(&path),
        get(&format!("{path}/status")),
        post(DEFINITIONS, &definition("defined.e2e.test")),
        with(&|it| it["metadata"]["name"] = json!("wrong.e2e.test")),
        with(&|it| it["spec"]["scope"] = json!("Galactic")),
        with(&|it| it["spec"]["names"]["kind"] = json!("no kind")),
        with(&|it| it["spec"]["versions"][1]["storage"] = json!(true)),
        with(&|it| it["spec"]["versions"][0]["schema"] = Value::Null),
        with(&|it| it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] = Value::Null),
        with(&|it| {
            it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["default"] =
                json!("x")
        }),
        with(&|it| {
            it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["x-kubernetes-validations"] =
                json!([{"rule": "self.nope > 1"}])
        }),
        with(&|it| {
            it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["tags"]["x-kubernetes-validations"] =
                json!([{"rule": "self.all(x, self.all(y, x == y || self.exists(z, z == x)))"}])
        }),
        with(&|it| {
            it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["high"]["default"] =
                json!(200)
        }),
        with(&|it| {
            let spec = &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["default"] = json!({"low": 3, "high": 2});
        }),
        with(&|it| {
            let spec = &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["properties"]["name"]["default"] = json!("n");
            spec["properties"]["name"]["x-kubernetes-validations"] =
                json!([{"rule": "self == oldSelf"}, {"rule": "oldSelf.hasValue()", "optionalOldSelf": true}]);
        }),
        with(&|it| it["spec"]["conversion"] = json!({"strategy": "Webhook"})),
        with(&|it| it["spec"]["preserveUnknownFields"] = json!(true)),
        with(&|it| {
            it["spec"]["group"] = json!("x.k8s.io");
            it["metadata"]["name"] = json!("things.x.k8s.io");
        }),
        post(&format!("{DEFINITIONS}?dryRun=All"), &definition("other.e2e.test")),
        merge(json!({"spec": {"names": {"kind": "Else"}}})),
        merge(json!({"spec": {"group": "else.e2e.test"}})),
        merge(json!({"spec": {"scope": "Cluster"}})),
        merge(json!({"status": {"storedVersions": ["v2"]}})),
        merge(json!({"metadata": {"labels": {"a": "b"}}})),
        merge(json!({"spec": {"names": {"shortNames": ["thi"]}}})),
        patch(&path, "json", &json!([{"op": "remove", "path": "/spec/versions/0"}])),
        patch(&format!("{path}/status"), "merge", &json!({"status": {"storedVersions": []}})),
        things.create("a", json!({"size": 1})),
        patch(&things.at("a"), "merge", &json!({"metadata": {"finalizers": ["example.com/hold"]}})),
    ];
    let embedded = serving(&definition("defined.e2e.test"), namespace);
    let sides: [&Api; 2] = [upstream(), &embedded];
    compare_steps(sides, &steps);
    for api in sides {
        eventually("the accepted short name", || {
            let stored = api.send(&User::admin(), get(&path)).json();
            (stored["status"]["acceptedNames"]["shortNames"] == json!(["thi"])).then_some(())
        });
    }
    compare_steps(sides, &[delete(&path)]);
    // kube-apiserver reads from a cache that the definition is being deleted.
    let probe = post(&format!("{}?dryRun=All", things.collection), &things.thing("b", json!({"size": 1})));
    for api in sides {
        eventually("a refusal to create", || (step(api, &probe).code != 201).then_some(()));
    }
    compare_steps(sides, &[things.create("b", json!({"size": 1}))]);
}

#[test]
fn kubectl_works_with_custom_resources_of_the_embedded_server() {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1]]);
    let kubectl = embedded.kubectl(&User::admin());
    let group = "kubectl.e2e.test";
    let patience = format!("--timeout={}", seconds(patience()));
    kubectl.ok_with_input(&["apply", "-f", "-"], &definition(group).to_string());
    kubectl.ok(&["wait", "--for=condition=Established", &format!("crd/things.{group}"), &patience]);
    let thing =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 3}});
    kubectl.ok_with_input(&["apply", "-f", "-"], &thing.to_string());
    kubectl.ok_with_input(&["apply", "--server-side", "-f", "-"], &thing.to_string());
    let shown = kubectl.ok(&["get", "th"]);
    assert!(
        shown.contains("SIZE") && shown.lines().any(|line| line.starts_with("a ") && line.contains(" 3 ")),
        "{shown}"
    );
    assert!(kubectl.ok(&["get", "e2e", "-o", "name"]).contains("thing.kubectl.e2e.test/a"));
    assert!(kubectl.ok(&["explain", "things.spec"]).contains("The wish."));
    // This form reads OpenAPI v2 in protobuf.
    assert!(kubectl.ok(&["explain", "things.spec", "--output=plaintext-openapiv2"]).contains("The wish."));
    kubectl.ok(&["scale", "--replicas=5", "things/a"]);
    assert_eq!(kubectl.ok(&["get", "things/a", "-o", "jsonpath={.spec.size}"]), "5");
    // Finalizers of objects can be removed while their definition is being deleted.
    kubectl.ok(&["patch", "things/a", "--type=merge", "-p", r#"{"metadata":{"finalizers":["example.com/hold"]}}"#]);
    kubectl.ok(&["delete", "--wait=false", &format!("crd/things.{group}")]);
    kubectl.ok(&["patch", "things/a", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    kubectl.ok(&["wait", "--for=delete", &format!("crd/things.{group}"), &patience]);
    assert!(!kubectl.run(&["get", "things"]).success);
}
