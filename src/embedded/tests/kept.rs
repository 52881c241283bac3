//! A server whose objects are kept in a file: restarts, crashes, and disks that fail.

use super::client::{CONFIG_MAPS, Client, config_map, pair};
use super::disk::{Disk, Fate};
use crate::config::{Limits, TokenFiles};
use crate::embedded::store::{Collection, File, FileError, Store};
use crate::embedded::{DataDir, Server, Settings, Tokens};
use crate::object::Object;
use crate::object::decode::MAX_DEPTH;
use futures_util::poll;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

pub(super) fn gadgets() -> Value {
    json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

pub(super) fn gadget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// A client of a server with the objects on a disk.
pub(super) fn on(disk: &Disk, limits: Arc<Limits>) -> Client {
    let features = Settings { rbac: true, ..Settings::default() };
    Client::of(Server::kept(disk.file(), limits, features).unwrap())
}

/// The client after a restart.
async fn again(client: Client, disk: &Disk, limits: Arc<Limits>) -> Client {
    client.server.close().await;
    drop(client);
    on(disk, limits)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_restart_changes_nothing_that_clients_see() {
    let disk = Disk::default();
    let client = on(&disk, Arc::default());
    client.post(DEFINITIONS, gadgets()).await.with_code(201);
    client.post(GADGETS, gadget("g")).await.with_code(201);
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    client.post(CONFIG_MAPS, config_map("b")).await.with_code(201);
    client.delete(&format!("{CONFIG_MAPS}/a")).await.with_code(200);
    client.delete("/apis/rbac.authorization.k8s.io/v1/clusterroles/view").await.with_code(200);
    let paths = [CONFIG_MAPS, GADGETS, DEFINITIONS, "/api/v1/namespaces", "/api/v1/serviceaccounts"];
    let mut before = Vec::new();
    for path in paths {
        before.push(client.get(path).await.with_code(200)["items"].clone());
    }
    let newest = version(&client.get(CONFIG_MAPS).await.with_code(200));
    let client = again(client, &disk, Arc::default()).await;
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(client.get(path).await.with_code(200)["items"], before, "{path}");
    }
    client.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view").await.with_code(200);
    let created = client.post(GADGETS, gadget("h")).await.with_code(201);
    assert!(version(&created) > newest);
}

#[tokio::test]
async fn the_deepest_object_outlasts_a_restart() {
    let disk = Disk::default();
    let client = on(&disk, Arc::default());
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    // The object itself is one level.
    let data = (2..MAX_DEPTH).fold(json!({}), |data, _| json!({ "a": data }));
    let deep = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "d"}, "revision": 1, "data": data});
    let created = client.post(&format!("{path}?fieldManager=m"), deep.clone()).await.with_code(201);
    let mut gadget = gadget("g");
    gadget["data"] = deep["data"].clone();
    client.post(DEFINITIONS, gadgets()).await.with_code(201);
    client.post(&format!("{GADGETS}?fieldManager=m"), gadget).await.with_code(201);
    let client = again(client, &disk, Arc::default()).await;
    assert_eq!(client.get(&format!("{path}/d")).await.with_code(200), created);
    assert_eq!(client.get(&format!("{GADGETS}/g")).await.with_code(200)["data"], deep["data"]);
}

