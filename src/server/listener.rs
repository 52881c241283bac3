//! Accepts connections, reads requests from them, and hands each request to the handler.

use super::budget::{ConnectionBudget, Stage};
use super::heads::{Heads, Metered};
use super::sockets::{self, Sockets};
use super::state::OpenBody;
use super::{Connection, ConnectionState, Drain, Refusals, Reloading, hello};
use crate::body::Body;
use crate::config::Limits;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;
use tokio_rustls::StartHandshake;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;

const ACCEPT_QUEUE: u32 = 4096;
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The bound sockets of one server.
#[derive(Debug)]
pub(crate) struct Listener {
    first: TcpListener,
    others: Vec<TcpListener>,
    refusals: Option<Refusals>,
}

impl Listener {
    /// Binds the address; clients can connect from now on, and wait until [`serve`](Self::serve).
    ///
    /// # Errors
    /// If the address is in use, or not one of this machine's.
    pub(crate) fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { first: socket.listen(ACCEPT_QUEUE)?, others: Vec::new(), refusals: None })
    }

    /// Binds another address, with the port of the first one.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub(crate) fn bind_also(&mut self, address: IpAddr) -> std::io::Result<()> {
        let other = Self::bind(SocketAddr::new(address, self.local_addr()?.port()))?;
        self.others.push(other.first);
        Ok(())
    }

    /// Reports failed handshakes there.
    #[must_use]
    pub(crate) fn reporting(self, refusals: Refusals) -> Self {
        Self { refusals: Some(refusals), ..self }
    }

    /// Returns the first bound address, with the port that the kernel chose.
    ///
    /// # Errors
    /// If the socket is broken.
    pub(crate) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.first.local_addr()
    }

    /// Returns the first socket, for a runtime of its own.
    ///
    /// # Errors
    /// If the socket cannot be taken from the present runtime.
    pub(super) fn into_std(self) -> std::io::Result<std::net::TcpListener> {
        self.first.into_std()
    }

    /// Serves until the drain has started and everything in flight has finished, or the drain timeout is over. Every request
    /// has an `Arc<Connection>` as extension.
    pub(crate) async fn serve<H, F>(
        self,
        tls: Arc<Reloading<ServerConfig>>,
        limits: Arc<Limits>,
        drain: Drain,
        handler: H,
    ) where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let (budget, handshake_timeout) = (ConnectionBudget::of_listener(&limits), limits.handshake_timeout);
        let server = Arc::new(Server { refusals: self.refusals, ..Server::new(limits, drain.clone()) });
        let connections = TaskTracker::new();
        let mut sockets = Sockets::new([self.first].into_iter().chain(self.others).collect());
        loop {
            let (stream, remote) = tokio::select! {
                accepted = sockets.accept(&budget) => accepted,
                () = drain.started() => break,
            };
            let state = Arc::new(ConnectionState::of(remote.ip()));
            let Some(place) = budget.enter(&state, Stage::first(sockets::has_spoken(&stream))) else {
                tracing::debug!(%remote, "connection refused: all others are in use");
                continue;
            };
            state.hold(place);
            let (server, tls, handler) = (server.clone(), tls.clone(), handler.clone());
            let deadline = Instant::now() + handshake_timeout;
            connections.spawn(async move {
                if speaks(&stream, &state, &server.drain, deadline).await {
                    // On the heap: a silent connection is small.
                    Box::pin(server.serve(stream, remote, &state, deadline, &tls, handler)).await;
                }
                state.leave();
            });
        }
        drop(sockets);
        connections.close();
        let finish = async {
            connections.wait().await;
            drain.finished().await;
        };
        // Connections end themselves at the same bound; this timeout is for other spawned tasks.
        let _ = tokio::time::timeout(server.limits.drain_timeout + Duration::from_secs(1), finish).await;
    }
}

