//! The lock of the store: no request holds it for the work on its data.

use super::client::Client;
use super::kept::DEFINITIONS;
use crate::cel::Release;
use crate::config::Limits;
use crate::embedded::api::catalog;
use crate::embedded::controllers::garbage;
use crate::embedded::{Server, Settings};
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::object::schema::{self, ApiType, Scalar, Shape};
use crate::status::Cause;
use serde_json::{Map, Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const HELD: &str = "/apis/resource.k8s.io/v1/deviceclasses/held";

/// The time after which the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A validation that reports its begin and then waits.
struct Hold {
    begun: Sender<()>,
    go_on: Receiver<()>,
}

/// The next validation that waits.
static HOLD: Mutex<Option<Hold>> = Mutex::new(None);

fn next_hold() -> std::sync::MutexGuard<'static, Option<Hold>> {
    HOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rules of a server whose validation waits. If the test does not go on, because the server holds up its requests, there is an error.
fn held(object: &Object, _: Release) -> Vec<Cause> {
    if object.name() != "held" {
        return Vec::new();
    }
    let Some(hold) = next_hold().take() else { return Vec::new() };
    let went_on = hold.begun.send(()).is_ok() && hold.go_on.recv_timeout(PATIENCE).is_ok();
    let cause = Cause { message: "the test was held up".to_owned(), field: "x".to_owned(), ..Cause::default() };
    if went_on { Vec::new() } else { vec![cause] }
}

fn class(label: &str) -> Value {
    let metadata = json!({"name": "held", "labels": {label: "x"}});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": {}})
}

async fn write(server: Arc<Server>, verb: &'static str) -> Value {
    let client = Client::of(server);
    let (wanted, code) = (class(verb), if verb == "create" { 201 } else { 200 });
    let answer = match verb {
        "create" => client.post(CLASSES, wanted).await,
        "update" => client.put(HELD, wanted).await,
        "patch" => client.patch(HELD, "merge", wanted).await,
        _ => client.patch_as(&format!("{HELD}?fieldManager=m"), "application/apply-patch+yaml", wanted).await,
    };
    answer.with_code(code)
}

#[tokio::test(flavor = "multi_thread")]
async fn validation_holds_up_no_other_request_and_sees_what_was_written_meanwhile() {
    let features = Settings { registration: held, ..Settings::default() };
    let server = Server::with(Arc::new(Limits::default()), features);
    let client = Client::of(server.clone());
    for verb in ["create", "update", "patch", "apply"] {
        let (begun, has_begun) = channel();
        let (proceed, go_on) = channel();
        *next_hold() = Some(Hold { begun, go_on });
        let write = tokio::spawn(write(server.clone(), verb));
        tokio::task::spawn_blocking(move || has_begun.recv_timeout(PATIENCE)).await.unwrap().unwrap();
        client.get("/api/v1/namespaces/default").await.with_code(200);
        if verb != "create" {
            let meanwhile = json!({"metadata": {"labels": {"meanwhile": verb}}});
            client.patch(HELD, "merge", meanwhile).await.with_code(200);
        }
        proceed.send(()).unwrap();
        let labels = write.await.unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels[verb], "x", "{labels}");
        // An update replaces the labels, the others keep them.
        let kept = if matches!(verb, "patch" | "apply") { json!(verb) } else { Value::Null };
        assert_eq!(labels["meanwhile"], kept, "{labels}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_services_that_are_created_at_once_one_has_a_port() {
    let server = Server::new(Arc::new(Limits::default()));
    for port in 30_000..30_040 {
        let create = |number: usize| {
            let client = Client::of(server.clone());
            let metadata = json!({"name": format!("s-{port}-{number}")});
            let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
            tokio::spawn(async move { client.post("/api/v1/namespaces/default/services", service).await.code })
        };
        let creates: Vec<_> = (0..4).map(create).collect();
        let mut codes = Vec::new();
        for created in creates {
            codes.push(created.await.unwrap());
        }
        codes.sort_unstable();
        assert_eq!(codes, [201, 422, 422, 422], "{port}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_create_that_starts_over_too_often_is_to_be_repeated_and_no_conflict() {
    let server = Server::new(Arc::new(Limits { conflict_retries: 1, ..Limits::default() }));
    let mut refused = 0;
    for number in 0..400 {
        let create = |part: usize| {
            let client = Client::of(server.clone());
            let metadata = json!({"name": format!("s-{number}-{part}")});
            let spec = json!({"clusterIP": "None", "ports": [{"port": 80}]});
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
            tokio::spawn(async move { client.post("/api/v1/namespaces/default/services", service).await.code })
        };
        let creates: Vec<_> = (0..4).map(create).collect();
        for created in creates {
            match created.await.unwrap() {
                201 => {}
                code => {
                    assert_eq!(code, 429);
                    refused += 1;
                }
            }
        }
        // On one processor there may be no other write meanwhile.
        if refused > 0 {
            break;
        }
    }
}

/// The bytes of the objects with all lists of a kind: a thirtieth of the longest body. Tests are not optimized and take some ten times as long as the
/// program.
const BYTES: usize = 100 << 10;
/// The CPU time for which a transaction may hold the lock, three times that of the longest one.
const LONGEST: Duration = Duration::from_millis(80);

/// A server that keeps a short history, so that writes push objects out of it.
fn forgetful() -> Client {
    Client::with_limits(Limits { watch_history: 8, ..Limits::default() })
}

/// The longest transactions of some steps.
struct Steps {
    client: Client,
    long: Vec<(String, Duration)>,
}

impl Steps {
    fn new() -> Self {
        Self { client: forgetful(), long: Vec::new() }
    }

    /// Records how long the transactions since the last step took.
    fn note(&mut self, step: &str) {
        let longest = self.client.server.store.take_longest();
        if longest > LONGEST {
            self.long.push((step.to_owned(), longest));
        }
    }

    async fn collect_garbage(&mut self, step: &str) {
        while garbage::collect(&self.client.server.store).await.unwrap() {}
        self.note(step);
    }
}

/// The value of a field. A list or map directly below the object has so many items, one within an item has one.
fn value(shape: &Shape, at: usize, items: usize, depth: usize) -> Option<Value> {
    let item = |at: usize, inner: &Shape| value(inner, at, 1, depth.checked_sub(1)?);
    Some(match shape {
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => json!(format!("n-{at}")),
            Scalar::Boolean => json!(true),
            Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString => json!(at % 1000 + 1),
            Scalar::Double => json!(1.5),
            Scalar::Bytes => json!("YQ=="),
            Scalar::Time => json!("2026-01-01T00:00:00Z"),
            Scalar::MicroTime => json!("2026-01-01T00:00:00.000000Z"),
            Scalar::Quantity => json!("1"),
        },
        Shape::Object(reference) => filled(reference.resolve()?, at, items, depth.checked_sub(1)?),
        Shape::List(inner) => (0..items).map_while(|at| item(at, inner)).collect(),
        Shape::Map(inner) => (0..items).map_while(|at| Some((format!("k-{at}"), item(at, inner)?))).collect(),
        Shape::Any => return None,
    })
}

fn filled(of: &ApiType, at: usize, items: usize, depth: usize) -> Value {
    let fields = of.fields().iter().filter(|field| !matches!(field.name, "metadata" | "apiVersion" | "kind"));
    Value::Object(
        fields.filter_map(|field| Some((field.name.to_owned(), value(&field.shape, at, items, depth)?))).collect(),
    )
}

/// An object of a kind with all of its lists, each as long as the bytes allow.
fn longest(kind: &GroupVersionKind) -> Option<Value> {
    let of = schema::of(kind)?;
    let bytes_of_one = filled(of, 0, 1, 6).to_string().len();
    let mut object = filled(of, 0, BYTES / bytes_of_one.max(1), 6);
    object["metadata"] = json!({"name": "longest"});
    Some(object)
}

/// Metadata with lists of so many items.
fn metadata(name: &str, items: usize) -> Value {
    let labels: Map<String, Value> = (0..items).map(|at| (format!("l-{at}"), json!("x"))).collect();
    let owner = |at: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": format!("u-{at}")});
    let finalizers: Vec<String> = (0..items).map(|at| format!("a.b/{at}")).collect();
    let owners: Vec<Value> = (0..items).map(owner).collect();
    json!({"name": name, "labels": labels, "ownerReferences": owners, "finalizers": finalizers})
}

fn large(name: &str) -> Value {
    let data: Map<String, Value> = (0..2000).map(|at| (format!("k-{at}"), json!("x"))).collect();
    json!({"metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn no_longest_object_of_any_kind_holds_the_lock() {
    let mut steps = Steps::new();
    steps.client.server.store.take_longest();
    let mut stored = 0;
    for resource in catalog::resources().iter().filter(|resource| resource.serves("create")) {
        let Some(object) = longest(&resource.gvk()) else { continue };
        let base = catalog::group_version_path(&resource.group, &resource.version);
        let base = if resource.namespaced { format!("{base}/namespaces/default") } else { base };
        let path = format!("{base}/{}", resource.name);
        let code = steps.client.post(&path, object.clone()).await.code;
        steps.note(&format!("create {path}: {code}"));
        let mut accepted = valid(&resource.kind, 8000);
        accepted["metadata"] = metadata("long", 600);
        let code = steps.client.post(&path, accepted).await.code;
        steps.note(&format!("create {path} with long metadata: {code}"));
        if code == 201 && resource.serves("patch") {
            stored += 1;
            let patch = json!({"metadata": {"annotations": {"a": "b"}}});
            steps.client.patch(&format!("{path}/long"), "merge", patch).await.with_code(200);
            steps.note(&format!("patch {path}"));
            steps.client.delete(&format!("{path}/long")).await.with_code(200);
            steps.note(&format!("delete {path}"));
            let free = json!({"metadata": {"finalizers": null}, "spec": {"finalizers": null}});
            let code = steps.client.patch(&format!("{path}/long"), "merge", free).await.code;
            steps.note(&format!("remove the finalizers of {path}: {code}"));
        }
        steps.collect_garbage(&format!("collect {path}")).await;
    }
    assert!(stored > 20, "{stored} kinds were stored");
    assert!(steps.long.is_empty(), "{:#?}", steps.long);
}

/// The fields of a valid object of a kind, with a list of so many items.
fn valid(kind: &str, items: usize) -> Value {
    let list = |item: &dyn Fn(usize) -> Value| -> Value { (0..items).map(item).collect() };
    let map = |key: &str| -> Value { (0..items).map(|at| (format!("{key}-{at}"), json!("1"))).collect() };
    match kind {
        "ConfigMap" => json!({"data": map("k")}),
        "Pod" => {
            let env = list(&|at| json!({"name": format!("E{at}"), "value": "x"}));
            json!({"spec": {"containers": [{"name": "c", "image": "i", "env": env}]}})
        }
        "Service" => {
            let ports: Value = (1..items / 4).map(|port| json!({"name": format!("p-{port}"), "port": port})).collect();
            json!({"spec": {"ports": ports}})
        }
        "Endpoints" => {
            let addresses = list(&|at| json!({"ip": format!("10.0.{}.{}", at / 250, at % 250)}));
            json!({"subsets": [{"addresses": addresses, "ports": [{"port": 1}]}]})
        }
        "NetworkPolicy" => {
            let except = list(&|at| json!(format!("10.{}.{}.0/24", at / 250, at % 250)));
            let block = json!({"cidr": "10.0.0.0/8", "except": except});
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}})
        }
        "ResourceQuota" => json!({"spec": {"hard": map("count/x")}}),
        "ClusterRole" | "Role" => {
            let names = list(&|at| json!(format!("n-{at}")));
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "resourceNames": names, "verbs": ["get"]}]})
        }
        _ => json!({}),
    }
}