#[tokio::test]
async fn objects_that_fell_out_of_the_history_are_listed_and_changed_as_before() {
    let limits = Arc::new(Limits { watch_history: 2, ..Limits::default() });
    let disk = Disk::default();
    let client = on(&disk, limits.clone());
    for name in ["a", "b", "c", "d"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    let before = client.get(CONFIG_MAPS).await.with_code(200);
    let client = again(client, &disk, limits.clone()).await;
    assert_eq!(client.get(CONFIG_MAPS).await.with_code(200), before);
    let page = client.get(&format!("{CONFIG_MAPS}?limit=1")).await.with_code(200);
    assert_eq!((&page["items"][0], &page["metadata"]["remainingItemCount"]), (&before["items"][0], &json!(3)));
    let patch = json!({"data": {"a": "2"}});
    client.patch(&format!("{CONFIG_MAPS}/a"), "merge", patch).await.with_code(200);
    client.delete(&format!("{CONFIG_MAPS}/b")).await.with_code(200);
    let client = again(client, &disk, limits.clone()).await;
    let names = client.get(CONFIG_MAPS).await.with_code(200)["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item["data"]["a"].clone()))
        .collect::<Vec<_>>();
    assert_eq!(names, [("a".into(), json!("2")), ("c".into(), json!("1")), ("d".into(), json!("1"))]);
    let events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await.next_name().await;
    assert_eq!(events, pair("ADDED", "a"));
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart_and_an_old_list_is_still_there() {
    let disk = Disk::default();
    let client = on(&disk, Arc::default());
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let start = version(&client.get(CONFIG_MAPS).await.with_code(200));
    client.post(CONFIG_MAPS, config_map("b")).await.with_code(201);
    client.delete(&format!("{CONFIG_MAPS}/a")).await.with_code(200);
    let old = format!("{CONFIG_MAPS}?resourceVersion={start}&resourceVersionMatch=Exact");
    let before = client.get(&old).await.with_code(200);
    let client = again(client, &disk, Arc::default()).await;
    client.post(CONFIG_MAPS, config_map("c")).await.with_code(201);
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).await;
    assert_eq!(events.next_name().await, pair("ADDED", "b"));
    assert_eq!(events.next_name().await, pair("DELETED", "a"));
    assert_eq!(events.next_name().await, pair("ADDED", "c"));
    assert_eq!(client.get(&old).await.with_code(200), before);
}

#[tokio::test]
async fn a_watch_from_before_the_history_has_expired_after_a_restart_too() {
    let limits = Arc::new(Limits { watch_history: 3, ..Limits::default() });
    let disk = Disk::default();
    let client = on(&disk, limits.clone());
    let first = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    for value in 0..5 {
        let patch = json!({"data": {"a": format!("v{value}")}});
        client.patch(&format!("{CONFIG_MAPS}/a"), "merge", patch).await.with_code(200);
    }
    client.delete(&format!("{CONFIG_MAPS}/a")).await.with_code(200);
    let client = again(client, &disk, limits.clone()).await;
    let newest = version(&client.get(CONFIG_MAPS).await.with_code(200));
    let from = |revision: u64| format!("{CONFIG_MAPS}?watch=1&resourceVersion={revision}");
    let (kind, status) = client.watch(&from(version(&first))).await.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(410)));
    let mut events = client.watch(&from(newest - 3)).await;
    assert_eq!(events.next().await.unwrap().1["data"]["a"], "v3");
    assert_eq!(events.next().await.unwrap().1["data"]["a"], "v4");
    assert_eq!(events.next_name().await, pair("DELETED", "a"));
    client.get(&format!("{CONFIG_MAPS}/a")).await.refused(404);
}

#[tokio::test]
async fn a_definition_of_an_old_name_does_not_take_over_the_history() {
    let disk = Disk::default();
    let client = on(&disk, Arc::default());
    client.post(DEFINITIONS, gadgets()).await.with_code(201);
    let old = client.post(GADGETS, gadget("g")).await.with_code(201);
    client.delete(&format!("{DEFINITIONS}/gadgets.example.com")).await.with_code(200);
    let mut client = client;
    for _ in 0..2 {
        client.post(DEFINITIONS, gadgets()).await.with_code(201);
        assert_eq!(client.get(GADGETS).await.with_code(200)["items"], json!([]));
        let from = format!("{GADGETS}?watch=1&resourceVersion={}", version(&old));
        assert_eq!(client.watch(&from).await.next().await.unwrap().1["code"], 410);
        client.delete(&format!("{DEFINITIONS}/gadgets.example.com")).await.with_code(200);
        client = again(client, &disk, Arc::default()).await;
    }
}

#[tokio::test]
async fn a_change_is_invisible_until_the_disk_has_it() {
    let disk = Disk::default();
    let client = on(&disk, Arc::default());
    let start = version(&client.get(CONFIG_MAPS).await.with_code(200));
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).await;
    disk.pause(true);
    let mut create = Box::pin(client.post(CONFIG_MAPS, config_map("a")));
    assert!(poll!(&mut create).is_pending());
    let path = format!("{CONFIG_MAPS}/a");
    let mut get = Box::pin(client.get(&path));
    assert!(poll!(&mut get).is_pending());
    {
        let mut event = pin!(events.next_name());
        assert!(poll!(&mut event).is_pending());
        disk.pause(false);
        assert_eq!(event.await, pair("ADDED", "a"));
    }
    create.await.with_code(201);
    get.await.with_code(200);
}

