//! The body of an answer: a request keeps its seat until the answer was written, or was not read for too long.

use super::inflight::Seat;
use crate::body::{Body, BoxError, Held};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The bytes that the connection gets at a time; the connection asks for more when the client reads them.
const CHUNK_BYTES: usize = 64 << 10;

/// The answers that are not fully written. One task watches all of them: a task for each answer would wake a second worker for each
/// request.
pub struct Answers {
    patience: Duration,
    unwritten: Arc<Unwritten>,
    watch: Once,
}

impl Answers {
    /// Creates the set of answers that are given up if no part of them can be written for `patience`.
    pub fn new(patience: Duration) -> Self {
        Self { patience, unwritten: Arc::default(), watch: Once::new() }
    }

    /// Wraps the body of an answer, which keeps the seat of its request. If no part of the answer can be written for the patience, the
    /// seat and the upstream's answer are released, and the client loses the rest.
    pub(super) fn seated(&self, body: Body, seat: Seat) -> Body {
        if body.is_end_stream() {
            return body;
        }
        self.watch.call_once(|| drop(tokio::spawn(watch(Arc::downgrade(&self.unwritten), self.patience))));
        let state =
            State { body: Some(body), rest: Bytes::new(), seat: Some(seat), written: Instant::now(), reader: None };
        let answer =
            Arc::new(Answer { state: Mutex::new(state), all: self.unwritten.clone(), id: self.unwritten.next_id() });
        self.unwritten.answers().insert(answer.id, Arc::downgrade(&answer));
        Short(answer).boxed_unsync()
    }
}

/// Wraps the body of the answer to a long-running request, which keeps the seat of its request for any time.
pub(super) fn seated_long(body: Body, seat: Seat) -> Body {
    if body.is_end_stream() { body } else { Held::new(body, seat).boxed_unsync() }
}

/// The answers by the order of their start. An answer removes itself when it is dropped.
#[derive(Default)]
struct Unwritten {
    last_id: AtomicU64,
    answers: Mutex<HashMap<u64, Weak<Answer>>>,
}

impl Unwritten {
    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<u64, Weak<Answer>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up the answers of which no part was written for `patience`. Returns the time of the next look.
    fn give_up(&self, patience: Duration) -> Instant {
        let now = Instant::now();
        let mut next = now + patience;
        // An answer takes the lock when its last reference is dropped, so the lock is not held while answers are given up.
        let answers: Vec<_> = self.answers().values().filter_map(Weak::upgrade).collect();
        for answer in answers {
            let until = answer.state().written + patience;
            match until <= now {
                true => answer.give_up(),
                false => next = next.min(until),
            }
        }
        next.max(now + patience / LOOKS)
    }
}

/// The looks at all answers within one patience, at most.
const LOOKS: u32 = 64;

/// Gives up answers until the set and all its answers are dropped.
async fn watch(unwritten: Weak<Unwritten>, patience: Duration) {
    while let Some(next) = unwritten.upgrade().map(|unwritten| unwritten.give_up(patience)) {
        sleep_until(next).await;
    }
}

/// An answer that is not fully written.
struct Answer {
    state: Mutex<State>,
    all: Arc<Unwritten>,
    id: u64,
}

struct State {
    /// `None` once the body has ended or was given up.
    body: Option<Body>,
    /// The rest of a frame, for the next chunks.
    rest: Bytes,
    seat: Option<Seat>,
    /// The time at which a chunk was last written.
    written: Instant,
    reader: Option<Waker>,
}

impl Answer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_up(&self) {
        let mut state = self.state();
        let (body, seat, reader) = (state.body.take(), state.seat.take(), state.reader.take());
        state.rest = Bytes::new();
        drop(state);
        if let Some(seat) = &seat {
            seat.count_unread();
        }
        drop((body, seat));
        // A connection that waits for the upstream gets the error at once, another connection when its client reads.
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.all.answers().remove(&self.id);
    }
}

/// Bytes in the connection's buffers; dropped once they are written.
struct Chunk {
    bytes: Bytes,
    answer: Arc<Answer>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.answer.state().written = Instant::now();
    }
}