/// The state that all connections share.
struct Server {
    limits: Arc<Limits>,
    drain: Drain,
    refusals: Option<Refusals>,
    heads: Arc<Heads>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Server {
    fn new(limits: Arc<Limits>, drain: Drain) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_buf_size(limits.head_bytes.max(8192) as usize);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(limits.stream_window_bytes)
            .initial_connection_window_size(limits.connection_window_bytes)
            .max_concurrent_streams(limits.http2_streams)
            // Clients of Kubernetes cancel many watches at once; more cancelled streams than a connection may have are an attack.
            .max_pending_accept_reset_streams(limits.http2_streams as usize)
            .max_header_list_size(limits.head_bytes)
            .max_send_buf_size(limits.send_buffer_bytes)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout);
        let heads = Heads::new(limits.heads_bytes, limits.head_bytes as usize);
        Self { limits, drain, refusals: None, heads, http1, http2 }
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        state: &ConnectionState,
        deadline: Instant,
        tls: &Reloading<ServerConfig>,
    ) -> Option<TlsStream<TcpStream>> {
        // The handshake is boxed on its own, so that its state is freed while the connection lives.
        let handshake = Box::pin(tokio::time::timeout_at(deadline, async {
            state.advance(Stage::Begun);
            let accepted = hello::read(&stream).await?;
            state.advance(Stage::Handshake);
            StartHandshake::from_parts(accepted, stream).into_stream(tls.load_full()).await
        }));
        let done = tokio::select! {
            done = handshake => done,
            () = state.ended() => {
                tracing::debug!(%remote, "TLS handshake ended for another connection");
                return None;
            }
        };
        match done {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => self.refusals.iter().for_each(|refusals| refusals.handshake(remote, &error)),
            Err(_) => {
                tracing::debug!(%remote, "TLS handshake took too long");
                self.refusals.iter().for_each(Refusals::unfinished_handshake);
            }
        }
        None
    }

    async fn serve<H, F>(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        state: &Arc<ConnectionState>,
        deadline: Instant,
        tls: &Reloading<ServerConfig>,
        handler: H,
    ) where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        // A connection without these socket options still works.
        let _ = stream.set_nodelay(true);
        let keep_alive = socket2::TcpKeepalive::new().with_time(TCP_KEEP_ALIVE);
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
        let Some(stream) = self.handshake(stream, remote, state, deadline, tls).await else { return };
        state.advance(Stage::Stranger);
        let session = stream.get_ref().1;
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let certificates = session.peer_certificates().unwrap_or_default();
        let certificates = certificates.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let server_name = session.server_name().map(str::to_ascii_lowercase);
        let (kept, state) = (Default::default(), state.clone());
        let connection = Connection { remote, certificates, kept, server_name, is_http2, state };
        self.serve_requests(stream, Arc::new(connection), handler).await;
    }

    async fn serve_requests<S, H, F>(&self, stream: S, connection: Arc<Connection>, handler: H)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let (is_http2, state, remote) = (connection.is_http2, Arc::clone(&connection.state), connection.remote);
        let (drain, heads) = (self.drain.clone(), self.heads.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let state = Arc::clone(&connection.state);
            request.extensions_mut().insert(Arc::clone(&connection));
            let has_room = heads.keep(&mut request, &state).is_ok();
            let begun = state.begin().map(|open| (open, has_room.then(|| handler(request))));
            let drain = drain.clone();
            async move {
                let Some((open, response)) = begun else { return Ok(refused(StatusCode::SERVICE_UNAVAILABLE)) };
                let Some(response) = response else { return Ok(refused(StatusCode::TOO_MANY_REQUESTS)) };
                let mut response = response.await.map(|body| OpenBody::new(body, Some(open)));
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    state.upgrade();
                }
                // A client of HTTP/1.1 may send a write while an idle connection is closed, and cannot repeat the write. So it leaves
                // with its last answer before the drain starts.
                if !is_http2 && (state.is_closing() || drain.is_announced()) {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response)
            }
        });
        let io = TokioIo::new(Metered::new(stream, is_http2, state.clone(), self.heads.clone()));
        let end = match is_http2 {
            true => {
                let connection = self.http2.serve_connection(io, service);
                self.follow(connection, |connection| connection.graceful_shutdown(), &state).await
            }
            false => {
                let connection = self.http1.serve_connection(io, service).with_upgrades();
                self.follow(connection, |connection| connection.graceful_shutdown(), &state).await
            }
        };
        match end {
            End::Closed(Ok(())) => {}
            End::Closed(Err(error)) => tracing::debug!(%remote, %error, "connection ended"),
            End::CutOff(reason) => tracing::debug!(%remote, reason, "connection cut off"),
            End::Drained => tracing::info!(%remote, "requests in flight cut off at the end of the drain"),
        }
    }

    /// Drives a connection to its end: the client's, or a graceful one if the connection is idle, is to be closed, or the drain starts.
    async fn follow<C: Future<Output = hyper::Result<()>>>(
        &self,
        connection: C,
        shut_down: impl FnOnce(Pin<&mut C>),
        state: &ConnectionState,
    ) -> End {
        let (drain, limits) = (&self.drain, &self.limits);
        let mut connection = pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return End::Closed(result),
            () = state.ended() => return End::CutOff("it made room for another"),
            () = state.idle_for(limits.idle_timeout) => {}
            () = state.closing() => {}
            () = drain.started() => {}
        }
        shut_down(connection.as_mut());
        if !drain.is_started() {
            state.take_requests_until(Instant::now() + limits.goaway_timeout);
            tokio::select! {
                result = connection.as_mut() => return End::Closed(result),
                () = state.ended() => return End::CutOff("its client does not leave it"),
                () = state.idle_for(limits.goaway_timeout) => return End::CutOff("its client does not close it"),
                () = drain.started() => {}
            }
        }
        tokio::time::timeout(limits.drain_timeout, connection).await.map_or(End::Drained, End::Closed)
    }
}

/// Waits for the first byte of the client; false if the connection ends instead.
async fn speaks(stream: &TcpStream, state: &ConnectionState, drain: &Drain, deadline: Instant) -> bool {
    tokio::select! {
        ready = tokio::time::timeout_at(deadline, sockets::speaks(stream)) => ready == Ok(true),
        () = state.ended() => false,
        () = drain.started() => false,
    }
}

/// The way in which a connection ended.
enum End {
    Closed(hyper::Result<()>),
    CutOff(&'static str),
    Drained,
}

/// The answer to a request that reaches no handler: on a connection that ends before the answer is sent (503), or for want of room for its
/// head (429).
fn refused(status: StatusCode) -> Response<OpenBody> {
    let mut response = Response::new(OpenBody::new(crate::body::empty(), None));
    *response.status_mut() = status;
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
