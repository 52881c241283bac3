//! Follows a response to its end for the audit event.

use crate::audit::{EventInProgress, OBJECT_BYTES};
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

/// Lets the event see the response, and end with it. What the event has no use for streams through.
pub(super) async fn follow(
    mut event: EventInProgress,
    response: Response<Body>,
    is_long_running: bool,
) -> Response<Body> {
    let code = response.status().as_u16();
    let is_plain = !response.headers().contains_key(CONTENT_ENCODING);
    let is_wanted = event.wants_response_status(code) || event.wants_response_body();
    if is_long_running || !is_wanted || !is_plain {
        event.response_started(code, None);
        return response.map(|body| Followed { body, event: Some(event), code }.boxed_unsync());
    }
    let (parts, body) = response.into_parts();
    match collect(body).await {
        Collected::Whole(bytes) => {
            let value: Option<Value> = serde_json::from_slice(&bytes).ok();
            let status = value.as_ref().filter(|value| value.get("kind").is_some_and(|kind| kind == "Status"));
            let status: Option<Status> = status.and_then(|status| serde_json::from_value(status.clone()).ok());
            if let Some(value) = &value {
                event.set_response_object(value);
            }
            event.response_complete(code, status.as_ref());
            Response::from_parts(parts, full(bytes))
        }
        Collected::TooLarge(body) => {
            event.set_truncated();
            event.response_started(code, None);
            Response::from_parts(parts, Followed { body, event: Some(event), code }.boxed_unsync())
        }
    }
}

enum Collected {
    Whole(Bytes),
    /// All of it, those bytes that were read already in front.
    TooLarge(Body),
}

async fn collect(mut body: Body) -> Collected {
    let mut read = BytesMut::new();
    loop {
        match body.frame().await {
            None => return Collected::Whole(read.freeze()),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    read.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => {
                return Collected::TooLarge(
                    Prefixed { read: Some(read.freeze()), rest: Err(Some(error)) }.boxed_unsync(),
                );
            }
        }
        if read.len() > OBJECT_BYTES {
            return Collected::TooLarge(Prefixed { read: Some(read.freeze()), rest: Ok(body) }.boxed_unsync());
        }
    }
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
