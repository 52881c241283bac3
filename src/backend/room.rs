//! The memory for the answers of all webhooks and other backends of the process.

use crate::body::{UNCOUNTED_BYTES, Weight, held};
use crate::config::Limits;
use crate::sharer::Sharer;
use crate::shares::{Growing, Shares};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

const KIBIBYTE: usize = 1024;
/// The bytes of an answer that are not counted.
pub(super) const FREE_BYTES: usize = UNCOUNTED_BYTES;

/// The memory for answers that are being read and decoded.
#[derive(Debug)]
pub(super) struct AnswerRoom(Arc<Shares>);

static OF_PROCESS: OnceLock<AnswerRoom> = OnceLock::new();

/// Sets the bound of the answers of webhooks. Only the first call has an effect, and none after a call of a webhook.
pub(crate) fn bound_answers(limits: &Limits) {
    let _the_first_counts = OF_PROCESS.set(AnswerRoom::new(limits.webhook_answers_bytes));
}

impl AnswerRoom {
    fn new(bytes: usize) -> Self {
        Self(Shares::in_halves(bytes / KIBIBYTE))
    }

    /// The room of the process.
    pub(super) fn of_process() -> &'static Self {
        OF_PROCESS.get_or_init(|| Self::new(Limits::default().webhook_answers_bytes))
    }

    /// Returns the room of an answer, which is empty so far. `longest` is the length that the answer announces or may have.
    pub(super) fn taking(&self, longest: usize) -> Taking<'_> {
        Taking { room: self, longest, share: Growing::default() }
    }
}

/// The room of one answer.
pub(super) struct Taking<'a> {
    room: &'a AnswerRoom,
    longest: usize,
    share: Growing,
}

impl Taking<'_> {
    /// Waits for the room of an answer of which `length` bytes have arrived. An answer takes all of its room at once, so that no answer
    /// waits for room that other answers hold while they wait as well.
    pub(super) async fn grow(&mut self, length: usize, host: impl FnOnce() -> String) {
        if length > FREE_BYTES && self.share.is_empty() {
            let bytes = Weight::default().of(self.longest.max(length));
            let server = Sharer::Server(host().into());
            self.share.grow_to(&self.room.0, &server, bytes.div_ceil(KIBIBYTE)).await;
        }
    }

    /// Returns the answer, which holds its room.
    pub(super) fn hold(self, body: Bytes) -> Bytes {
        if self.share.is_empty() { body } else { held(body, self.share) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_long_answer_takes_its_room_and_holds_it_and_one_webhook_has_at_most_half() {
        let room = AnswerRoom::new(4 << 20);
        let host = |name: &'static str| move || name.to_owned();
        let mut answers = [(); 4].map(|()| room.taking(500_000));
        let [first, second, third, fourth] = &mut answers;
        for answer in [&mut *first, second] {
            answer.grow(FREE_BYTES, || unreachable!()).now_or_never().unwrap();
        }
        first.grow(FREE_BYTES + 1, host("a")).now_or_never().unwrap();
        first.grow(FREE_BYTES * 2, || unreachable!()).now_or_never().unwrap();
        assert!(second.grow(FREE_BYTES + 1, host("a")).now_or_never().is_none());
        third.grow(FREE_BYTES + 1, host("b")).now_or_never().unwrap();
        assert!(fourth.grow(FREE_BYTES + 1, host("c")).now_or_never().is_none());
        let [first, mut second, ..] = answers;
        let body = first.hold(Bytes::from_static(b"answer"));
        assert!(second.grow(FREE_BYTES + 1, host("a")).now_or_never().is_none());
        assert_eq!(&*body, b"answer");
        drop(body);
        second.grow(FREE_BYTES + 1, host("a")).now_or_never().unwrap();
    }
}
