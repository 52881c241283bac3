//! The listener over real sockets.

use super::certificates::Authority;
use super::testing::{Served, ask, serve, serve_with, serve_within, silent};
use super::tls::Handshake;
use super::{Connection, Drain};
use crate::body::{Body, full};
use crate::config::CertificateFiles;
use crate::config::Limits;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

async fn text(body: impl http_body::Body<Data = Bytes, Error: std::fmt::Debug>) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Answers with the number of certificates that the client presented.
async fn count_certificates(request: Request<Incoming>) -> Response<Body> {
    let connection = request.extensions().get::<Arc<Connection>>().unwrap();
    assert!(connection.remote.ip().is_loopback());
    Response::new(full(connection.certificates.len().to_string()))
}

#[tokio::test]
async fn takes_both_protocols_with_and_without_a_client_certificate() {
    let served = serve(count_certificates);
    // The server does not know the issuer: rejecting the certificate is left to authentication.
    let stranger = Authority::generate("stranger").unwrap().client("jane", "").unwrap();
    for (certificate, count) in [(None, "0"), (Some(&stranger), "1")] {
        let answer = served.http2(certificate).await.send_request(ask("/")).await.unwrap();
        assert_eq!(text(answer.into_body()).await, count);
        let answer = served.http1(certificate).await.send_request(ask("/")).await.unwrap();
        assert_eq!(text(answer.into_body()).await, count);
    }
}

#[tokio::test]
async fn a_new_certificate_is_served_to_new_connections_and_old_ones_stay() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    let authority = Authority::generate("test").unwrap();
    let write = || {
        let issued = authority.serving(&["127.0.0.1".into()]).unwrap();
        std::fs::write(&certificate, &issued.certificate_pem).unwrap();
        std::fs::write(&key, &issued.key_pem).unwrap();
    };
    write();
    let tls =
        Handshake::default().watch(&CertificateFiles { certificate: certificate.clone(), key: key.clone() }).unwrap();
    write();
    let again = authority.serving(&["127.0.0.1".into()]).unwrap();
    let served = serve_with(authority, tls, Drain::new(), count_certificates);
    let peer = async || {
        let stream = served.connect("h2", None).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let before = peer().await;
    let mut open = served.http2(None).await;

    std::fs::write(&certificate, &again.certificate_pem).unwrap();
    std::fs::write(&key, &again.key_pem).unwrap();
    while peer().await == before {
        tokio::task::yield_now().await;
    }
    assert_eq!(text(open.send_request(ask("/")).await.unwrap().into_body()).await, "0");
}

#[tokio::test]
async fn a_drain_ends_watches_and_lets_requests_in_flight_finish() {
    let drain = Drain::new();
    let (finish, finished) = oneshot::channel::<()>();
    let finished = Arc::new(Mutex::new(Some(finished)));
    let signal = drain.clone();
    let (arrive, arrived) = oneshot::channel::<()>();
    let arrive = Arc::new(Mutex::new(Some(arrive)));
    let handler = move |request: Request<Incoming>| {
        let (signal, finished, arrive) = (signal.clone(), Arc::clone(&finished), Arc::clone(&arrive));
        async move {
            if request.uri().path() == "/watch" {
                return Response::new(signal.ending(silent().0));
            }
            let wait = finished.lock().unwrap().take().unwrap();
            arrive.lock().unwrap().take().unwrap().send(()).unwrap();
            wait.await.unwrap();
            Response::new(full("done"))
        }
    };
    let authority = Authority::generate("test").unwrap();
    let issued = authority.serving(&["127.0.0.1".into()]).unwrap();
    let config = Handshake::default().config(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
    let served = serve_with(authority, super::Reloading::fixed(config), drain.clone(), handler);

    let mut http2 = served.http2(None).await;
    let watch = http2.send_request(ask("/watch")).await.unwrap();
    let mut http1 = served.http1(None).await;
    let watch1 = http1.send_request(ask("/watch")).await.unwrap();
    let slow = tokio::spawn(http2.send_request(ask("/slow")));
    arrived.await.unwrap();

    drain.start(Duration::ZERO).await;
    assert_eq!(text(watch.into_body()).await, "");
    assert_eq!(text(watch1.into_body()).await, "");
    while TcpStream::connect(served.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!served.serving.is_finished());
    finish.send(()).unwrap();
    assert_eq!(text(slow.await.unwrap().unwrap().into_body()).await, "done");
    served.serving.await.unwrap();
}

#[tokio::test]
async fn trailers_pass_in_both_directions() {
    let served = serve(|request: Request<Incoming>| async move {
        Response::new(request.into_body().map_err(Into::into).boxed_unsync())
    });
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", "1".parse().unwrap());
    let frames = [Ok(http_body::Frame::data(Bytes::from("data"))), Ok(http_body::Frame::trailers(trailers.clone()))];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
    let answer = served.http2(None).await.send_request(ask("/").map(|_| body)).await.unwrap();
    let collected = answer.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "data");
}

