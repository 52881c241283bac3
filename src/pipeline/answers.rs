//! The body of an answer: a request keeps its seat until the answer was written, or was not read for too long.

use super::inflight::Seat;
use super::measure::Measured;
use super::ready::{AnswerRoom, GivenUp, ReadyAnswers};
use crate::body::{Body, BoxError};
use crate::server::Connection;
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
pub(super) struct Answers {
    patience: Duration,
    unwritten: Arc<Unwritten>,
    watch: Once,
}

impl Answers {
    /// Creates the set of answers that are given up if no part of them can be written for `patience`.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, unwritten: Arc::default(), watch: Once::new() }
    }

    /// Wraps the body of an answer, which keeps the seat of its request. If no part of the answer can be written for the patience, the
    /// seat and the upstream's answer are released, and the client loses the rest. An answer with room may give way to others earlier.
    pub(super) fn seated(&self, body: Body, seat: Seat, measured: Measured, reader: Reader) -> Body {
        if body.is_end_stream() {
            return body;
        }
        self.watch.call_once(|| drop(tokio::spawn(watch(Arc::downgrade(&self.unwritten), self.patience))));
        let Reader { connection, ready, room } = reader;
        let state = State {
            body: Some(body),
            rest: Bytes::new(),
            request: Some((seat, measured)),
            written: Instant::now(),
            reader: None,
            chunks: 0,
            given_up: None,
        };
        let (all, id) = (self.unwritten.clone(), self.unwritten.next_id());
        let answer = Arc::new(Answer { state: Mutex::new(state), all, id, connection, ready });
        self.unwritten.answers().insert(answer.id, Arc::downgrade(&answer));
        if let Some(room) = room {
            let answer = Arc::downgrade(&answer);
            room.ready(Arc::new(move || answer.upgrade().iter().for_each(|answer| answer.give_up())));
        }
        Short(answer).boxed_unsync()
    }
}

/// The client of an answer, and the answers of which this is one.
pub(super) struct Reader {
    /// `None` without a connection, for requests of the proxy itself.
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) ready: Arc<ReadyAnswers>,
    /// The room of an answer that is in memory as a whole.
    pub(super) room: Option<Arc<AnswerRoom>>,
}

/// Wraps the body of the answer to a long-running request, which keeps the seat of its request for any time.
pub(super) fn seated_long(body: Body, seat: Seat, measured: Measured) -> Body {
    if body.is_end_stream() { body } else { Long { body, _seat: seat, measured }.boxed_unsync() }
}

/// The body of the answer to a long-running request.
struct Long {
    body: Body,
    _seat: Seat,
    measured: Measured,
}

impl http_body::Body for Long {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.measured.add(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
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
    connection: Option<Arc<Connection>>,
    ready: Arc<ReadyAnswers>,
}

struct State {
    /// `None` once the body has ended or was given up.
    body: Option<Body>,
    /// The rest of a frame, for the next chunks.
    rest: Bytes,
    /// `None` once the answer was given up.
    request: Option<(Seat, Measured)>,
    /// The time at which a chunk was last written.
    written: Instant,
    reader: Option<Waker>,
    /// The number of chunks in the connection's buffers.
    chunks: usize,
    /// The place among the answers that were given up, while chunks are in those buffers.
    given_up: Option<GivenUp>,
}

impl Answer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_up(&self) {
        let mut state = self.state();
        let Some((seat, measured)) = state.request.take() else { return };
        let (body, reader) = (state.body.take(), state.reader.take());
        state.rest = Bytes::new();
        drop(state);
        seat.count_unread();
        measured.aborted();
        drop((body, seat, measured));
        // A connection that waits for the upstream gets the error at once, another connection when its client reads.
        if let Some(reader) = reader {
            reader.wake();
        }
        self.leave_chunks();
    }

    /// Counts the chunks of an answer that was given up: only the client, or the end of the connection, frees them. An HTTP/1.1 connection has
    /// nothing else to send.
    fn leave_chunks(&self) {
        let Some(connection) = self.connection.as_ref().filter(|_| self.state().chunks > 0) else { return };
        if !connection.is_http2 {
            connection.state.end();
            return;
        }
        let given_up = self.ready.gave_up(&connection.state);
        let mut state = self.state();
        let unneeded = if state.chunks > 0 { state.given_up.replace(given_up) } else { Some(given_up) };
        drop(state);
        drop(unneeded);
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
        let mut state = self.answer.state();
        state.written = Instant::now();
        state.chunks -= 1;
        let given_up = if state.chunks == 0 { state.given_up.take() } else { None };
        drop(state);
        drop(given_up);
    }
}

