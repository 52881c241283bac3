//! The bounds of etcd: of one object, and of all.

use super::client::{CONFIG_MAPS, Client};
use crate::config::Limits;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const TOO_LARGE: &str = "etcdserver: request is too large";

fn config_map(name: &str, bytes: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "x".repeat(bytes)}})
}

/// The definition of widgets with this schema of their spec.
fn definition(spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test]
async fn a_full_store_takes_deletions_and_smaller_objects_alone() {
    let client = Client::with_limits(Limits { stored_bytes: 150_000, ..Limits::default() });
    client.post(CONFIG_MAPS, config_map("a", 100_000)).await.with_code(201);
    let (first, full) = (format!("{CONFIG_MAPS}/a"), "etcdserver: mvcc: database space exceeded");
    assert_eq!(client.post(CONFIG_MAPS, config_map("b", 100_000)).await.refused(500), full);
    // A dry run does not reach the store.
    client.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("b", 100_000)).await.with_code(201);
    assert_eq!(client.put(&first, config_map("a", 200_000)).await.refused(500), full);
    let larger = json!({"data": {"b": "x".repeat(100_000)}});
    assert_eq!(client.patch(&first, "merge", larger).await.refused(500), full);
    client.put(&first, config_map("a", 90_000)).await.with_code(200);
    client.delete(&first).await.with_code(200);
    client.post(CONFIG_MAPS, config_map("b", 100_000)).await.with_code(201);
}

#[tokio::test]
async fn the_objects_of_a_deleted_definition_leave_room() {
    let client = Client::with_limits(Limits { stored_bytes: 250_000, ..Limits::default() });
    let preserving = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"a": "x".repeat(150_000)}});
    for _ in 0..2 {
        client.post(DEFINITIONS, definition(preserving.clone())).await.with_code(201);
        client.post(WIDGETS, widget.clone()).await.with_code(201);
        client.post(CONFIG_MAPS, config_map("a", 100_000)).await.refused(500);
        client.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.with_code(200);
    }
    client.post(CONFIG_MAPS, config_map("a", 100_000)).await.with_code(201);
}

#[tokio::test]
async fn an_object_does_not_grow_beyond_the_memory_of_one_body() {
    let client = Client::with_limits(Limits { whole_bodies_bytes: 4 << 20, ..Limits::default() });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = |rules: usize| {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        json!({"metadata": {"name": "a", "finalizers": ["e.com/a"]}, "rules": vec![rule; rules]})
    };
    client.post(roles, role(500)).await.with_code(201);
    let first = format!("{roles}/a");
    let why = client.patch(&first, "merge", role(2000)).await.refused(413);
    assert!(why.ends_with("raise the memory limit"), "{why}");
    assert!(client.put(&first, role(2000)).await.refused(413) == why);
    client.put(&first, role(600)).await.with_code(200);
}

#[tokio::test]
async fn an_object_that_etcd_refuses_is_not_stored() {
    let client = Client::with_limits(Limits { stored_object_bytes: 100_000, ..Limits::default() });
    assert_eq!(client.post(CONFIG_MAPS, config_map("a", 110_000)).await.refused(500), TOO_LARGE);
    client.post(CONFIG_MAPS, config_map("a", 90_000)).await.with_code(201);
    let patch = json!({"data": {"b": "x".repeat(20_000)}});
    assert_eq!(client.patch(&format!("{CONFIG_MAPS}/a"), "merge", patch).await.refused(500), TOO_LARGE);
    let preserving = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    client.post(DEFINITIONS, definition(preserving)).await.with_code(201);
    let widget = |bytes: usize| {
        let spec = json!({"a": "x".repeat(bytes)});
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
    };
    assert_eq!(client.post(WIDGETS, widget(110_000)).await.refused(500), TOO_LARGE);
    client.post(WIDGETS, widget(90_000)).await.with_code(201);
}

#[tokio::test]
async fn an_object_that_fits_without_its_managed_fields_loses_them() {
    let client = Client::with_limits(Limits { stored_object_bytes: 100_000, ..Limits::default() });
    // The names of the keys are in the managedFields, too.
    let data: serde_json::Map<String, Value> =
        (0..2000).map(|at| (format!("a-key-with-a-long-name-{at}"), json!(""))).collect();
    let stored = client.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}, "data": data})).await.with_code(201);
    assert_eq!(stored["metadata"]["managedFields"], Value::Null);
    assert_eq!(stored["data"].as_object().unwrap().len(), 2000);
}

#[tokio::test]
async fn a_definition_that_takes_too_long_to_compile_is_refused() {
    let limits = Limits { definition_rules: 2, stored_object_bytes: 20_000, ..Limits::default() };
    let client = Client::with_limits(limits);
    let with_rules = |rule: &str, count: usize| {
        let rules: Vec<_> = (0..count).map(|_| json!({"rule": rule})).collect();
        definition(json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rules}))
    };
    // Invalid rules are not compiled either.
    let refused = client.post(DEFINITIONS, with_rules("1 +", 3)).await.refused(403);
    assert!(refused.ends_with("the embedded API server compiles at most 2 rules of a definition"), "{refused}");
    client.post(DEFINITIONS, with_rules("1 +", 2)).await.refused(422);
    let long = format!("self == '{}", "x".repeat(30_000));
    assert_eq!(client.post(DEFINITIONS, with_rules(&long, 1)).await.refused(500), TOO_LARGE);
    client.post(DEFINITIONS, with_rules("self != 'x'", 2)).await.with_code(201);
    let name = format!("{DEFINITIONS}/widgets.example.com");
    let mut changed = client.get(&name).await.with_code(200);
    changed["spec"]["versions"] = with_rules("self != 'x'", 3)["spec"]["versions"].clone();
    client.put(&name, changed).await.refused(403);
}
