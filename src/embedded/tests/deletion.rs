//! Deletion: finalizers, grace, options, collections, namespaces.

use super::client::{CONFIG_MAPS, Client, PODS, config_map, pair, pod};
use super::disk::{Disk, Fate};
use super::kept::{self, DEFINITIONS, GADGETS, gadget, gadgets};
use crate::embedded::controllers::garbage;
use serde_json::{Value, json};

#[tokio::test]
async fn a_deletion_is_answered_with_a_status_or_the_object() {
    let client = Client::new();
    let created = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(
        client.delete(&path).await.with_code(200),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
        })
    );
    assert_eq!(client.delete(&path).await.refused(404), "configmaps \"a\" not found");
    client.post(PODS, pod("p")).await.with_code(201);
    let deleted = client.delete(&format!("{PODS}/p")).await.with_code(200);
    assert_eq!((&deleted["kind"], &deleted["metadata"]["deletionGracePeriodSeconds"]), (&json!("Pod"), &json!(0)));
    client.get(&format!("{PODS}/p")).await.refused(404);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let client = Client::new();
    let held = json!({"metadata": {"name": "a", "finalizers": ["example.org/x"]}});
    client.post(CONFIG_MAPS, held).await.with_code(201);
    let path = format!("{CONFIG_MAPS}/a");
    let deleting = client.delete(&path).await.with_code(200);
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(client.delete(&path).await.with_code(200), deleting);
    assert_eq!(
        client.post(CONFIG_MAPS, config_map("a")).await.refused(409),
        "object is being deleted: configmaps \"a\" already exists"
    );
    let more = json!({"metadata": {"finalizers": ["example.org/x", "example.org/y"]}});
    assert_eq!(
        client.patch(&path, "merge", more).await.refused(422),
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
         being deleted, found new finalizers []string{\"example.org/y\"}"
    );
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    events.next().await.unwrap();
    client.patch(&path, "merge", json!({"metadata": {"finalizers": null}})).await.with_code(200);
    assert_eq!(events.next_name().await, pair("DELETED", "a"));
    client.get(&path).await.refused(404);
}

#[tokio::test]
async fn the_propagation_policy_becomes_a_finalizer() {
    let client = Client::new();
    let path = format!("{CONFIG_MAPS}/a");
    for (options, finalizer) in [
        (json!({"propagationPolicy": "Foreground"}), Some("foregroundDeletion")),
        (json!({"propagationPolicy": "Orphan"}), Some("orphan")),
        (json!({"orphanDependents": true}), Some("orphan")),
        (json!({"propagationPolicy": "Background"}), None),
        (json!({"orphanDependents": false}), None),
    ] {
        client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
        let answer = client.delete_with(&path, options.clone()).await.with_code(200);
        match finalizer {
            Some(finalizer) => {
                assert_eq!(answer["metadata"]["finalizers"], json!([finalizer]), "{options}");
                client.patch(&path, "merge", json!({"metadata": {"finalizers": []}})).await.with_code(200);
            }
            None => assert_eq!(answer["status"], "Success", "{options}"),
        }
        client.get(&path).await.refused(404);
    }
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    client.delete_with(&path, both).await.refused(422);
    client.delete(&format!("{path}?propagationPolicy=Sideways")).await.refused(422);
}

