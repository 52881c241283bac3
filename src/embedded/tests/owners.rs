//! managedFields after each kind of write, and server-side apply.

use super::client::{Answer, CONFIG_MAPS, Client, config_map, deployment};
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";

fn configuration(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

async fn apply(client: &Client, query: &str, data: Value) -> Answer {
    client.patch_as(&format!("{CONFIG_MAPS}/a?fieldManager={query}"), APPLY, configuration(data)).await
}

/// Manager, operation and fields below `f:data` of each entry.
fn owners(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|entry| (text(&entry["manager"]), text(&entry["operation"]), entry["fieldsV1"]["f:data"].clone()))
        .collect()
}

fn entry(manager: &str, operation: &str, fields: Value) -> (String, String, Value) {
    (manager.to_owned(), operation.to_owned(), fields)
}

#[tokio::test]
async fn a_manager_is_named_by_the_query_or_the_user_agent() {
    let client = Client::new().header("user-agent", "kubectl/v1.36 (linux)");
    let created = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    assert_eq!(owners(&created), [entry("kubectl", "Update", json!({".": {}, "f:a": {}}))]);
    let patch = json!({"data": {"b": "1"}});
    let path = format!("{CONFIG_MAPS}/a?fieldManager=me");
    let patched = client.patch(&path, "merge", patch).await.with_code(200);
    assert_eq!(owners(&patched)[1], entry("me", "Update", json!({"f:b": {}})));
    let reset = json!({"metadata": {"managedFields": []}});
    assert_eq!(owners(&client.patch(&path, "merge", reset).await.with_code(200)), []);
}

#[tokio::test]
async fn the_servers_own_objects_have_no_owners() {
    let client = Client::new();
    for path in ["/api/v1/namespaces/default", "/api/v1/namespaces/default/serviceaccounts/default"] {
        let object = client.get(path).await.with_code(200);
        assert!(object["metadata"].get("managedFields").is_none(), "{object}");
    }
}

#[tokio::test]
async fn an_apply_creates_shares_conflicts_forces_and_removes() {
    let client = Client::new();
    apply(&client, "one", json!({"x": "1", "y": "1"})).await.with_code(201);
    let shared = apply(&client, "two", json!({"x": "1"})).await.with_code(200);
    assert_eq!(owners(&shared).len(), 2);
    let conflict = apply(&client, "two", json!({"x": "2"})).await.with_code(409);
    assert_eq!(conflict["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.x"});
    assert_eq!((&conflict["reason"], &conflict["details"]), (&json!("Conflict"), &json!({"causes": [cause]})));
    let forced = apply(&client, "two&force=true", json!({"x": "2"})).await.with_code(200);
    let expected = [entry("one", "Apply", json!({"f:y": {}})), entry("two", "Apply", json!({"f:x": {}}))];
    assert_eq!(owners(&forced), expected);
    let removed = apply(&client, "one", json!({})).await.with_code(200);
    assert_eq!(removed["data"], json!({"x": "2"}));
    assert_eq!(apply(&client, "two", json!({"x": "2"})).await.with_code(200), removed, "nothing changes");
}

#[tokio::test]
async fn a_configuration_is_checked() {
    let client = Client::new();
    let path = format!("{CONFIG_MAPS}/a?fieldManager=one");
    for (body, code, message) in [
        (json!({}), 400, "invalid object type: /, Kind="),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}}),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            configuration(json!([])),
            500,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .data: expected map, got &{[]}",
        ),
    ] {
        assert_eq!(client.patch_as(&path, APPLY, body).await.refused(code), message);
    }
    let status = "/apis/apps/v1/namespaces/default/deployments/d/status?fieldManager=one";
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    client.patch_as(status, APPLY, body).await.refused(404);
}

#[tokio::test]
async fn kubectl_takes_over_what_it_applied_on_the_clients_side() {
    let client = Client::new();
    let mut object = configuration(json!({"x": "1"}));
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    object["metadata"]["annotations"] = json!({annotation: object.to_string()});
    client.post(&format!("{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply"), object).await.with_code(201);
    apply(&client, "other", json!({"x": "2"})).await.refused(409);
    let applied = apply(&client, "kubectl", json!({"x": "<2>"})).await.with_code(200);
    assert_eq!(
        applied["metadata"]["annotations"][annotation],
        "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"\\u003c2\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
}

#[tokio::test]
async fn a_scale_takes_the_replicas_from_their_owner() {
    let client = Client::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    client.post(&format!("{deployments}?fieldManager=creator"), deployment("a")).await.with_code(201);
    let patch = json!({"spec": {"replicas": 3}});
    let path = format!("{deployments}/a/scale?fieldManager=scaler");
    client.patch(&path, "merge", patch).await.with_code(200);
    let object = client.get(&format!("{deployments}/a")).await.with_code(200);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let owner = entries.iter().find(|entry| entry["manager"] == "scaler").unwrap();
    assert_eq!(owner["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!((&owner["subresource"], &owner["apiVersion"]), (&json!("scale"), &json!("apps/v1")));
    let creator = entries.iter().find(|entry| entry["manager"] == "creator").unwrap();
    assert!(creator["fieldsV1"]["f:spec"].get("f:replicas").is_none());
}
