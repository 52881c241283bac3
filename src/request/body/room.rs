//! The memory for bodies that have arrived, and for what is made of them. A body takes its room when it is there as a whole, so that no body
//! holds room while its client sends slowly; until then the body is one of those that arrive ([`crate::arrivals`]).

use crate::arrivals::Arrival;
use crate::body::{Body, Buffer, Pieces, UNCOUNTED_BYTES, Weight, held};
use crate::config::Limits;
use crate::sharer::Sharer;
use crate::shares::{Share, Shares};
use crate::status::{Details, Status};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const KIBIBYTE: usize = 1024;

/// The memory for the bodies that are handled at the same time.
#[derive(Clone, Debug)]
pub struct BodyRoom {
    whole: Arc<Shares>,
    wait: Duration,
}

impl BodyRoom {
    /// Creates the room from the limits.
    pub fn new(limits: &Limits) -> Self {
        let whole = Shares::in_halves(limits.whole_bodies_bytes / KIBIBYTE);
        Self { whole, wait: limits.connection_wait_timeout }
    }

    /// Reads a whole body, of at most `limit` bytes, and takes the room for it from the share of `sharer`. The room is free when the last
    /// reference to the returned bytes is dropped.
    ///
    /// # Errors
    /// As [`arrive`] and [`Self::take`].
    pub(crate) async fn read(
        &self,
        body: Body,
        limit: usize,
        arrivals: [Option<&Arrival>; 2],
        sharer: &Sharer,
    ) -> Result<Bytes, Status> {
        let (bytes, weight) = arrive(body, limit, arrivals).await?;
        Ok(match self.take(weight, sharer).await? {
            Some(share) => held(bytes, share),
            None => bytes,
        })
    }

    /// Takes the room for a body that has arrived. A body that needs more than one sharer may have takes the rest from the room of the others.
    /// `None` if a body of this weight needs no room.
    ///
    /// # Errors
    /// 413 if the body needs more than a share can be, 429 if other bodies hold the room for longer than the wait timeout.
    pub(crate) async fn take(&self, weight: Weight, sharer: &Sharer) -> Result<Option<Share>, Status> {
        let bytes = weight.of(0);
        if bytes <= UNCOUNTED_BYTES {
            return Ok(None);
        }
        let count = bytes.div_ceil(KIBIBYTE);
        if count > self.whole.longest() {
            return Err(Status::too_large("the body has more values than there is memory for: raise the memory limit"));
        }
        timeout(self.wait, self.whole.take_beyond(sharer, count)).await.map(Some).map_err(|_| no_room())
    }
}

/// Reads a whole body, of at most `limit` bytes, and records its memory among those that arrive. Returns the weight as well. Never resolves for
/// a body that is given up: the caller waits for [`Arrival::given_up`] too.
///
/// # Errors
/// 413 if the body is longer, 500 if it breaks off.
pub(crate) async fn arrive(
    body: Body,
    limit: usize,
    arrivals: [Option<&Arrival>; 2],
) -> Result<(Bytes, Weight), Status> {
    let (mut weight, own, arrivals) = (Weight::default(), Buffer::default(), arrivals.iter().flatten());
    let shared = arrivals.clone().next().map(|_| Arc::<Buffer>::default());
    arrivals.clone().zip(shared.iter().cycle()).for_each(|(arrival, buffer)| arrival.keep_in(buffer));
    let bytes = super::read_into(shared.as_deref().unwrap_or(&own), body, limit, |data| {
        weight.add(data);
        arrivals.clone().for_each(|arrival| arrival.grow(weight.bytes() * Pieces::GROWTH));
        !arrivals.clone().any(|arrival| arrival.is_given_up())
    });
    let bytes = bytes.await?;
    weight.complete(&bytes);
    Ok((bytes, weight))
}

