//! Compares managed fields and server-side apply of the embedded API server with kube-apiserver's.

mod kinds;
mod workloads;

use crate::harness::{Api, Proxy, Request, User, get, patch, post, proxy_only, put, upstream};
use serde_json::{Value, json};

/// The response to one request: code, Status or managedFields, and the fields that an apply changes.
#[derive(Debug, PartialEq)]
struct Seen {
    code: u16,
    body: Value,
}

fn step(api: &Api, request: &Request) -> Seen {
    let answer = api.send(&User::admin(), request.clone());
    let mut body = answer.json();
    // kube-apiserver lists the conflicts of several managers in any order.
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(Value::to_string);
    }
    if body["kind"] != "Status" {
        body = json!({"managedFields": owners(&body), "data": body["data"], "replicas": body["spec"]["replicas"],
            "labels": body["metadata"]["labels"], "annotations": body["metadata"]["annotations"],
            "finalizers": body["metadata"]["finalizers"], "template": body["spec"]["template"], "spec": shown_spec(&body)});
    }
    Seen { code: answer.status, body }
}

/// The spec of the kinds to which kube-apiserver adds no values of its own choice.
fn shown_spec(object: &Value) -> Value {
    match object["kind"].as_str() {
        Some("NetworkPolicy" | "HorizontalPodAutoscaler" | "CronJob" | "Ingress") => object["spec"].clone(),
        _ => Value::Null,
    }
}

/// The managedFields, with marks instead of times: the order of the entries depends on the second of a write.
fn owners(object: &Value) -> Vec<Value> {
    let mut entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        if entry.get("time").is_some() {
            entry.insert("time".into(), "<time>".into());
        }
    }
    entries.sort_by_key(Value::to_string);
    entries
}

/// Sends the requests to both servers and compares each response.
#[track_caller]
fn compare(namespace: &str, steps: impl Fn(&str) -> Vec<Request>) {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1]]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    for api in sides {
        api.accepts(post("/api/v1/namespaces", &object));
    }
    let mut differences = Vec::new();
    for request in steps(namespace) {
        let [expected, got] = sides.map(|api| step(api, &request));
        if expected != got {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let (code, other) = (expected.code, got.code);
            differences.push(format!(
                "{} {} {body}\n  kube-apiserver: {code} {}\n  embedded:       {other} {}",
                request.method, request.path, expected.body, got.body
            ));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

/// An apply at this path by a manager, with more of the query.
fn apply(path: &str, by: &str, object: Value) -> Request {
    patch(&format!("{path}?fieldManager={by}"), "apply", &object)
}

fn config_map(name: &str, more: Value) -> Value {
    with(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}), more)
}

fn with(mut object: Value, more: Value) -> Value {
    for (field, value) in more.as_object().unwrap() {
        match (&mut object[field], value) {
            (Value::Object(fields), Value::Object(more)) => fields.extend(more.clone()),
            (field, value) => *field = value.clone(),
        }
    }
    object
}

#[test]
fn managers_of_a_config_map_share_and_conflict_as_in_kube_apiserver() {
    compare("embedded-maps", |namespace| {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let at = |name: &str| format!("{maps}/{name}");
        let (a, b) = (at("a"), at("b"));
        let data = |data: Value| config_map("a", json!({ "data": data }));
        vec![
            apply(&a, "one", data(json!({"x": "1", "y": "1"}))),
            apply(&a, "one", data(json!({"x": "1", "y": "1"}))),
            // Equal values are shared; other values are a conflict.
            apply(&a, "two", data(json!({"x": "1", "z": "1"}))),
            apply(&a, "two", data(json!({"x": "2"}))),
            apply(&a, "two", data(json!({"x": "2", "y": "2"}))),
            apply(&a, "two&force=true", data(json!({"x": "2", "z": "1"}))),
            // A removed field goes unless another manager owns it.
            apply(&a, "one", data(json!({"y": "1"}))),
            apply(&a, "two", data(json!({}))),
            apply(&a, "one", config_map("a", json!({}))),
            put(&format!("{a}?fieldManager=putter"), &data(json!({"y": "3", "p": "1"}))),
            patch(&format!("{a}?fieldManager=patcher"), "merge", &json!({"data": {"p": "2", "q": "1"}})),
            patch(&format!("{a}?fieldManager=patcher"), "json", &json!([{"op": "remove", "path": "/data/p"}])),
            patch(&format!("{a}?fieldManager=patcher"), "strategic", &json!({"metadata": {"labels": {"l": "1"}}})),
            apply(&a, "one", data(json!({"y": "4", "q": "4"}))),
            apply(&a, "one&force=true", data(json!({"y": "4", "q": "4"}))),
            apply(&a, "one&dryRun=All", data(json!({"y": "5"}))),
            get(&a),
            // The manager of a request without a fieldManager.
            put(&a, &data(json!({"y": "4", "q": "5"}))).header("user-agent", "kubectl/v1.36.3 (linux/amd64) x"),
            put(&a, &data(json!({"y": "6", "q": "5"}))),
            patch(&a, "merge", &json!({"data": {"r": "1"}})).header("user-agent", "Mozilla/5.0"),
            // A client that writes the field itself.
            patch(&a, "merge", &json!({"metadata": {"managedFields": null}})),
            patch(&a, "merge", &json!({"metadata": {"managedFields": [{"manager": "x", "operation": "nope"}]}})),
            patch(&a, "merge", &json!({"metadata": {"managedFields": [{}]}})),
            patch(&format!("{a}?fieldManager=late"), "merge", &json!({"data": {"r": "2"}})),
            apply(&a, "one", data(json!({"y": "7"}))),
            apply(&a, "one&force=true", data(json!({"y": "7"}))),
            patch(&a, "merge", &json!({"metadata": {"managedFields": []}})),
            get(&a),
            post(
                &format!("{maps}?fieldManager=creator"),
                &config_map("b", json!({"data": {"x": "1"}, "immutable": false})),
            ),
            apply(&b, "one", config_map("b", json!({"data": {"x": "1"}}))),
            apply(
                &b,
                "one",
                config_map("b", json!({"metadata": {"finalizers": ["a/one", "a/two"], "annotations": {"n": "1"}}})),
            ),
            apply(&b, "two", config_map("b", json!({"metadata": {"finalizers": ["a/two", "a/three"]}}))),
            apply(&b, "one", config_map("b", json!({"metadata": {"finalizers": ["a/two"]}}))),
            apply(&b, "one", config_map("b", json!({"metadata": {"labels": {}}, "data": {}}))),
            apply(&b, "one", config_map("b", json!({"data": null, "metadata": {"annotations": {"n": "2"}}}))),
        ]
    });
}