/// Requests of `/in` authenticate their connection.
fn serve_bounded(limits: Limits) -> Served {
    serve_handled(limits, |request: Request<Incoming>| async move {
        if request.uri().path() == "/in" {
            request.extensions().get::<Arc<Connection>>().unwrap().state.authenticated();
        }
        Response::new(full("done"))
    })
}

fn serve_handled<H, F>(limits: Limits, handler: H) -> Served
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let authority = Authority::generate("test").unwrap();
    let issued = authority.serving(&["127.0.0.1".into()]).unwrap();
    let config = Handshake::default().config(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
    serve_within(authority, super::Reloading::fixed(config), Arc::new(limits), Drain::new(), handler)
}

#[tokio::test]
async fn silent_connections_neither_exclude_clients_nor_end_authenticated_connections() {
    let served = serve_bounded(Limits { unauthenticated_connections: 3, ..Limits::default() });
    let mut known = served.http2(None).await;
    known.send_request(ask("/in")).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(served.connect("h2", None).await);
    }
    let answer = served.http1(None).await.send_request(ask("/in")).await.unwrap();
    assert_eq!(text(answer.into_body()).await, "done");
    assert_eq!(text(known.send_request(ask("/")).await.unwrap().into_body()).await, "done");
    // The oldest connections have ended.
    for connection in &mut silent[..3] {
        // Bytes that the server wrote before the end may still come.
        let _ = connection.read_to_end(&mut Vec::new()).await;
    }
}

