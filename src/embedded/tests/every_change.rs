//! Tests the guarantee of watches: every watcher gets every change of every object once, in order.

use super::super::Limits;
use super::client::{CONFIG_MAPS, Client, config_map};
use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A write to one of a few objects that all writers share.
#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Update(u8, u16),
    Delete(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..4u8;
    prop_oneof![
        object.clone().prop_map(Step::Create),
        (object.clone(), any::<u16>()).prop_map(|(object, value)| Step::Update(object, value)),
        object.prop_map(Step::Delete),
    ]
}

/// The changes of an object by version: type, name and data.
type History = BTreeMap<u64, (String, String, Value)>;

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Executes the steps in order. Returns the changes in the server's responses, and the number of deletions, whose responses have no
/// version.
async fn write(client: Arc<Client>, steps: Vec<Step>) -> (History, usize) {
    let (mut made, mut deleted) = (History::new(), 0);
    for step in steps {
        let answer = match &step {
            Step::Create(object) => client.post(CONFIG_MAPS, config_map(&object.to_string())).await,
            Step::Update(object, value) => {
                let patch = json!({"data": {"a": value.to_string()}});
                client.patch(&format!("{CONFIG_MAPS}/{object}"), "merge", patch).await
            }
            Step::Delete(object) => client.delete(&format!("{CONFIG_MAPS}/{object}")).await,
        };
        let kind = match (&step, answer.code) {
            (Step::Create(_), 201) => "ADDED",
            (Step::Update(..), 200) => "MODIFIED",
            (Step::Delete(_), 200) => {
                deleted += 1;
                continue;
            }
            (Step::Create(_), 409) | (_, 404) => continue,
            other => panic!("{other:?}: {answer:?}"),
        };
        let name = answer.body["metadata"]["name"].as_str().unwrap().to_owned();
        // The response of a patch that changes nothing has the version before the patch.
        made.entry(version(&answer.body)).or_insert((kind.into(), name, answer.body["data"].clone()));
        tokio::task::yield_now().await;
    }
    (made, deleted)
}

/// Watches until the object with the name `end` is added.
async fn observe(client: Arc<Client>, query: String) -> Vec<(u64, String, String, Value)> {
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1{query}")).await;
    let mut seen = Vec::new();
    while let Some((kind, object)) = events.next().await {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if name == "end" {
            return seen;
        }
        seen.push((version(&object), kind, name, object["data"].clone()));
    }
    panic!("the watch ended early");
}

async fn check(writers: Vec<Vec<Step>>) {
    let client = Arc::new(Client::with_limits(Limits { history: 10_000, watcher_queue: 10_000, ..Limits::default() }));
    let start = version(&client.get(CONFIG_MAPS).await.with_code(200));
    let observers: Vec<_> =
        (0..3).map(|_| tokio::spawn(observe(client.clone(), format!("&resourceVersion={start}")))).collect();
    let writers: Vec<_> = writers.into_iter().map(|steps| tokio::spawn(write(client.clone(), steps))).collect();
    let (mut made, mut deleted) = (History::new(), 0);
    for writer in writers {
        let (history, deletions) = writer.await.unwrap();
        deleted += deletions;
        for (version, change) in history {
            // Another writer's no-op may report the same version, with equal data; only the creation has a type of its own.
            made.entry(version)
                .and_modify(|known| {
                    if change.0 == "ADDED" {
                        *known = change.clone();
                    }
                })
                .or_insert(change);
        }
    }
    let late = tokio::spawn(observe(client.clone(), format!("&resourceVersion={start}")));
    client.post(CONFIG_MAPS, config_map("end")).await.with_code(201);
    let reference = late.await.unwrap();
    for observer in observers {
        assert_eq!(observer.await.unwrap(), reference, "all watchers see the same");
    }
    assert!(reference.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, each once: {reference:?}");
    let seen: History = reference
        .iter()
        .filter(|(_, kind, ..)| kind != "DELETED")
        .map(|(version, kind, name, data)| (*version, (kind.clone(), name.clone(), data.clone())))
        .collect();
    assert_eq!(seen, made, "what was written is what was seen");
    assert_eq!(reference.len() - seen.len(), deleted, "and so are the deletions");
    let mut alive = std::collections::HashSet::new();
    for (_, kind, name, _) in &reference {
        let is_sound = match kind.as_str() {
            "ADDED" => alive.insert(name),
            "MODIFIED" => alive.contains(name),
            _ => alive.remove(name),
        };
        assert!(is_sound, "{kind} of {name} out of turn: {reference:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_watcher_sees_every_change_of_every_object_once_and_in_order(
        writers in proptest::collection::vec(proptest::collection::vec(step(), 0..40), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(check(writers));
    }
}

#[tokio::test]
async fn a_head_request_has_no_body() {
    let client = Client::new();
    let response = client.send(Method::HEAD, "/healthz", "", crate::body::empty()).await;
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    assert!(bytes.is_empty());
}
