//! Tests the guarantee of watches: every watcher gets every change of every object once, in order, custom resources and restarts included.

use super::client::{CONFIG_MAPS, Client, config_map};
use super::disk::{Disk, Fate};
use super::kept::{self, DEFINITIONS, GADGETS, gadget, gadgets};
use crate::config::Limits;
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
async fn write(client: Arc<Client>, path: &str, steps: Vec<Step>) -> (History, usize) {
    let (mut made, mut deleted) = (History::new(), 0);
    for step in steps {
        let answer = match &step {
            Step::Create(object) => client.post(path, new(path, &object.to_string())).await,
            Step::Update(object, value) => {
                let patch = json!({"data": {"a": value.to_string()}});
                client.patch(&format!("{path}/{object}"), "merge", patch).await
            }
            Step::Delete(object) => client.delete(&format!("{path}/{object}")).await,
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

/// A change as an event shows it: version, type, name and data.
type Seen = (u64, String, String, Value);

fn new(path: &str, name: &str) -> Value {
    if path == GADGETS { gadget(name) } else { config_map(name) }
}

/// Watches after a version until the object with the name `end` is added.
async fn observe(client: Arc<Client>, path: &'static str, after: u64, end: String) -> Vec<Seen> {
    let mut events = client.watch(&format!("{path}?watch=1&resourceVersion={after}")).await;
    let mut seen = Vec::new();
    while let Some((kind, object)) = events.next().await {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if name == end {
            return seen;
        }
        seen.push((version(&object), kind, name, object["data"].clone()));
    }
    panic!("the watch ended early");
}

const LIMITS: fn() -> Limits = || Limits { watch_history: 10_000, watcher_queue: 10_000, ..Limits::default() };

/// Executes the steps of the writers at the same time, while observers watch. Returns what was made, the number of deletions, and what the
/// observers saw after `after`.
async fn phase(
    client: &Arc<Client>,
    path: &'static str,
    after: u64,
    end: &str,
    writers: Vec<Vec<Step>>,
) -> (History, usize, Vec<Seen>) {
    let watch = || tokio::spawn(observe(client.clone(), path, after, end.to_owned()));
    let observers: Vec<_> = (0..3).map(|_| watch()).collect();
    let writers = writers.into_iter().map(|steps| {
        let client = client.clone();
        tokio::spawn(async move { write(client, path, steps).await })
    });
    let (mut made, mut deleted) = (History::new(), 0);
    for writer in writers.collect::<Vec<_>>() {
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
    let late = watch();
    client.post(path, new(path, end)).await.with_code(201);
    let reference = late.await.unwrap();
    for observer in observers {
        assert_eq!(observer.await.unwrap(), reference, "all watchers see the same");
    }
    (made, deleted, reference)
}

fn compare(reference: &[Seen], made: &History, deleted: usize) {
    assert!(reference.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, each once: {reference:?}");
    let seen: History = reference
        .iter()
        .filter(|(_, kind, ..)| kind != "DELETED")
        .map(|(version, kind, name, data)| (*version, (kind.clone(), name.clone(), data.clone())))
        .collect();
    assert_eq!(&seen, made, "what was written is what was seen");
    assert_eq!(reference.len() - seen.len(), deleted, "and so are the deletions");
    let mut alive = std::collections::HashSet::new();
    for (_, kind, name, _) in reference {
        let is_sound = match kind.as_str() {
            "ADDED" => alive.insert(name),
            "MODIFIED" => alive.contains(name),
            _ => alive.remove(name),
        };
        assert!(is_sound, "{kind} of {name} out of turn: {reference:?}");
    }
}

async fn check(path: &'static str, writers: Vec<Vec<Step>>) {
    let client = Arc::new(Client::with_limits(LIMITS()));
    client.post(DEFINITIONS, gadgets()).await.with_code(201);
    let start = version(&client.get(path).await.with_code(200));
    let (made, deleted, reference) = phase(&client, path, start, "end", writers).await;
    compare(&reference, &made, deleted);
}

/// The same with a file, and a crash of the process and the disk after each phase. A client continues after the last version that it saw.
async fn check_with_crashes(path: &'static str, phases: Vec<(Vec<Vec<Step>>, Vec<Fate>)>) {
    let mut disk = Disk::default();
    let mut client = Arc::new(kept::on(&disk, Arc::new(LIMITS())));
    client.post(DEFINITIONS, gadgets()).await.with_code(201);
    let start = version(&client.get(path).await.with_code(200));
    let (mut all, mut made, mut deleted) = (Vec::new(), History::new(), 0);
    let mut last = start;
    for (number, (writers, fates)) in phases.into_iter().enumerate() {
        let end = format!("end-{number}");
        let (history, deletions, seen) = phase(&client, path, last, &end, writers).await;
        let marker = client.get(&format!("{path}/{end}")).await.with_code(200);
        last = version(&marker);
        // A write that changes nothing may report a version of an earlier phase.
        history.into_iter().for_each(|(version, change)| _ = made.entry(version).or_insert(change));
        made.insert(last, ("ADDED".into(), end.clone(), marker["data"].clone()));
        deleted += deletions;
        all.extend(seen);
        all.push((last, "ADDED".into(), end, marker["data"].clone()));
        disk = disk.after_crash(disk.now(), &fates);
        client = Arc::new(kept::on(&disk, Arc::new(LIMITS())));
    }
    compare(&all, &made, deleted);
    let whole = observe(client.clone(), path, start, "end".to_owned());
    let create = async { client.post(path, new(path, "end")).await.with_code(201) };
    assert_eq!(futures_util::join!(whole, create).0, all, "the history outlasts the crashes");
}

fn path() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(CONFIG_MAPS), Just(GADGETS)]
}

fn writers() -> impl Strategy<Value = Vec<Vec<Step>>> {
    proptest::collection::vec(proptest::collection::vec(step(), 0..40), 1..5)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_watcher_sees_every_change_of_every_object_once_and_in_order(path in path(), writers in writers()) {
        run(check(path, writers));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_watcher_that_continues_after_crashes_sees_every_change_once(
        path in path(),
        phases in proptest::collection::vec((writers(), proptest::collection::vec(kept::fate(), 1..5)), 1..4),
    ) {
        run(check_with_crashes(path, phases));
    }
}

#[tokio::test]
async fn a_head_request_has_no_body() {
    let client = Client::new();
    let response = client.send(Method::HEAD, "/healthz", "", crate::body::empty()).await;
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    assert!(bytes.is_empty());
}
