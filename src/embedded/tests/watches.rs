//! Watches: their starts, events and ends.

use super::client::{CONFIG_MAPS, Client, PODS, config_map, pair, pod};
use crate::config::Limits;
use crate::embedded::store::Collection;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_watch_shows_what_is_there_and_then_what_happens() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!(events.next_name().await, pair("ADDED", "a"));
    client.post("/api/v1/namespaces/other/configmaps", config_map("x")).await.with_code(201);
    client.post(CONFIG_MAPS, config_map("b")).await.with_code(201);
    let patch = json!({"data": {"a": "2"}});
    let patched = client.patch(&format!("{CONFIG_MAPS}/b"), "merge", patch).await.with_code(200);
    client.delete(&format!("{CONFIG_MAPS}/b")).await.with_code(200);
    assert_eq!(events.next_name().await, pair("ADDED", "b"));
    assert_eq!(events.next().await, Some(("MODIFIED".into(), patched.clone())));
    let (kind, deleted) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &deleted["data"]), ("DELETED", &patched["data"]));
    assert_ne!(deleted["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_watch_goes_on_from_a_version() {
    let client = Client::new();
    let created = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    client.post(CONFIG_MAPS, config_map("b")).await.with_code(201);
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}")).await;
    assert_eq!(events.next_name().await, pair("ADDED", "b"));
    let mut legacy =
        client.watch(&format!("/api/v1/watch/namespaces/default/configmaps/b?resourceVersion={version}")).await;
    assert_eq!(legacy.next_name().await, pair("ADDED", "b"));
}

#[tokio::test]
async fn a_watch_from_the_future_waits_for_it() {
    let client = Client::new();
    let created = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let version: u64 = created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version + 1)).await;
    for name in ["b", "c"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    assert_eq!(events.next_name().await, pair("ADDED", "c"));
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_is_expired() {
    let client = Client::with_limits(Limits { watch_history: 2, ..Limits::default() });
    let created = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    for name in ["b", "c", "d"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    let version: u64 = created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}")).await;
    let (kind, status) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
    assert_eq!(status["message"], format!("too old resource version: {version} ({})", version + 1));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_selector_makes_objects_appear_and_vanish() {
    let client = Client::new();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=on%3Dyes")).await;
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let path = format!("{CONFIG_MAPS}/a");
    let label = |value: &str| json!({"metadata": {"labels": {"on": value}}});
    let shown = client.patch(&path, "merge", label("yes")).await.with_code(200);
    let hidden = client.patch(&path, "merge", label("no")).await.with_code(200);
    client.delete(&path).await.with_code(200);
    client.post(CONFIG_MAPS, json!({"metadata": {"name": "b", "labels": {"on": "yes"}}})).await.with_code(201);
    assert_eq!(events.next().await, Some(("ADDED".into(), shown.clone())));
    let (kind, last) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &last["metadata"]["labels"]), ("DELETED", &shown["metadata"]["labels"]));
    assert_eq!(last["metadata"]["resourceVersion"], hidden["metadata"]["resourceVersion"]);
    assert_eq!(events.next_name().await, pair("ADDED", "b"));
}

#[tokio::test]
async fn a_bookmark_ends_the_initial_events() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(events.next_name().await, pair("ADDED", "a"));
    let (kind, object) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &object["kind"]), ("BOOKMARK", &json!("ConfigMap")));
    assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    let list = client.get(CONFIG_MAPS).await.with_code(200);
    assert_eq!(object["metadata"]["resourceVersion"], list["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn the_bookmark_after_the_initial_events_has_the_form_of_the_watch() {
    let query = "watch=1&allowWatchBookmarks=true&includeObject=None";
    for form in ["Table", "PartialObjectMetadata"] {
        let client = Client::new().header("accept", &format!("application/json;as={form};v=v1;g=meta.k8s.io"));
        let mut events = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
        let (kind, object) = events.next().await.unwrap();
        assert_eq!((kind.as_str(), &object["kind"]), ("BOOKMARK", &json!(form)));
        let object = if form == "Table" { &object["rows"][0]["object"] } else { &object };
        assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}), "{form}");
    }
    // Without a version the first events are the objects, with an end; the old path has no such default.
    let client = Client::new();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion=0")).await;
    assert_eq!(events.next().await.unwrap().0, "BOOKMARK");
}

#[tokio::test]
async fn initial_events_of_the_future_are_an_error() {
    let client = Client::new();
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999";
    let mut events = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    let (kind, status) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(504), &json!("Timeout")));
    assert!(status["message"].as_str().unwrap().starts_with("Timeout: Too large resource version: 999999, current: "));
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_where_allowed_and_the_watch_ends_in_time() {
    let client = Client::with_limits(Limits { bookmark_interval: Duration::from_secs(60), ..Limits::default() });
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=90")).await;
    let mut without = client.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=90")).await;
    let (kind, object) = events.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &object["metadata"]["annotations"]["k8s.io/initial-events-end"]),
        ("BOOKMARK", &json!("true"))
    );
    let elsewhere = client.post(PODS, pod("p")).await.with_code(201);
    let (kind, object) = events.next().await.unwrap();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["metadata"]["annotations"], Value::Null);
    assert_eq!(object["metadata"]["resourceVersion"], elsewhere["metadata"]["resourceVersion"]);
    assert_eq!(events.next().await, None);
    assert_eq!(without.next().await, None);
}

#[tokio::test]
async fn a_slow_watch_ends_without_a_gap() {
    let client = Client::with_limits(Limits { watcher_queue: 2, ..Limits::default() });
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    for name in ["a", "b", "c"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    assert_eq!(events.next_name().await, pair("ADDED", "a"));
    assert_eq!(events.next_name().await, pair("ADDED", "b"));
    assert_eq!(events.next_name().await, None);
}

#[tokio::test]
async fn options_of_watches_are_checked() {
    let client = Client::new();
    for (query, code) in [
        ("sendInitialEvents=true", 422),
        ("resourceVersionMatch=NotOlderThan", 422),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", 422),
        ("resourceVersion=x", 500),
        ("limit=x", 400),
        ("timeoutSeconds=x", 400),
    ] {
        client.get(&format!("{CONFIG_MAPS}?watch=1&{query}")).await.refused(code);
    }
    // A path of the old form has the rules of a list, unless the query says that it is a watch.
    let old = "/api/v1/watch/namespaces/default/configmaps/a";
    for (query, message) in [
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
        ("fieldSelector=metadata.name%3Db", "fieldSelector metadata.name doesn't match requested name"),
    ] {
        let answer = client.get(&format!("{old}?{query}")).await;
        assert!(answer.body["message"].as_str().unwrap().ends_with(message), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_watch_that_nobody_reads_shares_the_objects_of_the_store() {
    let client = Client::new();
    for name in ["a", "b"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    let holders = || {
        let found =
            client.server.store.with(|state| state.object(&Collection::built_in("", "configmaps"), "default/b"));
        Arc::strong_count(&found.unwrap())
    };
    let before = holders();
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(client.watch(&format!("{CONFIG_MAPS}?watch=1")).await);
    }
    assert_eq!(holders(), before + 10);
    for events in &mut watches {
        assert_eq!(events.next_name().await, pair("ADDED", "a"));
        assert_eq!(events.next_name().await, pair("ADDED", "b"));
    }
    assert_eq!(holders(), before);
}
