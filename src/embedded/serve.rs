//! Serves the embedded API server on a socket: plain HTTP/1.1 and HTTP/2, for tests and tools.

use super::{Server, route};
use crate::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::{conn::auto::Builder, graceful::GracefulShutdown};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The time that connections may take to end after the shutdown.
const DRAIN: Duration = Duration::from_secs(1);
/// The pause after a failed accept: its usual cause, a lack of file descriptors, lasts for a while.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves plain HTTP until `shutdown` is ready, then ends every connection. There is no authentication: every client that reaches the
/// listener may do everything.
pub async fn serve(server: Arc<Server>, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        // Without this option, only latency grows.
        let _ = stream.set_nodelay(true);
        let server = server.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let server = server.clone();
            async move {
                let request = request.map(|body| -> Body { body.map_err(Into::into).boxed_unsync() });
                Ok::<_, Infallible>(route::respond(&server, request).await)
            }
        });
        let builder = Builder::new(TokioExecutor::new());
        let connection = connections.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
        // An error of a client's connection concerns only the client.
        tasks.spawn(async move { drop(connection.await) });
        while tasks.try_join_next().is_some() {}
    }
    // Watches do not end by themselves; aborting the tasks closes their connections.
    let _ = tokio::time::timeout(DRAIN, connections.shutdown()).await;
    tasks.shutdown().await;
}
