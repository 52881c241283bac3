//! The program under the name `etcd`: it says that it is healthy, and stores nothing. The embedded API server keeps its objects in its own
//! process, but envtest starts an etcd beside it and waits for its health.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

/// The name under which the program is etcd.
pub(super) const NAME: &str = "etcd";
/// The address of clients without `--listen-client-urls`.
const DEFAULT_URL: &str = "http://localhost:2379";
/// The time for one client, so that a silent one does not stop the others.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

const HELP: &str = "The etcd of kube-admission-proxy: it answers /health and stores nothing. The kube-apiserver of kube-admission-proxy \
needs no etcd.

Usage:
  etcd [flags]

Flags (all other flags of etcd are accepted, without effect):

  --listen-client-urls 'http://localhost:2379'
    Address of /health; plain HTTP only.
  --unsafe-no-fsync
    Without effect.
";

/// Runs until a signal ends it.
///
/// # Errors
/// If the address is invalid or taken.
pub(super) fn main(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-help" | "-h")) {
        print!("{HELP}");
        return Ok(());
    }
    if arguments.iter().any(|argument| argument == "--version") {
        println!("etcd Version: 3.6 (kube-admission-proxy)");
        return Ok(());
    }
    let url = listen_url(arguments).unwrap_or_else(|| DEFAULT_URL.to_owned());
    let Some(address) = url.strip_prefix("http://") else {
        bail!("--listen-client-urls={url}: must begin with http://");
    };
    let address = address.trim_end_matches('/').to_owned();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(&address).await.with_context(|| format!("--listen-client-urls={url}"))?;
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                // Clients are served one after the other, because only tests connect.
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    let _ = tokio::time::timeout(CLIENT_TIMEOUT, serve(stream)).await;
                },
            }
        }
    })
}

/// The first URL of `--listen-client-urls`.
fn listen_url(arguments: &[String]) -> Option<String> {
    let at = arguments.iter().rposition(|argument| is_listen(argument))?;
    let value = match arguments.get(at)?.split_once('=') {
        Some((_, value)) => value,
        None => arguments.get(at + 1)?,
    };
    value.split(',').next().map(str::to_owned)
}

fn is_listen(argument: &str) -> bool {
    let name = argument.split('=').next().unwrap_or_default();
    name.trim_start_matches('-') == "listen-client-urls" && name.starts_with('-')
}

async fn serve(stream: TcpStream) -> Result<(), hyper::Error> {
    let service = service_fn(|request: Request<Incoming>| {
        let (code, body) = match request.uri().path() {
            "/health" => (StatusCode::OK, r#"{"health":"true","reason":""}"#),
            "/version" => (StatusCode::OK, r#"{"etcdserver":"3.6.0","etcdcluster":"3.6.0"}"#),
            _ => (StatusCode::NOT_FOUND, "404 page not found\n"),
        };
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
        *response.status_mut() = code;
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_that_of_clients() {
        for (arguments, url) in [
            (
                &["--listen-client-urls=http://127.0.0.1:1,http://127.0.0.1:2", "--data-dir=x"][..],
                Some("http://127.0.0.1:1"),
            ),
            (&["-listen-client-urls", "http://127.0.0.1:1"], Some("http://127.0.0.1:1")),
            (&["--listen-peer-urls=http://127.0.0.1:1"], None),
            (&["--listen-client-urls"], None),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            assert_eq!(listen_url(&arguments).as_deref(), url, "{arguments:?}");
        }
    }
}
