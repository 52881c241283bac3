//! Follows a response to its end for the audit event.

use super::gateway::{FREE_BYTES, Room};
use crate::audit::{EventInProgress, OBJECT_BYTES};
use crate::body::{Body, BoxError, Pieces, full, held};
use crate::object::protobuf::{self, Envelope, InvalidProtobuf};
use crate::object::{cbor, decode};
use crate::processor;
use crate::sharer::Sharer;
use crate::shares::Growing;
use crate::status::Status;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::Response;
use http::header::{CONTENT_ENCODING, HeaderValue};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Passes the response to the audit event, which ends with the response. A response that the event does not need streams through,
/// and so does a body that is not complete after `patience`. The room for a long body is that of `sharer`. `refusal` is the Status in a
/// response of the proxy's own.
pub(super) async fn follow(
    mut event: EventInProgress,
    (room, sharer): (&Room, &Sharer),
    response: Response<Body>,
    refusal: Option<Status>,
    is_long_running: bool,
    patience: Duration,
) -> Response<Body> {
    let code = response.status().as_u16();
    let is_wanted = event.wants_response_status(code) || event.wants_response_body() || event.wants_token();
    if is_long_running {
        event.forget_latencies();
    }
    if is_long_running || !is_wanted {
        event.response_started(code, refusal.as_ref());
        return response.map(|body| Followed { body, event: Some(event), code }.boxed_unsync());
    }
    let (parts, body) = response.into_parts();
    // A short compressed body may hold a long one.
    let is_packed = parts.headers.contains_key(CONTENT_ENCODING);
    match collect(body, Instant::now() + patience, room, sharer, is_packed).await {
        Collected::Whole(bytes, share) => {
            processor::expect(bytes.len()).await;
            let status = match answered(&bytes, parts.headers.get(CONTENT_ENCODING)).await {
                Ok(value) => {
                    let is_status = value.get("kind").is_some_and(|kind| kind == "Status");
                    event.set_response_object(&value);
                    if is_status { serde_json::from_value(value).ok() } else { None }
                }
                Err(Unread::TooMuch) => {
                    event.set_truncated();
                    None
                }
                Err(Unread::Unknown(why)) => {
                    event.set_unreadable(&why);
                    None
                }
                Err(Unread::Empty) => None,
            };
            event.response_complete(code, refusal.or(status).as_ref());
            let bytes = match share {
                Some(share) => held(bytes, share),
                None => bytes,
            };
            Response::from_parts(parts, full(bytes))
        }
        Collected::TooMuch(body) => {
            event.set_truncated();
            event.response_started(code, refusal.as_ref());
            Response::from_parts(parts, Followed { body, event: Some(event), code }.boxed_unsync())
        }
    }
}

/// The reason why the object of an answer is not known.
enum Unread {
    /// The answer has no object.
    Empty,
    /// The object is larger than an event may hold.
    TooMuch,
    /// The answer has a form that cannot be read.
    Unknown(String),
}

/// Decodes the object of an answer, in any form that a client may accept.
async fn answered(bytes: &Bytes, encoding: Option<&HeaderValue>) -> Result<Value, Unread> {
    let bytes = match encoding.map(HeaderValue::as_bytes) {
        None => bytes.clone(),
        Some(b"gzip") => {
            let mut plain = Vec::new();
            let limit = OBJECT_BYTES as u64 + 1;
            GzDecoder::new(&**bytes)
                .take(limit)
                .read_to_end(&mut plain)
                .map_err(|_| Unread::Unknown("its compression is broken".to_owned()))?;
            processor::expect(plain.len()).await;
            plain.into()
        }
        Some(_) => return Err(Unread::Unknown("its content encoding is not known".to_owned())),
    };
    if bytes.len() > OBJECT_BYTES {
        return Err(Unread::TooMuch);
    }
    match bytes.first() {
        None => Err(Unread::Empty),
        Some(b'{') => serde_json::from_slice(&bytes).map_err(|_| Unread::Unknown("it is no JSON".to_owned())),
        Some(_) if cbor::is_cbor(&bytes) => match cbor::decode(&bytes) {
            Ok(Some(object)) => Ok(object.into()),
            _ => Err(Unread::Unknown("it is no CBOR".to_owned())),
        },
        Some(_) => match protobuf::open(&bytes) {
            Ok(envelope) => protobuf_object(&envelope).map_err(|why| Unread::Unknown(why.to_string())),
            Err(_) => match decode::yaml(&bytes) {
                Ok(decoded) if decoded.value.is_object() => Ok(decoded.value),
                _ => Err(Unread::Unknown("it is neither JSON nor YAML nor protobuf".to_owned())),
            },
        },
    }
}

