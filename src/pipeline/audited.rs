//! Follows a response to its end for the audit event.

use super::gateway::{FREE_BYTES, Room};
use super::inflight::Seat;
use crate::audit::{EventInProgress, OBJECT_BYTES, Written};
use crate::body::{Body, BoxError, Pieces, full, held};
use crate::config::Limits;
use crate::object::protobuf::{self, Envelope, InvalidProtobuf};
use crate::object::{cbor, decode};
use crate::processor;
use crate::sharer::Sharer;
use crate::shares::Growing;
use crate::status::Status;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};

/// What the event of a response needs besides the response.
pub(super) struct Following<'a> {
    /// The room for a long body.
    pub(super) room: &'a Room,
    pub(super) sharer: &'a Sharer,
    /// The seat of the request, which is freed if only the event is missing for too long.
    pub(super) seat: Option<Seat>,
    pub(super) is_long_running: bool,
    pub(super) limits: &'a Limits,
}

impl Following<'_> {
    /// Waits for an event whose answer is complete. Returns whether the client may have the answer.
    async fn settle(&self, mut written: Written) -> bool {
        if timeout(self.limits.audit_seat_timeout, &mut written).await.is_ok() {
            return true;
        }
        self.seat.iter().for_each(Seat::release);
        timeout(self.limits.request_timeout, written).await.is_ok()
    }
}

/// Passes the response to the audit event, which ends with the response: the client gets the end of the response after the event. A response
/// that the event does not need streams through, and so does a body that is not complete after `request_timeout`. `refusal` is the Status
/// in a response of the proxy's own.
pub(super) async fn follow(
    mut event: EventInProgress,
    following: Following<'_>,
    response: Response<Body>,
    refusal: Option<Status>,
) -> Response<Body> {
    let code = response.status().as_u16();
    if refusal.as_ref().is_some_and(Status::is_of_timeout_filter) {
        // The client has waited for as long as it may. kube-apiserver writes the event when it can.
        event.response_complete(code, refusal.as_ref()).unawaited();
        return response;
    }
    let is_wanted = event.wants_response_status(code) || event.wants_response_body() || event.wants_token();
    if following.is_long_running {
        event.forget_latencies();
    }
    if following.is_long_running || !is_wanted {
        let started = event.response_started(code, refusal.as_ref());
        if timeout(following.limits.request_timeout, started).await.is_err() {
            return cut(response);
        }
        return following.stream(event, response).await;
    }
    let (parts, body) = response.into_parts();
    // A short compressed body may hold a long one.
    let is_packed = parts.headers.contains_key(CONTENT_ENCODING);
    let deadline = Instant::now() + following.limits.request_timeout;
    match collect(body, deadline, following.room, following.sharer, is_packed).await {
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
            let written = event.response_complete(code, refusal.or(status).as_ref());
            let bytes = match share {
                Some(share) => held(bytes, share),
                None => bytes,
            };
            let response = Response::from_parts(parts, full(bytes));
            if following.settle(written).await { response } else { cut(response) }
        }
        Collected::TooMuch(body) => {
            event.set_truncated();
            event.response_started(code, refusal.as_ref()).unawaited();
            following.stream(event, Response::from_parts(parts, body)).await
        }
    }
}

impl Following<'_> {
    /// Passes a body on, whose end completes the event.
    async fn stream(self, event: EventInProgress, response: Response<Body>) -> Response<Body> {
        let code = response.status().as_u16();
        // The body of an upgrade ends with the tunnel.
        if has_ended(response.body()) && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let written = event.response_complete(code, None);
            return if self.settle(written).await { response } else { cut(response) };
        }
        response.map(|body| {
            Followed {
                body,
                event: Some(event),
                code,
                seat: self.seat,
                seat_timeout: self.limits.audit_seat_timeout,
                written: None,
                end: None,
                releases: None,
            }
            .boxed_unsync()
        })
    }
}

