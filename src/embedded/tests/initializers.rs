//! Uninitialized objects: what lists, watches and creates do with them.

use super::client::{Answer, CONFIG_MAPS, Client, PODS, config_map, pair, pod};
use crate::config::Limits;
use crate::embedded::store::Collection;
use crate::embedded::{Server, Settings};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const WITH_UNINITIALIZED: &str = "includeUninitialized=true";

fn client() -> Arc<Client> {
    with_limits(Limits { user_waiting_creates: 2, ..Limits::default() })
}

fn with_limits(limits: Limits) -> Arc<Client> {
    Arc::new(Client::of(Server::with(Arc::new(limits), Settings { initializers: true, ..Settings::default() })))
}

fn waiting_for(mut object: Value, names: &[&str]) -> Value {
    let pending: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    object["metadata"]["initializers"] = json!({ "pending": pending });
    object
}

fn one(name: &str) -> Value {
    waiting_for(config_map(name), &["one.lab.io"])
}

fn at(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

/// A create in the background that has begun to wait.
async fn waiting(client: &Arc<Client>, query: &str, object: Value) -> JoinHandle<Answer> {
    let (sender, path) = (client.clone(), format!("{CONFIG_MAPS}?{query}"));
    let create = tokio::spawn(async move { sender.post(&path, object).await });
    // The runtime has one thread: the create runs until it waits.
    tokio::task::yield_now().await;
    assert!(!create.is_finished());
    create
}

/// Ends the initialization of an object.
async fn initialize(client: &Client, name: &str) -> Value {
    let patch = json!({"metadata": {"initializers": null}, "data": {"done": "yes"}});
    client.patch(&at(name), "merge", patch).await.with_code(200)
}

fn initializers(object: &Value) -> &Value {
    &object["metadata"]["initializers"]
}

#[tokio::test]
async fn a_create_waits_and_returns_the_object_as_it_is_then() {
    let client = client();
    let create = waiting(&client, "", waiting_for(config_map("c1"), &["one.lab.io", "two.lab.io"])).await;
    let remove = |index: u32| json!([{"op": "remove", "path": format!("/metadata/initializers/pending/{index}")}]);
    let left = client.patch(&at("c1"), "json", remove(1)).await.with_code(200);
    assert_eq!(initializers(&left), &json!({"pending": [{"name": "one.lab.io"}]}));
    tokio::task::yield_now().await;
    assert!(!create.is_finished());
    let last = initialize(&client, "c1").await;
    let created = create.await.unwrap().with_code(201);
    assert_eq!(created, last);
    assert_eq!((initializers(&created), &created["data"]["done"]), (&Value::Null, &json!("yes")));
}

#[tokio::test]
async fn creates_of_custom_objects_do_not_wait() {
    let client = client();
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.with_code(201);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    let created =
        client.post("/apis/example.com/v1/widgets", waiting_for(widget, &["one.lab.io"])).await.with_code(201);
    assert_eq!(initializers(&created), &Value::Null);
}

#[tokio::test]
async fn lists_hide_uninitialized_objects_and_gets_show_them() {
    let client = client();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let _create = waiting(&client, "", one("c1")).await;
    let names = |list: Value| {
        let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone());
        names.collect::<Vec<_>>()
    };
    for (query, shown) in [
        ("", json!(["a"])),
        ("?includeUninitialized=false", json!(["a"])),
        ("?includeUninitialized=0", json!(["a"])),
        ("?fieldSelector=metadata.name%3Dc1", json!([])),
        ("?includeUninitialized=true", json!(["a", "c1"])),
        ("?includeUninitialized=1", json!(["a", "c1"])),
        ("?includeUninitialized=1&fieldSelector=metadata.name%3Dc1", json!(["c1"])),
    ] {
        let list = client.get(&format!("{CONFIG_MAPS}{query}")).await.with_code(200);
        assert_eq!(Value::from(names(list)), shown, "{query}");
    }
    let limited = client.get(&format!("{CONFIG_MAPS}?limit=1")).await.with_code(200);
    assert_eq!(limited["metadata"]["remainingItemCount"], Value::Null);
    let shown = client.get(&at("c1")).await.with_code(200);
    assert_eq!(initializers(&shown), &json!({"pending": [{"name": "one.lab.io"}]}));
}

#[tokio::test]
async fn a_watch_shows_an_object_at_the_end_of_its_initialization() {
    let client = client();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let mut all = client.watch(&format!("{CONFIG_MAPS}?watch=1&{WITH_UNINITIALIZED}")).await;
    let _create = waiting(&client, "", waiting_for(config_map("c1"), &["one.lab.io", "two.lab.io"])).await;
    client
        .patch(&at("c1"), "json", json!([{"op": "remove", "path": "/metadata/initializers/pending/0"}]))
        .await
        .with_code(200);
    let _never_initialized = waiting(&client, "", one("c2")).await;
    client.delete(&at("c2")).await.with_code(200);
    let last = initialize(&client, "c1").await;
    client.delete(&at("c1")).await.with_code(200);
    assert_eq!(events.next().await, Some(("ADDED".into(), last)));
    assert_eq!(events.next_name().await, pair("DELETED", "c1"));
    for event in [
        pair("ADDED", "c1"),
        pair("MODIFIED", "c1"),
        pair("ADDED", "c2"),
        pair("DELETED", "c2"),
        pair("MODIFIED", "c1"),
        pair("DELETED", "c1"),
    ] {
        assert_eq!(all.next_name().await, event);
    }
}

