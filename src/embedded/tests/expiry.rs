//! Events end after their time to live.

use super::client::Client;
use crate::embedded::{Server, Settings, run_controllers};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, advance};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const HOUR: Duration = Duration::from_secs(3600);

fn event(name: &str) -> Value {
    json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "x", "type": "Normal"})
}

fn client(event_ttl: Duration) -> Client {
    let server = Server::with(Arc::default(), Settings { event_ttl, ..Settings::default() });
    run_controllers(&server);
    Client::of(server)
}

#[tokio::test(start_paused = true)]
async fn an_event_is_deleted_an_hour_after_its_last_write() {
    let client = client(HOUR);
    let mut events = client.watch(&format!("{EVENTS}?watch=1&timeoutSeconds=20000")).await;
    client.post(EVENTS, event("once")).await.with_code(201);
    client.post(EVENTS, event("again")).await.with_code(201);
    client.post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "a"}})).await.with_code(201);
    advance(HOUR / 2).await;
    let patch = json!({"message": "x"});
    client.patch(&format!("{EVENTS}/again"), "merge", patch).await.with_code(200);
    let written = Instant::now();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let (kind, name) = events.next_name().await.unwrap();
        if kind == "DELETED" {
            ends.push((name, written.elapsed().as_secs()));
        }
    }
    assert_eq!(ends, [("once".to_owned(), 1800), ("again".to_owned(), 3600)]);
    let left = client.get(EVENTS).await.with_code(200);
    assert_eq!(left["items"], json!([]));
    client.get("/api/v1/namespaces/default/configmaps/a").await.with_code(200);
}

#[tokio::test(start_paused = true)]
async fn events_do_not_end_without_a_time() {
    let client = client(Duration::ZERO);
    client.post(EVENTS, event("a")).await.with_code(201);
    advance(100 * HOUR).await;
    tokio::task::yield_now().await;
    client.get(&format!("{EVENTS}/a")).await.with_code(200);
}
