//! The end of connections, with a paused clock.

use super::*;
use crate::body::full;
use crate::server::Unread;
use crate::server::testing::{ask, silent};
use http_body_util::BodyExt;
use hyper::client::conn;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);

/// Requests of `/watch` stay open, those of `/last` are the last ones of their connection. No body is read.
async fn answer(request: Request<Incoming>) -> Response<Body> {
    let request = Unread::new(1).watch(request);
    match request.uri().path() {
        "/watch" => return Response::new(silent().0),
        "/last" => request.extensions().get::<Arc<Connection>>().unwrap().state.close(),
        _ => {}
    }
    Response::new(full("done"))
}

/// Serves one connection. The task ends with the connection, and returns its duration.
fn serve(is_http2: bool) -> (DuplexStream, JoinHandle<Duration>) {
    serve_until(Drain::new(), is_http2)
}

fn serve_until(drain: Drain, is_http2: bool) -> (DuplexStream, JoinHandle<Duration>) {
    let (client, stream) = duplex(1 << 16);
    let (certificates, kept, state) = Default::default();
    let remote = ([127, 0, 0, 1], 1).into();
    let connection = Arc::new(Connection { remote, certificates, kept, server_name: None, is_http2, state });
    let begun = Instant::now();
    let serving = tokio::spawn(async move {
        // Another test covers a peer that answers no PING.
        let limits = Limits { ping_interval: 10_000 * SECOND, ..Limits::default() };
        Server::new(Arc::new(limits), drain).serve_requests(stream, connection, answer).await;
        begun.elapsed()
    });
    (client, serving)
}