#[tokio::test]
async fn preconditions_select_the_object() {
    let client = Client::new();
    let created = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let path = format!("{CONFIG_MAPS}/a");
    let message = client.delete_with(&path, json!({"preconditions": {"uid": "u"}})).await.refused(409);
    assert!(
        message.starts_with(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (u) does not match the UID in record ("
        ),
        "{message}"
    );
    client.delete_with(&path, json!({"preconditions": {"resourceVersion": "1"}})).await.refused(409);
    let right = json!({"preconditions": {"resourceVersion": created["metadata"]["resourceVersion"]}});
    client.delete_with(&path, right).await.with_code(200);
}

#[tokio::test]
async fn a_pod_on_a_node_is_given_time() {
    let client = Client::new();
    let mut bound = pod("a");
    bound["spec"]["nodeName"] = json!("n");
    client.post(PODS, bound).await.with_code(201);
    let path = format!("{PODS}/a");
    let grace = |pod: &Value| pod["metadata"]["deletionGracePeriodSeconds"].clone();
    let deleting = client.delete(&path).await.with_code(200);
    assert_eq!(grace(&deleting), 30);
    assert_eq!(deleting["metadata"]["generation"], 2);
    assert_eq!(client.delete(&path).await.with_code(200), deleting);
    assert_eq!(client.delete_with(&path, json!({"gracePeriodSeconds": 60})).await.with_code(200), deleting);
    let shortened = client.delete_with(&path, json!({"gracePeriodSeconds": 5})).await.with_code(200);
    assert_eq!(grace(&shortened), 5);
    assert!(shortened["metadata"]["deletionTimestamp"].as_str() < deleting["metadata"]["deletionTimestamp"].as_str());
    client.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.with_code(200);
    client.get(&path).await.refused(404);
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_selected() {
    let client = Client::new();
    for name in ["a", "b"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    client.post(CONFIG_MAPS, json!({"metadata": {"name": "c", "labels": {"keep": "yes"}}})).await.with_code(201);
    let deleted = client.delete(&format!("{CONFIG_MAPS}?labelSelector=!keep")).await.with_code(200);
    assert_eq!((&deleted["kind"], deleted["items"].as_array().unwrap().len()), (&json!("ConfigMapList"), 2));
    let left = client.get(CONFIG_MAPS).await.with_code(200);
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn every_namespace_has_a_service_account() {
    let client = Client::new();
    let list = client.get("/api/v1/namespaces").await.with_code(200);
    let names: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let created = client.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.with_code(201);
    assert_eq!(created["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "n"}));
    assert_eq!(
        (&created["spec"], &created["status"]),
        (&json!({"finalizers": ["kubernetes"]}), &json!({"phase": "Active"}))
    );
    let drawn = client.post("/api/v1/namespaces", json!({"metadata": {"generateName": "g-"}})).await.with_code(201);
    assert_eq!(drawn["metadata"]["labels"]["kubernetes.io/metadata.name"], drawn["metadata"]["name"]);
    for name in ["default", "n"] {
        client.get(&format!("/api/v1/namespaces/{name}/serviceaccounts/default")).await.with_code(200);
    }
}

#[tokio::test]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let client = Client::new();
    client.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.with_code(201);
    let config_maps = "/api/v1/namespaces/n/configmaps";
    client.post(config_maps, config_map("a")).await.with_code(201);
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.org/x"]);
    client.post(config_maps, held).await.with_code(201);
    let mut events = client.watch("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dn").await;
    events.next().await.unwrap();
    let answer = client.delete("/api/v1/namespaces/n").await.with_code(200);
    assert_eq!((&answer["kind"], &answer["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
    client.get(&format!("{config_maps}/a")).await.refused(404);
    client.get("/api/v1/namespaces/n").await.with_code(200);
    client
        .patch(&format!("{config_maps}/held"), "json", json!([{"op": "remove", "path": "/metadata/finalizers"}]))
        .await;
    client.get("/api/v1/namespaces/n").await.refused(404);
    assert_eq!(events.next_name().await, pair("MODIFIED", "n"));
    assert_eq!(events.next_name().await, pair("DELETED", "n"));
}

const NAMESPACES: &str = "/api/v1/namespaces";
const WIDGETS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

#[tokio::test]
async fn a_deletion_with_its_objects_is_completed_after_a_crash_at_any_time() {
    let disk = Disk::default();
    let client = kept::on(&disk, Default::default());
    client.post(DEFINITIONS, gadgets()).await.with_code(201);
    let mut widgets = gadgets();
    widgets["metadata"]["name"] = json!("widgets.example.com");
    widgets["spec"]["names"]["plural"] = json!("widgets");
    client.post(DEFINITIONS, widgets).await.with_code(201);
    client.post(NAMESPACES, json!({"metadata": {"name": "n"}})).await.with_code(201);
    for at in 0..3 {
        client.post(GADGETS, gadget(&format!("g{at}"))).await.with_code(201);
        client.post(&format!("{NAMESPACES}/n/configmaps"), config_map(&format!("c{at}"))).await.with_code(201);
    }
    let before = disk.now();
    client.delete(&format!("{NAMESPACES}/n")).await.with_code(200);
    client.delete(&format!("{DEFINITIONS}/gadgets.example.com")).await.with_code(200);
    let (mut unbegun, mut complete) = (0, 0);
    for at in (before..=disk.now()).step_by(3) {
        let client = kept::on(&disk.after_crash(at, &[Fate::Lost]), Default::default());
        garbage::collect(&client.server.store).await.unwrap();
        let namespace = client.get(&format!("{NAMESPACES}/n")).await;
        let definition = client.get(&format!("{DEFINITIONS}/gadgets.example.com")).await;
        for left in [&namespace, &definition].into_iter().filter(|left| left.code != 404) {
            assert!(left.body["metadata"].get("deletionTimestamp").is_none(), "at {at}: {}", left.body);
        }
        let is_named = client.get(WIDGETS).await.with_code(200)["status"]["acceptedNames"]["kind"] == "Gadget";
        assert_eq!(is_named, definition.code == 404, "at {at}: the name is free after the definition that had it");
        unbegun += usize::from(namespace.code == 200);
        complete += usize::from(definition.code == 404);
    }
    assert!(unbegun > 0 && complete > 0, "{unbegun} {complete}");
}

#[tokio::test]
async fn a_namespace_goes_although_its_deleter_leaves() {
    let client = Client::new();
    client.post(NAMESPACES, json!({"metadata": {"name": "n"}})).await.with_code(201);
    for at in 0..10 {
        let map = config_map(&format!("c{at}"));
        client.post(&format!("{NAMESPACES}/n/configmaps"), map).await.with_code(201);
    }
    let deleter = Client::of(client.server.clone());
    let deletion = tokio::spawn(async move { deleter.delete("/api/v1/namespaces/n").await });
    let phase = async || client.get(&format!("{NAMESPACES}/n")).await.with_code(200)["status"]["phase"].clone();
    while phase().await != "Terminating" {
        tokio::task::yield_now().await;
    }
    deletion.abort();
    assert!(deletion.await.unwrap_err().is_cancelled());
    assert_eq!(phase().await, "Terminating");
    garbage::collect(&client.server.store).await.unwrap();
    client.get(&format!("{NAMESPACES}/n")).await.refused(404);
}

#[tokio::test]
async fn an_object_that_comes_into_a_terminating_namespace_goes() {
    let client = Client::new();
    let maps = format!("{NAMESPACES}/n/configmaps");
    client.post(NAMESPACES, json!({"metadata": {"name": "n"}})).await.with_code(201);
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/x"]}});
    client.post(&maps, held).await.with_code(201);
    client.delete(&format!("{NAMESPACES}/n")).await.with_code(200);
    client.post(&maps, config_map("late")).await.with_code(201);
    client.get(&format!("{maps}/late")).await.refused(404);
    client.patch(&format!("{maps}/held"), "merge", json!({"metadata": {"finalizers": null}})).await.with_code(200);
    client.get(&format!("{NAMESPACES}/n")).await.refused(404);
}
