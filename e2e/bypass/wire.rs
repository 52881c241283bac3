//! The ConfigMap in bytes that no client writes: framings, targets and pseudo-headers that two parsers could interpret as different
//! requests.

use crate::harness::{User, connect, patient};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The longest silence of a server that waits for more bytes.
const PAUSE: Duration = Duration::from_millis(1500);

/// Bytes to send over TLS, and their protocol.
pub struct Wire {
    pub name: &'static str,
    protocol: &'static [u8],
    bytes: Vec<u8>,
}

impl Wire {
    /// Sends the bytes, and waits until the server closes the connection or is silent.
    pub async fn send(&self, port: u16, user: &User) {
        let mut stream = connect(port, user, self.protocol).await.unwrap();
        // A server that rejects the beginning may close the connection before the end.
        if stream.write_all(&self.bytes).await.is_ok() && stream.flush().await.is_ok() {
            let mut answer = vec![0; 4096];
            while let Ok(Ok(1..)) = timeout(patient(PAUSE), stream.read(&mut answer)).await {}
        }
    }
}

/// All attempts.
pub fn attempts(maps: &str, body: &str) -> Vec<Wire> {
    let http1 = http1(maps, body).into_iter();
    let http1 = http1.map(|(name, text)| Wire { name, protocol: b"http/1.1", bytes: text.into_bytes() });
    let http2 = http2(maps, body).into_iter().map(|(name, bytes)| Wire { name, protocol: b"h2", bytes });
    http1.chain(http2).collect()
}