#[tokio::test]
async fn a_full_disk_ends_the_service_and_loses_nothing_that_was_answered() {
    let disk = Disk::default();
    let client = on(&disk, Arc::default());
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let health = client.server.data_health().unwrap();
    health().unwrap();
    disk.fill(true);
    let lost = client.post(CONFIG_MAPS, config_map("b")).await.refused(500);
    assert!(lost.contains("the change may be lost, because the data folder cannot be written"), "{lost}");
    assert!(health().unwrap_err().to_string().starts_with("test: "));
    client.post(CONFIG_MAPS, config_map("c")).await.refused(503);
    client.get(CONFIG_MAPS).await.refused(503);
    disk.fill(false);
    client.post(CONFIG_MAPS, config_map("d")).await.refused(503);
    drop(client);
    let crashed = disk.after_crash(disk.now(), &[Fate::Written]);
    let client = on(&crashed, Arc::default());
    client.get(&format!("{CONFIG_MAPS}/a")).await.with_code(200);
    client.get(&format!("{CONFIG_MAPS}/c")).await.refused(404);
}

#[tokio::test]
async fn a_token_is_accepted_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let review = |token: &str| json!({"spec": {"token": token}});
    let start = || {
        let data = DataDir::open(folder.path()).unwrap();
        let files = TokenFiles { signing_key: Some(data.token_key().unwrap()), ..TokenFiles::default() };
        let features = Settings { tokens: Tokens::from_files(&files).unwrap(), ..Settings::default() };
        Client::of(Server::kept_in(&data, Arc::default(), features).unwrap())
    };
    let client = start();
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = client.post(path, json!({"spec": {}})).await.with_code(201)["status"]["token"].clone();
    client.server.close().await;
    drop(client);
    let status = start().post("/apis/authentication.k8s.io/v1/tokenreviews", review(token.as_str().unwrap())).await;
    assert_eq!(status.with_code(201)["status"]["authenticated"], true);
}

#[tokio::test]
async fn the_service_of_the_server_follows_its_port_over_restarts() {
    const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let disk = Disk::default();
    let start = |advertised: &str| {
        let features = Settings { advertised: Some(advertised.parse().unwrap()), ..Settings::default() };
        Client::of(Server::kept(disk.file(), Arc::default(), features).unwrap())
    };
    let mut seen = Vec::new();
    for advertised in ["192.0.2.1:6443", "192.0.2.1:6443", "192.0.2.2:7443", "[2001:db8::1]:7443"] {
        let client = start(advertised);
        let services = client.get("/api/v1/services").await.with_code(200);
        assert_eq!(services["items"].as_array().unwrap().len(), 1);
        let endpoints = client.get("/api/v1/namespaces/default/endpoints/kubernetes").await.with_code(200);
        let slices = client.get(SLICES).await.with_code(200);
        let [slice] = &slices["items"].as_array().unwrap()[..] else { panic!("{slices}") };
        let address = advertised.parse::<std::net::SocketAddr>().unwrap();
        assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": address.ip().to_string()}]));
        assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], address.port());
        assert_eq!(slice["endpoints"][0]["addresses"], json!([address.ip().to_string()]));
        assert_eq!(
            (&slice["ports"][0]["port"], &services["items"][0]["spec"]["clusterIP"]),
            (&json!(address.port()), &json!("10.96.0.1"))
        );
        seen.push((version(&services["items"][0]), version(&endpoints), version(slice)));
        client.server.close().await;
    }
    assert_eq!(seen[0], seen[1], "an unchanged server writes nothing");
    assert!(seen.iter().all(|versions| versions.0 == seen[0].0), "the Service stays");
}

#[tokio::test]
async fn a_new_certificate_is_published_in_the_old_namespaces() {
    let disk = Disk::default();
    let start = |ca: &str| {
        let features = Settings { root_ca: Some(ca.to_owned()), ..Settings::default() };
        Client::of(Server::kept(disk.file(), Arc::default(), features).unwrap())
    };
    let client = start("old");
    client.post("/api/v1/namespaces", json!({"metadata": {"name": "mine"}})).await.with_code(201);
    client.server.close().await;
    drop(client);
    let published = start("new").get("/api/v1/namespaces/mine/configmaps/kube-root-ca.crt").await.with_code(200);
    assert_eq!(published["data"]["ca.crt"], "new");
}