/// The body of an answer that is not long-running.
struct Short(Arc<Answer>);

impl Short {
    /// Returns the next chunk of a frame's data. A part of the data is a copy: it would keep all of the data in memory until the client reads
    /// it, even if the answer is given up.
    fn chunk(&self, state: &mut State, mut data: Bytes, is_rest: bool) -> Frame<Bytes> {
        let is_cut = data.len() > CHUNK_BYTES;
        if is_cut {
            state.rest = data.split_off(CHUNK_BYTES);
        }
        if let Some((_, measured)) = &mut state.request {
            measured.add(data.len());
        }
        let bytes = if is_cut || is_rest { Bytes::copy_from_slice(&data) } else { data };
        state.chunks += 1;
        Frame::data(Bytes::from_owner(Chunk { bytes, answer: self.0.clone() }))
    }
}

impl http_body::Body for Short {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut state = self.0.state();
        if !state.rest.is_empty() {
            let rest = std::mem::take(&mut state.rest);
            return Poll::Ready(Some(Ok(self.chunk(&mut state, rest, true))));
        }
        let Some(body) = &mut state.body else {
            let is_given_up = state.request.is_none();
            return Poll::Ready(is_given_up.then(|| Err("the client did not read the answer in time".into())));
        };
        match Pin::new(body).poll_frame(context) {
            Poll::Pending => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => self.chunk(&mut state, data, false),
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
        state.rest.is_empty() && state.body.as_ref().map_or(state.request.is_some(), Body::is_end_stream)
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
    use crate::body::{full, held};
    use crate::cluster::discovery::Discovery;
    use crate::config::Limits;
    use crate::metrics::Registry;
    use crate::pipeline::gateway::Room;
    use crate::pipeline::{Exchange, InFlight, RequestMetrics};
    use crate::request::request_info;
    use crate::server::testing::silent;
    use crate::user::UserInfo;
    use futures_util::FutureExt;
    use http::Method;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn one_read() -> InFlight {
        let limits = Limits { requests_inflight: 1, ..Limits::default() };
        InFlight::alone(&limits)
    }

    fn reader(is_http2: bool, most_given_up: usize) -> Reader {
        let connection = Connection {
            remote: ([127, 0, 0, 1], 1).into(),
            certificates: Vec::new(),
            kept: Default::default(),
            server_name: None,
            is_http2,
            state: Default::default(),
        };
        Reader {
            connection: Some(Arc::new(connection)),
            ready: ReadyAnswers::new(Duration::from_secs(1), most_given_up),
            room: None,
        }
    }

    fn measured() -> Measured {
        let metrics = RequestMetrics::register(&Registry::new(), &Limits::default()).unwrap();
        let (request, path) = (http::Request::new(()), "/version".parse().unwrap());
        let info = request_info(&Method::GET, &path);
        metrics.begin(&request, &info).answered(&Discovery::unconnected(), &info, 200, None, &Exchange::default())
    }

    async fn chunk(body: &mut Body) -> Result<Bytes, BoxError> {
        body.frame().await.unwrap().map(|frame| frame.into_data().unwrap())
    }

    fn enter(in_flight: &InFlight) -> Option<Seat> {
        let info = request_info(&Method::GET, &"/version".parse().unwrap());
        in_flight.enter(&Method::GET, &info, false, false, &Arc::new(UserInfo::anonymous())).ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_seat_is_kept_until_the_last_chunk_was_written() {
        let (in_flight, answers) = (one_read(), Answers::new(PATIENCE));
        let mut body =
            answers.seated(full(vec![b'x'; CHUNK_BYTES + 1]), enter(&in_flight).unwrap(), measured(), reader(true, 1));
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
        let mut body = answers.seated(silence, enter(&in_flight).unwrap(), measured(), reader(true, 1));
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
        let mut body =
            answers.seated(full(vec![b'x'; 10 * CHUNK_BYTES]), enter(&in_flight).unwrap(), measured(), reader(true, 1));
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
    async fn an_answer_that_is_given_up_leaves_a_chunk_at_most() {
        let (in_flight, answers) = (one_read(), Answers::new(PATIENCE));
        for length in [CHUNK_BYTES + 1, 10 * CHUNK_BYTES] {
            let memory = Arc::new(());
            let whole = held(vec![b'x'; length].into(), memory.clone());
            let mut body = answers.seated(full(whole), enter(&in_flight).unwrap(), measured(), reader(true, 1));
            let first = chunk(&mut body).await.unwrap();
            assert_eq!((first.len(), Arc::strong_count(&memory)), (CHUNK_BYTES, 2));
            tokio::time::sleep(PATIENCE + Duration::from_secs(2)).await;
            assert_eq!(Arc::strong_count(&memory), 1, "{length}");
            assert!(chunk(&mut body).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_if_nobody_reads_the_chunks_of_answers_that_were_given_up() {
        let limits = Limits { requests_inflight: 0, ..Limits::default() };
        let in_flight = InFlight::alone(&limits);
        let answers = Answers::new(PATIENCE);
        let (ready, connections) = (reader(true, 2).ready, [true, true, false].map(|is_http2| reader(is_http2, 1)));
        let is_ended = || connections.each_ref().map(|of| of.connection.as_ref().unwrap().state.is_ended());
        let seated = |at: usize| {
            let of = Reader { connection: connections[at].connection.clone(), ready: ready.clone(), room: None };
            answers.seated(full(vec![b'x'; 2 * CHUNK_BYTES]), enter(&in_flight).unwrap(), measured(), of)
        };
        let unread = async |at: usize| {
            let mut body = seated(at);
            let first = chunk(&mut body).await.unwrap();
            tokio::time::sleep(PATIENCE + Duration::from_secs(2)).await;
            (body, first)
        };
        // A client that reads the chunk in the end has no part in it.
        drop(unread(0).await);
        let _kept = [unread(0).await, unread(1).await];
        assert_eq!(is_ended(), [false; 3]);
        let _more = unread(1).await;
        assert_eq!(is_ended(), [false, true, false]);
        let _http1 = unread(2).await;
        assert_eq!(is_ended(), [false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answers_give_way_to_the_answer_of_another_user() {
        const MEBIBYTE: usize = 1 << 20;
        // There is room for four answers, two of one user, and a third of that for newcomers.
        let limits = Limits { write_answers_bytes: 16 * MEBIBYTE / 3, ..Limits::default() };
        let (room, answers) = (Room::alone(&limits), Answers::new(PATIENCE));
        let in_flight = InFlight::alone(&limits);
        let read = async |user: &str| {
            let user = Arc::new(UserInfo { username: user.to_owned(), ..UserInfo::default() });
            let (bytes, room_of_answer) =
                room.read_answer(full(vec![b'x'; MEBIBYTE]), 2 * MEBIBYTE, &user).await.unwrap();
            let of = Reader { room: room_of_answer.clone(), ready: room.ready().clone(), ..reader(true, 1) };
            let mut body =
                answers.seated(full(held(bytes, room_of_answer)), enter(&in_flight).unwrap(), measured(), of);
            let first = chunk(&mut body).await.unwrap();
            (body, first)
        };
        let is_given_up = async |(body, _): &mut (Body, Bytes)| chunk(body).await.is_err();
        let started = Instant::now();
        let mut of_a = [read("a").await, read("a").await];
        let mut of_b = [read("b").await, read("b").await];
        assert!(started.elapsed().is_zero());
        let mut of_c = read("c").await;
        assert_eq!(started.elapsed().as_secs(), 1);
        assert!(is_given_up(&mut of_a[0]).await);
        assert!(!is_given_up(&mut of_a[1]).await && !is_given_up(&mut of_b[0]).await && !is_given_up(&mut of_c).await);
        drop(of_b);
        let mut again = read("a").await;
        assert!(!is_given_up(&mut of_a[1]).await);
        // The user has all that one may have: an answer of the user's own gives way.
        let mut last = read("a").await;
        assert!(is_given_up(&mut of_a[1]).await && !is_given_up(&mut again).await && !is_given_up(&mut of_c).await);
        assert!(!is_given_up(&mut last).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_never_given_up() {
        let in_flight = one_read();
        let (silence, mut dropped) = silent();
        let body = seated_long(silence, enter(&in_flight).unwrap(), measured());
        tokio::time::sleep(100 * PATIENCE).await;
        assert!(dropped.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty));
        assert!(enter(&in_flight).is_none());
        drop(body);
        assert!(enter(&in_flight).is_some());
    }
}
