//! Writes that start over: the repeated part, the number of attempts, and the object.

use super::super::write::Attempts;
use super::*;
use crate::object::cbor;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use std::io::Write;

fn refusal(reason: &str) -> Vec<u8> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": 409});
    status.to_string().into_bytes()
}

/// Returns a transport that answers the first `times` requests of this method with 409 and this body.
fn refusing(
    server: &Arc<embedded::Server>,
    method: Method,
    times: usize,
    encoding: Option<&'static str>,
    body: Vec<u8>,
) -> (SharedTransport, Arc<AtomicUsize>) {
    let (server, count) = (server.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (server, count, body, method) = (server.clone(), count.clone(), body.clone(), method.clone());
        async move {
            if request.method() != method || count.fetch_add(1, Ordering::SeqCst) >= times {
                return crate::upstream::Transport::send(&server, request).await;
            }
            let mut answer = Response::builder().status(409).header("content-type", "application/json");
            if let Some(encoding) = encoding {
                assert_eq!(request.headers()[ACCEPT_ENCODING], encoding);
                answer = answer.header(CONTENT_ENCODING, encoding);
            }
            Ok(answer.body(full(body)).unwrap())
        }
    });
    (transport, counted)
}

fn generated(id: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": format!("{id}-"), "labels": {"id": id}}})
}

#[tokio::test]
async fn a_drawn_name_that_is_taken_is_drawn_anew_and_validated_anew() {
    let server = embedded::Server::new(Arc::default());
    let (transport, _) = refusing(&server, Method::POST, 7, None, refusal("AlreadyExists"));
    let path = Path::over(server, transport).await;
    let (code, created) = path.json("POST", CONFIG_MAPS, &generated("redrawn")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(mutated("redrawn"), 1);
    let all: Vec<Value> = SEEN.lock().unwrap().iter().filter(|review| is_of(review, "redrawn")).cloned().collect();
    assert_eq!(all.len(), 8);
    assert_eq!(all[7]["name"], created["metadata"]["name"]);
}

fn is_of(review: &Value, id: &str) -> bool {
    review["object"]["metadata"]["labels"]["id"] == id
}

#[tokio::test]
async fn names_are_drawn_eight_times() {
    let server = embedded::Server::new(Arc::default());
    let (transport, posts) = refusing(&server, Method::POST, 100, None, refusal("AlreadyExists"));
    let path = Path::over(server, transport).await;
    let (code, status) = path.json("POST", CONFIG_MAPS, &generated("exhausted")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    assert_eq!(posts.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn a_conflict_is_understood_where_it_is_compressed() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&refusal("Conflict")).unwrap();
    let packed = packed.finish().unwrap();
    let server = embedded::Server::new(Arc::default());
    let (transport, puts) = refusing(&server, Method::PUT, 1, Some("gzip"), packed);
    let path = Path::over(server, transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("packed")).await.0, 201);
    let headers = [("content-type", "application/json"), ("accept-encoding", "br, gzip;q=0.5")];
    let answer = path.ask_raw("PUT", &at("packed"), &headers, config_map("packed").to_string()).await;
    assert_eq!((answer.status().as_u16(), puts.load(Ordering::SeqCst)), (200, 2));
}

#[tokio::test]
async fn a_conflict_is_understood_in_cbor() {
    let conflict = cbor::encode(&serde_json::from_slice(&refusal("Conflict")).unwrap());
    let server = embedded::Server::new(Arc::default());
    let (transport, puts) = refusing(&server, Method::PUT, 1, None, conflict);
    let mut path = Path::over(server, transport).await;
    path.pipeline.media_types.has_cbor = true;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("in-cbor")).await.0, 201);
    let headers = [("content-type", "application/cbor"), ("accept", "application/cbor, application/json")];
    let answer = path.ask_raw("PUT", &at("in-cbor"), &headers, cbor::encode(&config_map("in-cbor"))).await;
    assert_eq!((answer.status().as_u16(), puts.load(Ordering::SeqCst)), (200, 2));
}

/// Filters and routes do not support CBOR.
#[tokio::test]
async fn a_refusal_is_in_cbor_where_a_handler_answers() {
    let server = embedded::Server::new(Arc::default());
    let mut path = Path::over(server.clone(), Arc::new(server)).await;
    path.pipeline.media_types.has_cbor = true;
    let accepted = ("accept", "application/cbor");
    let wrong = cbor::encode(&json!({"metadata": {"name": "no/name"}}));
    for (method, uri, content_type, body, expected) in [
        ("POST", CONFIG_MAPS, "text/plain", Vec::new(), (415, "application/cbor")),
        ("PUT", &*at("none"), "application/cbor", cbor::encode(&config_map("none")), (404, "application/cbor")),
        ("PUT", CONFIG_MAPS, "application/cbor", Vec::new(), (405, "application/json")),
        ("POST", CONFIG_MAPS, "application/cbor", wrong[..9].to_vec(), (400, "application/cbor")),
    ] {
        let answer = path.ask_raw(method, uri, &[("content-type", content_type), accepted], body).await;
        let found = (answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap());
        assert_eq!(found, expected, "{method} {uri}");
    }
}

