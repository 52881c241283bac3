//! Bodies of requests and responses, and the errors that they end with.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Any error of a body or transport.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or response, which streams through; only a step that needs the whole body collects it.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Returns a body with these bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns an empty body.
pub fn empty() -> Body {
    full(Bytes::new())
}

/// Formats an error and its causes in one line for the log.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // The text of some errors already contains the cause.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A body together with a value that is dropped with it: a place, a count, a seat.
#[derive(Debug)]
pub struct Held<T> {
    body: Body,
    _held: T,
}

impl<T> Held<T> {
    /// Holds the value as long as the body exists.
    pub fn new(body: Body, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> http_body::Body for Held<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