fn no_room() -> Status {
    let why = "there is no room in memory for the body of the request";
    Status::too_many_requests(why).with_details(Details { retry_after_seconds: 1, ..Details::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Arrivals;
    use crate::body::full;
    use futures_util::{FutureExt, StreamExt, stream};
    use http_body::Frame;
    use http_body_util::{BodyExt, StreamBody};

    const MEBIBYTE: usize = 1 << 20;
    const SECOND: Duration = Duration::from_secs(1);

    fn room() -> BodyRoom {
        BodyRoom::new(&Limits { whole_bodies_bytes: 20 * MEBIBYTE, ..Limits::default() })
    }

    impl BodyRoom {
        async fn read_of(&self, text: &Bytes, user: &str) -> Result<Bytes, Status> {
            self.read(full(text.clone()), 3 * MEBIBYTE, [None; 2], &Sharer::named(user)).await
        }

        /// What all users together could take now, in KiB.
        fn free(&self) -> usize {
            let take = |user: usize| {
                let sharer = Sharer::named(&user.to_string());
                tokio::task::unconstrained(self.whole.take(&sharer, 1)).now_or_never()
            };
            (0..).map_while(take).collect::<Vec<_>>().len()
        }
    }

    /// A body that sends these pieces, and then nothing more for ever.
    fn stalled_after(pieces: Vec<Bytes>) -> Body {
        let pieces = stream::iter(pieces).map(|data| Ok(Frame::data(data)));
        StreamBody::new(pieces.chain(stream::pending())).boxed_unsync()
    }

    #[tokio::test]
    async fn bodies_that_do_not_arrive_take_no_room_and_give_way_to_others() {
        let (room, all, memory) = (room(), room().free(), Arrivals::new(8 * MEBIBYTE, MEBIBYTE / 64));
        let text = Bytes::from(vec![b'x'; MEBIBYTE]);
        let mallory = Sharer::named("mallory");
        let places: Vec<Arrival> = (0..100).map(|_| memory.enter(mallory.clone())).collect();
        let mut stalled: Vec<_> = places
            .iter()
            .map(|place| {
                Box::pin(room.read(stalled_after(vec![text.clone()]), 3 * MEBIBYTE, [Some(place), None], &mallory))
            })
            .collect();
        stalled.iter_mut().for_each(|reading| assert!(reading.as_mut().now_or_never().is_none()));
        assert_eq!(room.free(), all);
        let bob = Sharer::named("bob");
        let place = memory.enter(bob.clone());
        let read = room.read(full(text.clone()), 3 * MEBIBYTE, [Some(&place), None], &bob);
        assert_eq!(read.now_or_never().unwrap().unwrap(), text);
        let given_up = |place: &Arrival| place.given_up().now_or_never().is_some();
        assert!(!given_up(&place) && places.iter().filter(|place| given_up(place)).count() > 90);
    }

    #[tokio::test]
    async fn the_data_of_a_body_that_is_given_up_is_freed_before_its_task_runs() {
        let (room, memory, mallory) = (room(), Arrivals::new(2 * MEBIBYTE, MEBIBYTE / 64), Sharer::named("mallory"));
        for ends in [false, true] {
            let (place, used) = (memory.enter(mallory.clone()), Arc::new(()));
            let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel();
            let piece = held(Bytes::from(vec![b'x'; MEBIBYTE]), used.clone());
            sender.send(Ok(Frame::data(piece))).unwrap();
            let body = StreamBody::new(stream::poll_fn(move |context| pieces.poll_recv(context))).boxed_unsync();
            let mut reading = Box::pin(room.read(body, 3 * MEBIBYTE, [Some(&place), None], &mallory));
            assert!(reading.as_mut().now_or_never().is_none());
            assert_eq!((place.is_given_up(), Arc::strong_count(&used)), (false, 2));
            let others = [(); 2].map(|()| memory.enter(mallory.clone()));
            others.iter().for_each(|other| other.grow(MEBIBYTE));
            assert_eq!((place.is_given_up(), Arc::strong_count(&used)), (true, 1));
            // Data or the end that comes later makes no shorter body of it.
            match ends {
                true => drop(sender),
                false => sender.send(Ok(Frame::data(Bytes::from_static(b"more")))).unwrap(),
            }
            assert!(reading.now_or_never().is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_long_bodies_of_one_user_are_handled_one_after_the_other() {
        let room = room();
        let text = Bytes::from(vec![b'x'; 3 * MEBIBYTE / 2]);
        let all = (0..20).map(|_| async {
            let read = room.read_of(&text, "alice").await.unwrap();
            tokio::time::sleep(SECOND / 10).await;
            assert_eq!(read.len(), text.len());
        });
        futures_util::future::join_all(all).await;
    }

    #[tokio::test]
    async fn the_room_of_a_body_is_free_when_its_bytes_are_dropped() {
        let (room, all) = (room(), room().free());
        for part in ["\"x\",", "1,", "{\"a\":0},"] {
            let body = Bytes::from(format!("[{}0]", part.repeat(20_000 / part.len())));
            let mut weight = Weight::default();
            weight.add(&body);
            let read = room.read_of(&body, "alice").await.unwrap();
            let part = read.slice(..10);
            drop(read);
            assert_eq!(all - room.free(), weight.of(0).div_ceil(1024));
            drop(part);
            assert_eq!(room.free(), all);
        }
        let short = room.read_of(&Bytes::from_static(b"{}"), "alice").await.unwrap();
        assert_eq!((short.len(), room.free()), (2, all));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_room_is_429_with_the_time_of_the_next_attempt() {
        let room = room();
        let text = Bytes::from(vec![b'x'; MEBIBYTE]);
        let held = room.read_of(&text, "alice").await.unwrap();
        let refused = room.read_of(&text, "alice").await.unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (429, 1));
        assert_eq!(refused.message, "Too many requests: there is no room in memory for the body of the request");
        assert!(room.read_of(&text, "bob").await.is_ok());
        drop(held);
        assert!(room.read_of(&text, "alice").await.is_ok());
    }

    #[tokio::test]
    async fn a_body_for_which_there_is_never_room_is_413() {
        let room = room();
        let text = Bytes::from("[".repeat(300_000));
        assert_eq!(room.read_of(&text, "alice").await.unwrap_err().code, 413);
        assert!(room.read_of(&Bytes::from("x".repeat(300_000)), "alice").await.is_ok());
    }
}
