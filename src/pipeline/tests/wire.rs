//! The encodings of requests and answers: the bytes that reach the API server.

use super::*;
use crate::upstream::Emulation;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
}

/// Encodes a message in its envelope.
fn protobuf(kind: &str, message: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, message)].concat()
}

/// Encodes a ConfigMap with this name, resourceVersion and label, and the additional bytes `more`.
fn encoded(name: &str, version: &str, label: (&str, &str), more: &[u8]) -> Vec<u8> {
    let label = field(11, &[field(1, label.0.as_bytes()), field(2, label.1.as_bytes())].concat());
    let metadata = field(1, &[field(1, name.as_bytes()), field(6, version.as_bytes()), label].concat());
    protobuf("ConfigMap", &[&metadata, more].concat())
}

/// A write that reached the API server.
#[derive(Clone, Debug)]
struct Forwarded {
    content_type: String,
    accept: String,
    body: Bytes,
}

/// Returns a path that records the forwarded writes.
async fn recorded() -> (Path, Arc<Mutex<Vec<Forwarded>>>) {
    let server = embedded::Server::new(Arc::default());
    let (behind, log) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let notes = log.clone();
    let transport = from_fn(move |request| {
        let (behind, notes) = (behind.clone(), notes.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| crate::upstream::UpstreamError::Timeout)?.to_bytes();
            let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            if parts.method != Method::GET {
                let forwarded = Forwarded {
                    content_type: header(CONTENT_TYPE).unwrap_or_default(),
                    accept: header(ACCEPT).unwrap_or_default(),
                    body: body.clone(),
                };
                notes.lock().unwrap().push(forwarded);
            }
            crate::upstream::Transport::send(&behind, Request::from_parts(parts, full(body))).await
        }
    });
    (Path::over(server, transport).await, log)
}

#[tokio::test]
async fn an_object_in_protobuf_goes_on_as_it_came_unless_admission_changed_it() {
    let (path, log) = recorded().await;
    let hidden = [field(15, b"hidden"), vec![0xa0, 6, 1]].concat();
    for (name, label, more, is_verbatim) in [
        ("as-it-came", ("a", "b"), &[][..], true),
        ("changed", ("mark", "me"), &[], false),
        // Plugins have not seen the unknown fields.
        ("with-more", ("a", "b"), &hidden, false),
    ] {
        let body = encoded(name, "", label, more);
        let headers = [("content-type", "application/vnd.kubernetes.protobuf; a=b"), ("accept", "application/json")];
        let response = path.ask_raw("POST", CONFIG_MAPS, &headers, body.clone()).await;
        assert_eq!(response.status(), 201, "{name}");
        // The second write is that of the owners.
        let forwarded = std::mem::take(&mut *log.lock().unwrap()).swap_remove(0);
        assert_eq!(forwarded.accept, "application/json", "{name}");
        if is_verbatim {
            assert_eq!((&*forwarded.content_type, &*forwarded.body), (PROTOBUF, &*body), "{name}");
        } else {
            assert_eq!(forwarded.content_type, "application/json", "{name}");
            let object: Value = serde_json::from_slice(&forwarded.body).unwrap();
            assert_eq!(object["metadata"], seen(name)[0]["object"]["metadata"], "{name}");
            assert!(!String::from_utf8_lossy(&forwarded.body).contains("hidden"), "{name}");
        }
        assert_eq!(path.stored(&at(name)).await["metadata"]["labels"][label.0], label.1, "{name}");
    }
}

#[tokio::test]
async fn an_update_in_protobuf_goes_on_as_it_came_if_it_names_the_version() {
    let (path, log) = recorded().await;
    path.json("POST", CONFIG_MAPS, &config_map("pinned")).await;
    for (names_version, content_type) in [(false, "application/json"), (true, PROTOBUF)] {
        let stored = path.stored(&at("pinned")).await;
        let version = stored["metadata"]["resourceVersion"].as_str().unwrap();
        let body = encoded("pinned", if names_version { version } else { "" }, ("a", "b"), &[]);
        assert_eq!(path.ask("PUT", &at("pinned"), PROTOBUF, body.clone()).await.0, 200);
        let forwarded = log.lock().unwrap().pop().unwrap();
        assert_eq!(forwarded.content_type, content_type);
        if names_version {
            assert_eq!(*forwarded.body, *body);
        } else {
            let object: Value = serde_json::from_slice(&forwarded.body).unwrap();
            assert_eq!(object["metadata"]["resourceVersion"], version);
        }
    }
}

#[tokio::test]
async fn options_of_a_delete_may_come_in_protobuf() {
    let (path, log) = recorded().await;
    path.json("POST", CONFIG_MAPS, &config_map("dropped")).await;
    let precondition = field(2, &field(1, b"another"));
    let options = protobuf("DeleteOptions", &precondition);
    let (code, status) = path.ask("DELETE", &at("dropped"), PROTOBUF, options).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let dry_run = protobuf("DeleteOptions", &field(5, b"All"));
    assert_eq!(path.ask("DELETE", &at("dropped"), PROTOBUF, dry_run).await.0, 200);
    let forwarded: Value = serde_json::from_slice(&log.lock().unwrap().pop().unwrap().body).unwrap();
    assert_eq!(forwarded["dryRun"], json!(["All"]));
    assert_eq!(path.stored(&at("dropped")).await["kind"], "ConfigMap");
}

#[tokio::test]
async fn a_changed_object_is_sent_in_protobuf_if_the_upstream_takes_it() {
    let server = embedded::Server::new(Arc::default());
    let (behind, log) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let notes = log.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (behind, notes) = (behind.clone(), notes.clone());
        async move {
            let form = request.headers().get(CONTENT_TYPE).map(|form| form.to_str().unwrap().to_owned());
            if let (true, Some(form)) = (request.method() == Method::POST, form) {
                notes.lock().unwrap().push(form.clone());
                if form == PROTOBUF {
                    return Ok(Response::builder().status(415).body(crate::body::empty()).unwrap());
                }
            }
            crate::upstream::Transport::send(&behind, request).await
        }
    });
    let mut path = Path::over(server, transport).await;
    let day = std::time::Duration::from_secs(24 * 3600);
    path.pipeline.gateway.release =
        Arc::new(Release::start(path.pipeline.gateway.transport.clone(), Emulation::default(), day, day));
    while !path.pipeline.gateway.release.takes_protobuf() {
        tokio::task::yield_now().await;
    }
    let marked = |name: &str| {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"mark": "me"});
        object
    };
    // Protobuf cannot carry an empty map: it would be nil.
    let mut empty = marked("wire-empty");
    empty["data"] = json!({});
    for (object, forms) in [
        (config_map("wire-same"), &[JSON][..]),
        (empty, &[JSON]),
        (marked("wire-changed"), &[PROTOBUF, JSON]),
        (marked("wire-again"), &[JSON]),
    ] {
        let name = object["metadata"]["name"].as_str().unwrap();
        assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201, "{name}");
        assert_eq!(std::mem::take(&mut *log.lock().unwrap()), forms, "{name}");
        let is_marked = !object["metadata"]["labels"].is_null();
        assert_eq!(path.stored(&at(name)).await["metadata"]["labels"]["admitted"] == "yes", is_marked, "{name}");
    }
}
