//! Writes that start over: which part of them, how often, and on what.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use std::io::Write;

fn refusal(reason: &str) -> Vec<u8> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": 409});
    status.to_string().into_bytes()
}

/// A transport whose first `times` requests of this method are answered with 409 and this body.
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
    let server = embedded::Server::new(embedded::Limits::default());
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
    let server = embedded::Server::new(embedded::Limits::default());
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
    let server = embedded::Server::new(embedded::Limits::default());
    let (transport, puts) = refusing(&server, Method::PUT, 1, Some("gzip"), packed);
    let path = Path::over(server, transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("packed")).await.0, 201);
    let headers = [("content-type", "application/json"), ("accept-encoding", "br, gzip;q=0.5")];
    let answer = path.ask_raw("PUT", &at("packed"), &headers, config_map("packed").to_string()).await;
    assert_eq!((answer.status().as_u16(), puts.load(Ordering::SeqCst)), (200, 2));
}

#[tokio::test]
async fn a_write_that_always_conflicts_ends() {
    let server = embedded::Server::new(embedded::Limits::default());
    let (transport, patches) = refusing(&server, Method::PATCH, usize::MAX, None, refusal("Conflict"));
    let path = Path::over(server, transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("contended")).await.0, 201);
    let (code, _) = path.ask("PATCH", &at("contended"), "application/merge-patch+json", "{}").await;
    assert_eq!((code, patches.load(Ordering::SeqCst)), (409, Limits::default().conflict_retries));
}

#[tokio::test]
async fn a_collection_spares_what_no_longer_matches() {
    let server = embedded::Server::new(embedded::Limits::default());
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
