//! Webhooks that misbehave, each in its own way: the error that the client gets, its time limit, and no leaked tasks or connections.

mod http1;
mod http2;
mod redirects;
mod services;

use super::*;
use crate::backend::testing::authority;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A connection before TLS, or under TLS.
pub(super) type Plain = TcpStream;
pub(super) type Secure = TlsStream<TcpStream>;
type Behaviour<S> = Arc<dyn Fn(S, FaultContext) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The input of a connection's behaviour: the connection's number, and the signal that the test has finished.
#[derive(Clone)]
pub(super) struct FaultContext {
    pub(crate) number: usize,
    released: watch::Receiver<bool>,
}

impl FaultContext {
    /// Waits until the test has finished.
    pub(super) async fn release(&mut self) {
        self.released.wait_for(|released| *released).await.ok();
    }
}

/// The behaviour of a server on each of its connections.
#[derive(Clone)]
pub(super) enum Misbehaviour {
    /// Before TLS.
    Early(Behaviour<Plain>),
    /// Under TLS, with the protocols that the server offers.
    Late(Behaviour<Secure>, Vec<Vec<u8>>),
}

/// Creates a misbehaviour before TLS.
pub(super) fn early<F: Future<Output = ()> + Send + 'static>(
    behave: impl Fn(Plain, FaultContext) -> F + Send + Sync + 'static,
) -> Misbehaviour {
    Misbehaviour::Early(Arc::new(move |stream, context| Box::pin(behave(stream, context))))
}

/// Creates a misbehaviour under TLS.
pub(super) fn late<F: Future<Output = ()> + Send + 'static>(
    behave: impl Fn(Secure, FaultContext) -> F + Send + Sync + 'static,
) -> Misbehaviour {
    Misbehaviour::Late(Arc::new(move |stream, context| Box::pin(behave(stream, context))), Vec::new())
}

/// A server that misbehaves, on a thread of its own: all tasks of the test's runtime belong to the client.
pub(super) struct Faulty {
    pub(crate) port: u16,
    pub(crate) ca: String,
    accepted: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    released: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// A connection in the count of open connections, until the value is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Faulty {
    pub(super) fn start(misbehaviour: Misbehaviour) -> Self {
        Self::with_certificate(misbehaviour, |_| ())
    }

    /// Starts a server with a certificate that is changed before it is signed.
    pub(super) fn with_certificate(misbehaviour: Misbehaviour, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let (ca, issuer) = authority();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".into(), "hook.default.svc".into()]).unwrap();
        change(&mut params);
        let leaf = params.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        if let Misbehaviour::Late(_, protocols) = &misbehaviour {
            config.alpn_protocols.clone_from(protocols);
        }
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (accepted, open): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let (released, context) = watch::channel(false);
        let counts = (accepted.clone(), open.clone());
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let mut end = context.clone();
                loop {
                    let stream = tokio::select! {
                        accepted = listener.accept() => accepted.unwrap().0,
                        changed = end.changed() => if changed.is_err() { return } else { continue },
                    };
                    let number = counts.0.fetch_add(1, Ordering::SeqCst);
                    counts.1.fetch_add(1, Ordering::SeqCst);
                    let (counted, acceptor) = (Counted(counts.1.clone()), acceptor.clone());
                    let (context, misbehaviour) =
                        (FaultContext { number, released: context.clone() }, misbehaviour.clone());
                    tokio::spawn(async move {
                        let _counted = counted;
                        match misbehaviour {
                            Misbehaviour::Early(behave) => behave(stream, context).await,
                            Misbehaviour::Late(behave, _) => {
                                if let Ok(stream) = acceptor.accept(stream).await {
                                    behave(stream, context).await;
                                }
                            }
                        }
                    });
                }
            });
        });
        Self { port, ca, accepted, open, released, thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}/x", self.port)
    }

    /// Returns the number of accepted connections.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// A hook at this server, with a timeout of a second unless `fields` has another.
    pub(super) fn hook(&self, fields: Value) -> Value {
        let mut all =
            json!({"timeoutSeconds": 1, "clientConfig": {"url": self.url(), "caBundle": STANDARD.encode(&self.ca)}});
        for (field, value) in fields.as_object().unwrap() {
            all[field] = value.clone();
        }
        hook("w.lab.dev", "", None, all)
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.released = watch::Sender::new(true);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Waits until the condition holds.
pub(super) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(10), waiting).await.is_ok(), "never: {what}");
}

/// Returns the client's error when a hook at such a server fails. Calls the hook twice, with failurePolicy Ignore and Fail. FromFilesAndApi calls end
/// by the hook's timeout of a second, and leave neither tasks nor connections behind.
pub(super) async fn failure(server: &Faulty) -> String {
    failure_with(server, configmap()).await
}

/// As `failure`, with this object.
pub(super) async fn failure_with(server: &Faulty, object: Value) -> String {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut heard = String::new();
    for policy in ["Ignore", "Fail"] {
        let world = validating(&[server.hook(json!({"failurePolicy": policy}))]);
        let attributes = create(object.clone());
        let started = Instant::now();
        let result = world.plugin.validate(&attributes).await;
        let elapsed = started.elapsed();
        // A second, plus the delay of a busy machine.
        assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
        if policy == "Ignore" {
            result.unwrap();
        } else {
            heard = failed_calling(&refused(result, &attributes), "w.lab.dev");
        }
    }
    eventually("no tasks of the client", || tasks() == before).await;
    server.released.send_replace(true);
    eventually("no connections", || server.open() == 0).await;
    let heard = heard.strip_prefix("failed to call webhook: ").unwrap_or_else(|| panic!("{heard}")).to_owned();
    let post = format!("Post \"{}?timeout=1s\": ", server.url());
    heard.strip_prefix(&post).map(str::to_owned).unwrap_or(heard)
}

/// Replaces addresses, since the ports of a connection differ from run to run.
pub(super) fn without_ports(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.contains("->") { "FROM->TO:" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Reads until the stream ends.
pub(super) async fn drain(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut buffer = vec![0; 65536];
    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
}

/// Closes a connection so that the other side gets an error.
pub(super) fn reset(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Returns the body of an HTTP/1.1 request once it is complete; `None` at the end of the connection.
pub(super) async fn request(stream: &mut Secure) -> Option<Value> {
    let mut seen = Vec::new();
    loop {
        let mut buffer = vec![0; 65536];
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        seen.extend_from_slice(&buffer[..read]);
        let head = seen.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(body) = head.and_then(|end| serde_json::from_slice(&seen[end + 4..]).ok()) {
            return Some(body);
        }
    }
}

/// A review that allows the request.
pub(super) fn allowed(review: &Value) -> String {
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string()
}

/// The HTTP/1.1 answer with a review that allows the request.
pub(super) fn answer(review: &Value) -> String {
    let body = allowed(review);
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Writes, whether the other side reads or not; returns whether the write succeeded.
pub(super) async fn write(stream: &mut (impl AsyncWriteExt + Unpin), bytes: impl AsRef<[u8]>) -> bool {
    stream.write_all(bytes.as_ref()).await.is_ok() && stream.flush().await.is_ok()
}
