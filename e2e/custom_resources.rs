//! Custom resources: the objects that plugins, webhooks and the store get after the definition's schema has pruned and defaulted the body.

use crate::harness::differential::{Case, compare};
use crate::harness::{Request, User, Webhook, get, patch, post, put, unique};
use serde_json::{Value, json};

const GROUP: &str = "widgets.e2e.test";

fn definition() -> Value {
    let text = json!({"type": "string"});
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"spec": {"type": "object", "properties": {"a": text}}}});
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": text, "protocol": {"type": "string", "default": "TCP"}, "port": {"x-kubernetes-int-or-string": true}}});
    let spec = json!({"type": "object", "default": {}, "properties": {
        "replicas": {"type": "integer", "default": 1},
        "ratio": {"type": "number"},
        "mode": {"type": "string", "default": "fast", "nullable": true},
        "plain": text,
        "nested": {"type": "object", "properties": {"deep": {"type": "boolean", "default": true}}},
        "ports": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "limits": {"type": "object", "additionalProperties": {"type": "object", "properties": {
            "max": {"type": "integer", "default": 10}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object", "properties": {"a": text}}}},
        "template": embedded,
    }});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string", "default": "New"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "versions": [version("v1", true), version("v2", false)],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}}})
}

fn widget(name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name});
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": metadata, "spec": spec})
}

/// The webhook's configuration, for widgets.
fn registration(webhook: &Webhook, kind: &str, namespace: &str, paths: &[&str]) -> Request {
    let mut configuration = webhook.configuration(kind, namespace, namespace, paths);
    for hook in configuration["webhooks"].as_array_mut().unwrap() {
        hook["rules"][0]["resources"] = json!(["widgets", "widgets/status"]);
    }
    let resource = format!("{}webhookconfigurations", kind.to_lowercase());
    post(&format!("/apis/admissionregistration.k8s.io/v1/{resource}"), &configuration)
}

fn with(mut object: Value, pointer: &str, field: &str, value: Value) -> Value {
    object.pointer_mut(pointer).unwrap()[field] = value;
    object
}

#[test]
fn custom_resources_are_decoded_by_their_schemas() {
    let webhook = Webhook::start();
    let here = unique("widgets");
    let widgets = format!("/apis/{GROUP}/v1/namespaces/{here}/widgets");
    let one = format!("{widgets}/one");
    let unknown =
        || widget("one", json!({"replicas": 2, "color": "red", "nested": {"x": 1}, "ports": [{"name": "a", "y": 1}]}));
    let in_another_version = with(widget("two", json!({})), "", "apiVersion", json!(format!("{GROUP}/v2")));
    let steps = vec![
        post(&format!("{widgets}?fieldValidation=Strict"), &unknown()),
        post(&widgets, &with(unknown(), "/metadata", "colour", json!("red"))),
        get(&one),
        post(&format!("{widgets}?fieldValidation=Ignore"), &widget("ignored", json!({"color": "red"}))),
        post(&widgets, &json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": {"name": "bare"}})),
        post(&widgets, &widget("nulls", json!({"replicas": null, "mode": null, "plain": null, "nested": null}))),
        post(&widgets, &widget("null", Value::Null)),
        post(
            &widgets,
            &widget(
                "numbers",
                json!({"ratio": 1.0, "ports": [{"name": "a", "port": "http"}, {"name": "b", "port": 80}]}),
            ),
        ),
        post(&widgets, &widget("maps", json!({"limits": {"cpu": {}, "memory": {"max": 5, "min": 1}, "none": null}}))),
        post(&widgets, &widget("free", json!({"free": {"x": {"y": null}, "known": {"a": "b", "c": 1}}}))),
        post(
            &widgets,
            &widget(
                "embedded",
                json!({"template": {"apiVersion": "v1", "kind": "Pod", "x": 1, "spec": {"a": "b", "c": 1},
                    "metadata": {"name": "n", "labels": {"a": "b"}, "colour": "red", "creationTimestamp": null}}}),
            ),
        ),
        post(
            &widgets,
            &widget("bad", json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}}})),
        ),
        post(&widgets, &widget("bad", json!({"template": {"apiVersion": 5, "kind": "Pod"}}))),
        post(&widgets, &with(widget("bad", json!({})), "/metadata", "labels", json!({"a": 5}))),
        post(&widgets, &with(widget("bad", json!({})), "/metadata", "creationTimestamp", json!("yesterday"))),
        post(&widgets, &with(widget("bad", json!({})), "", "metadata", json!("text"))),
        post(&widgets, &in_another_version),
        post(&widgets, &widget("bad", json!({"replicas": "many"}))),
        put(&one, &with(unknown(), "/spec", "plain", Value::Null)),
        put(&format!("{one}?fieldValidation=Strict"), &unknown()),
        put(&format!("{one}/status"), &with(widget("one", json!({})), "", "status", json!({"color": "red"}))),
        patch(&one, "merge", &json!({"spec": {"replicas": null, "mode": "slow", "colour": "blue"}})),
        patch(&one, "json", &json!([{"op": "add", "path": "/spec/ports/-", "value": {"name": "c", "z": 1}}])),
        patch(
            &format!("{one}?fieldManager=me&force=true"),
            "apply",
            &widget("one", json!({"ports": [{"name": "d"}], "replicas": 7})),
        ),
        get(&one),
        post(
            &format!("/apis/{GROUP}/v2/namespaces/{here}/widgets"),
            &with(widget("v2", json!({"x": 1})), "", "apiVersion", json!(format!("{GROUP}/v2"))),
        ),
    ];
    compare(&Case {
        plugins: &["NamespaceLifecycle", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"],
        setup: vec![
            post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here}})),
            post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()),
            registration(&webhook, "Mutating", &here, &["/label/a/b"]),
            registration(&webhook, "Validating", &here, &["/allow"]),
        ],
        webhook: Some((&webhook, post(&format!("{widgets}?dryRun=All"), &widget("probe", json!({}))), 2)),
        steps: steps.into_iter().map(|request| (User::admin(), request)).collect(),
    });
}