#[tokio::test]
async fn a_named_version_that_changes_during_admission_is_admitted_again_and_refused() {
    let named = async |path: &Path, name: &str| {
        assert_eq!(path.json("POST", CONFIG_MAPS, &config_map(name)).await.0, 201);
        let mut object = path.stored(&at(name)).await;
        object["metadata"]["labels"] = json!({"id": name});
        let (code, status) = path.json("PUT", &at(name), &object).await;
        assert_eq!((code, &status["reason"]), (409, &json!("Conflict")), "{status}");
        assert_eq!(path.stored(&at(name)).await["metadata"]["labels"], Value::Null);
        mutated(name)
    };
    let server = embedded::Server::new(Arc::default());
    let path = Path::over(server.clone(), meddling(&server, "outdated")).await;
    assert_eq!(named(&path, "outdated").await, 2);
    // A conflict of the version that is stored has another reason.
    let server = embedded::Server::new(Arc::default());
    let (transport, puts) = refusing(&server, Method::PUT, usize::MAX, None, refusal("Conflict"));
    let path = Path::over(server, transport).await;
    assert_eq!((named(&path, "otherwise").await, puts.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_write_that_always_conflicts_ends() {
    let server = embedded::Server::new(Arc::default());
    let (transport, patches) = refusing(&server, Method::PATCH, usize::MAX, None, refusal("Conflict"));
    let path = Path::over(server, transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("contended")).await.0, 201);
    let (code, _) = path.ask("PATCH", &at("contended"), "application/merge-patch+json", "{}").await;
    assert_eq!((code, patches.load(Ordering::SeqCst)), (409, 1 + Limits::default().unexplained_retries));
}

/// Without turns, each success makes all other writes start over: 820 attempts.
#[tokio::test]
async fn writes_of_one_object_follow_each_other_after_a_conflict() {
    const WRITES: usize = 40;
    let server = embedded::Server::new(Arc::default());
    let (transport, patches) = refusing(&server, Method::PATCH, 0, None, Vec::new());
    let path = Path::over(server, transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("wanted")).await.0, 201);
    let patched = (0..WRITES).map(async |number| {
        let patch = json!({"data": {number.to_string(): "written"}}).to_string();
        path.ask("PATCH", &at("wanted"), "application/merge-patch+json", patch).await.0
    });
    assert_eq!(join_all(patched).await, [200; WRITES]);
    let (_, object) = path.ask("GET", &at("wanted"), "application/json", "").await;
    let written = (0..WRITES).filter(|number| object["data"][number.to_string()] == "written");
    assert_eq!(written.count(), WRITES);
    assert!(patches.load(Ordering::SeqCst) <= 2 * WRITES, "{patches:?}");
}

#[test]
fn a_write_starts_over_as_long_as_the_object_changes() {
    let limits = Limits::default();
    let attempts = |versions: &mut dyn Iterator<Item = String>| {
        let mut attempts = Attempts::new(&limits);
        1 + versions.take_while(|version| attempts.may_go_on(version)).count()
    };
    assert_eq!(attempts(&mut (1..).map(|version: u32| version.to_string())), limits.conflict_retries);
    for stays in ["7", ""] {
        assert_eq!(attempts(&mut std::iter::repeat(stays.to_owned())), 1 + limits.unexplained_retries);
    }
    let repeated_and_new = ["1", "1", "2", "2", "3", "3", "3", "4"].map(str::to_owned);
    assert_eq!(attempts(&mut repeated_and_new.into_iter()), 7);
}

/// Returns a transport that answers a delete with a resourceVersion as `Store.Delete` does if the options remove the last
/// finalizer. The stored version in the answer is the given one plus `ahead`.
fn losing(server: &Arc<embedded::Server>, ahead: u64) -> (SharedTransport, Arc<Mutex<Vec<Value>>>) {
    let (server, bodies) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let sent = bodies.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (server, bodies) = (server.clone(), bodies.clone());
        async move {
            if request.method() != Method::DELETE {
                return crate::upstream::Transport::send(&server, request).await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let options: Value = serde_json::from_slice(&body).unwrap();
            bodies.lock().unwrap().push(options["preconditions"].clone());
            let Some(version) = options["preconditions"]["resourceVersion"].as_str() else {
                return crate::upstream::Transport::send(&server, Request::from_parts(parts, full(body))).await;
            };
            let found = version.parse::<u64>().unwrap() + ahead;
            let mut status: Value = serde_json::from_slice(&refusal("Conflict")).unwrap();
            status["message"] = json!(format!(
                "Precondition failed: ResourceVersion in precondition: , ResourceVersion in object meta: {found}"
            ));
            let answer = Response::builder().status(409).header("content-type", "application/json");
            Ok(answer.body(full(status.to_string())).unwrap())
        }
    });
    (transport, sent)
}