fn http1(maps: &str, body: &str) -> Vec<(&'static str, String)> {
    let length = body.len();
    let request = |line: &str, headers: &str, body: &str| {
        format!("{line}\r\nHost: k\r\nContent-Type: application/json\r\nConnection: close\r\n{headers}\r\n{body}")
    };
    let post = |headers: &str, body: &str| request(&format!("POST {maps} HTTP/1.1"), headers, body);
    let of_length = format!("Content-Length: {length}\r\n");
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let target = |target: &str| request(&format!("POST {target} HTTP/1.1"), &of_length, body);
    // A whole request, at a position where a confused parser would begin to read.
    let hidden = post(&of_length, body);
    let around = |headers: &str, after: &str| format!("GET /version HTTP/1.1\r\nHost: k\r\n{headers}\r\n{after}");
    vec![
        ("a request in bytes", post(&of_length, body)),
        ("HTTP/1.0", request(&format!("POST {maps} HTTP/1.0"), &of_length, body)),
        ("HTTP/1.0 with chunks", request(&format!("POST {maps} HTTP/1.0"), "Transfer-Encoding: chunked\r\n", &chunked)),
        ("HTTP/0.9", format!("POST {maps}\r\n\r\n{body}")),
        ("HTTP/2 without agreement", format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{hidden}")),
        ("a URL for a target", target(&format!("https://elsewhere{maps}"))),
        ("a URL of another scheme", target(&format!("ftp://elsewhere{maps}"))),
        ("a URL with a user in it", target(&format!("https://admin:x@elsewhere{maps}"))),
        ("a target without a slash", target(&maps[1..])),
        ("a fragment behind the path", target(&format!("{maps}#/version"))),
        ("a fragment with the path", target(&format!("/version#{maps}"))),
        ("an asterisk", target("*")),
        ("two targets", target(&format!("/version {maps}"))),
        ("a tab before the target", request(&format!("POST\t{maps} HTTP/1.1"), &of_length, body)),
        ("two versions", request(&format!("POST {maps} HTTP/1.1 HTTP/1.1"), &of_length, body)),
        ("two methods", request(&format!("GET POST {maps} HTTP/1.1"), &of_length, body)),
        ("an overlong slash", target(&maps.replace("/configmaps", "%c0%afconfigmaps"))),
        ("overlong dots", target(&maps.replace("/configmaps", "/%c0%ae%c0%ae/configmaps"))),
        ("bytes that are no text", target(&maps.replace("/configmaps", "/\u{e9}/configmaps"))),
        ("chunks", post("Transfer-Encoding: chunked\r\n", &chunked)),
        (
            "a chunk with an extension",
            post("Transfer-Encoding: chunked\r\n", &chunked.replacen("\r\n", ";a=\"b\"\r\n", 1)),
        ),
        ("a length and chunks", post(&format!("{of_length}Transfer-Encoding: chunked\r\n"), &chunked)),
        ("chunks and a length", post(&format!("Transfer-Encoding: chunked\r\n{of_length}"), &chunked)),
        ("chunks, then something else", post("Transfer-Encoding: chunked, gzip\r\n", &chunked)),
        ("something else, then chunks", post("Transfer-Encoding: gzip, chunked\r\n", &chunked)),
        ("chunks twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", &chunked)),
        ("chunks that are none", post(&format!("Transfer-Encoding: xchunked\r\n{of_length}"), body)),
        ("chunks with a space before the colon", post(&format!("Transfer-Encoding : chunked\r\n{of_length}"), body)),
        ("chunks on a folded line", post(&format!("X: y\r\n Transfer-Encoding: chunked\r\n{of_length}"), body)),
        (
            "a chunk of too many digits",
            post("Transfer-Encoding: chunked\r\n", &format!("1{}{chunked}", "0".repeat(16))),
        ),
        ("a chunk with a sign", post("Transfer-Encoding: chunked\r\n", &format!("+{chunked}"))),
        (
            "trailers",
            post(
                "Transfer-Encoding: chunked\r\nTrailer: X-HTTP-Method-Override\r\n",
                &format!("{length:x}\r\n{body}\r\n0\r\nX-HTTP-Method-Override: GET\r\nX-Remote-User: admin\r\n\r\n"),
            ),
        ),
        ("two lengths", post(&format!("Content-Length: 0\r\n{of_length}"), body)),
        ("the same length twice", post(&format!("{of_length}{of_length}"), body)),
        ("two lengths on one line", post(&format!("Content-Length: {length}, {length}\r\n"), body)),
        ("a length with a sign", post(&format!("Content-Length: +{length}\r\n"), body)),
        ("no length", post("", body)),
        ("an expectation", post(&format!("Expect: 100-continue\r\n{of_length}"), body)),
        ("another expectation", post(&format!("Expect: a-miracle\r\n{of_length}"), body)),
        ("two hosts", post(&format!("Host: elsewhere\r\n{of_length}"), body)),
        ("no host", post(&of_length, body).replace("Host: k\r\n", "")),
        ("line feeds alone", post(&of_length, body).replace("\r\n", "\n")),
        ("carriage returns alone", post(&format!("X: y\rContent-Length: 0\r\n{of_length}"), body)),
        ("a NUL in a header", post(&format!("X: y\0z\r\n{of_length}"), body)),
        (
            "a method in a header, with underscores",
            around(&format!("X_HTTP_Method_Override: POST\r\n{of_length}"), body),
        ),
        ("a request behind another", around("", &hidden)),
        ("a request behind an empty body", around("Content-Length: 0\r\n", &hidden)),
        ("a request behind no chunks", around("Transfer-Encoding: chunked\r\n", &format!("0\r\n\r\n{hidden}"))),
        ("a request in a body", around(&format!("Content-Length: {}\r\n", hidden.len()), &hidden)),
        (
            "a request in chunks",
            around("Transfer-Encoding: chunked\r\n", &format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len())),
        ),
        (
            "a request in a body whose length is the connection's",
            around(&format!("Connection: content-length\r\nContent-Length: {}\r\n", hidden.len()), &hidden),
        ),
        (
            "a request in a body of two lengths",
            around("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", &format!("0\r\n\r\n{hidden}")),
        ),
        (
            "a request behind one that becomes HTTP/2",
            around(
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAA\r\n",
                &hidden,
            ),
        ),
        (
            "a request behind one that becomes a WebSocket",
            around(
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
                &hidden,
            ),
        ),
    ]
}

/// A frame on the first stream; frames about the connection are on no stream.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let stream = u8::from(![SETTINGS, GOAWAY].contains(&kind));
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Literal header fields that are not added to a table.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        let mut length = vec![u8::try_from(text.len().min(127)).unwrap()];
        let mut rest = text.len().checked_sub(127);
        while let Some(left) = rest {
            length.push(if left < 128 { left as u8 } else { (left % 128) as u8 | 128 });
            rest = (left >= 128).then_some(left / 128);
        }
        [length, text.as_bytes().to_vec()].concat()
    };
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

