//! An API server of a later release: a real one behind a relay that changes its version to 1.37 and adds fields to its pods.

use super::api::Api;
use super::client::{self, certificates};
use super::pki::pki;
use super::user::User;
use super::{block_on, runtime};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A write that the relay received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Path and query.
    pub path: String,
    /// The media type of the body.
    pub content_type: String,
    /// The body; null if it is no JSON.
    pub body: Value,
}

type Log = Arc<Mutex<Vec<Received>>>;

/// A relay to a real kube-apiserver. The relay adds a field `next` to the `spec` of every pod in an answer and to each of
/// its containers, and removes the fields from requests, because the real API server does not know them.
pub struct Later {
    api: Api,
    log: Log,
}

impl Later {
    /// Starts a relay to this API server.
    pub fn before(upstream: &Api) -> Self {
        let _ = runtime();
        let pki = pki();
        let chain = certificates(&pki.server.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&pki.server.key).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let api = Api { port: listener.local_addr().unwrap().port() };
        let (log, behind) = (Log::default(), upstream.port);
        let notes = log.clone();
        runtime().spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (acceptor, notes) = (acceptor.clone(), notes.clone());
                tokio::spawn(async move {
                    let connection = acceptor.accept(connection).await.ok()?;
                    let service = service_fn(move |request| pass(request, behind, notes.clone()));
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    server.serve_connection(TokioIo::new(connection), service).await.ok()
                });
            }
        });
        Self { api, log }
    }

    /// The URL of the relay.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The writes to pods since the last call, without dry runs.
    pub fn take(&self) -> Vec<Received> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Body = BoxBody<Bytes, hyper::Error>;

async fn pass(request: http::Request<Incoming>, behind: u16, log: Log) -> Result<http::Response<Body>, client::Error> {
    let (mut head, body) = request.into_parts();
    let mut body = body.collect().await?.to_bytes();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    if let Ok(mut value) = serde_json::from_slice::<Value>(&body) {
        note(&head, &path, &value, &log);
        without_next(&mut value);
        body = value.to_string().into();
    } else if !body.is_empty() {
        note(&head, &path, &Value::Null, &log);
    }
    for name in [HOST, ACCEPT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING] {
        head.headers.remove(name);
    }
    head.headers.insert(HOST, format!("127.0.0.1:{behind}").parse()?);
    head.uri = path.parse()?;
    head.version = http::Version::HTTP_11;
    let io = client::connect(behind, &User::named("admission-proxy", "system:masters"), b"http/1.1").await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await?;
    tokio::spawn(connection);
    let answer = sender.send_request(http::Request::from_parts(head, Full::new(body))).await?;
    let (mut head, body) = answer.into_parts();
    head.headers.remove(TRANSFER_ENCODING);
    let is_json = head.headers.get(CONTENT_TYPE).is_some_and(|form| form == "application/json");
    if !is_json || path.contains("watch=") {
        return Ok(http::Response::from_parts(head, body.boxed()));
    }
    let mut body = body.collect().await?.to_bytes();
    if let Ok(mut value) = serde_json::from_slice::<Value>(&body) {
        if path == "/version" {
            value["minor"] = json!("37");
        }
        if value["kind"] == "Pod" {
            value["spec"]["next"] = json!("strict");
            let containers = value["spec"]["containers"].as_array_mut();
            containers.into_iter().flatten().for_each(|one| one["next"] = one["name"].clone());
        }
        body = value.to_string().into();
    }
    head.headers.remove(CONTENT_LENGTH);
    let body = Full::new(body).map_err(|never| match never {});
    Ok(http::Response::from_parts(head, body.boxed()))
}

fn note(head: &http::request::Parts, path: &str, body: &Value, log: &Log) {
    if head.method != http::Method::GET && path.contains("/pods") && !path.contains("dryRun=All") {
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|form| form.to_str().ok()).unwrap_or_default();
        let received = Received { path: path.to_owned(), content_type: content_type.to_owned(), body: body.clone() };
        log.lock().unwrap_or_else(PoisonError::into_inner).push(received);
    }
}

fn without_next(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("next");
            fields.values_mut().for_each(without_next);
        }
        Value::Array(items) => items.iter_mut().for_each(without_next),
        _ => {}
    }
}