/// A response whose event was not written in time: the connection ends, as kube-apiserver's timeout filter ends it after the head.
fn cut(response: Response<Body>) -> Response<Body> {
    let late: BoxError = "the audit event was not written in time".into();
    response.map(|_| Prefixed { read: None, rest: Err(Some(late)) }.boxed_unsync())
}

/// Whether a reader knows that nothing follows.
fn has_ended(body: &Body) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
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

    fn is_end_stream(&self) -> bool {
        let has_rest = self.rest.as_ref().map_or_else(Option::is_some, |body| !body.is_end_stream());
        self.read.is_none() && !has_rest
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Ok(body) => with_more(body.size_hint(), self.read.as_ref().map_or(0, Bytes::len)),
            Err(_) => SizeHint::default(),
        }
    }
}

/// The hint of a body with these bytes before it.
fn with_more(mut hint: SizeHint, bytes: usize) -> SizeHint {
    let bytes = bytes as u64;
    if let Some(upper) = hint.upper() {
        hint.set_upper(upper + bytes);
    }
    hint.set_lower(hint.lower() + bytes);
    hint
}

/// A body whose end completes the audit event, and waits for it.
struct Followed {
    body: Body,
    event: Option<EventInProgress>,
    code: u16,
    seat: Option<Seat>,
    seat_timeout: Duration,
    /// The wait for the event, before the end of the body.
    written: Option<Written>,
    end: Option<End>,
    /// The time at which the seat is free for others.
    releases: Option<Pin<Box<Sleep>>>,
}

/// The last frame, or the end without a frame.
type End = Option<Result<Frame<Bytes>, BoxError>>;

impl Followed {
    /// Polls the wait for the event.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(written) = &mut self.written else { return Poll::Ready(()) };
        if Pin::new(written).poll(context).is_ready() {
            (self.written, self.releases) = (None, None);
            return Poll::Ready(());
        }
        let patience = self.seat_timeout;
        let releases = self.releases.get_or_insert_with(|| Box::pin(sleep(patience)));
        if releases.as_mut().poll(context).is_ready()
            && let Some(seat) = self.seat.take()
        {
            seat.release();
        }
        Poll::Pending
    }
}