#[tokio::test]
async fn a_write_whose_own_time_is_up_is_answered_by_the_filter() {
    let server = embedded::Server::new(Arc::default());
    let (behind, upstream) = (server.clone(), Arc::new(AtomicUsize::new(0)));
    let transport = from_fn(move |request: Request<Body>| {
        let (server, count) = (behind.clone(), upstream.clone());
        async move {
            if request.method() == Method::POST && request.uri().path() == CONFIG_MAPS {
                count.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
            crate::upstream::Transport::send(&server, request).await
        }
    });
    let path = Path::over(server, transport).await;
    let (code, status) = path.json("POST", &format!("{CONFIG_MAPS}?timeout=20ms"), &config_map("late")).await;
    let text = "Timeout: request did not complete within the allotted timeout";
    assert_eq!((code, &status["message"], &status["reason"]), (504, &json!(text), &json!("Timeout")));
    assert!(status.get("kind").is_none() && status.get("apiVersion").is_none(), "{status}");
}

fn deletes(name: &str) -> usize {
    seen(name).iter().filter(|review| review["operation"] == "DELETE").count()
}

#[tokio::test]
async fn a_delete_that_takes_away_the_last_finalizer_is_admitted_once() {
    let server = embedded::Server::new(Arc::default());
    let (transport, sent) = losing(&server, 0);
    let path = Path::over(server, transport).await;
    for (name, uri) in [
        ("lost-version", at("lost-version")),
        ("lost-of-many", format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dlost-of-many")),
    ] {
        assert_eq!(path.json("POST", CONFIG_MAPS, &config_map(name)).await.0, 201);
        let stored = path.stored(&at(name)).await["metadata"].clone();
        let (code, answer) = path.json("DELETE", &uri, &json!({"propagationPolicy": "Background"})).await;
        assert_eq!((code, deletes(name)), (200, 1), "{answer}");
        assert_eq!(path.stored(&at(name)).await["kind"], "Status");
        let (uid, version) = (&stored["uid"], &stored["resourceVersion"]);
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        assert_eq!(sent, [json!({"uid": uid, "resourceVersion": version}), json!({"uid": uid})]);
    }
}

#[tokio::test]
async fn a_delete_that_names_a_version_or_lost_another_one_is_not_done_without() {
    let server = embedded::Server::new(Arc::default());
    let (transport, _) = losing(&server, 0);
    let path = Path::over(server.clone(), transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("named-version")).await.0, 201);
    let version = path.stored(&at("named-version")).await["metadata"]["resourceVersion"].clone();
    let options = json!({"preconditions": {"resourceVersion": version}, "propagationPolicy": "Background"});
    assert_eq!(path.json("DELETE", &at("named-version"), &options).await.0, 409);
    assert_eq!(
        (path.stored(&at("named-version")).await["kind"].clone(), deletes("named-version")),
        (json!("ConfigMap"), 1)
    );
    let (transport, sent) = losing(&server, 1);
    let path = Path::over(server, transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("other-version")).await.0, 201);
    assert_eq!(path.json("DELETE", &at("other-version"), &json!({})).await.0, 409);
    assert_eq!(path.stored(&at("other-version")).await["kind"], "ConfigMap");
    assert!(sent.lock().unwrap().iter().all(|preconditions| preconditions["resourceVersion"].is_string()));
}

#[tokio::test]
async fn a_collection_spares_what_no_longer_matches() {
    let server = embedded::Server::new(Arc::default());
    let meddler = server.clone();
    let deletes = Arc::new(AtomicUsize::new(0));
    let transport = from_fn(move |request: Request<Body>| {
        let (server, deletes) = (meddler.clone(), deletes.clone());
        async move {
            if request.method() == Method::DELETE && deletes.fetch_add(1, Ordering::SeqCst) == 0 {
                let patch = json!({"metadata": {"labels": {"doomed": "no"}}}).to_string();
                let spare = Request::patch(at("spared")).header("content-type", "application/merge-patch+json");
                crate::upstream::Transport::send(&server, spare.body(full(patch)).unwrap()).await?;
            }
            crate::upstream::Transport::send(&server, request).await
        }
    });
    let path = Path::over(server, transport).await;
    let mut object = config_map("spared");
    object["metadata"]["labels"] = json!({"doomed": "yes"});
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    let uri = format!("{CONFIG_MAPS}?labelSelector=doomed%3Dyes");
    let (code, list) = path.ask("DELETE", &uri, "application/json", "").await;
    assert_eq!((code, &list["items"]), (200, &json!([])));
    assert_eq!(path.stored(&at("spared")).await["kind"], "ConfigMap");
    let deleted = seen("spared").iter().filter(|review| review["operation"] == "DELETE").count();
    assert_eq!(deleted, 1);
}