/// The reason why an object in protobuf cannot be in an event.
#[derive(Debug, thiserror::Error)]
enum Unprintable {
    /// The bytes are no object of their kind.
    #[error(transparent)]
    Protobuf(#[from] InvalidProtobuf),
    /// The Status has no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

fn protobuf_object(envelope: &Envelope<'_>) -> Result<Value, Unprintable> {
    if envelope.kind == "Status" {
        return Ok(serde_json::to_value(protobuf::status(envelope)?)?);
    }
    let version = &envelope.api_version;
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let message = envelope.object(group, version, &envelope.kind)?;
    let mut object = Map::new();
    object.insert("kind".to_owned(), envelope.kind.as_str().into());
    object.insert("apiVersion".to_owned(), envelope.api_version.as_str().into());
    object.extend(message.fields);
    Ok(object.into())
}

enum Collected {
    /// The body, and the room for it if it is long.
    Whole(Bytes, Option<Growing>),
    /// A body that is larger than an event may hold, or that did not arrive in time: the whole body, with the bytes already read
    /// in front.
    TooMuch(Body),
}

/// Collects a body. A long or compressed one waits for room.
async fn collect(mut body: Body, deadline: Instant, room: &Room, sharer: &Sharer, is_packed: bool) -> Collected {
    let (mut read, mut share) = (Pieces::default(), None);
    let announced = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let longest = announced.filter(|_| !is_packed).unwrap_or(OBJECT_BYTES).min(OBJECT_BYTES);
    let free = if is_packed { 0 } else { FREE_BYTES };
    loop {
        match timeout_at(deadline, body.frame()).await {
            Ok(None) => return Collected::Whole(read.into_bytes(), share),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    read.push(data, body.size_hint().lower().min(OBJECT_BYTES as u64));
                }
            }
            Ok(Some(Err(error))) => return too_much(read, Err(Some(error))),
            Err(_) => return too_much(read, Ok(body)),
        }
        if read.len() > OBJECT_BYTES {
            return too_much(read, Ok(body));
        }
        if read.len() > free && share.is_none() {
            match timeout_at(deadline, room.take_audited(sharer, longest)).await {
                Ok(Some(taken)) => share = Some(taken),
                Ok(None) | Err(_) => return too_much(read, Ok(body)),
            }
        }
    }
}

fn too_much(read: Pieces, rest: Result<Body, Option<BoxError>>) -> Collected {
    Collected::TooMuch(Prefixed { read: Some(read.into_bytes()), rest }.boxed_unsync())
}

/// A body whose beginning was already read.
struct Prefixed {
    read: Option<Bytes>,
    rest: Result<Body, Option<BoxError>>,
}

impl http_body::Body for Prefixed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(read) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        match &mut self.rest {
            Ok(body) => Pin::new(body).poll_frame(context),
            Err(error) => Poll::Ready(error.take().map(Err)),
        }
    }
}

/// A body whose end completes the audit event.
struct Followed {
    body: Body,
    event: Option<EventInProgress>,
    code: u16,
}

impl Followed {
    fn end(&mut self) {
        if let Some(event) = self.event.take() {
            event.response_complete(self.code, None);
        }
    }
}

