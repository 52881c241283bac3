//! A listener on a free port, and clients of it, for tests.

use super::certificates::{Authority, Issued};
use super::tls::Handshake;
use super::{Drain, Listener, Reloading};
use crate::body::Body;
use crate::config::Limits;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A served listener.
pub(crate) struct Served {
    pub(crate) authority: Authority,
    pub(crate) address: SocketAddr,
    pub(crate) serving: JoinHandle<()>,
}

/// Serves on a free port of the loopback interface.
pub(crate) fn serve<H, F>(handler: H) -> Served
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let authority = Authority::generate("test").unwrap();
    let issued = authority.serving(&["127.0.0.1".into()]).unwrap();
    let config = Handshake::default().config(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
    serve_with(authority, Reloading::fixed(config), Drain::new(), handler)
}

/// Serves with this certificate and this drain.
pub(crate) fn serve_with<H, F>(
    authority: Authority,
    tls: Reloading<rustls::ServerConfig>,
    drain: Drain,
    handler: H,
) -> Served
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    serve_within(authority, tls, Arc::default(), drain, handler)
}

/// Serves with these bounds, too.
pub(crate) fn serve_within<H, F>(
    authority: Authority,
    tls: Reloading<rustls::ServerConfig>,
    limits: Arc<Limits>,
    drain: Drain,
    handler: H,
) -> Served
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(listener.serve(Arc::new(tls), limits, drain, handler));
    Served { authority, address, serving }
}

impl Served {
    /// Opens a TLS connection that offers this protocol.
    pub(crate) async fn connect(&self, protocol: &str, certificate: Option<&Issued>) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some(issued) => {
                let chain = vec![CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.into()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// A client that speaks HTTP/2.
    pub(crate) async fn http2(&self, certificate: Option<&Issued>) -> http2::SendRequest<Body> {
        let io = TokioIo::new(self.connect("h2", certificate).await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// A client that speaks HTTP/1.1.
    pub(crate) async fn http1(&self, certificate: Option<&Issued>) -> http1::SendRequest<Body> {
        let io = TokioIo::new(self.connect("http/1.1", certificate).await);
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender
    }
}

/// A body that never yields a frame, and a signal of its drop.
pub(crate) fn silent() -> (Body, tokio::sync::oneshot::Receiver<()>) {
    use http_body_util::BodyExt;
    let (guard, dropped) = tokio::sync::oneshot::channel::<()>();
    let frames = futures_util::stream::poll_fn(move |_| {
        let _held = &guard;
        std::task::Poll::<Option<Result<http_body::Frame<bytes::Bytes>, crate::body::BoxError>>>::Pending
    });
    (http_body_util::StreamBody::new(frames).boxed_unsync(), dropped)
}

/// A GET of an absolute URL, which both protocols accept.
pub(crate) fn ask(path: &str) -> Request<Body> {
    let uri = format!("https://127.0.0.1{path}");
    Request::get(uri).header("host", "127.0.0.1").body(crate::body::empty()).unwrap()
}
