//! Reads the body of a review. The body takes room in memory as its bytes arrive: an announced length takes none.

use crate::body::{Body, Pieces};
use crate::sharer::Sharer;
use crate::shares::{Share, Shares};
use crate::status::Status;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The bytes of a review that need no share: the number of arriving reviews bounds them, and most reviews are shorter.
pub(super) const FREE_BYTES: usize = 64 * 1024;
/// The time that a body waits for room while it holds some: bodies that wait for each other end.
const ROOM_PATIENCE: Duration = Duration::from_secs(2);

/// Reads a body of at most `limit` bytes, which must arrive within `patience`; waits for room do not count. The bytes take room until the
/// returned shares are dropped.
///
/// # Errors
/// 413 if the body is longer than `limit`, 408 if it does not arrive in time, 429 if there is no room for it.
pub(super) async fn read(
    mut body: Body,
    limit: usize,
    room: &Arc<Shares>,
    caller: &Sharer,
    patience: Duration,
) -> Result<(Bytes, Vec<Share>), Status> {
    let too_large = || Status::too_large(&format!("limit is {limit}"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let (mut pieces, mut shares, mut held) = (Pieces::default(), Vec::new(), FREE_BYTES);
    let mut deadline = Instant::now() + patience;
    loop {
        let data = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(error))) => return Err(Status::plain(error.to_string())),
            Ok(None) => return Ok((pieces.into_bytes(), shares)),
            Err(_) => return Err(Status::text(408, "the body of the review took too long")),
        };
        let length = pieces.len() + data.len();
        if length > limit {
            return Err(too_large());
        }
        if length > held {
            // At least doubles, as a growing buffer does.
            let more = held.max(length - held).min(limit.saturating_sub(held)).max(length - held);
            let begun = Instant::now();
            let Ok(share) = timeout(ROOM_PATIENCE, room.take(caller, more)).await else {
                return Err(Status::text(429, "there is no room in memory for the review"));
            };
            shares.push(share);
            held += more;
            deadline += begun.elapsed();
        }
        // The buffer grows within what is held.
        pieces.push(data, body.size_hint().lower().min((held - length) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::server::testing::silent;
    use futures_util::{FutureExt, StreamExt};
    use http_body::Frame;
    use http_body_util::StreamBody;

    const SECOND: Duration = Duration::from_secs(1);
    const MEBIBYTE: usize = 1024 * 1024;

    /// A body that announces nothing, sends this much in pieces, and never ends.
    fn stalled(length: usize) -> Body {
        let pieces = std::iter::repeat_n(Bytes::from(vec![b' '; 16 * 1024]), length / (16 * 1024));
        let sent = futures_util::stream::iter(pieces.map(|piece| Ok(Frame::data(piece))));
        StreamBody::new(sent.chain(futures_util::stream::pending())).boxed_unsync()
    }

    fn address(last: u8) -> Sharer {
        Sharer::of_address([10, 0, 0, last].into())
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_arrive_take_no_room() {
        let room = Shares::new(4 * MEBIBYTE, 2 * MEBIBYTE);
        let read = |body, from| {
            let room = room.clone();
            async move { read(body, 3 * MEBIBYTE, &room, &from, 5 * SECOND).await }
        };
        let begun = Instant::now();
        let attackers: Vec<_> = (0..100).map(|last| tokio::spawn(read(silent().0, address(last)))).collect();
        // Three more send all but the end, which is all the room there is, and more than that.
        let greedy: Vec<_> = (100..103).map(|last| tokio::spawn(read(stalled(2 * MEBIBYTE), address(last)))).collect();
        tokio::task::yield_now().await;
        let review = vec![b' '; FREE_BYTES];
        let (bytes, shares) = read(full(review.clone()), address(200)).now_or_never().unwrap().unwrap();
        assert_eq!((&*bytes, shares.len(), begun.elapsed()), (&*review, 0, Duration::ZERO));
        for attacker in attackers {
            assert_eq!(attacker.await.unwrap().unwrap_err().code, 408);
        }
        assert_eq!(begun.elapsed(), 5 * SECOND);
        for attacker in greedy {
            assert!([408, 429].contains(&attacker.await.unwrap().unwrap_err().code));
        }
        // All room is free again.
        let large = vec![b' '; 2 * MEBIBYTE];
        let (bytes, shares) = read(full(large), address(200)).now_or_never().unwrap().unwrap();
        assert!(bytes.len() == 2 * MEBIBYTE && !shares.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_gets_the_time_back_that_it_waits_for_room() {
        let room = Shares::new(MEBIBYTE, MEBIBYTE);
        let all = room.take(&address(1), MEBIBYTE).await;
        let caller = address(2);
        let last = tokio::time::sleep(6 * SECOND);
        let last = futures_util::stream::once(last.map(|()| Ok(Frame::data(Bytes::from_static(b" ")))));
        let first = futures_util::stream::once(async { Ok(Frame::data(Bytes::from(vec![b' '; 2 * FREE_BYTES]))) });
        let body = StreamBody::new(first.chain(last)).boxed_unsync();
        let reading = read(body, MEBIBYTE, &room, &caller, 5 * SECOND);
        let freeing = async {
            tokio::time::sleep(3 * SECOND / 2).await;
            drop(all);
        };
        let (read, ()) = tokio::join!(reading, freeing);
        assert_eq!(read.unwrap().0.len(), 2 * FREE_BYTES + 1);
    }
}
