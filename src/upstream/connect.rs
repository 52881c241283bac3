//! Dials the server: TCP, TLS, and HTTP/2 or HTTP/1.1, as negotiated.

use super::pool::Http1;
use crate::body::{Body, BoxError};
use crate::config::Limits;
use http::uri::{self, Authority, Scheme};
use http::{HeaderValue, Request, Uri, header};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const TCP_KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Cancelled streams of a connection for which frames may still come. Clients cancel watches in bulk.
const MAX_RESET_STREAMS: usize = 1024;

/// A new connection, ready for requests.
pub(super) enum Connected {
    /// An HTTP/2 connection, and the number of open streams that the server allows, as last announced.
    Http2(http2::SendRequest<Body>, Arc<AtomicUsize>),
    Http1(Http1),
}

/// The address of the server, and the settings of connections to it.
#[derive(Clone)]
pub(super) struct Connector {
    /// Host name or address, an IPv6 address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port as the server's URL has them; `host_header` is the same text as a header.
    pub(super) authority: Authority,
    pub(super) host_header: HeaderValue,
    pub(super) tls: Option<Tls>,
    pub(super) limits: Arc<Limits>,
    /// The size in bytes of the part of one answer that the server may send before its reader takes it. The window of a connection has as many
    /// bytes for each stream, or clients that read slowly would stop the others on their connection.
    pub(super) stream_window: u32,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The settings of TLS. The two configurations differ in the protocols that they offer by ALPN.
#[derive(Clone)]
pub(super) struct Tls {
    any: TlsConnector,
    http1: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn new(mut config: ClientConfig, name: ServerName<'static>) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = Arc::new(config.clone()).into();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { any: Arc::new(config).into(), http1, name }
    }
}

impl Connector {
    fn connection_window(&self) -> u32 {
        let streams = u32::try_from(self.limits.upstream_streams).unwrap_or(u32::MAX);
        // HTTP/2 allows no larger window.
        self.stream_window.saturating_mul(streams).min((1 << 31) - 1)
    }

    /// Makes the URL absolute: HTTP/2 names the server in every request's URL.
    pub(super) fn absolute_form(&self, request: &mut Request<Body>) -> Result<(), BoxError> {
        let mut parts = uri::Parts::default();
        parts.scheme = Some(if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = std::mem::take(request.uri_mut()).into_parts().path_and_query;
        *request.uri_mut() = Uri::from_parts(parts)?;
        Ok(())
    }

    /// Reduces the URL to its path: HTTP/1.1 asks an origin server for a path, and names the server in a header.
    pub(super) fn origin_form(&self, request: &mut Request<Body>) {
        request.headers_mut().insert(header::HOST, self.host_header.clone());
        if request.uri().scheme().is_some()
            && let Some(path) = request.uri().path_and_query()
        {
            *request.uri_mut() = Uri::from(path.clone());
        }
    }

    /// Opens a connection for the pool.
    pub(super) async fn connect(&self) -> Result<Connected, BoxError> {
        self.within_timeout(async {
            let stream = self.dial().await?;
            let Some(tls) = &self.tls else { return Ok(Connected::Http1(http1(stream).await?)) };
            let stream = tls.any.connect(tls.name.clone(), stream).await?;
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                self.http2(stream).await
            } else {
                Ok(Connected::Http1(http1(stream).await?))
            }
        })
        .await
    }

    /// Opens an HTTP/1.1 connection for the pool, to a server that prefers HTTP/2.
    pub(super) async fn connect_http1(&self) -> Result<Http1, BoxError> {
        self.within_timeout(async {
            let stream = self.dial().await?;
            match &self.tls {
                Some(tls) => http1(tls.http1.connect(tls.name.clone(), stream).await?).await,
                None => http1(stream).await,
            }
        })
        .await
    }

    /// Opens an HTTP/1.1 connection for an upgrade, which takes over the connection.
    pub(super) async fn connect_upgrade(&self) -> Result<http1::SendRequest<Body>, BoxError> {
        self.within_timeout(async {
            let stream = self.dial().await?;
            match &self.tls {
                Some(tls) => upgradeable(tls.http1.connect(tls.name.clone(), stream).await?).await,
                None => upgradeable(stream).await,
            }
        })
        .await
    }

    async fn within_timeout<T>(&self, connecting: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
        match tokio::time::timeout(self.limits.connect_timeout, connecting).await {
            Ok(result) => result,
            Err(_) => Err(format!("connecting to {self:?} took too long").into()),
        }
    }

    async fn dial(&self) -> Result<TcpStream, BoxError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let keep_alive = socket2::TcpKeepalive::new().with_time(TCP_KEEP_ALIVE).with_interval(TCP_KEEP_ALIVE);
        // A connection without keep-alive still works.
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
        Ok(stream)
    }

    async fn http2<S>(&self, stream: S) -> Result<Connected, BoxError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.stream_window)
            .initial_connection_window_size(self.connection_window())
            .max_header_list_size(self.limits.head_bytes)
            .max_send_buf_size(self.limits.upstream_send_buffer_bytes)
            .keep_alive_interval(self.limits.ping_interval)
            .keep_alive_timeout(self.limits.ping_timeout)
            .keep_alive_while_idle(true)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            // Frames for a stream that was cancelled longer ago count as errors of the server, and enough of them in the
            // life of a connection would end it with all its streams. The server is trusted, and clients cancel streams.
            .max_local_error_reset_streams(None)
            .handshake(TokioIo::new(stream))
            .await?;
        let limit = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let current = Arc::clone(&limit);
        tokio::spawn(async move {
            // The server announces its limit after the handshake, and may change it; every request polls the connection.
            let running = std::future::poll_fn(|context| {
                let polled = Pin::new(&mut connection).poll(context);
                if polled.is_pending() {
                    current.store(connection.current_max_send_streams(), Ordering::Relaxed);
                }
                polled
            });
            if let Err(error) = running.await {
                tracing::debug!(%error, "connection to the upstream ended");
            }
        });
        Ok(Connected::Http2(sender, limit))
    }
}

async fn http1<S>(stream: S) -> Result<Http1, BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    Ok(Http1::new(sender, connection))
}

async fn upgradeable<S>(stream: S) -> Result<http1::SendRequest<Body>, BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to the upstream ended");
        }
    });
    Ok(sender)
}