/// A definition whose second version, which is not stored, has a default that the first version lacks.
fn two_versions(group: &str) -> Value {
    let version = |name: &str, spec: Value| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
    };
    let (a, b) = (json!({"type": "string"}), json!({"type": "string", "default": "x"}));
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "versions": [version("v1", json!({"a": a})), version("v2", json!({"a": a, "b": b}))],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}}})
}

#[test]
fn applies_in_any_version_come_to_the_same() {
    const GROUP: &str = "versions.e2e.test";
    let webhook = Webhook::start();
    let here = unique("versions");
    let at = |version: &str| format!("/apis/{GROUP}/{version}/namespaces/{here}/widgets");
    let widget = |version: &str, name: &str, a: &str| json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": {"a": a}});
    let apply = |version: &str, name: &str, query: &str, a: &str| {
        let path = format!("{}/{name}?fieldManager=me{query}", at(version));
        patch(&path, "apply", &widget(version, name, a))
    };
    // A controller that migrates stored objects sends such an apply: only the required fields.
    let migrate = |version: &str, name: &str, metadata: Value| {
        let body = json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Widget", "metadata": metadata});
        patch(&format!("{}/{name}?fieldManager=migrator", at(version)), "apply", &body)
    };
    let read = |version: &str, name: &str| get(&format!("{}/{name}", at(version)));
    let steps = vec![
        apply("v2", "third", "", "1"),
        migrate("v2", "third", json!({"uid": "other", "resourceVersion": "2"})),
        migrate("v1", "third", json!({"uid": "other", "resourceVersion": "2"})),
        migrate("v2", "third", json!({"uid": "other"})),
        migrate("v2", "third", json!({"resourceVersion": "2"})),
        migrate("v2", "missing", json!({"uid": "other", "resourceVersion": "2"})),
        migrate("v2", "missing", json!({"uid": "other"})),
        apply("v2", "tried", "&dryRun=All", "1"),
        apply("v2", "tried", "&dryRun=All&pretty=true", "1"),
        apply("v2", "second", "", "1"),
        read("v2", "second"),
        apply("v2", "second", "&dryRun=All", "2"),
        apply("v2", "second", "", "2"),
        apply("v2", "second", "", "2"),
        apply("v1", "second", "&force=true", "3"),
        read("v1", "second"),
        apply("v1", "first", "", "1"),
        apply("v1", "first", "", "1"),
        apply("v2", "first", "&force=true", "2"),
        read("v2", "first"),
    ];
    compare(&Case {
        plugins: &["NamespaceLifecycle", "MutatingAdmissionWebhook"],
        setup: vec![
            post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here}})),
            post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &two_versions(GROUP)),
            registration(&webhook, "Mutating", &here, &["/label/a/b"]),
        ],
        webhook: Some((&webhook, post(&format!("{}?dryRun=All", at("v2")), &widget("v2", "probe", "1")), 1)),
        steps: steps.into_iter().map(|request| (User::admin(), request)).collect(),
    });
}
