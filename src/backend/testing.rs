//! A webhook server that records its requests. The path, or a reply for a path's name, decides the answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The answer of a named path.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A response that allows, with these fields; null removes a field.
    Response(Value),
    /// An answer with this code, content type and body.
    Http(u16, &'static str, Vec<u8>),
    /// These bytes, then the end of the connection.
    Bytes(Vec<u8>),
    /// A 503 with `Retry-After: 0` the first so many times, then an answer that allows.
    RetryAfter(usize),
    /// The connection is reset.
    Reset,
    /// No answer, ever.
    Hang,
    /// An endless body, of which a byte comes now and then.
    Drip,
    /// An answer once so many requests wait for theirs.
    Together(Arc<Barrier>),
    /// The result of this function for the review, of any kind.
    Made(fn(&Value) -> Value),
    /// These replies one after the other; the last one from then on.
    InTurn(Vec<Reply>),
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The path with its query.
    pub(crate) path: String,
    /// The headers by name in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) review: Value,
}

/// The server; it ends with the test's runtime.
pub(crate) struct HookServer {
    port: u16,
    ca: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

/// Creates a CA: its certificate as PEM, and the issuer that signs.
pub(crate) fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = ca.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(ca, key))
}

/// The state that all connections share.
struct Shared {
    replies: HashMap<String, Reply>,
    counts: Mutex<HashMap<String, usize>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl HookServer {
    /// Starts a server whose certificate is signed by a CA of its own.
    pub(crate) async fn start(replies: &[(&str, Reply)]) -> Self {
        Self::start_named(replies, &["127.0.0.1", "localhost", "hook.default.svc"]).await
    }

    /// Starts a server with these names in the certificate.
    pub(crate) async fn start_named(replies: &[(&str, Reply)], names: &[&str]) -> Self {
        let (ca_pem, issuer) = authority();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        Self::serve(replies, leaf.der().clone(), &key, ca_pem, WebPkiClientVerifier::no_client_auth()).await
    }

    /// Starts a server that requires a client certificate; returns such a certificate with its key, as PEM.
    pub(crate) async fn start_for_clients(replies: &[(&str, Reply)]) -> (Self, String, String) {
        let (ca_pem, issuer) = authority();
        let leaf = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
            (leaf, key)
        };
        let ((of_server, key), (of_client, client_key)) = (leaf("127.0.0.1"), leaf("client"));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let server = Self::serve(replies, of_server.der().clone(), &key, ca_pem, verifier).await;
        (server, of_client.pem(), client_key.serialize_pem())
    }

