//! HTTP/2, frame by frame.

use super::*;
use std::collections::HashMap;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INTERNAL_ERROR: u8 = 2;
const REFUSED_STREAM: u8 = 7;

/// The server's side of an HTTP/2 connection.
struct Frames {
    stream: Secure,
    seen: Vec<u8>,
    /// The body of each request, as far as received.
    bodies: HashMap<u32, Vec<u8>>,
}

impl Frames {
    async fn new(stream: Secure) -> Self {
        let mut frames = Self { stream, seen: Vec::new(), bodies: HashMap::new() };
        frames.send(SETTINGS, 0, 0, &[]).await;
        let preface = frames.bytes(24).await.unwrap();
        assert!(preface.starts_with(b"PRI * HTTP/2.0"));
        frames
    }

    async fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.seen.len() < count {
            if !matches!(self.stream.read_buf(&mut self.seen).await, Ok(1..)) {
                return None;
            }
        }
        Some(self.seen.drain(..count).collect())
    }

    /// Returns type, flags, stream and payload of the next frame.
    async fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let head = self.bytes(9).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], head[4], stream, self.bytes(length as usize).await?))
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        write(&mut self.stream, frame).await;
    }

    /// Returns the next request: its stream and its review.
    async fn request(&mut self) -> Option<(u32, Value)> {
        loop {
            let (kind, flags, stream, payload) = self.frame().await?;
            match kind {
                SETTINGS if flags == 0 => self.send(SETTINGS, 1, 0, &[]).await,
                DATA => {
                    let body = self.bodies.entry(stream).or_default();
                    body.extend(payload);
                    if flags & END_STREAM != 0 {
                        return Some((stream, serde_json::from_slice(body).unwrap()));
                    }
                }
                _ => {}
            }
        }
    }

    async fn allow(&mut self, stream: u32, review: &Value) {
        // `:status: 200` and nothing else.
        self.send(HEADERS, END_HEADERS, stream, &[0x88]).await;
        self.send(DATA, END_STREAM, stream, allowed(review).as_bytes()).await;
    }

    async fn reset(&mut self, stream: u32, code: u8) {
        self.send(RST_STREAM, 0, stream, &[0, 0, 0, code]).await;
    }

    async fn go_away(&mut self, last: u32, code: u8) {
        let payload = [last.to_be_bytes(), [0, 0, 0, code]].concat();
        self.send(GOAWAY, 0, 0, &payload).await;
    }
}

/// A server that offers HTTP/2.
fn http2<F: Future<Output = ()> + Send + 'static>(
    behave: impl Fn(Frames, FaultContext) -> F + Send + Sync + Clone + 'static,
) -> Misbehaviour {
    let misbehaviour = late(move |stream, context| {
        let behave = behave.clone();
        async move { behave(Frames::new(stream).await, context).await }
    });
    match misbehaviour {
        Misbehaviour::Late(behave, _) => Misbehaviour::Late(behave, vec![b"h2".to_vec()]),
        early => early,
    }
}

async fn calls(server: &Faulty, count: usize) {
    let world = validating(&[server.hook(json!({"timeoutSeconds": 10}))]);
    for _ in 0..count {
        world.plugin.validate(&create(configmap())).await.unwrap();
    }
}

#[tokio::test]
async fn requests_share_a_connection() {
    let server = Faulty::start(http2(|mut frames, _| async move {
        let mut waiting = Vec::new();
        while let Some(request) = frames.request().await {
            waiting.push(request);
            // The server answers only when three requests are open at the same time.
            if waiting.len() == 3 {
                for (stream, review) in waiting.drain(..) {
                    frames.allow(stream, &review).await;
                }
            }
        }
    }));
    let tasks = Handle::current().metrics().num_alive_tasks();
    let world = validating(&[server.hook(json!({}))]);
    // The first request makes the connection, and the others wait for that connection.
    let first = async { world.plugin.validate(&create(configmap())).await.unwrap() };
    let others = async {
        eventually("a connection", || Handle::current().metrics().num_alive_tasks() > tasks + 1).await;
        let attributes = [create(configmap()), create(configmap())];
        let (one, two) = tokio::join!(world.plugin.validate(&attributes[0]), world.plugin.validate(&attributes[1]));
        one.and(two).unwrap();
    };
    tokio::join!(first, others);
    assert_eq!(server.accepted(), 1);
    drop(world);
    eventually("no tasks", || Handle::current().metrics().num_alive_tasks() == tasks).await;
    eventually("no connections", || server.open() == 0).await;
}

#[tokio::test]
async fn a_stream_that_is_reset_is_a_failure() {
    let resets = http2(|mut frames, _| async move {
        while let Some((stream, _)) = frames.request().await {
            frames.reset(stream, INTERNAL_ERROR).await;
        }
    });
    assert_eq!(failure(&Faulty::start(resets)).await, "stream error: INTERNAL_ERROR; received from peer");
    let in_body = http2(|mut frames, _| async move {
        while let Some((stream, _)) = frames.request().await {
            frames.send(HEADERS, END_HEADERS, stream, &[0x88]).await;
            frames.reset(stream, INTERNAL_ERROR).await;
        }
    });
    let text = failure(&Faulty::start(in_body)).await;
    assert!(text.ends_with("stream error: INTERNAL_ERROR; received from peer"), "{text}");
}

#[tokio::test]
async fn a_hung_stream_ends_in_time_and_others_go_on() {
    let server = Faulty::start(http2(|mut frames, _| async move {
        let mut first = true;
        while let Some((stream, review)) = frames.request().await {
            if !std::mem::take(&mut first) {
                frames.allow(stream, &review).await;
            }
        }
    }));
    let world = validating(&[server.hook(json!({}))]);
    let attributes = create(configmap());
    let status = refused(world.plugin.validate(&attributes).await, &attributes);
    assert!(status.message.ends_with("context deadline exceeded"), "{}", status.message);
    world.plugin.validate(&attributes).await.unwrap();
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_server_that_goes_away_is_asked_anew() {
    // After an answer.
    let server = Faulty::start(http2(|mut frames, context| async move {
        while let Some((stream, review)) = frames.request().await {
            if context.number == 0 {
                frames.go_away(stream, 0).await;
            }
            frames.allow(stream, &review).await;
        }
    }));
    calls(&server, 3).await;
    assert_eq!(server.accepted(), 2);

    // Instead of an answer.
    let server = Faulty::start(http2(|mut frames, context| async move {
        while let Some((stream, review)) = frames.request().await {
            match (context.number, stream) {
                (0, _) => {
                    frames.go_away(0, 0).await;
                    return drain(&mut frames.stream).await;
                }
                (_, 1) => frames.reset(stream, REFUSED_STREAM).await,
                _ => frames.allow(stream, &review).await,
            }
        }
    }));
    calls(&server, 2).await;
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_failure() {
    let errs = http2(|mut frames, _| async move {
        frames.request().await;
        frames.go_away(0, INTERNAL_ERROR).await;
        drain(&mut frames.stream).await;
    });
    let text = failure(&Faulty::start(errs)).await;
    assert_eq!(text, "http2: Transport received GOAWAY from server ErrCode:INTERNAL_ERROR");
    let closes = http2(|mut frames, _| async move {
        frames.request().await;
    });
    // Unread bytes from the client then turn the close into a reset, if they arrive in time.
    let text = failure(&Faulty::start(closes)).await;
    let ends = ["unexpected EOF", "read: connection reset by peer", "write: broken pipe"];
    assert!(ends.iter().any(|end| text.ends_with(end)), "{text}");
}