impl http_body::Body for Followed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.end();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, Metrics, Request, Sink};
    use crate::object::Object;
    use crate::request::request_info;
    use crate::server::Reloading;
    use crate::user::UserInfo;
    use futures_util::stream::{StreamExt, iter, pending};
    use http::Method;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Lines(Mutex<Vec<Value>>);

    impl Sink for Lines {
        fn write(&self, line: String) {
            self.0.lock().unwrap().push(serde_json::from_str(&line).unwrap());
        }
    }

    fn begin(lines: &Arc<Lines>) -> EventInProgress {
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n".parse().unwrap();
        let audit = Audit::new(
            Reloading::fixed(policy),
            lines.clone(),
            Metrics::register(&crate::metrics::Registry::new()).unwrap(),
        );
        let info = request_info(&Method::GET, &"/api/v1/pods".parse().unwrap());
        let request = Request {
            info: &info,
            audit_id: "a",
            uri: "/api/v1/pods",
            user_agent: "",
            source_ips: Vec::new(),
            received: jiff::Timestamp::UNIX_EPOCH,
        };
        audit.begin(&request, &UserInfo::default()).unwrap()
    }

    fn room() -> Room {
        Room::alone(&crate::config::Limits::default())
    }

    fn gzipped(plain: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        flate2::read::GzEncoder::new(plain, flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
        packed
    }

    /// Returns the last audit event of an answer.
    async fn event(code: u16, body: Vec<u8>, encoding: Option<&str>, refusal: Option<Status>) -> Value {
        let lines = Arc::new(Lines::default());
        let mut response = Response::builder().status(code);
        if let Some(encoding) = encoding {
            response = response.header(CONTENT_ENCODING, encoding);
        }
        let response = response.body(full(body.clone())).unwrap();
        let followed = follow(
            begin(&lines),
            (&room(), &Sharer::named("alice")),
            response,
            refusal,
            false,
            Duration::from_secs(60),
        )
        .await;
        assert_eq!(followed.into_body().collect().await.unwrap().to_bytes(), body, "the client gets it as it was");
        let lines = lines.0.lock().unwrap();
        lines.last().unwrap().clone()
    }

    #[tokio::test]
    async fn the_object_is_in_the_event_in_whichever_form_the_client_accepts() {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let json = object.to_string().into_bytes();
        let yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n".to_vec();
        let protobuf =
            protobuf::encode(&Object::from_value(object.clone()).unwrap(), "", "v1", "ConfigMap", 0).unwrap();
        for (form, body, encoding) in [
            ("json", json.clone(), None),
            ("yaml", yaml.clone(), None),
            ("protobuf", protobuf.clone(), None),
            ("cbor", cbor::encode(&object), None),
            ("gzipped json", gzipped(&json), Some("gzip")),
            ("gzipped protobuf", gzipped(&protobuf), Some("gzip")),
        ] {
            let event = event(200, body, encoding, None).await;
            let found = &event["responseObject"];
            assert_eq!(
                (&found["kind"], &found["metadata"]["name"], &found["data"]),
                (&json!("ConfigMap"), &json!("a"), &json!({"k": "v"})),
                "{form}"
            );
        }
    }

    #[tokio::test]
    async fn an_event_without_the_object_has_the_reason() {
        let why = |event: &Value| event["annotations"]["audit.kube-admission-proxy.dev/no-response-object"].clone();
        for (body, encoding) in [
            (b"\xd9\xd9\xf7".to_vec(), None),
            (b"{".to_vec(), None),
            (b"x".to_vec(), Some("br")),
            (b"x".to_vec(), Some("gzip")),
        ] {
            let event = event(200, body.clone(), encoding, None).await;
            assert!(event.get("responseObject").is_none() && why(&event).is_string(), "{body:?}: {event}");
        }
        let bomb = gzipped(&vec![b' '; OBJECT_BYTES + 1]);
        let event = event(200, bomb, Some("gzip"), None).await;
        assert_eq!(event["annotations"]["audit.k8s.io/truncated"], "true");
    }

    #[tokio::test]
    async fn a_refusal_is_in_the_event_whole() {
        let mut refusal = Status::failure(403, "Forbidden", "nobody may");
        refusal.details = Some(Box::new(crate::status::Details { kind: "users".into(), ..Default::default() }));
        let wanted = json!({"metadata": {}, "status": "Failure", "message": "nobody may", "reason": "Forbidden",
            "details": {"kind": "users"}, "code": 403});
        // A refusal of the proxy's own, and one of the API server.
        for (body, own) in [(vec![b'?'], Some(refusal.clone())), (protobuf::encode_status(&refusal), None)] {
            assert_eq!(event(403, body, None, own).await["responseStatus"], wanted);
        }
    }

    #[tokio::test]
    async fn a_refused_watch_is_in_the_event_whole() {
        let lines = Arc::new(Lines::default());
        let refusal = Status::failure(403, "Forbidden", "nobody may");
        let response = Response::builder().status(403).body(full("{}")).unwrap();
        drop(
            follow(
                begin(&lines),
                (&room(), &Sharer::named("alice")),
                response,
                Some(refusal),
                true,
                Duration::from_secs(60),
            )
            .await,
        );
        let lines = lines.0.lock().unwrap();
        assert_eq!(lines.last().unwrap()["responseStatus"]["message"], "nobody may");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_end_is_passed_on_all_the_same() {
        let lines = Arc::new(Lines::default());
        let event = begin(&lines);
        let beginning = iter([Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"{")))]);
        let body = http_body_util::StreamBody::new(beginning.chain(pending())).boxed_unsync();
        let followed = follow(
            event,
            (&room(), &Sharer::named("alice")),
            Response::new(body),
            None,
            false,
            Duration::from_secs(60),
        )
        .await;
        let mut body = followed.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "{");
        drop(body);
        let lines = lines.0.lock().unwrap();
        assert_eq!(lines.last().unwrap()["stage"], "ResponseComplete");
        assert_eq!(lines.last().unwrap()["annotations"]["audit.k8s.io/truncated"], "true");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_room_is_passed_on_and_one_with_room_holds_it_until_it_is_written() {
        let room = Room::alone(&crate::config::Limits { audited_answers_bytes: 4 << 20, ..Default::default() });
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v".repeat(500_000)}}).to_string();
        let ask = async || {
            let (lines, alice) = (Arc::new(Lines::default()), Sharer::named("alice"));
            let (of, patience) = ((&room, &alice), Duration::from_secs(60));
            let answer = follow(begin(&lines), of, Response::new(full(object.clone())), None, false, patience).await;
            let (event, body) = (lines.0.lock().unwrap().last().cloned(), answer.into_body());
            (event.map(|event| event["responseObject"].is_object()), body)
        };
        let (event, first) = ask().await;
        assert_eq!(event, Some(true));
        let (_, second) = ask().await;
        assert_eq!(second.collect().await.unwrap().to_bytes(), object);
        drop(first);
        assert_eq!(ask().await.0, Some(true));
    }
}