#[tokio::test]
async fn stalled_handshakes_exclude_no_client() {
    let served = serve_bounded(Limits { handshakes: 1, ..Limits::default() });
    let mut stalled = TcpStream::connect(served.address).await.unwrap();
    // The first byte of a handshake.
    stalled.write_all(&[22]).await.unwrap();
    let answer = served.http2(None).await.send_request(ask("/")).await.unwrap();
    assert_eq!(text(answer.into_body()).await, "done");
    assert_eq!(stalled.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn silent_connections_keep_nobody_waiting() {
    const HOUR: Duration = Duration::from_secs(3600);
    let limits = Limits { silent_connections: 8, handshakes: 8, handshake_timeout: HOUR, ..Limits::default() };
    let served = serve_bounded(limits);
    let mut silent = Vec::new();
    for _ in 0..800 {
        silent.push(TcpStream::connect(served.address).await.unwrap());
    }
    // A server that makes room by waiting needs more than a minute for so many.
    let client = tokio::time::timeout(Duration::from_secs(60), served.http2(None)).await;
    let answer = client.expect("a place").send_request(ask("/")).await.unwrap();
    assert_eq!(text(answer.into_body()).await, "done");
    assert_eq!(silent[0].read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn silent_connections_take_no_places_of_handshakes() {
    const HOUR: Duration = Duration::from_secs(3600);
    let limits = Limits { silent_connections: 100, handshakes: 8, handshake_timeout: HOUR, ..Limits::default() };
    let served = serve_bounded(limits);
    let mut silent = Vec::new();
    for _ in 0..90 {
        silent.push(TcpStream::connect(served.address).await.unwrap());
    }
    for _ in 0..5 {
        let answer = served.http2(None).await.send_request(ask("/")).await.unwrap();
        assert_eq!(text(answer.into_body()).await, "done");
    }
    for stream in &silent {
        let nothing = stream.try_read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(nothing, Err(std::io::ErrorKind::WouldBlock));
    }
}

#[tokio::test]
async fn what_is_no_handshake_is_refused_without_one() {
    let served = serve_bounded(Limits { handshake_timeout: Duration::from_secs(3600), ..Limits::default() });
    // Plain HTTP; and the first 20 KiB of a ClientHello of 64 KiB, record by record.
    let records = [&[22, 3, 1, 0x10, 0][..], &[0; 0x1000]].concat().repeat(4);
    let long = [&[22, 3, 1, 0x10, 0, 1, 0, 0xff, 0xff][..], &[0; 0x1000 - 4], &records].concat();
    for (sent, alerts) in [(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), true), (long, false)] {
        let mut client = TcpStream::connect(served.address).await.unwrap();
        // The server may end the connection before it has read everything.
        let _ = client.write_all(&sent).await;
        let mut answer = Vec::new();
        let reading = tokio::time::timeout(Duration::from_secs(60), client.read_to_end(&mut answer));
        let _ = reading.await.expect("the server waits for the rest of the handshake");
        assert!(!alerts || answer.first() == Some(&21), "{answer:?}");
    }
}

fn with_value(bytes: usize) -> Request<Body> {
    let mut request = ask("/");
    request.headers_mut().insert("x-long", "a".repeat(bytes).parse().unwrap());
    request
}

/// Four heads of nearly the longest kind fit.
fn four_heads() -> Limits {
    Limits { heads_bytes: 8 << 20, head_timeout: Duration::from_secs(3600), ..Limits::default() }
}

#[tokio::test]
async fn heads_without_an_end_take_no_more_memory_than_there_is_and_a_long_head_is_served() {
    let served = serve_bounded(four_heads());
    let block = [&[0, 0x40, 0, 1, 0, 0, 0, 0, 1][..], &[0x90; 0x4000]].concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (protocol, head) in [
        ("http/1.1", format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(900_000)).into_bytes()),
        // The fields of a header block take far more memory than the block.
        ("h2", [&preface[..], &block].concat()),
    ] {
        let mut open = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let mut client = served.connect(protocol, None).await;
            // The server may close the connection meanwhile.
            let _ = client.write_all(&head).await;
            let _ = client.flush().await;
            open.spawn(async move { while matches!(client.read(&mut [0; 1024]).await, Ok(1..)) {} });
        }
        for _ in 4..10 {
            open.join_next().await.unwrap().unwrap();
        }
        let answer = served.http1(None).await.send_request(with_value(60_000)).await.unwrap();
        assert_eq!(answer.status(), 200, "{protocol}");
        let answer = served.http2(None).await.send_request(with_value(60_000)).await.unwrap();
        assert_eq!(answer.status(), 200, "{protocol}");
    }
}

#[tokio::test]
async fn the_heads_of_requests_in_progress_are_bounded_and_free_with_the_request() {
    let (begun, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let served = Arc::new(serve_handled(four_heads(), move |request| {
        let (go_on, wait) = oneshot::channel::<()>();
        begun.send(go_on).unwrap();
        async move {
            let _ended = wait.await;
            drop(request);
            Response::new(full(""))
        }
    }));
    let long = || {
        let served = served.clone();
        tokio::spawn(async move {
            served.http1(None).await.send_request(with_value(900_000)).await.unwrap().status().as_u16()
        })
    };
    // One address has half of the memory.
    let (first, second) = (long(), long());
    let mut open = vec![requests.recv().await.unwrap(), requests.recv().await.unwrap()];
    assert_eq!(long().await.unwrap(), 429);
    // The answer to a request frees the room of its head.
    drop(open.pop());
    let (ended, other) = futures_util::future::select(first, second).await.factor_first();
    assert_eq!(ended.unwrap(), 200);
    let third = long();
    open.push(requests.recv().await.unwrap());
    drop(open);
    assert_eq!((other.await.unwrap(), third.await.unwrap()), (200, 200));
}