    /// Starts a server with a self-signed CA certificate that is its own bundle, as `openssl req -x509` makes it.
    pub(crate) async fn start_self_signed() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let pem = certificate.pem();
        Self::serve(&[], certificate.der().clone(), &key, pem, WebPkiClientVerifier::no_client_auth()).await
    }

    async fn serve(
        replies: &[(&str, Reply)],
        leaf: CertificateDer<'static>,
        key: &KeyPair,
        ca: String,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![leaf], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let replies = replies.iter().map(|(name, reply)| (name.to_string(), reply.clone())).collect();
        let shared = Arc::new(Shared { replies, counts: Mutex::default(), seen: seen.clone() });
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, shared) = (acceptor.clone(), shared.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        shared.connection(stream).await;
                    }
                });
            }
        });
        Self { port, ca, seen, connections }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the certificate of the server's CA, as PEM.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    pub(crate) fn ca_base64(&self) -> String {
        STANDARD.encode(&self.ca)
    }

    /// Returns the recorded requests.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the paths of the recorded requests, without the query.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.path.split('?').next().unwrap().to_owned()).collect()
    }

    /// Returns the number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn connection(&self, mut stream: TlsStream<TcpStream>) {
        let mut buffer = Vec::new();
        while let Some(seen) = read_request(&mut stream, &mut buffer).await {
            self.seen.lock().unwrap().push(seen.clone());
            let name = seen.path.split('?').next().unwrap().trim_start_matches('/').to_owned();
            let nth = {
                let mut counts = self.counts.lock().unwrap();
                let count = counts.entry(name.clone()).or_default();
                *count += 1;
                *count
            };
            let reply = match self.replies.get(&name) {
                Some(Reply::InTurn(replies)) => replies.get(nth - 1).or(replies.last()),
                reply => reply,
            };
            if !answer(&mut stream, reply, &name, nth, &seen.review).await {
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TlsStream<TcpStream>, buffer: &mut Vec<u8>) -> Option<Seen> {
    loop {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let mut lines = head.lines();
            let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
            let headers: HashMap<_, _> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            if buffer.len() >= end + 4 + length {
                // A GET has no body.
                let body = if length == 0 { &b"null"[..] } else { &buffer[end + 4..end + 4 + length] };
                let review = serde_json::from_slice(body).unwrap();
                buffer.drain(..end + 4 + length);
                return Some(Seen { path, headers, review });
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// Answers one request; returns whether the connection goes on.
async fn answer(
    stream: &mut TlsStream<TcpStream>,
    reply: Option<&Reply>,
    name: &str,
    nth: usize,
    review: &Value,
) -> bool {
    let http = |code: u16, content_type: &str, headers: &str, body: &[u8]| {
        let mut bytes = format!("HTTP/1.1 {code} X\r\n{headers}").into_bytes();
        if !content_type.is_empty() {
            bytes.extend(format!("Content-Type: {content_type}\r\n").bytes());
        }
        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend(body);
        bytes
    };
    let response = |fields: &Value| {
        let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
        for (field, value) in fields.as_object().unwrap() {
            response[field] = value.clone();
        }
        let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
        http(200, "application/json", "", answer.to_string().as_bytes())
    };
    let allowed = || response(&json!({}));
    let bytes = match reply {
        None => response(&by_path(name, review)),
        Some(Reply::Response(fields)) => response(fields),
        Some(Reply::Http(code, content_type, body)) => http(*code, content_type, "", body),
        Some(Reply::Made(make)) => http(200, "application/json", "", make(review).to_string().as_bytes()),
        Some(Reply::RetryAfter(times)) if nth <= *times => http(503, "text/plain", "Retry-After: 0\r\n", b"later"),
        Some(Reply::RetryAfter(_)) => allowed(),
        Some(Reply::InTurn(_)) => panic!("a turn within a turn"),
        Some(Reply::Together(barrier)) => {
            barrier.wait().await;
            allowed()
        }
        Some(Reply::Bytes(bytes)) => {
            stream.write_all(bytes).await.ok();
            stream.shutdown().await.ok();
            return false;
        }
        Some(Reply::Reset) => {
            socket2::SockRef::from(stream.get_ref().0).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            return false;
        }
        Some(Reply::Hang) => std::future::pending().await,
        Some(Reply::Drip) => {
            let mut bytes = b"HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\n".to_vec();
            while stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok() {
                bytes = b" ".to_vec();
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            return false;
        }
    };
    stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok()
}

/// Answers by the path: `/allow`, `/deny`, `/warn`, `/label/K/V`; the rest of a path distinguishes calls.
fn by_path(path: &str, review: &Value) -> Value {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["allow", ..] => json!({}),
        ["deny", ..] => json!({"allowed": false, "status": {"message": "denied by the lab"}}),
        ["warn", ..] => json!({"warnings": ["first warning", "second warning"], "auditAnnotations": {"lab": "seen"}}),
        ["label", key, value, ..] => {
            let has_labels = review["request"]["object"]["metadata"]["labels"].is_object();
            let operation = if has_labels {
                json!({"op": "add", "path": format!("/metadata/labels/{key}"), "value": value})
            } else {
                json!({"op": "add", "path": "/metadata/labels", "value": {key: value}})
            };
            patch(&json!([operation]))
        }
        _ => panic!("no such path: {path}"),
    }
}

/// Returns the response fields of a JSON patch.
pub(crate) fn patch(operations: &Value) -> Value {
    json!({"patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}