/// The body of an answer that is not long-running.
struct Short(Arc<Answer>);

impl Short {
    /// Returns the next chunk of a frame's data.
    fn chunk(&self, state: &mut State, mut data: Bytes) -> Frame<Bytes> {
        if data.len() > CHUNK_BYTES {
            state.rest = data.split_off(CHUNK_BYTES);
        }
        Frame::data(Bytes::from_owner(Chunk { bytes: data, answer: self.0.clone() }))
    }
}

impl http_body::Body for Short {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut state = self.0.state();
        if !state.rest.is_empty() {
            let rest = std::mem::take(&mut state.rest);
            return Poll::Ready(Some(Ok(self.chunk(&mut state, rest))));
        }
        let Some(body) = &mut state.body else {
            let is_given_up = state.seat.is_none();
            return Poll::Ready(is_given_up.then(|| Err("the client did not read the answer in time".into())));
        };
        match Pin::new(body).poll_frame(context) {
            Poll::Pending => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => self.chunk(&mut state, data),
                Err(trailers) => trailers,
            }))),
            ended => {
                state.body = None;
                ended
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.state();
        state.rest.is_empty() && state.body.as_ref().map_or(state.seat.is_some(), Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.state();
        let (mut hint, rest) = (state.body.as_ref().map(Body::size_hint).unwrap_or_default(), state.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::config::Limits;
    use crate::pipeline::InFlight;
    use crate::request::request_info;
    use crate::server::testing::silent;
    use crate::user::UserInfo;
    use futures_util::FutureExt;
    use http::Method;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn one_read() -> InFlight {
        let limits = Limits { requests_inflight: 1, ..Limits::default() };
        InFlight::new(&limits, &crate::metrics::Registry::new()).unwrap()
    }

    fn enter(in_flight: &InFlight) -> Option<Seat> {
        let info = request_info(&Method::GET, &"/version".parse().unwrap());
        in_flight.enter(&Method::GET, &info, false, false, &Arc::new(UserInfo::anonymous())).ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_seat_is_kept_until_the_last_chunk_was_written() {
        let (in_flight, answers) = (one_read(), Answers::new(PATIENCE));
        let mut body = answers.seated(full(vec![b'x'; CHUNK_BYTES + 1]), enter(&in_flight).unwrap());
        assert_eq!(body.size_hint().exact(), Some(CHUNK_BYTES as u64 + 1));
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), body.size_hint().exact(), body.is_end_stream()), (CHUNK_BYTES, Some(1), false));
        let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.is_end_stream() && body.frame().await.is_none());
        drop((body, first));
        assert_eq!(last, "x");
        assert!(enter(&in_flight).is_none());
        drop(last);
        assert!(enter(&in_flight).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_is_given_up() {
        let (in_flight, answers) = (one_read(), Answers::new(PATIENCE));
        let (silence, dropped) = silent();
        let mut body = answers.seated(silence, enter(&in_flight).unwrap());
        assert!(body.frame().now_or_never().is_none());
        tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
        assert!(enter(&in_flight).is_none());
        tokio::time::sleep(Duration::from_secs(2)).await;
        // The upstream's body is dropped as well as the seat.
        assert!(dropped.await.is_err());
        assert!(enter(&in_flight).is_some());
        assert!(!body.is_end_stream());
        assert!(body.frame().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_read_slowly_is_read_to_its_end() {
        let (in_flight, answers) = (one_read(), Answers::new(PATIENCE));
        let mut body = answers.seated(full(vec![b'x'; 10 * CHUNK_BYTES]), enter(&in_flight).unwrap());
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
            read += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(read, 10 * CHUNK_BYTES);
        drop(body);
        assert!(enter(&in_flight).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_never_given_up() {
        let in_flight = one_read();
        let (silence, mut dropped) = silent();
        let body = seated_long(silence, enter(&in_flight).unwrap());
        tokio::time::sleep(100 * PATIENCE).await;
        assert!(dropped.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty));
        assert!(enter(&in_flight).is_none());
        drop(body);
        assert!(enter(&in_flight).is_some());
    }
}
