//! Garbage collection, namespaces and their contents.

use super::client::{Answer, CONFIG_MAPS, Client, config_map};
use crate::config::Controllers;
use crate::embedded::controllers::garbage;
use crate::embedded::{Server, Settings};
use serde_json::{Value, json};
use std::sync::Arc;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn with(features: Settings) -> Client {
    Client::of(Server::with(Arc::default(), features))
}

/// Does the garbage collector's work.
async fn collect(client: &Client) {
    while garbage::collect(&client.server.store).await.unwrap() {}
}

/// Creates a config map with these owners.
async fn create(client: &Client, name: &str, owners: &[(&Value, bool)]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|(owner, blocks)| {
            json!({
                "apiVersion": "v1", "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
            })
        })
        .collect();
    let map = json!({"metadata": {"name": name, "ownerReferences": references}});
    client.post(CONFIG_MAPS, map).await.with_code(201)
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.get(CONFIG_MAPS).await.with_code(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn delete(client: &Client, name: &str, policy: &str) -> Answer {
    client.delete_with(&format!("{CONFIG_MAPS}/{name}"), json!({"propagationPolicy": policy})).await
}

#[tokio::test]
async fn dependents_go_with_their_last_owner() {
    let client = Client::new();
    let a = create(&client, "a", &[]).await;
    let b = create(&client, "b", &[]).await;
    let child = create(&client, "child-of-a", &[(&a, true)]).await;
    create(&client, "child-of-both", &[(&a, true), (&b, true)]).await;
    create(&client, "grandchild", &[(&child, true)]).await;
    collect(&client).await;
    assert_eq!(names(&client).await.len(), 5);
    delete(&client, "a", "Background").await.with_code(200);
    collect(&client).await;
    assert_eq!(names(&client).await, ["b", "child-of-both"]);
    let left = client.get(&format!("{CONFIG_MAPS}/child-of-both")).await.with_code(200);
    assert_eq!(left["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(left["metadata"]["ownerReferences"][0]["name"], "b");
}

#[tokio::test]
async fn an_owner_in_foreground_deletion_goes_after_the_dependents_that_block_it() {
    let client = Client::new();
    let a = create(&client, "a", &[]).await;
    create(&client, "b", &[(&a, true)]).await;
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.org/x"]);
    held["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": a["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    client.post(CONFIG_MAPS, held).await.with_code(201);
    let answer = delete(&client, "a", "Foreground").await.with_code(200);
    assert_eq!(answer["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    collect(&client).await;
    assert_eq!(names(&client).await, ["a", "held"]);
    let path = format!("{CONFIG_MAPS}/held");
    client.patch(&path, "json", json!([{"op": "remove", "path": "/metadata/finalizers"}])).await.with_code(200);
    collect(&client).await;
    assert!(names(&client).await.is_empty());
}

#[tokio::test]
async fn orphans_lose_their_owner_and_stay() {
    let client = Client::new();
    let a = create(&client, "a", &[]).await;
    for name in ["b", "c"] {
        create(&client, name, &[(&a, true)]).await;
    }
    delete(&client, "a", "Orphan").await.with_code(200);
    collect(&client).await;
    assert_eq!(names(&client).await, ["b", "c"]);
    let orphan = client.get(&format!("{CONFIG_MAPS}/b")).await.with_code(200);
    assert!(orphan["metadata"].get("ownerReferences").is_none(), "{orphan}");
}

#[tokio::test]
async fn an_object_of_a_missing_owner_goes_at_once() {
    let client = Client::new();
    let missing = json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "0"}});
    create(&client, "child", &[(&missing, false)]).await;
    let elsewhere = client.post("/api/v1/namespaces/kube-system/configmaps", config_map("a")).await.with_code(201);
    create(&client, "across", &[(&elsewhere, false)]).await;
    collect(&client).await;
    assert!(names(&client).await.is_empty());
}

#[tokio::test]
async fn owners_in_a_circle_end_too() {
    let client = Client::new();
    let a = create(&client, "a", &[]).await;
    let b = create(&client, "b", &[(&a, true)]).await;
    let reference = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": b["metadata"]["uid"], "blockOwnerDeletion": true}]}]);
    client.patch(&format!("{CONFIG_MAPS}/a"), "json", reference).await.with_code(200);
    collect(&client).await;
    delete(&client, "a", "Foreground").await.with_code(200);
    collect(&client).await;
    assert!(names(&client).await.is_empty());
}

#[tokio::test]
async fn a_job_is_orphaning_unless_its_deletion_says_otherwise() {
    let client = Client::new();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    client.post(jobs, job.clone()).await.with_code(201);
    let held = client.delete(&format!("{jobs}/j")).await.with_code(200);
    assert_eq!(held["metadata"]["finalizers"], json!(["orphan"]));
    collect(&client).await;
    client.get(&format!("{jobs}/j")).await.refused(404);
    client.post(jobs, job.clone()).await.with_code(201);
    client.delete_with(&format!("{jobs}/j"), json!({"propagationPolicy": "Background"})).await.with_code(200);
    client.get(&format!("{jobs}/j")).await.refused(404);
    client.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.with_code(201);
    client.post("/apis/batch/v1/namespaces/n/jobs", job).await.with_code(201);
    client.delete("/api/v1/namespaces/n").await.with_code(200);
    client.get("/api/v1/namespaces/n").await.refused(404);
}

#[tokio::test]
async fn without_controllers_everything_stays() {
    let client = with(Settings { controllers: Controllers::NONE, ..Settings::default() });
    let a = create(&client, "a", &[]).await;
    create(&client, "b", &[(&a, true)]).await;
    delete(&client, "a", "Background").await.with_code(200);
    collect(&client).await;
    assert_eq!(names(&client).await, ["b"]);
    client.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.with_code(201);
    client.get("/api/v1/namespaces/n/serviceaccounts/default").await.refused(404);
    client.post("/api/v1/namespaces/n/configmaps", config_map("x")).await.with_code(201);
    let deleted = client.delete("/api/v1/namespaces/n").await.with_code(200);
    assert_eq!(deleted["spec"]["finalizers"], json!(["kubernetes"]));
    client.get("/api/v1/namespaces/n/configmaps/x").await.with_code(200);
    let finalized = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
    client.put("/api/v1/namespaces/n/finalize", finalized).await.with_code(200);
    client.get("/api/v1/namespaces/n").await.refused(404);
}

#[tokio::test]
async fn the_contents_of_a_namespace_come_back() {
    let client = with(Settings { root_ca: Some("PEM".to_owned()), ..Settings::default() });
    let (account, root) =
        ("/api/v1/namespaces/n/serviceaccounts/default", "/api/v1/namespaces/n/configmaps/kube-root-ca.crt");
    client.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.with_code(201);
    let before = client.get(account).await.with_code(200);
    client.delete(account).await.with_code(200);
    assert_ne!(client.get(account).await.with_code(200)["metadata"]["uid"], before["metadata"]["uid"]);
    client.patch(root, "merge", json!({"data": {"ca.crt": "other", "more": "x"}})).await.with_code(200);
    assert_eq!(client.get(root).await.with_code(200)["data"], json!({"ca.crt": "PEM"}));
    client.delete(root).await.with_code(200);
    client.get(root).await.with_code(200);
    client.delete("/api/v1/namespaces/n").await.with_code(200);
    client.get("/api/v1/namespaces/n").await.refused(404);
    client.get(SECRETS).await.with_code(200);
}

#[tokio::test]
async fn the_task_collects_what_a_request_leaves_and_ends_with_the_server() {
    let client = Client::new();
    crate::embedded::run_controllers(&client.server);
    let a = create(&client, "a", &[]).await;
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Db")).await;
    create(&client, "b", &[(&a, true)]).await;
    assert_eq!(events.next().await.unwrap().0, "ADDED");
    delete(&client, "a", "Background").await.with_code(200);
    assert_eq!(events.next().await.unwrap().0, "DELETED");
    drop(events);
    let store = std::sync::Arc::downgrade(&client.server.store);
    drop(client);
    tokio::task::yield_now().await;
    assert!(store.upgrade().is_none());
}
