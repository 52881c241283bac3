//! Follows a response to its end for the audit event.

use crate::audit::{EventInProgress, OBJECT_BYTES};
use crate::processor;
use crate::status::Status;
use crate::upstream::{Body, BoxError, full};
use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::CONTENT_ENCODING;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use serde_json::Value;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Lets the event see the response, and end with it. What the event has no use for streams through, and so does what is not
/// there after `patience`.
pub(super) async fn follow(
    mut event: EventInProgress,
    response: Response<Body>,
    is_long_running: bool,
    patience: Duration,
) -> Response<Body> {
    let code = response.status().as_u16();
    let is_plain = !response.headers().contains_key(CONTENT_ENCODING);
    let is_wanted = event.wants_response_status(code) || event.wants_response_body();
    if is_long_running || !is_wanted || !is_plain {
        event.response_started(code, None);
        return response.map(|body| Followed { body, event: Some(event), code }.boxed_unsync());
    }
    let (parts, body) = response.into_parts();
    match collect(body, Instant::now() + patience).await {
        Collected::Whole(bytes) => {
            processor::expect(bytes.len()).await;
            let value: Option<Value> = serde_json::from_slice(&bytes).ok();
            let status = value.as_ref().filter(|value| value.get("kind").is_some_and(|kind| kind == "Status"));
            let status: Option<Status> = status.and_then(|status| serde_json::from_value(status.clone()).ok());
            if let Some(value) = &value {
                event.set_response_object(value);
            }
            event.response_complete(code, status.as_ref());
            Response::from_parts(parts, full(bytes))
        }
        Collected::TooMuch(body) => {
            event.set_truncated();
            event.response_started(code, None);
            Response::from_parts(parts, Followed { body, event: Some(event), code }.boxed_unsync())
        }
    }
}

enum Collected {
    Whole(Bytes),
    /// More than an event holds, or than came in time: all of it, those bytes that were read already in front.
    TooMuch(Body),
}

async fn collect(mut body: Body, deadline: Instant) -> Collected {
    let mut read = BytesMut::new();
    loop {
        match timeout_at(deadline, body.frame()).await {
            Ok(None) => return Collected::Whole(read.freeze()),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    read.extend_from_slice(&data);
                }
            }
            Ok(Some(Err(error))) => return too_much(read, Err(Some(error))),
            Err(_) => return too_much(read, Ok(body)),
        }
        if read.len() > OBJECT_BYTES {
            return too_much(read, Ok(body));
        }
    }
}

fn too_much(read: BytesMut, rest: Result<Body, Option<BoxError>>) -> Collected {
    Collected::TooMuch(Prefixed { read: Some(read.freeze()), rest }.boxed_unsync())
}

/// A body of which the beginning was read already.
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

/// A body whose end is the event's.
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
    use crate::authn::UserInfo;
    use crate::request::request_info;
    use futures_util::stream::{StreamExt, iter, pending};
    use http::Method;
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Lines(Mutex<Vec<Value>>);

    impl Sink for Lines {
        fn write(&self, line: String) {
            self.0.lock().unwrap().push(serde_json::from_str(&line).unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_end_is_passed_on_all_the_same() {
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n".parse().unwrap();
        let lines = Arc::new(Lines::default());
        let audit = Audit::new(policy, lines.clone(), Metrics::register(&prometheus::Registry::new()).unwrap());
        let info = request_info(&Method::GET, &"/api/v1/pods".parse().unwrap());
        let request = Request {
            info: &info,
            audit_id: "a",
            uri: "/api/v1/pods",
            user_agent: "",
            source_ips: Vec::new(),
            received: jiff::Timestamp::UNIX_EPOCH,
        };
        let event = audit.begin(&request, &UserInfo::default()).unwrap();
        let beginning = iter([Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"{")))]);
        let body = http_body_util::StreamBody::new(beginning.chain(pending())).boxed_unsync();
        let followed = follow(event, Response::new(body), false, Duration::from_secs(60)).await;
        let mut body = followed.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "{");
        drop(body);
        let lines = lines.0.lock().unwrap();
        assert_eq!(lines.last().unwrap()["stage"], "ResponseComplete");
        assert_eq!(lines.last().unwrap()["annotations"]["audit.k8s.io/truncated"], "true");
    }
}
