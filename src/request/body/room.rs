//! The memory for the bodies of requests. A body takes room as its bytes arrive: for the first bytes from one quantity, for a longer body
//! from another one. A body never waits for a quantity of which it holds a part, as long as its values are as dense as at its start, so that
//! bodies that wait do not keep each other waiting.

use crate::body::{Body, BoxError, Weight, held};
use crate::config::Limits;
use crate::shares::{Growing, Share, Shares};
use crate::status::{Details, Status};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

const KIBIBYTE: usize = 1024;
/// The bytes of a body that count as its first bytes, and the memory of a whole body that is not counted.
const FIRST_BYTES: usize = 64 * KIBIBYTE;

/// The memory for the bodies of requests that are read and handled at the same time.
#[derive(Clone, Debug)]
pub struct BodyRoom {
    begun: Arc<Shares>,
    whole: Arc<Shares>,
    wait: Duration,
    progress: (usize, Duration),
}

impl BodyRoom {
    /// Creates the room from the limits.
    pub fn new(limits: &Limits) -> Self {
        let shares = |bytes: usize| Shares::new(bytes / KIBIBYTE, bytes / KIBIBYTE / 2);
        Self {
            begun: shares(limits.begun_bodies_bytes),
            whole: shares(limits.whole_bodies_bytes),
            wait: limits.connection_wait_timeout,
            progress: (limits.body_progress_bytes, limits.body_progress_timeout),
        }
    }

    /// Reads a whole body, of at most `limit` bytes. The room for it is taken from the share of `owner`, and is free when the last
    /// reference to the returned bytes is dropped.
    ///
    /// # Errors
    /// 413 if the body is longer, 500 if it breaks off, 429 if other bodies hold the room for longer than the wait timeout, 408 if a long
    /// body does not make progress.
    pub async fn read(&self, body: Body, limit: usize, owner: &str) -> Result<Bytes, Status> {
        let mut taking = Taking { room: Some((self, owner)), ..Taking::nothing() };
        let bytes = super::read_into(body, limit, &mut taking).await?;
        Ok(if taking.whole.is_empty() { bytes } else { held(bytes, taking.whole) })
    }

    async fn within_wait<T>(&self, taking: impl Future<Output = T>) -> Result<T, Status> {
        timeout(self.wait, taking).await.map_err(|_| no_room())
    }
}

fn no_room() -> Status {
    let why = "there is no room in memory for the body of the request";
    Status::too_many_requests(why).with_details(Details { retry_after_seconds: 1, ..Details::default() })
}

fn stalled() -> Status {
    Status::failure(408, "Timeout", "Timeout: the body of the request arrives too slowly")
}

/// The room of one body.
pub(super) struct Taking<'a> {
    /// `None`: the body takes no room.
    room: Option<(&'a BodyRoom, &'a str)>,
    first: Option<Share>,
    whole: Growing,
    weight: Weight,
    /// The length that the body announces, or may have.
    length: usize,
    /// The start of the present part of a long body, and its bytes.
    part: Option<(Instant, usize)>,
}