impl http_body::Body for Followed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            ready!(self.poll_written(context));
            if let Some(end) = self.end.take() {
                return Poll::Ready(end);
            }
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            let is_end = !matches!(frame, Some(Ok(_))) || has_ended(&self.body);
            match self.event.take_if(|_| is_end) {
                Some(event) => {
                    self.written = Some(event.response_complete(self.code, None));
                    self.end = Some(frame);
                }
                None => return Poll::Ready(frame),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let has_event = self.event.is_some() || self.end.is_some();
        self.body.is_end_stream() && (!has_event || self.code == StatusCode::SWITCHING_PROTOCOLS.as_u16())
    }

    fn size_hint(&self) -> SizeHint {
        let last =
            self.end.as_ref().and_then(Option::as_ref).and_then(|end| end.as_ref().ok()).and_then(Frame::data_ref);
        with_more(self.body.size_hint(), last.map_or(0, Bytes::len))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            event.response_complete(self.code, None).unawaited();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::testing::{Lines, audit, request};
    use crate::audit::{Acknowledgement, Encoded, Sink};
    use crate::object::Object;
    use crate::pipeline::InFlight;
    use crate::request::request_info;
    use crate::user::UserInfo;
    use futures_util::FutureExt;
    use futures_util::stream::{StreamExt, iter, pending};
    use http::Method;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    fn begin(lines: &Arc<Lines>) -> EventInProgress {
        event_into(lines.clone(), "RequestResponse", PODS)
    }

    const PODS: &str = "/api/v1/pods";

    fn event_into(sink: Arc<dyn Sink>, level: &str, uri: &str) -> EventInProgress {
        let info = request_info(&Method::GET, &uri.parse().unwrap());
        let mut event = audit(level, sink).begin(&request(&info, "a"), &UserInfo::default()).unwrap();
        event.received().now_or_never();
        event
    }

    /// Follows a response to a request of Alice.
    async fn followed(
        event: EventInProgress,
        room: &Room,
        response: Response<Body>,
        refusal: Option<Status>,
        is_long_running: bool,
    ) -> Response<Body> {
        let (sharer, limits) = (Sharer::named("alice"), Limits::default());
        let following = Following { room, sharer: &sharer, seat: None, is_long_running, limits: &limits };
        follow(event, following, response, refusal).await
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
        let followed = followed(begin(&lines), &room(), response, refusal, false).await;
        assert_eq!(followed.into_body().collect().await.unwrap().to_bytes(), body, "the client gets it as it was");
        lines.last()
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
        drop(followed(begin(&lines), &room(), response, Some(refusal), true).await);
        assert_eq!(lines.last()["responseStatus"]["message"], "nobody may");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_end_is_passed_on_all_the_same() {
        let lines = Arc::new(Lines::default());
        let event = begin(&lines);
        let beginning = iter([Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"{")))]);
        let body = http_body_util::StreamBody::new(beginning.chain(pending())).boxed_unsync();
        let followed = followed(event, &room(), Response::new(body), None, false).await;
        let mut body = followed.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "{");
        drop(body);
        assert_eq!(lines.last()["stage"], "ResponseComplete");
        assert_eq!(lines.last()["annotations"]["audit.k8s.io/truncated"], "true");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_room_is_passed_on_and_one_with_room_holds_it_until_it_is_written() {
        let room = Room::alone(&crate::config::Limits { audited_answers_bytes: 4 << 20, ..Default::default() });
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v".repeat(500_000)}}).to_string();
        let ask = async || {
            let lines = Arc::new(Lines::default());
            let answer = followed(begin(&lines), &room, Response::new(full(object.clone())), None, false).await;
            let (event, body) =
                (lines.events().into_iter().rfind(|event| event["stage"] != "RequestReceived"), answer.into_body());
            (event.map(|event| event["responseObject"].is_object()), body)
        };
        let (event, first) = ask().await;
        assert_eq!(event, Some(true));
        let (_, second) = ask().await;
        assert_eq!(second.collect().await.unwrap().to_bytes(), object);
        drop(first);
        assert_eq!(ask().await.0, Some(true));
    }

    /// Acknowledges events when the test says so, and fails no request.
    #[derive(Default)]
    struct Slow(Mutex<Vec<(String, tokio::sync::oneshot::Sender<bool>)>>);

    impl Sink for Slow {
        fn write(&self, event: &Encoded<'_>, _: bool) -> Option<Acknowledgement> {
            let event_json: Value = serde_json::from_str(event.json()).unwrap();
            let (written, acknowledgement) = Acknowledgement::new(false);
            self.0.lock().unwrap().push((event_json["stage"].as_str().unwrap().to_owned(), written));
            Some(acknowledgement)
        }
    }

    impl Slow {
        fn acknowledge(&self, stage: &str) {
            let (found, written) = self.0.lock().unwrap().remove(0);
            assert_eq!(found, stage);
            // A request that has ended does not wait.
            let _ = written.send(true);
        }
    }

    /// Begins an event whose arrival is written.
    fn slow(level: &str, uri: &str) -> (Arc<Slow>, EventInProgress) {
        let sink = Arc::new(Slow::default());
        let event = event_into(sink.clone(), level, uri);
        sink.acknowledge("RequestReceived");
        (sink, event)
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_has_the_end_of_an_answer_after_its_event() {
        // An answer that the event needs as a whole, and an answer without a body.
        for (level, body) in [("RequestResponse", full("{}")), ("Metadata", full(""))] {
            let (sink, event) = slow(level, PODS);
            let room = room();
            let mut answer = Box::pin(followed(event, &room, Response::new(body), None, false));
            assert!((&mut answer).now_or_never().is_none());
            sink.acknowledge("ResponseComplete");
            assert!(answer.await.into_body().collect().await.is_ok());
        }
        // Answers that stream, of known and of unknown length.
        let frames =
            || iter(["one", "two"].map(|text| Ok::<_, BoxError>(Frame::data(Bytes::from_static(text.as_bytes())))));
        let known = Prefixed { read: Some("one".into()), rest: Ok(full("two")) }.boxed_unsync();
        for (body, is_known) in [(known, true), (http_body_util::StreamBody::new(frames()).boxed_unsync(), false)] {
            let (sink, event) = slow("Metadata", PODS);
            let mut body = followed(event, &room(), Response::new(body), None, false).await.into_body();
            let before = if is_known { 1 } else { 2 };
            for _ in 0..before {
                body.frame().await.unwrap().unwrap();
            }
            assert!(!body.is_end_stream());
            assert!(body.frame().now_or_never().is_none());
            assert_eq!(body.size_hint().lower(), if is_known { 3 } else { 0 });
            sink.acknowledge("ResponseComplete");
            assert_eq!(
                body.frame().await.map(|frame| frame.unwrap().into_data().unwrap().len()),
                is_known.then_some(3)
            );
            assert!(body.frame().await.is_none());
        }
        // The head of a watch.
        let (sink, event) = slow("Metadata", "/api/v1/pods?watch=1");
        let room = room();
        let watch = http_body_util::StreamBody::new(frames().chain(pending())).boxed_unsync();
        let mut answer = Box::pin(followed(event, &room, Response::new(watch), None, true));
        assert!((&mut answer).now_or_never().is_none());
        sink.acknowledge("ResponseStarted");
        let mut body = answer.await.into_body();
        assert!(body.frame().await.is_some());
        drop(body);
        sink.acknowledge("ResponseComplete");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_whose_event_is_not_written_ends_with_an_error_and_without_a_seat() {
        for level in ["RequestResponse", "Metadata"] {
            let (_sink, event) = slow(level, PODS);
            let one = InFlight::alone(&Limits { requests_inflight: 1, ..Limits::default() });
            let enter = || {
                let info = request_info(&Method::GET, &PODS.parse().unwrap());
                one.enter(&Method::GET, &info, false, false, &Arc::new(UserInfo::default()))
            };
            let seat = enter().unwrap_or_else(|_| unreachable!());
            let (room, sharer, limits) = (room(), Sharer::named("alice"), Limits::default());
            let following = Following {
                room: &room,
                sharer: &sharer,
                seat: Some(seat.clone()),
                is_long_running: false,
                limits: &limits,
            };
            let answer = async {
                let answer = follow(event, following, Response::new(full("{}")), None).await;
                answer.into_body().collect().await
            };
            tokio::pin!(answer);
            assert!(timeout(limits.audit_seat_timeout / 2, &mut answer).await.is_err());
            assert!(enter().is_err(), "{level}");
            assert!(timeout(limits.audit_seat_timeout, &mut answer).await.is_err());
            assert!(enter().is_ok(), "{level}");
            // A body that streams ends when the set of answers gives it up.
            if level == "RequestResponse" {
                assert!(timeout(2 * limits.request_timeout, answer).await.unwrap().is_err());
            }
        }
    }

    #[tokio::test]
    async fn the_answer_of_the_timeout_filter_waits_for_no_event() {
        let (sink, event) = slow("RequestResponse", PODS);
        let late = Some(Status::out_of_allotted_time());
        let response = Response::builder().status(504).body(full("{}")).unwrap();
        let (room, limits, sharer) = (room(), Limits::default(), Sharer::named("alice"));
        let following = Following { room: &room, sharer: &sharer, seat: None, is_long_running: false, limits: &limits };
        assert!(follow(event, following, response, late).now_or_never().is_some());
        sink.acknowledge("ResponseComplete");
    }
}