#[test]
fn a_file_of_another_format_is_refused_with_a_sentence() {
    let disk = Disk::default();
    drop(disk.file());
    let database = redb::Database::builder().create_with_backend(disk.clone()).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(redb::TableDefinition::<&str, u64>::new("numbers")).unwrap().insert("format", 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = File::in_backend(disk).err().unwrap();
    assert!(matches!(error, FileError::Format { found: 2, .. }));
    let text =
        "test: the format is 2, and this version reads format 1: use the version that wrote the file, or a newer one";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_large_file_that_is_mostly_free_is_made_smaller_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects.redb");
    let size = || std::fs::metadata(&objects).unwrap().len();
    let limits = Arc::new(Limits { watch_history: 1, watcher_queue: 1, unwritten_changes: 1, ..Limits::default() });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let open = || {
        let data = DataDir::open(folder.path()).unwrap();
        Store::open(limits.clone(), Arc::default(), data.objects(1 << 20).unwrap()).unwrap()
    };
    let things = Collection::built_in("", "things");
    let store = open();
    let large =
        |n: usize| Object::from_value(json!({"metadata": {"name": n.to_string()}, "data": "x".repeat(1 << 20)}));
    for n in 0..24 {
        store.with(|state| state.put(&things, &n.to_string(), large(n).unwrap()));
    }
    for n in 0..24 {
        store.with(|state| state.remove(&things, &n.to_string(), large(n).unwrap()));
    }
    runtime.block_on(store.close());
    drop(store);
    let before = size();
    let store = open();
    assert!(size() < before / 2, "{before} -> {}", size());
    runtime.block_on(store.close());
}

/// The objects in a folder, or the reason why it is refused.
fn content(folder: &Path) -> Result<(u64, BTreeMap<String, Value>), FileError> {
    let limits = Arc::new(Limits { watch_history: 8, watcher_queue: 1, unwritten_changes: 100, ..Limits::default() });
    let things = Collection::built_in("", "things");
    let data = DataDir::open(folder)?;
    let store = Store::open(limits.clone(), Arc::default(), data.objects(1 << 20)?)?;
    let found = (store.with(|state| state.revision()), seen(&store, &things));
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(store.close());
    Ok(found)
}

/// The size of the header of a database.
const HEADER: usize = 320;

#[test]
fn a_damaged_file_is_refused_with_a_sentence_or_shows_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, lock) = (folder.path().join("objects.redb"), folder.path().join("lock"));
    let files = || (std::fs::read(&objects).unwrap(), std::fs::read(&lock).unwrap());
    let limits = Arc::new(Limits { watch_history: 8, watcher_queue: 1, unwritten_changes: 100, ..Limits::default() });
    let things = Collection::built_in("", "things");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let store = Store::open(limits.clone(), Arc::default(), data.objects(1 << 20).unwrap()).unwrap();
    for n in 0..60 {
        let name = (n % 40).to_string();
        let object = json!({"metadata": {"name": name}, "n": n, "data": "x".repeat(n * 20)});
        store.with(|state| state.put(&things, &name, Object::from_value(object).unwrap()));
        runtime.block_on(store.settled()).unwrap();
    }
    let killed = files();
    runtime.block_on(store.close());
    drop((store, data));
    let closed = files();
    let expected = content(folder.path()).unwrap();
    let is_clear = |error: &FileError| {
        let text = error.to_string();
        text.starts_with(&objects.display().to_string()) && text.ends_with("restore the folder from a copy")
    };
    let (mut refused, mut harmless, mut failures) = (0, 0, Vec::new());
    for (bytes, noted) in [&killed, &closed] {
        // Bytes of the header, and bytes all over the pages. Each test of a place takes two synchronizations of the disk.
        let used = bytes.iter().enumerate().filter(|(at, byte)| *at >= HEADER && **byte != 0).map(|(at, _)| at);
        let places: Vec<usize> = (0..HEADER).step_by(3).chain(used.step_by(1999)).collect();
        for at in places {
            let flip = if at % 2 == 0 { 0x01 } else { 0xff };
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            std::fs::write(&objects, damaged).unwrap();
            std::fs::write(&lock, noted).unwrap();
            match std::panic::catch_unwind(|| content(folder.path())) {
                Ok(Ok(found)) if found == expected => harmless += 1,
                Ok(Ok((revision, _))) => failures.push(format!("byte {at}, {flip}: resourceVersion {revision}")),
                Ok(Err(error)) if is_clear(&error) => refused += 1,
                Ok(Err(error)) => failures.push(format!("byte {at}, {flip}: {error}")),
                Err(_) => failures.push(format!("byte {at}, {flip}: a panic")),
            }
        }
        for length in [0, 1, 319, 4096, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&objects, &bytes[..length]).unwrap();
            std::fs::write(&lock, noted).unwrap();
            let error = content(folder.path()).unwrap_err();
            assert!(is_clear(&error), "{length} bytes: {error}");
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(refused > 40 && harmless > 0, "{refused} refused, {harmless} harmless");
}

