//! Answers that are ready for their clients, and that their clients do not read.
//!
//! The answer to a write is in memory as a whole, and has room there. While another answer waits for room, the answers that their clients had
//! time to read give way: the client loses the answer, as it would with its connection, and others get theirs. An answer that is given up
//! leaves one chunk in the connection's buffers until the client reads it or the connection ends, so that the number of these answers has a
//! bound, too.

use crate::crowd::Crowd;
use crate::server::ConnectionState;
use crate::sharer::Sharer;
use crate::shares::Growing;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The answers that no client has read to its end.
pub(super) struct ReadyAnswers {
    patience: Duration,
    most_given_up: usize,
    ready: Mutex<Numbered<Sharer, Ready>>,
    given_up: Mutex<Numbered<usize, Arc<ConnectionState>>>,
}

struct Numbered<K, V> {
    next: u64,
    crowd: Crowd<K, V>,
}

/// An answer that the client may read since some time.
struct Ready {
    since: Instant,
    give_up: GiveUp,
}

/// Gives an answer up.
pub(super) type GiveUp = Arc<dyn Fn() + Send + Sync>;

/// The room of an answer that was read as a whole.
pub(super) struct AnswerRoom {
    share: Growing,
    sharer: Sharer,
    answers: Arc<ReadyAnswers>,
    number: OnceLock<u64>,
}

/// An answer that was given up, and of which a chunk is in the buffers of its connection.
pub(super) struct GivenUp {
    answers: Arc<ReadyAnswers>,
    connection: usize,
    number: u64,
}

impl<K, V> Default for Numbered<K, V> {
    fn default() -> Self {
        Self { next: 0, crowd: Crowd::default() }
    }
}

impl<K: Clone + Eq + std::hash::Hash, V> Numbered<K, V> {
    fn insert(&mut self, owner: &K, size: usize, member: V) -> u64 {
        let number = self.next;
        self.next += 1;
        self.crowd.insert(number, owner, size, member);
        number
    }
}

impl ReadyAnswers {
    /// Creates the answers, which have `patience` until they give way, and of which at most `most_given_up` leave chunks behind.
    pub(super) fn new(patience: Duration, most_given_up: usize) -> Arc<Self> {
        let (ready, given_up) = (Mutex::default(), Mutex::default());
        Arc::new(Self { patience, most_given_up: most_given_up.max(1), ready, given_up })
    }

    /// The time that a client has to read an answer while another one waits for room.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Gives up answers that clients had time to read, until `count` of the room is free: those of `only`, or else the oldest one of the
    /// sharer with most.
    pub(super) fn give_way(&self, only: Option<&Sharer>, count: usize) {
        let mut freed = 0;
        while freed < count {
            // An answer takes the lock when it is dropped.
            let Some((size, give_up)) = self.take_late(only) else { return };
            freed += size;
            give_up();
        }
    }

    fn take_late(&self, only: Option<&Sharer>) -> Option<(usize, GiveUp)> {
        let mut ready = lock(&self.ready);
        let latest = Instant::now().checked_sub(self.patience)?;
        let crowd = &ready.crowd;
        let late = |sharer: &Sharer| {
            let (number, answer) = crowd.of(sharer).next()?;
            (answer.since <= latest).then(|| (number, sharer.clone()))
        };
        let (number, sharer) = match only {
            Some(sharer) => late(sharer)?,
            None => crowd.by_greed().find_map(|greediest| late(greediest.owner))?,
        };
        let before = ready.crowd.size();
        let answer = ready.crowd.remove(number, &sharer)?;
        Some((before - ready.crowd.size(), answer.give_up))
    }

    /// Records that an answer was given up whose chunk is in the buffers of a connection. If there are too many, ends the connection that
    /// has most of them.
    pub(super) fn gave_up(self: &Arc<Self>, state: &Arc<ConnectionState>) -> GivenUp {
        let connection = Arc::as_ptr(state).addr();
        let mut given_up = lock(&self.given_up);
        let number = given_up.insert(&connection, 1, state.clone());
        let ended = match given_up.crowd.len() > self.most_given_up {
            true => given_up.crowd.greediest().map(|greediest| (greediest.oldest, *greediest.owner)),
            false => None,
        };
        let ended = ended.and_then(|(number, connection)| given_up.crowd.remove(number, &connection));
        drop(given_up);
        if let Some(state) = ended {
            state.end();
        }
        GivenUp { answers: self.clone(), connection, number }
    }
}

impl AnswerRoom {
    /// Creates the room of an answer for this sharer.
    pub(super) fn new(share: Growing, sharer: Sharer, answers: Arc<ReadyAnswers>) -> Self {
        Self { share, sharer, answers, number: OnceLock::new() }
    }

    /// Records that the client can read the answer, which `give_up` gives up.
    pub(super) fn ready(&self, give_up: GiveUp) {
        let answer = Ready { since: Instant::now(), give_up };
        let mut ready = lock(&self.answers.ready);
        self.number.get_or_init(|| ready.insert(&self.sharer, self.share.count(), answer));
    }
}

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        if let Some(number) = self.number.get() {
            lock(&self.answers.ready).crowd.remove(*number, &self.sharer);
        }
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        lock(&self.answers.given_up).crowd.remove(self.number, &self.connection);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Shares;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_oldest_answers_of_the_sharer_with_most_give_way_once_there_was_time_to_read_them() {
        let (shares, answers) = (Shares::new(1000, 500), ReadyAnswers::new(SECOND, 1));
        let given_up = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let ready = async |at: usize, user: &str, count: usize| {
            let (mut share, sharer) = (Growing::default(), Sharer::named(user));
            share.grow_to(&shares, &sharer, count).await;
            let (room, counter) = (AnswerRoom::new(share, sharer, answers.clone()), given_up[at].clone());
            room.ready(Arc::new(move || {
                counter.fetch_add(1, Ordering::SeqCst);
            }));
            room
        };
        let counts = || given_up.each_ref().map(|count| count.load(Ordering::SeqCst));
        let rooms = [ready(0, "a", 100).await, ready(1, "a", 100).await, ready(2, "b", 50).await];
        answers.give_way(None, 1);
        assert_eq!(counts(), [0, 0, 0]);
        tokio::time::advance(SECOND).await;
        let late = ready(2, "c", 300).await;
        answers.give_way(Some(&Sharer::named("b")), 10);
        assert_eq!(counts(), [0, 0, 1]);
        answers.give_way(None, 1);
        assert_eq!(counts(), [1, 0, 1], "that of c is not late");
        answers.give_way(Some(&Sharer::named("d")), 1);
        drop(late);
        answers.give_way(None, 1000);
        assert_eq!(counts(), [1, 1, 1]);
        drop(rooms);
        assert!(lock(&answers.ready).crowd.len() == 0);
    }
}
