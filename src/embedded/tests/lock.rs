//! The lock of the store: no request holds it for the work on its data.

use super::super::{Features, Server};
use super::client::Client;
use crate::config::Limits;
use crate::object::Object;
use crate::status::Cause;
use serde_json::{Value, json};
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
fn held(object: &Object) -> Vec<Cause> {
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
    let features = Features { registration: held, ..Features::default() };
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