#[tokio::test]
async fn a_create_with_include_uninitialized_answers_at_once() {
    let client = client();
    for (name, query) in [("a", "includeUninitialized=true"), ("b", "includeUninitialized=1")] {
        let created = client.post(&format!("{CONFIG_MAPS}?{query}"), one(name)).await.with_code(202);
        assert_eq!(initializers(&created), &json!({"pending": [{"name": "one.lab.io"}]}));
    }
    client.post(&format!("{CONFIG_MAPS}?{WITH_UNINITIALIZED}"), config_map("c")).await.with_code(201);
    client.post(CONFIG_MAPS, config_map("d")).await.with_code(201);
}

#[tokio::test(start_paused = true)]
async fn a_create_waits_for_its_timeout_and_the_object_stays() {
    let client = client();
    for (name, query, seconds) in [("a", "", 30), ("b", "?timeout=2s", 2), ("c", "?timeout=1m30s", 90)] {
        let started = Instant::now();
        let answer = client.post(&format!("{CONFIG_MAPS}{query}"), one(name)).await.with_code(504);
        assert_eq!(started.elapsed().as_secs(), seconds);
        let within = if seconds == 90 { "1m30s".to_owned() } else { format!("{seconds}s") };
        assert_eq!(answer["message"], format!("Timeout: request did not complete within requested timeout {within}"));
        assert_eq!((&answer["reason"], &answer["details"]), (&json!("Timeout"), &json!({})));
        assert_ne!(initializers(&client.get(&at(name)).await.with_code(200)), &Value::Null);
        client.post(CONFIG_MAPS, config_map(name)).await.refused(409);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_waits_too_although_nothing_is_stored() {
    let client = client();
    let dry_run = format!("{CONFIG_MAPS}?dryRun=All");
    let started = Instant::now();
    assert_eq!(
        client.post(&dry_run, one("a")).await.refused(504),
        "Timeout: request did not complete within requested timeout 30s"
    );
    assert_eq!(started.elapsed(), Duration::from_secs(30));
    client.get(&at("a")).await.refused(404);
    client.post(&format!("{dry_run}&{WITH_UNINITIALIZED}"), one("a")).await.with_code(202);
}

#[tokio::test]
async fn a_deletion_ends_the_wait() {
    let client = client();
    let create = waiting(&client, "", one("c1")).await;
    client.delete(&at("c1")).await.with_code(200);
    let answer = create.await.unwrap().with_code(500);
    let why = "object deleted while waiting for creation";
    assert_eq!(answer["message"], format!("Internal error occurred: {why}"));
    assert_eq!(
        (&answer["reason"], &answer["details"]),
        (&json!("InternalError"), &json!({"causes": [{"message": why}]}))
    );
}

#[tokio::test]
async fn a_deletecollection_deletes_uninitialized_objects() {
    let client = client();
    let create = waiting(&client, "", one("c1")).await;
    let deleted = client.delete(CONFIG_MAPS).await.with_code(200);
    assert_eq!(deleted["items"][0]["metadata"]["name"], "c1");
    create.await.unwrap().refused(500);
    client.get(&at("c1")).await.refused(404);
}

#[tokio::test]
async fn a_result_deletes_the_object_and_answers_the_create() {
    let client = client();
    let mut all = client.watch(&format!("{CONFIG_MAPS}?watch=1&{WITH_UNINITIALIZED}")).await;
    for (name, result, code) in [
        (
            "a",
            json!({"status": "Failure", "code": 409, "reason": "Conflict", "message": "no such luck", "details": {"kind": "x"}}),
            409,
        ),
        ("b", json!({"status": "Failure"}), 500),
        ("c", json!({"status": "Failure", "code": 70_000, "message": "m"}), 500),
    ] {
        let create = waiting(&client, "", one(name)).await;
        let patch = json!({"metadata": {"initializers": {"result": result}}});
        let patched = client.patch(&at(name), "merge", patch).await.with_code(200);
        assert_eq!(initializers(&patched)["result"], result);
        let answer = create.await.unwrap().with_code(code);
        assert_eq!(
            (&answer["kind"], &answer["status"], &answer["code"]),
            (&json!("Status"), &json!("Failure"), &json!(code))
        );
        if code == 409 {
            for field in ["reason", "message", "details"] {
                assert_eq!(answer[field], result[field]);
            }
        } else {
            assert_eq!(answer["reason"], Value::Null);
        }
        client.get(&at(name)).await.refused(404);
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            assert_eq!(all.next_name().await, pair(kind, name));
        }
    }
}

#[tokio::test]
async fn a_result_of_a_new_object_is_its_answer() {
    let client = client();
    let mut object = config_map("a");
    object["metadata"]["initializers"] = json!({"result": {"status": "Failure", "code": 418, "message": "no"}});
    assert_eq!(client.post(CONFIG_MAPS, object).await.refused(418), "no");
}

#[tokio::test]
async fn names_and_results_are_checked() {
    let client = client();
    let short = "should be a domain with at least three segments separated by dots";
    let field = "metadata.initializers.pending[0].name";
    assert_eq!(
        client.post(CONFIG_MAPS, waiting_for(config_map("a"), &["a.b"])).await.refused(422),
        format!("ConfigMap \"a\" is invalid: {field}: Invalid value: \"a.b\": {short}")
    );
    client.post(&format!("{CONFIG_MAPS}?{WITH_UNINITIALIZED}"), one("a")).await.with_code(202);
    let patch = |value: Value| json!({"metadata": {"initializers": value}});
    let answer =
        client.patch(&at("a"), "merge", patch(json!({"pending": [{"name": "bad name"}]}))).await.with_code(422);
    // The recorded answer has the cause twice.
    assert_eq!(answer["details"]["causes"].as_array().unwrap().len(), 2);
    assert!(answer["message"].as_str().unwrap().contains("\"bad name\": a DNS-1123 subdomain must consist of"));
    assert_eq!(
        client.patch(&at("a"), "merge", patch(json!({"result": {"status": "Success"}}))).await.refused(422),
        "ConfigMap \"a\" is invalid: metadata.initializers.result.status: Invalid value: \"Success\": must be 'Failure'"
    );
}

#[tokio::test]
async fn an_initialized_object_stays_initialized() {
    let client = client();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let patch = json!({"metadata": {"initializers": {"pending": [{"name": "a.b.c"}]}}});
    assert_eq!(
        client.patch(&at("a"), "merge", patch).await.refused(422),
        "ConfigMap \"a\" is invalid: metadata.initializers: Invalid value: \"null\": field is immutable once initialization has completed"
    );
}

#[tokio::test]
async fn an_uninitialized_pod_is_bound_but_has_no_status() {
    let client = client();
    let uninitialized = waiting_for(pod("p"), &["one.lab.io"]);
    client.post(&format!("{PODS}?{WITH_UNINITIALIZED}"), uninitialized).await.with_code(202);
    let status = json!({"status": {"phase": "Running"}});
    let path = format!("{PODS}/p/status");
    assert_eq!(
        client.patch(&path, "merge", status.clone()).await.refused(422),
        "Pod \"p\" is invalid: status: Forbidden: must not update status when the object is uninitialized"
    );
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{PODS}/p/binding"), binding).await.with_code(201);
    client.patch(&format!("{PODS}/p"), "merge", json!({"metadata": {"initializers": null}})).await.with_code(200);
    client.patch(&path, "merge", status).await.with_code(200);
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_waiting_creates() {
    let client = client();
    let first = waiting(&client, "", one("a")).await;
    let _second = waiting(&client, "", one("b")).await;
    assert_eq!(client.post(CONFIG_MAPS, one("c")).await.refused(429), "Too many requests, please try again later.");
    client.get(&at("c")).await.refused(404);
    client.post(CONFIG_MAPS, config_map("d")).await.with_code(201);
    let other = Arc::new(client.header("impersonate-user", "other"));
    let _third = waiting(&other, "", one("c")).await;
    initialize(&client, "a").await;
    first.await.unwrap().with_code(201);
    let _place_is_free = waiting(&client, "", one("e")).await;
}

#[tokio::test]
async fn a_wait_ends_with_its_client() {
    let client = client();
    for name in ["a", "b", "c"] {
        let create = waiting(&client, "", one(name)).await;
        create.abort();
        assert!(create.await.unwrap_err().is_cancelled());
    }
    client.get(&at("c")).await.with_code(200);
}

#[tokio::test]
async fn a_wait_outlasts_a_full_queue() {
    let client = with_limits(Limits { watcher_queue: 1, ..Limits::default() });
    let done = waiting(&client, "", one("a")).await;
    let deleted = waiting(&client, "", one("b")).await;
    client.server.store.with(|state| {
        for (name, object) in [("a", "a"), ("b", "b"), ("x", "x"), ("y", "y")] {
            let object = crate::object::Object::from_value(config_map(object)).unwrap();
            let collection = &Collection::built_in("", "configmaps");
            let key = format!("default/{name}");
            let Some(current) = state.object(collection, &key) else {
                state.put(collection, &key, object);
                continue;
            };
            let mut object = crate::object::Object::clone(&current);
            match name {
                "a" => {
                    object.remove(&["metadata", "initializers"]);
                    state.put(collection, &key, object);
                }
                _ => drop(state.remove(collection, &key, object)),
            }
        }
    });
    done.await.unwrap().with_code(201);
    deleted.await.unwrap().refused(500);
}

#[tokio::test]
async fn objects_are_not_hidden_without_the_switch() {
    let client = Client::new();
    client.post(CONFIG_MAPS, one("a")).await.with_code(201);
    let list = client.get(CONFIG_MAPS).await.with_code(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}