#[test]
fn malformed_configurations_are_refused_as_by_kube_apiserver() {
    compare("embedded-malformed", |namespace| {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let a = format!("{maps}/a");
        let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/a");
        let of_deployment = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec});
        let text =
            |path: &str, text: &str| Request::new("PATCH", path).body("application/apply-patch+yaml", text.to_owned());
        let query = format!("{a}?fieldManager=one");
        vec![
            patch(&a, "apply", &config_map("a", json!({}))),
            apply(&a, "one", json!({})),
            apply(&a, "one", json!({"apiVersion": "v1", "kind": "ConfigMap"})),
            apply(&a, "one", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})),
            apply(&a, "one", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})),
            apply(&a, "one", json!({"apiVersion": "a/b/c", "kind": "Secret", "metadata": {"name": "a"}})),
            apply(&a, "one", config_map("b", json!({}))),
            apply(&a, "one", config_map("a", json!({"metadata": {"namespace": "other"}}))),
            apply(&a, "one", config_map("a", json!({"metadata": {"managedFields": []}}))),
            apply(&a, "one", config_map("a", json!({"metadata": {"uid": "u"}}))),
            apply(&a, "one", config_map("a", json!({"nope": 1}))),
            apply(&a, "one", config_map("a", json!({"data": []}))),
            apply(&a, "one", config_map("a", json!({"data": {"a": 1}}))),
            apply(&a, "one", config_map("a", json!({"metadata": {"finalizers": ["a/b", "a/b"]}}))),
            text(&query, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"),
            text(&query, "- a\n"),
            text(&query, ""),
            text(
                &format!("{query}&fieldValidation=Strict"),
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', x: '2'}\n",
            ),
            Request::new("PATCH", &query).body("application/apply-patch+cbor", "x"),
            apply(&a, "one", config_map("a", json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "2"}}))),
            apply(&a, "one", config_map("a", json!({"metadata": {"managedFields": null}, "data": {"x": "1"}}))),
            apply(&format!("{deployment}/status"), "one", of_deployment(json!({}))),
            apply(
                &format!("{deployment}/scale"),
                "one",
                json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 1}}),
            ),
            apply(&deployment, "one", of_deployment(json!({"replicas": "one"}))),
            apply(&deployment, "one", of_deployment(json!({"template": {"spec": {"containers": [null]}}}))),
            apply(
                &deployment,
                "one",
                of_deployment(json!({"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}})),
            ),
            apply(&deployment, "one", of_deployment(json!({"template": {"spec": {"containers": {"name": "a"}}}}))),
            apply(&deployment, "one", of_deployment(json!({"paused": "yes"}))),
            apply(&deployment, "one", of_deployment(json!({"nope": {}}))),
        ]
    });
}

#[test]
fn client_side_apply_is_taken_over_and_old_managers_are_merged_as_in_kube_apiserver() {
    compare("embedded-upgrade", |namespace| {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let a = format!("{maps}/a");
        let annotated = |data: Value, applied: Value| {
            let text = format!("{}\n", config_map("a", json!({ "data": applied })));
            let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": text});
            config_map("a", json!({"data": data, "metadata": {"annotations": annotations}}))
        };
        let data = |data: Value| config_map("a", json!({ "data": data }));
        let applied = json!({"x": "1", "y": "<1>"});
        let mut steps = vec![
            post(&format!("{maps}?fieldManager=kubectl-client-side-apply"), &annotated(applied.clone(), applied)),
            // Managers are merged by the second of their write, then by name: in this order of names, a second that
            // ends between two writes changes nothing.
            patch(&format!("{a}?fieldManager=early"), "merge", &json!({"data": {"z": "1", "y": "2"}})),
            apply(&a, "someone", data(json!({"x": "2"}))),
            apply(&a, "kubectl", data(json!({"x": "2", "z": "2"}))),
            apply(&a, "kubectl", data(json!({"x": "2", "y": "3"}))),
            apply(&a, "kubectl", data(json!({"x": "2"}))),
            apply(
                &a,
                "kubectl",
                config_map(
                    "a",
                    json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, "data": {"x": "3<&>"}}),
                ),
            ),
            get(&a),
            apply(&a, "kubectl", config_map("a", json!({}))),
        ];
        let many = (0..12)
            .map(|at| patch(&format!("{a}?fieldManager=m{at:02}"), "merge", &json!({"data": {format!("k{at}"): "1"}})));
        steps.extend(many);
        steps.push(get(&a));
        steps
    });
}