async fn http2(stream: DuplexStream) -> (conn::http2::SendRequest<Body>, JoinHandle<hyper::Result<()>>) {
    let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

async fn http1(stream: DuplexStream) -> conn::http1::SendRequest<Body> {
    let (sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_ends_after_90_seconds_without_a_request() {
    let (client, serving) = serve(true);
    let (mut sender, connection) = http2(client).await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(text(sender.send_request(ask("/")).await.unwrap()).await, "done");
    assert_eq!(serving.await.unwrap().as_secs(), 150);
    // A GOAWAY without an error.
    assert!(connection.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_open_watch_keeps_its_connection() {
    for is_http2 in [true, false] {
        let (client, serving) = serve(is_http2);
        let watch = match is_http2 {
            true => http2(client).await.0.send_request(ask("/watch")).await.unwrap(),
            false => http1(client).await.send_request(ask("/watch")).await.unwrap(),
        };
        tokio::time::sleep(3600 * SECOND).await;
        assert!(!serving.is_finished(), "{is_http2}");
        drop(watch);
        let elapsed = serving.await.unwrap();
        assert!(elapsed >= 3600 * SECOND && elapsed <= 3700 * SECOND, "{is_http2}: {elapsed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_http1_connection_ends_after_32_seconds_without_a_request() {
    let (client, serving) = serve(false);
    let mut sender = http1(client).await;
    assert_eq!(text(sender.send_request(ask("/")).await.unwrap()).await, "done");
    assert_eq!(serving.await.unwrap().as_secs(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_ignores_the_goaway_is_cut_off() {
    let (mut client, serving) = serve(true);
    // The bytes are the preface and empty SETTINGS.
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    assert_eq!(serving.await.unwrap().as_secs(), 100);
    let is_goaway = |frame: &[u8]| frame == [0, 0, 8, 7, 0, 0, 0, 0, 0];
    assert!(received.windows(9).any(is_goaway), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_speaks_is_cut_off() {
    for is_http2 in [true, false] {
        let (client, serving) = serve(is_http2);
        assert!(serving.await.unwrap() <= 100 * SECOND, "{is_http2}");
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_to_be_closed_ends_with_its_last_answer() {
    let (client, serving) = serve(true);
    let (mut sender, connection) = http2(client).await;
    let watch = sender.send_request(ask("/watch")).await.unwrap();
    assert_eq!(text(sender.send_request(ask("/last")).await.unwrap()).await, "done");
    // The open request goes on.
    tokio::time::sleep(600 * SECOND).await;
    assert!(sender.send_request(ask("/")).await.is_err() && !serving.is_finished());
    drop(watch);
    assert!(serving.await.unwrap() <= 610 * SECOND && connection.await.unwrap().is_ok());

    let (client, serving) = serve(false);
    let answer = http1(client).await.send_request(ask("/last")).await.unwrap();
    assert_eq!(answer.headers()["connection"], "close");
    assert_eq!(text(answer).await, "done");
    assert!(serving.await.unwrap() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_http1_connection_ends_with_its_last_answer_before_the_drain_starts() {
    let drain = Drain::new();
    let (client, serving) = serve_until(drain.clone(), false);
    let mut sender = http1(client).await;
    let starting = tokio::spawn(async move { drain.start(60 * SECOND).await });
    tokio::time::sleep(SECOND).await;
    let answer = sender.send_request(ask("/")).await.unwrap();
    assert_eq!(answer.headers()["connection"], "close");
    assert_eq!(text(answer).await, "done");
    assert!(serving.await.unwrap() < 2 * SECOND && !starting.is_finished());
}

/// Reads frames of HTTP/2 until one of this type: its flags and its payload. No frame before it resets a stream.
async fn frame(client: &mut DuplexStream, wanted: u8) -> (u8, Vec<u8>) {
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        let [high, middle, low, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        client.read_exact(&mut payload).await.unwrap();
        if kind == wanted {
            return (flags, payload);
        }
        assert_ne!(kind, RESET, "{payload:?}");
    }
}

const DATA: u8 = 0;
const RESET: u8 = 3;
const PING: u8 = 6;
const END: u8 = 1;

/// Sends the head of a POST over HTTP/2, whose body follows, and reads the whole answer.
async fn answered_early() -> (DuplexStream, JoinHandle<Duration>) {
    let (mut client, serving) = serve(true);
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    // HEADERS with END_HEADERS: `:method: POST`, `:scheme: https`, `:path: /` of the static table.
    client.write_all(b"\0\0\x03\x01\x04\0\0\0\x01\x83\x87\x84").await.unwrap();
    loop {
        let (flags, payload) = frame(&mut client, DATA).await;
        if flags & END != 0 {
            assert!(payload.is_empty() || payload == b"done", "{payload:?}");
            // The server's window counts from the acknowledgement of its SETTINGS.
            client.write_all(b"\0\0\0\x04\x01\0\0\0\0").await.unwrap();
            return (client, serving);
        }
        assert_eq!(payload, b"done");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_end_of_the_body_does_not_reset_the_stream() {
    let (mut client, _serving) = answered_early().await;
    tokio::time::sleep(SECOND / 2).await;
    // DATA with END_STREAM, and a PING, whose answer comes after all that the DATA causes.
    client.write_all(b"\0\0\x04\0\x01\0\0\0\x01late").await.unwrap();
    tokio::time::sleep(2 * SECOND).await;
    client.write_all(b"\0\0\x08\x06\0\0\0\0\0pingpong").await.unwrap();
    assert_eq!(frame(&mut client, PING).await, (END, b"pingpong".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_given_up_after_a_second() {
    let (mut client, _serving) = answered_early().await;
    let begun = Instant::now();
    // NO_ERROR
    assert_eq!(frame(&mut client, RESET).await, (0, vec![0; 4]));
    assert_eq!(begun.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_a_long_body_only_a_part_is_read() {
    let (mut client, _serving) = answered_early().await;
    let begun = Instant::now();
    let (mut sent, piece) = (0, [b"\0\x40\0\0\0\0\0\0\x01".as_slice(), &[b'x'; 16_384]].concat());
    while sent < 300_000 {
        client.write_all(&piece).await.unwrap();
        sent += 16_384;
    }
    assert_eq!(frame(&mut client, RESET).await, (0, vec![0; 4]));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