fn http2(maps: &str, body: &str) -> Vec<(&'static str, Vec<u8>)> {
    let preface =
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, &[]), &frame(SETTINGS, 1, &[])].concat();
    // A GOAWAY at the end, so that the server closes the connection after its response.
    let connection = |frames: Vec<Vec<u8>>| [preface.clone(), frames.concat(), frame(GOAWAY, 0, &[0; 8])].concat();
    let plain = [(":method", "POST"), (":scheme", "https"), (":authority", "k"), (":path", maps)];
    let json = ("content-type", "application/json");
    let request = |fields: &[(&str, &str)]| {
        connection(vec![frame(HEADERS, END_HEADERS, &block(fields)), frame(DATA, END_STREAM, body.as_bytes())])
    };
    let with = |more: &[(&str, &str)]| request(&[&plain[..], &[json], more].concat());
    let instead = |name: &str, value: &str| {
        let fields: Vec<_> =
            plain.iter().map(|(own, old)| (*own, if *own == name { value } else { *old })).chain([json]).collect();
        request(&fields)
    };
    let hidden = format!("POST {maps} HTTP/1.1\r\nHost: k\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let fields = block(&[&plain[..], &[json]].concat());
    let (first, rest) = fields.split_at(20);
    let trailers = block(&[("x-http-method-override", "GET"), ("x-remote-user", "admin")]);
    let pseudo_trailers = block(&[(":path", "/version")]);
    vec![
        ("frames", with(&[])),
        ("two paths", with(&[(":path", "/version")])),
        ("two paths, the harmless one first", request(&[&[(":path", "/version")][..], &plain, &[json]].concat())),
        ("two pseudo-methods", request(&[&[(":method", "GET")][..], &plain, &[json]].concat())),
        ("a pseudo-header that there is not", with(&[(":resource", "x")])),
        ("a pseudo-header behind the others", request(&[&plain[..3], &[json], &plain[3..]].concat())),
        ("a URL for a path", instead(":path", &format!("https://elsewhere{maps}"))),
        ("a path without a slash", instead(":path", &maps[1..])),
        ("an empty path", instead(":path", "")),
        ("a path that is an asterisk", instead(":path", "*")),
        ("a path with a fragment", instead(":path", &format!("/version#{maps}"))),
        ("a path with a request behind it", instead(":path", &format!("/version HTTP/1.1\r\nHost: k\r\n\r\n{hidden}"))),
        ("a method with a request behind it", instead(":method", &format!("GET {maps} HTTP/1.1\r\n\r\n{hidden}"))),
        ("an authority with a request behind it", instead(":authority", &format!("k\r\n\r\n{hidden}"))),
        ("an authority with a path", instead(":authority", "k/version")),
        ("another authority than the host", with(&[("host", "elsewhere")])),
        ("another scheme", instead(":scheme", "ftp")),
        ("a scheme with a path", instead(":scheme", "https://k/version?")),
        ("a value with a line behind it", with(&[("x", "y\r\nx-http-method-override: GET")])),
        ("a name with a line in it", with(&[("x: y\r\nz", "1")])),
        ("a name in capitals", with(&[("X-HTTP-Method-Override", "GET")])),
        ("chunks in a frame", with(&[("transfer-encoding", "chunked")])),
        ("a connection in a frame", with(&[("connection", "upgrade"), ("upgrade", "h2c")])),
        ("a length of nothing", with(&[("content-length", "0")])),
        ("a length of more", with(&[("content-length", "100000")])),
        ("a tunnel", request(&[(":method", "CONNECT"), (":authority", "k"), json])),
        ("a tunnel to a path", instead(":method", "CONNECT")),
        (
            "a WebSocket in a frame",
            request(&[&[(":method", "CONNECT"), (":protocol", "websocket")][..], &plain[1..]].concat()),
        ),
        ("fields in two frames", {
            connection(vec![
                frame(HEADERS, 0, first),
                frame(CONTINUATION, END_HEADERS, rest),
                frame(DATA, END_STREAM, body.as_bytes()),
            ])
        }),
        ("trailers in a frame", {
            connection(vec![
                frame(HEADERS, END_HEADERS, &fields),
                frame(DATA, 0, body.as_bytes()),
                frame(HEADERS, END_HEADERS | END_STREAM, &trailers),
            ])
        }),
        ("a path among the trailers", {
            connection(vec![
                frame(HEADERS, END_HEADERS, &fields),
                frame(DATA, 0, body.as_bytes()),
                frame(HEADERS, END_HEADERS | END_STREAM, &pseudo_trailers),
            ])
        }),
    ]
}