impl Taking<'_> {
    pub(super) fn nothing() -> Self {
        let (first, whole, weight, length, part) = Default::default();
        Self { room: None, first, whole, weight, length, part }
    }

    /// Begins with a body of this size, of which at most `limit` bytes are wanted.
    pub(super) fn begin(&mut self, announced: &SizeHint, limit: usize) {
        let length = announced.upper().and_then(|bytes| usize::try_from(bytes).ok());
        self.length = length.unwrap_or(limit).min(limit);
    }

    /// Returns the next frame. A body that has not arrived yet takes room for its first bytes, and a long body must make progress.
    pub(super) async fn next(&mut self, body: &mut Body) -> Result<Option<Result<Frame<Bytes>, BoxError>>, Status> {
        if let Some(arrived) = body.frame().now_or_never() {
            return Ok(self.noted(arrived));
        }
        let Some((room, owner)) = self.room else { return Ok(body.frame().await) };
        if self.first.is_none() {
            let taking = room.begun.take(owner, self.length.clamp(1, FIRST_BYTES).div_ceil(KIBIBYTE));
            self.first = Some(room.within_wait(taking).await?);
        }
        let (bytes, time) = room.progress;
        while let Some(part) = &mut self.part {
            match timeout_at(part.0 + time, body.frame()).await {
                Ok(frame) => return Ok(self.noted(frame)),
                Err(_) if part.1 >= bytes => *part = (Instant::now(), 0),
                Err(_) => return Err(stalled()),
            }
        }
        Ok(body.frame().await)
    }

    /// Counts the data of a frame for the present part of a long body.
    fn noted(&mut self, frame: Option<Result<Frame<Bytes>, BoxError>>) -> Option<Result<Frame<Bytes>, BoxError>> {
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        if let (Some((_, bytes)), Some(data)) = (&mut self.part, data) {
            *bytes += data.len();
        }
        frame
    }

    /// Counts data. With more than the first bytes, takes the room for the whole body.
    pub(super) async fn add(&mut self, data: &[u8]) -> Result<(), Status> {
        if self.room.is_none() {
            return Ok(());
        }
        self.weight.add(data);
        if self.part.is_none() && self.weight.bytes() > FIRST_BYTES {
            self.take_whole(self.weight.of(self.length)).await?;
            // The wait for the room is not the client's.
            self.part = Some((Instant::now(), 0));
        }
        Ok(())
    }

    /// Takes the rest of the room for the body, if its values are denser than those of its first bytes.
    pub(super) async fn end(&mut self) -> Result<(), Status> {
        self.take_whole(self.weight.of(0)).await?;
        self.first = None;
        Ok(())
    }

    async fn take_whole(&mut self, bytes: usize) -> Result<(), Status> {
        let Some((room, owner)) = self.room.filter(|_| bytes > FIRST_BYTES) else { return Ok(()) };
        room.within_wait(self.whole.grow_to(&room.whole, owner, bytes.div_ceil(KIBIBYTE))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use futures_util::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
    use std::pin::pin;

    const MEBIBYTE: usize = 1 << 20;
    const SECOND: Duration = Duration::from_secs(1);

    fn room() -> BodyRoom {
        let limits = Limits {
            begun_bodies_bytes: MEBIBYTE,
            whole_bodies_bytes: 16 * MEBIBYTE,
            body_progress_timeout: 10 * SECOND,
            ..Limits::default()
        };
        BodyRoom::new(&limits)
    }

    /// A body that sends these pieces, and then nothing more for ever.
    fn stalled_after(pieces: Vec<Bytes>) -> Body {
        let pieces = stream::iter(pieces).map(|data| Ok(Frame::data(data)));
        StreamBody::new(pieces.chain(stream::pending())).boxed_unsync()
    }

    /// A body that sends a piece every second.
    fn slow(bytes: usize) -> Body {
        let pieces = stream::unfold((), move |()| async move {
            tokio::time::sleep(SECOND).await;
            Some((Ok(Frame::data(Bytes::from(vec![b'x'; bytes]))), ()))
        });
        StreamBody::new(pieces).boxed_unsync()
    }

    /// What all users together could take now.
    fn free(shares: &Arc<Shares>) -> usize {
        let take = |user: usize| tokio::task::unconstrained(shares.take(&user.to_string(), 1)).now_or_never();
        (0..).map_while(take).collect::<Vec<_>>().len()
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_bodies_of_one_user_hold_half_of_the_memory_and_others_are_read() {
        let room = room();
        let text = Bytes::from(vec![b'x'; MEBIBYTE / 2]);
        let mut stalled: Vec<_> = (0..100)
            .map(|_| Box::pin(room.read(stalled_after(vec![text.clone(); 2]), 3 * MEBIBYTE, "mallory")))
            .collect();
        // Each poll reads as far as there is room.
        stalled.iter_mut().for_each(|reading| assert!(reading.as_mut().now_or_never().is_none()));
        let read = room.read(full(text.clone()), 3 * MEBIBYTE, "bob");
        assert_eq!(read.now_or_never().unwrap().unwrap(), text);
        // Those that wait give up, and those that have room do not make progress.
        for reading in stalled {
            let code = reading.await.unwrap_err().code;
            assert!(matches!(code, 408 | 429), "{code}");
        }
        assert_eq!((free(&room.begun), free(&room.whole)), (1024, 16 * 1024));
    }

    #[tokio::test(start_paused = true)]
    async fn many_long_bodies_of_one_user_are_read_one_after_the_other() {
        let room = room();
        let text = Bytes::from(vec![b'x'; 3 * MEBIBYTE / 2]);
        let all = (0..20).map(|_| async {
            let read = room.read(full(text.clone()), 3 * MEBIBYTE, "alice").await.unwrap();
            tokio::time::sleep(SECOND / 10).await;
            assert_eq!(read.len(), text.len());
        });
        futures_util::future::join_all(all).await;
    }

    #[tokio::test]
    async fn the_room_of_a_body_is_free_when_its_bytes_are_dropped() {
        let room = room();
        for (text, weight) in [("x", 4), ("[1,1,1]", 4 + 3 * 64 / 7)] {
            let body = Bytes::from(text.repeat(200_000 / text.len()));
            let read = room.read(full(body.clone()), MEBIBYTE, "alice").await.unwrap();
            let part = read.slice(..10);
            drop(read);
            let taken = 16 * 1024 - free(&room.whole);
            assert!((weight - 4..=weight + 4).contains(&(taken * 1024 / body.len())), "{text}: {taken} KiB");
            drop(part);
            assert_eq!(free(&room.whole), 16 * 1024);
        }
        let short = room.read(full("{}"), MEBIBYTE, "alice").await.unwrap();
        assert_eq!((short.len(), free(&room.whole), free(&room.begun)), (2, 16 * 1024, 1024));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_body_must_make_progress_and_a_short_one_may_be_slow() {
        let room = room();
        for (piece, code) in [(7 * 1024, 413), (6 * 1024, 408)] {
            let begun = Instant::now();
            let refused = room.read(slow(piece), 300 * 1024, "alice").await.unwrap_err();
            assert_eq!(refused.code, code, "{piece} bytes a second, after {:?}", begun.elapsed());
        }
        let mut short = pin!(room.read(stalled_after(vec![Bytes::from_static(b"{")]), MEBIBYTE, "alice"));
        assert!(timeout(1000 * SECOND, short.as_mut()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_room_is_429_with_the_time_of_the_next_attempt() {
        let room = room();
        let text = Bytes::from(vec![b'x'; 3 * MEBIBYTE]);
        let held = room.read(full(text.clone()), 3 * MEBIBYTE, "alice").await.unwrap();
        let refused = room.read(full(text.clone()), 3 * MEBIBYTE, "alice").await.unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (429, 1));
        assert_eq!(refused.message, "Too many requests: there is no room in memory for the body of the request");
        drop(held);
        assert!(room.read(full(text), 3 * MEBIBYTE, "alice").await.is_ok());
    }
}
