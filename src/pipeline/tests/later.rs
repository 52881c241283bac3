//! In front of an API server of a later release, fields that are unknown here are neither shown nor lost. The embedded API server
//! plays that server, because it stores unknown fields.

use super::*;
use crate::upstream::Emulation;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, WARNING};

const PODS: &str = "/api/v1/namespaces/default/pods";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// A write that reached the API server: its type and its body.
type Log = Arc<Mutex<Vec<(String, Bytes)>>>;

pub(super) async fn before(minor: &'static str) -> (Path, Log) {
    let server = embedded::Server::new(Arc::default());
    let (behind, log) = (server.clone(), Log::default());
    let notes = log.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (behind, notes) = (behind.clone(), notes.clone());
        async move {
            let (mut parts, body) = request.into_parts();
            if parts.uri.path() == "/version" {
                let version = json!({"major": "1", "minor": minor}).to_string();
                return Ok(Response::new(full(version)));
            }
            let body = body.collect().await.map_err(|_| crate::upstream::UpstreamError::Timeout)?.to_bytes();
            if parts.method != Method::GET && !parts.uri.path().ends_with("/selfsubjectaccessreviews") {
                let content_type = parts.headers[CONTENT_TYPE].to_str().unwrap().to_owned();
                notes.lock().unwrap().push((content_type, body.clone()));
            }
            if parts.headers.get(CONTENT_TYPE).is_some_and(|form| form == STRATEGIC) {
                // The embedded API server merges lists as a whole then.
                parts.headers.insert(CONTENT_TYPE, MERGE.parse().unwrap());
            }
            crate::upstream::Transport::send(&behind, Request::from_parts(parts, full(body))).await
        }
    });
    let mut path = Path::over(server, transport.clone()).await;
    let day = std::time::Duration::from_secs(24 * 3600);
    path.pipeline.gateway.release =
        Arc::new(crate::upstream::Release::start(transport, Emulation::default(), day, day));
    (path, log)
}

fn pod(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {
        "next": {"mode": "strict"},
        "containers": [{"name": "a", "image": "i", "next": 1}, {"name": "b", "image": "i", "next": [null]}],
    }})
}

#[track_caller]
fn assert_whole(pod: &Value) {
    let spec = &pod["spec"];
    assert_eq!(spec["next"], json!({"mode": "strict"}), "{pod}");
    assert_eq!(spec["containers"][0]["next"], 1, "{pod}");
    assert_eq!(spec["containers"][1]["next"], json!([null]), "{pod}");
}

fn uri(name: &str) -> String {
    format!("{PODS}/{name}")
}

/// Checks that no plugin saw an unknown field. The managed fields name such a field.
#[track_caller]
fn assert_unseen(name: &str) {
    let mut seen = seen(name);
    for review in &mut seen {
        for path in ["/object/metadata", "/oldObject/metadata"] {
            let metadata = review.pointer_mut(path).and_then(Value::as_object_mut);
            metadata.and_then(|metadata| metadata.remove("managedFields"));
        }
    }
    assert!(!seen.is_empty() && !json!(seen).to_string().contains("next"), "{seen:?}");
}

#[tokio::test]
async fn a_created_object_has_all_sent_fields() {
    let (path, log) = before("37").await;
    for (name, labels, is_verbatim) in [("later-same", json!({}), true), ("later-marked", json!({"mark": "me"}), false)]
    {
        let sent = pod(name, labels).to_string();
        for (form, body) in [("application/json", sent.clone()), ("application/yaml", sent.clone())] {
            let answer =
                path.ask_raw("POST", &format!("{PODS}?fieldValidation=Strict"), &[("content-type", form)], body).await;
            // Only the API server can refuse unknown fields.
            assert_eq!((answer.status().as_u16(), answer.headers().get(WARNING)), (201, None));
            let stored = path.stored(&uri(name)).await;
            assert_whole(&stored);
            assert_eq!(stored["metadata"]["labels"]["admitted"] == "yes", !is_verbatim);
            let (content_type, body) = log.lock().unwrap().pop().unwrap();
            assert_eq!(content_type, "application/json");
            assert_eq!(body == sent.as_bytes(), is_verbatim && form == "application/json", "{form}");
            assert_eq!(path.json("DELETE", &uri(name), &Value::Null).await.0, 200);
        }
        assert_unseen(name);
    }
}

