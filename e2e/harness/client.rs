//! An HTTP client that sends requests unchanged: one connection for each request, HTTP/1.1 by default, or one for each user.

use super::pki::{Pair, pki};
use super::user::User;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A request: method, path with query, headers, body.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub http2: bool,
    /// The TLS server name, in place of the address.
    pub server_name: Option<String>,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            http2: false,
            server_name: None,
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a body.
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// Sends the request with this TLS server name.
    pub fn with_server_name(mut self, name: &str) -> Self {
        self.server_name = Some(name.to_owned());
        self
    }

    /// Sends the request over HTTP/2.
    pub fn over_http2(mut self) -> Self {
        self.http2 = true;
        self
    }
}

pub fn get(path: &str) -> Request {
    Request::new("GET", path)
}

pub fn post(path: &str, object: &Value) -> Request {
    Request::new("POST", path).body("application/json", object.to_string())
}

pub fn put(path: &str, object: &Value) -> Request {
    Request::new("PUT", path).body("application/json", object.to_string())
}

/// A patch of this kind: `json`, `merge`, `strategic` or `apply`.
pub fn patch(path: &str, kind: &str, body: &Value) -> Request {
    let content_type = match kind {
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        _ => panic!("no kind of patch: {kind}"),
    };
    Request::new("PATCH", path).body(content_type, body.to_string())
}

/// A field of a protobuf message that holds text or another message; its number must be below 16.
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut length) = (vec![number << 3 | 2], bytes.len());
    while length > 127 {
        out.push(u8::try_from(length & 127).unwrap() | 128);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend_from_slice(bytes);
    out
}

/// An object in kube-apiserver's protobuf: `k8s\0`, a `runtime.Unknown` with its type and the object's bytes.
pub fn protobuf_of(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, object)].concat()
}

pub fn delete(path: &str) -> Request {
    Request::new("DELETE", path)
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If the body is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    /// The `message` of a Status.
    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The values of a header.
    pub fn header(&self, name: &str) -> Vec<String> {
        self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }
}

/// A streamed response.
pub struct Stream {
    pub status: u16,
    pub headers: http::HeaderMap,
    body: Incoming,
    rest: Vec<u8>,
}

impl Stream {
    /// The next line as JSON; `None` at the end.
    pub fn next_json(&mut self) -> Option<Value> {
        let line = super::block_on(async { tokio::time::timeout(super::patience(), self.line()).await });
        let line = line.expect("no line, and no end");
        line.map(|line| serde_json::from_slice(&line).unwrap())
    }

    /// The next bytes; fewer only at the end.
    pub fn next_bytes(&mut self, count: usize) -> Vec<u8> {
        let bytes = async {
            while self.rest.len() < count && self.more().await {}
            self.rest.drain(..count.min(self.rest.len())).collect()
        };
        super::block_on(async { tokio::time::timeout(super::patience(), bytes).await }).expect("no bytes, and no end")
    }

    async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Some(self.rest.drain(..=end).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads on. Returns whether the stream has not ended.
    async fn more(&mut self) -> bool {
        let frame = self.body.frame().await.transpose().unwrap_or_else(|error| panic!("the stream broke: {error}"));
        frame.inspect(|frame| self.rest.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()))).is_some()
    }
}

pub async fn send(port: u16, user: &User, request: Request) -> Result<Answer, Error> {
    let answer = tokio::time::timeout(super::patience(), start(port, user, request))
        .await
        .map_err(|_| "no answer in time")??;
    whole(answer).await
}

/// Reads an answer to its end.
async fn whole(answer: http::Response<Incoming>) -> Result<Answer, Error> {
    let (head, body) = answer.into_parts();
    let body =
        tokio::time::timeout(super::patience(), body.collect()).await.map_err(|_| "no end of the answer in time")??;
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
}

type Sender = http1::SendRequest<Full<Bytes>>;

/// A client that keeps a connection for each user, for tests with many requests: most of the time of a request is that of its handshake.
pub struct Kept {
    port: u16,
    idle: Mutex<HashMap<Option<PathBuf>, Sender>>,
}

impl Kept {
    pub(super) fn to(port: u16) -> Self {
        Self { port, idle: Mutex::default() }
    }

    /// Sends a request.
    ///
    /// # Panics
    /// If there is no response.
    pub fn send(&self, user: &User, request: Request) -> Answer {
        let what = format!("{} {}", request.method, request.path);
        super::block_on(self.answer(user, request)).unwrap_or_else(|error| panic!("{what}: no answer: {error}"))
    }

    async fn answer(&self, user: &User, request: Request) -> Result<Answer, Error> {
        if request.http2 || request.server_name.is_some() {
            return send(self.port, user, request).await;
        }
        let key = match user {
            User::Certificate(pair) => Some(pair.certificate.clone()),
            User::Token(_) | User::Anonymous => None,
        };
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = idle().remove(&key);
        // The server has closed a connection that is not ready.
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => http1_to(self.port, user, "127.0.0.1").await?,
        };
        let answer = tokio::time::timeout(super::patience(), sender.send_request(outgoing(self.port, user, request)?))
            .await
            .map_err(|_| "no answer in time")??;
        let answer = whole(answer).await?;
        idle().insert(key, sender);
        Ok(answer)
    }
}

