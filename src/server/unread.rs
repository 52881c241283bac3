//! Bodies of requests that are answered before the body ends. The client could lose such an answer: an HTTP/2 stream is reset right behind
//! the answer, which curl before 8.0 then drops; an HTTP/1.1 connection is closed. So the rest of a body that nobody reads is read and
//! discarded beside the answer, within bounds.

use crate::body::{Body, BoxError};
use bytes::Bytes;
use http::{Request, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The bytes of one rest that are read (`maxPostHandlerReadBytes`).
const REST_BYTES: usize = 256 * 1024;
/// The time for one rest.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// The places of unread rests.
#[derive(Clone, Debug)]
pub(crate) struct Unread(Arc<Semaphore>);

impl Unread {
    /// Creates the places. A rest without a place is not read.
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places)))
    }

    /// Returns the request with a body whose rest is read after a drop.
    pub(crate) fn watch(&self, request: Request<Incoming>) -> Request<Body> {
        // A read would ask a client of HTTP/1.1 for the body.
        let waits = request.version() < Version::HTTP_2 && request.headers().contains_key(header::EXPECT);
        request.map(|body| match body.is_end_stream() || waits {
            true => body.map_err(BoxError::from).boxed_unsync(),
            false => Watched { body: Some(body), places: self.0.clone() }.boxed_unsync(),
        })
    }
}

/// A body that is not read to its end yet.
struct Watched {
    /// `None` after the end, or an error.
    body: Option<Incoming>,
    places: Arc<Semaphore>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled.map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some(mut rest) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let (Ok(place), Ok(runtime)) = (self.places.clone().try_acquire_owned(), Handle::try_current()) else { return };
        runtime.spawn(async move {
            let _place = place;
            let reading = async {
                let mut length = 0;
                while let (true, Some(Ok(frame))) = (length <= REST_BYTES, rest.frame().await) {
                    length += frame.data_ref().map_or(0, Bytes::len);
                }
            };
            let _whatever_it_is = tokio::time::timeout(REST_TIMEOUT, reading).await;
        });
    }
}
