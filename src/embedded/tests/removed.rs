//! The APIs that Kubernetes removed.

use super::client::Client;
use crate::embedded::{Server, Settings};
use crate::removed;
use serde_json::{Value, json};
use std::sync::Arc;

const PRESETS: &str = "/apis/settings.k8s.io/v1alpha1/namespaces/default/podpresets";
const POLICIES: &str = "/apis/policy/v1beta1/podsecuritypolicies";

fn client() -> Client {
    Client::of(Server::with(Arc::default(), Settings { removed: removed::ALL.to_vec(), ..Settings::default() }))
}

fn preset(env: Value) -> Value {
    json!({
        "apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset", "metadata": {"name": "p"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "env": env},
    })
}

#[tokio::test]
async fn removed_apis_are_served_only_if_enabled() {
    Client::new().get(PRESETS).await.with_code(404);
    let client = client();
    client.get(PRESETS).await.with_code(200);
    let found = client.get("/apis/settings.k8s.io/v1alpha1").await.with_code(200);
    assert_eq!(found["resources"][0]["name"], "podpresets");
    let index = client.get("/openapi/v3").await.with_code(200);
    let link = index["paths"]["apis/settings.k8s.io/v1alpha1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert!(client.get(&link).await.with_code(200)["components"]["schemas"].is_object());
}

#[tokio::test]
async fn a_preset_is_created_read_and_deleted_but_its_spec_never_changes() {
    let client = client();
    let created = client.post(PRESETS, preset(json!([{"name": "A", "value": "1"}]))).await.with_code(201);
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("{PRESETS}/p");
    let patched = client.patch(&path, "merge", json!({"metadata": {"labels": {"x": "y"}}, "spec": {"env": []}})).await;
    let patched = patched.with_code(200);
    assert_eq!(patched["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(patched["spec"]["env"][0]["name"], "A");
    client.delete(&path).await.with_code(200);
    client.get(&path).await.refused(404);
}

#[tokio::test]
async fn a_preset_is_applied_by_its_manager() {
    let client = client();
    let path = format!("{PRESETS}/p?fieldManager=one");
    let applied = client
        .patch_as(&path, "application/apply-patch+yaml", preset(json!([{"name": "A", "value": "1"}])))
        .await
        .with_code(201);
    let owners = &applied["metadata"]["managedFields"];
    assert_eq!((&owners[0]["manager"], &owners[0]["operation"]), (&json!("one"), &json!("Apply")));
    assert_eq!(owners[0]["apiVersion"], "settings.k8s.io/v1alpha1");
    client
        .patch_as(&path, "application/apply-patch+yaml", preset(json!([{"name": "A", "value": "1"}])))
        .await
        .with_code(200);
}

#[tokio::test]
async fn an_object_without_a_kind_has_that_of_the_url() {
    let client = client();
    let mut bare = preset(json!([{"name": "A", "value": "1"}]));
    bare.as_object_mut().unwrap().retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
    let created = client.post(PRESETS, bare.clone()).await.with_code(201);
    assert_eq!((&created["apiVersion"], &created["kind"]), (&json!("settings.k8s.io/v1alpha1"), &json!("PodPreset")));
    client.put(&format!("{PRESETS}/p"), bare.clone()).await.with_code(200);
    bare["kind"] = json!("Pod");
    client.post(PRESETS, bare).await.refused(400);
}

#[tokio::test]
async fn an_invalid_object_is_refused_with_the_old_texts() {
    let client = client();
    let mut empty = preset(json!([]));
    empty["spec"] = json!({});
    let why = "PodPreset.settings.k8s.io \"p\" is invalid: spec.volumes.env.envFrom.volumeMounts: Required value: \
               must specify at least one";
    assert_eq!(client.post(PRESETS, empty).await.refused(422), why);
}

#[tokio::test]
async fn a_policy_is_one_object_in_both_groups() {
    let client = client();
    let rule = json!({"rule": "RunAsAny"});
    let spec = json!({"seLinux": rule, "runAsUser": rule, "supplementalGroups": rule, "fsGroup": rule, "volumes": ["*", "nfs"]});
    let policy = json!({
        "apiVersion": "extensions/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "open"}, "spec": spec,
    });
    client.post("/apis/extensions/v1beta1/podsecuritypolicies", policy).await.with_code(201);
    let read = client.get(&format!("{POLICIES}/open")).await.with_code(200);
    assert_eq!(
        (&read["apiVersion"], &read["spec"]["allowPrivilegeEscalation"]),
        (&json!("policy/v1beta1"), &json!(true))
    );
    let table =
        client.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io").get(POLICIES).await.with_code(200);
    let cells = json!(["open", "false", "", "RunAsAny", "RunAsAny", "RunAsAny", "RunAsAny", false, "*,nfs"]);
    assert_eq!(table["rows"][0]["cells"], cells);
    let columns = table["columnDefinitions"].as_array().unwrap();
    assert_eq!(columns.len(), 9);
    assert!(columns.iter().all(|column| column["description"] != ""), "{columns:?}");
}