#[tokio::test]
async fn no_work_on_many_objects_holds_the_lock() {
    let mut steps = Steps::new();
    let maps = "/api/v1/namespaces/n/configmaps";
    steps.client.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.with_code(201);
    for policy in ["Background", "Orphan", "Foreground"] {
        let owner = steps.client.post(maps, large("owner")).await.with_code(201);
        let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "blockOwnerDeletion": true,
            "uid": owner["metadata"]["uid"]}]);
        for at in 0..20 {
            let mut dependent = large(&format!("{policy}-{at}").to_lowercase());
            dependent["metadata"]["ownerReferences"] = reference.clone();
            steps.client.post(maps, dependent).await.with_code(201);
        }
        steps.client.delete_with(&format!("{maps}/owner"), json!({"propagationPolicy": policy})).await.with_code(200);
        steps.collect_garbage(policy).await;
        steps.client.get(&format!("{maps}/owner")).await.refused(404);
    }
    steps.client.delete("/api/v1/namespaces/n").await.with_code(200);
    steps.client.get("/api/v1/namespaces/n").await.refused(404);
    steps.note("delete a namespace");
    // A definition with many versions, and many definitions that want its names.
    let versions = |count: usize| -> Vec<Value> {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version =
            |at: usize| json!({"name": format!("v{}", at + 1), "served": true, "storage": at == 0, "schema": schema});
        (0..count).map(version).collect()
    };
    let definition = |plural: &str, count: usize| {
        let names = json!({"plural": plural, "kind": "Wanted", "listKind": "WantedList"});
        json!({"metadata": {"name": format!("{plural}.e.com")},
            "spec": {"group": "e.com", "scope": "Cluster", "names": names, "versions": versions(count)}})
    };
    let of = |plural: &str| format!("{DEFINITIONS}/{plural}.e.com");
    steps.client.post(DEFINITIONS, definition("first", 600)).await.with_code(201);
    steps.note("create a definition");
    for at in 0..20 {
        steps.client.post(DEFINITIONS, definition(&format!("other{at}"), 2)).await.with_code(201);
    }
    for at in 0..20 {
        let mut object = large(&format!("o-{at}"));
        object["apiVersion"] = json!("e.com/v1");
        object["kind"] = json!("Wanted");
        steps.client.post("/apis/e.com/v1/first", object).await.with_code(201);
    }
    steps.note("create objects");
    steps.client.delete(&of("first")).await.with_code(200);
    steps.client.get(&of("first")).await.refused(404);
    steps.note("delete a definition");
    let is_accepted = |definition: &Value| definition["status"]["acceptedNames"]["kind"] == "Wanted";
    let mut accepted = 0;
    for at in 0..20 {
        accepted += usize::from(is_accepted(&steps.client.get(&of(&format!("other{at}"))).await.with_code(200)));
    }
    assert_eq!(accepted, 1);
    assert!(steps.long.is_empty(), "{:#?}", steps.long);
}