#[tokio::test]
async fn the_release_whose_types_are_known_has_no_other_fields() {
    let (path, _) = before("36").await;
    let answer =
        path.ask_raw("POST", PODS, &[("content-type", "application/json")], pod("known", json!({})).to_string());
    let answer = answer.await;
    assert_eq!(answer.headers()[WARNING], r#"299 - "unknown field \"spec.containers[0].next\"""#);
    assert!(!path.stored(&uri("known")).await.to_string().contains("next"));
    let (code, status) = path.json("POST", &format!("{PODS}?fieldValidation=Strict"), &pod("strict", json!({}))).await;
    assert!(code == 400 && status["message"].as_str().unwrap().contains(r#"unknown field "spec.next""#), "{status}");
}

#[tokio::test]
async fn a_patch_takes_nothing_away_that_it_does_not_name() {
    for minor in ["35", "36", "37"] {
        let (path, log) = before(minor).await;
        let name = format!("patched-{minor}");
        for mark in [json!({}), json!({"mark": "me"})] {
            // The stored object has the unknown fields, whatever release the API server reports.
            let request = Request::builder().method("POST").uri(PODS).header(CONTENT_TYPE, "application/json");
            let request = request.body(full(pod(&name, json!({})).to_string())).unwrap();
            crate::upstream::Transport::send(&path.server, request).await.unwrap();
            for (form, patch) in [
                (MERGE, json!({"metadata": {"labels": mark}})),
                (
                    STRATEGIC,
                    json!({"metadata": {"labels": mark}, "spec": {"containers": [{"name": "b", "image": "other"}]}}),
                ),
                (JSON_PATCH, json!([{"op": "add", "path": "/spec/containers/0/image", "value": "another"}])),
                (JSON_PATCH, json!([{"op": "test", "path": "/spec/next/mode", "value": "strict"}])),
            ] {
                let (code, answer) = path.ask("PATCH", &uri(&name), form, patch.to_string()).await;
                assert_eq!(code, 200, "{answer}");
                let stored = path.stored(&uri(&name)).await;
                assert_whole(&stored);
                let (_, sent) = log.lock().unwrap().pop().unwrap();
                let sent: Value = serde_json::from_slice(&sent).unwrap();
                assert!(!sent.to_string().contains(r#""next":null"#), "{sent}");
                assert_eq!(sent["spec"].get("next"), None, "{sent}");
            }
            assert_eq!(path.stored(&uri(&name)).await["metadata"]["labels"]["admitted"] == "yes", mark != json!({}));
            assert_eq!(path.json("DELETE", &uri(&name), &Value::Null).await.0, 200);
        }
        assert_unseen(&name);
    }
}

#[tokio::test]
async fn a_patch_may_set_and_remove_what_only_the_api_server_knows() {
    let (path, _) = before("37").await;
    path.json("POST", PODS, &pod("set", json!({}))).await;
    for (form, patch, expected) in [
        (MERGE, json!({"spec": {"next": {"mode": "lax"}}}), json!({"mode": "lax"})),
        (JSON_PATCH, json!([{"op": "replace", "path": "/spec/next/mode", "value": 3}]), json!({"mode": 3})),
        (STRATEGIC, json!({"spec": {"next": null}}), Value::Null),
        (STRATEGIC, json!({"spec": {"next": [1]}, "metadata": {"labels": {"mark": "me"}}}), json!([1])),
    ] {
        let (code, answer) = path.ask("PATCH", &uri("set"), form, patch.to_string()).await;
        assert_eq!(code, 200, "{answer}");
        let stored = path.stored(&uri("set")).await;
        assert_eq!(stored["spec"]["next"], expected);
        assert_eq!(stored["spec"]["containers"][0]["next"], 1);
    }
    assert_unseen("set");
}

#[tokio::test]
async fn the_api_server_decides_how_a_strategic_patch_merges_unknown_fields() {
    let (path, log) = before("37").await;
    let mut sent = pod("merged", json!({}));
    sent["spec"]["next"] = json!([{"name": "a"}]);
    assert_eq!(path.json("POST", PODS, &sent).await.0, 201);
    log.lock().unwrap().clear();
    let patch = json!({"metadata": {"labels": {"mark": "me"}}, "spec": {"next": [{"name": "b"}]}});
    let (code, answer) = path.ask("PATCH", &uri("merged"), STRATEGIC, patch.to_string()).await;
    assert_eq!(code, 200, "{answer}");
    let stored = path.stored(&uri("merged")).await;
    assert_eq!(
        (&stored["spec"]["next"], &stored["metadata"]["labels"]["admitted"]),
        (&json!([{"name": "b"}]), &json!("yes"))
    );
    let forms: Vec<_> = log.lock().unwrap().iter().map(|(form, _)| form.clone()).collect();
    assert_eq!(forms, [STRATEGIC, MERGE]);
    assert_unseen("merged");
}

#[tokio::test]
async fn an_update_writes_what_was_read() {
    let (path, _) = before("37").await;
    path.json("POST", PODS, &pod("put", json!({}))).await;
    for label in ["other", "mark"] {
        let mut read = path.stored(&uri("put")).await;
        read["metadata"]["labels"] = json!({label: "me"});
        assert_eq!(path.json("PUT", &uri("put"), &read).await.0, 200);
        let stored = path.stored(&uri("put")).await;
        assert_whole(&stored);
        assert_eq!(stored["metadata"]["labels"]["admitted"] == "yes", label == "mark");
    }
    // A PUT without the field removes the field, as at any API server.
    let mut read = path.stored(&uri("put")).await;
    read["spec"].as_object_mut().unwrap().remove("next");
    assert_eq!(path.json("PUT", &uri("put"), &read).await.0, 200);
    assert_eq!(path.stored(&uri("put")).await["spec"].get("next"), None);
    assert_unseen("put");
}

#[tokio::test]
async fn a_write_whose_unknown_fields_cannot_be_kept_is_refused() {
    let (path, _) = before("37").await;
    let twice = pod("twice", json!({})).to_string().replacen(r#""next":1"#, r#""next":1,"next":2"#, 1);
    let (code, status) = path.ask("POST", PODS, "application/json", twice).await;
    assert_eq!((code, &status["reason"]), (501, &json!("NotImplemented")), "{status}");
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
}

/// Encodes a ConfigMap with this label and the additional bytes `more`.
fn encoded(name: &str, label: (&str, &str), more: &[u8]) -> Vec<u8> {
    let label = field(11, &[field(1, label.0.as_bytes()), field(2, label.1.as_bytes())].concat());
    let metadata = field(1, &[field(1, name.as_bytes()), label].concat());
    let type_meta = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &[&metadata, more].concat())].concat()
}

#[tokio::test]
async fn protobuf_with_numbers_that_are_not_known_goes_on_as_it_came_or_not_at_all() {
    let (path, log) = before("37").await;
    let more = field(15, b"next");
    let body = encoded("numbers", ("a", "b"), &more);
    assert_eq!(path.ask("POST", CONFIG_MAPS, PROTOBUF, body.clone()).await.0, 201);
    assert_eq!(log.lock().unwrap().pop().unwrap(), (PROTOBUF.to_owned(), body.into()));
    let (code, status) =
        path.ask("POST", CONFIG_MAPS, PROTOBUF, encoded("changed-numbers", ("mark", "me"), &more)).await;
    assert_eq!((code, &status["reason"]), (415, &json!("UnsupportedMediaType")), "{status}");
    assert!(status["message"].as_str().unwrap().ends_with("send it as application/json"), "{status}");
    // Two readers may decode text that is not UTF-8 in two ways.
    let odd = [more, field(2, &[field(1, b"k"), field(2, b"\xff")].concat())].concat();
    assert_eq!(path.ask("POST", CONFIG_MAPS, PROTOBUF, encoded("odd", ("a", "b"), &odd)).await.0, 415);
    // The proxy sends a changed object in JSON, and then its owners.
    assert_eq!(path.ask("POST", CONFIG_MAPS, PROTOBUF, encoded("plain", ("mark", "me"), &[])).await.0, 201);
    assert_eq!(log.lock().unwrap().first().unwrap().0, "application/json");
}