pub async fn stream(port: u16, user: &User, request: Request) -> Result<Stream, Error> {
    let answer = tokio::time::timeout(super::patience(), start(port, user, request))
        .await
        .map_err(|_| "no answer in time")??;
    let (head, body) = answer.into_parts();
    Ok(Stream { status: head.status.as_u16(), headers: head.headers, body, rest: Vec::new() })
}

/// Sends requests one after another on one HTTP/2 connection with this TLS server name.
pub async fn send_together(
    port: u16,
    user: &User,
    server_name: Option<String>,
    requests: Vec<Request>,
) -> Result<Vec<Answer>, Error> {
    let name = server_name.unwrap_or_else(|| "127.0.0.1".to_owned());
    let io = TokioIo::new(connect_to(port, user, b"h2", &name).await?);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for request in requests {
        let (head, body) = sender.send_request(outgoing(port, user, request)?).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        answers.push(Answer { status: head.status.as_u16(), headers: head.headers, body });
    }
    Ok(answers)
}

async fn start(port: u16, user: &User, request: Request) -> Result<http::Response<Incoming>, Error> {
    let name = request.server_name.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
    if request.http2 {
        let io = TokioIo::new(connect_to(port, user, b"h2", &name).await?);
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        tokio::spawn(connection);
        Ok(sender.send_request(outgoing(port, user, request)?).await?)
    } else {
        let mut sender = http1_to(port, user, &name).await?;
        Ok(sender.send_request(outgoing(port, user, request)?).await?)
    }
}

/// A new connection of HTTP/1.1, with this TLS server name.
async fn http1_to(port: u16, user: &User, name: &str) -> Result<Sender, Error> {
    let io = TokioIo::new(connect_to(port, user, b"http/1.1", name).await?);
    let (sender, connection) = http1::handshake(io).await?;
    tokio::spawn(connection);
    Ok(sender)
}

fn outgoing(port: u16, user: &User, request: Request) -> Result<http::Request<Full<Bytes>>, Error> {
    let host = request.headers.iter().find(|(name, _)| name == ":authority").map(|(_, host)| host.clone());
    let host = host.unwrap_or_else(|| format!("127.0.0.1:{port}"));
    let uri = if request.http2 { format!("https://{host}{}", request.path) } else { request.path };
    let has_host = request.headers.iter().any(|(name, _)| name == "host");
    let mut builder = http::Request::builder().method(request.method.as_str()).uri(uri);
    if !request.http2 && !has_host {
        builder = builder.header("host", format!("127.0.0.1:{port}"));
    }
    if let User::Token(token) = user {
        builder = builder.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in request.headers.iter().filter(|(name, _)| name != ":authority") {
        builder = builder.header(name, value);
    }
    Ok(builder.body(Full::new(request.body))?)
}

/// A TLS connection to a server of this run, with the user's certificate.
pub async fn connect(port: u16, user: &User, protocol: &[u8]) -> Result<TlsStream<TcpStream>, Error> {
    connect_to(port, user, protocol, "127.0.0.1").await
}

/// As [`connect`], with this TLS server name.
async fn connect_to(port: u16, user: &User, protocol: &[u8], name: &str) -> Result<TlsStream<TcpStream>, Error> {
    let mut config = client_config(user)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name.to_owned().try_into()?, tcp).await?)
}

fn client_config(user: &User) -> Result<ClientConfig, Error> {
    static ROOTS: OnceLock<Arc<rustls::RootCertStore>> = OnceLock::new();
    /// The certificates and keys by file, which no test changes.
    static PAIRS: Mutex<Option<HashMap<PathBuf, Arc<SingleCertAndKey>>>> = Mutex::new(None);
    let roots = ROOTS.get_or_init(|| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(certificates(pki().ca()).unwrap());
        Arc::new(roots)
    });
    let config = ClientConfig::builder().with_root_certificates(Arc::clone(roots));
    match user {
        User::Certificate(pair) => {
            let Pair { certificate, key } = &**pair;
            let mut config = config.with_no_client_auth();
            let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
            let pairs = pairs.get_or_insert_default();
            if !pairs.contains_key(certificate) {
                // rustls' own function refuses certificates that servers accept, such as those of version 1.
                let key = config.crypto_provider().key_provider.load_private_key(PrivateKeyDer::from_pem_file(key)?)?;
                let pair = SingleCertAndKey::from(CertifiedKey::new(certificates(certificate)?, key));
                pairs.insert(certificate.clone(), Arc::new(pair));
            }
            config.client_auth_cert_resolver = pairs[certificate].clone();
            Ok(config)
        }
        User::Token(_) | User::Anonymous => Ok(config.with_no_client_auth()),
    }
}

/// The certificates in a PEM file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?)
}