/// A transaction: the objects that it writes, and those that it removes.
fn transaction() -> impl Strategy<Value = Vec<(u8, Option<u16>)>> {
    proptest::collection::vec((0..6u8, proptest::option::weighted(0.7, any::<u16>())), 1..4)
}

pub(super) fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![Just(Fate::Lost), Just(Fate::Torn), Just(Fate::Written)]
}

fn seen(store: &Store, collection: &Collection) -> BTreeMap<String, Value> {
    let objects = store.with(|state| state.objects(collection, ""));
    objects.into_iter().map(|(key, object)| (key, object.get(&["n"]).cloned().unwrap())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_loses_no_settled_transaction_and_halves_none(
        transactions in proptest::collection::vec(transaction(), 1..24),
        crash in any::<prop::sample::Index>(),
        fates in proptest::collection::vec(fate(), 1..12),
        settles in proptest::collection::vec(any::<bool>(), 24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let disk = Disk::default();
        let limits = Arc::new(Limits { watch_history: 3, watcher_queue: 1, unwritten_changes: 10, ..Limits::default() });
        let things = Collection::built_in("", "things");
        let store = Store::open(limits.clone(), Arc::default(), disk.file()).unwrap();
        let created = disk.now();
        let mut model = BTreeMap::new();
        // The objects after each transaction, by resourceVersion; and the steps of the disk at which a version was settled.
        let mut states = BTreeMap::from([(1, model.clone())]);
        let mut settled = vec![(created, 1)];
        for (transaction, settles) in transactions.iter().zip(settles) {
            let revision = store.with(|state| {
                for (name, n) in transaction {
                    let object = Object::from_value(json!({"metadata": {"name": name.to_string()}, "n": n})).unwrap();
                    if n.is_some() {
                        state.put(&things, &name.to_string(), object);
                        model.insert(name.to_string(), json!(n));
                    } else {
                        state.remove(&things, &name.to_string(), object);
                        model.remove(&name.to_string());
                    }
                }
                state.revision()
            });
            states.insert(revision, model.clone());
            if settles {
                runtime.block_on(store.settled()).unwrap();
                settled.push((disk.now(), revision));
            }
        }
        runtime.block_on(store.settled()).unwrap();
        let at = created + crash.index(disk.now() - created + 1);
        let crashed = disk.after_crash(at, &fates);
        let kept = Store::open(limits.clone(), Arc::default(), crashed.file()).unwrap();
        let revision = kept.with(|state| state.revision());
        let least = settled.iter().rev().find(|(step, _)| *step <= at).unwrap().1;
        prop_assert!(revision >= least, "{revision} of at least {least}");
        prop_assert_eq!(&seen(&kept, &things), states.get(&revision).expect("a whole transaction"));
    }
}

#[tokio::test]
async fn the_time_of_an_event_begins_again_with_a_restart() {
    let disk = Disk::default();
    let client = on(&disk, Arc::default());
    let event = json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}, "reason": "x"});
    client.post("/api/v1/namespaces/default/events", event).await.with_code(201);
    let end = |client: &Client| client.server.store.with(|state| state.expiring().next()).unwrap();
    let before = end(&client);
    let client = again(client, &disk, Arc::default()).await;
    assert!(end(&client) > before);
}
