//! A bounded quantity for which requests wait. A user has at most a fixed part of the quantity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The quantity. Users are identified by name. The requests of one user are served in their order, and so are all requests that
/// wait for shares of other users.
#[derive(Debug)]
pub struct Shares {
    all: Arc<Semaphore>,
    of_one: usize,
    lines: Mutex<HashMap<Arc<str>, Weak<Line>>>,
}

/// The part of the quantity that one user may have.
#[derive(Debug)]
struct Line {
    user: Arc<str>,
    own: Arc<Semaphore>,
    /// The turn of a share that grows step by step.
    turn: Arc<Semaphore>,
    shares: Arc<Shares>,
}

/// A share of the quantity, released when dropped.
#[derive(Debug)]
pub struct Share {
    _all: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
    _line: Arc<Line>,
}

/// A share that grows, up to all that one user may have.
#[derive(Debug, Default)]
pub struct Growing {
    parts: Vec<Share>,
    count: usize,
    has_turn: bool,
    turn: Option<(OwnedSemaphorePermit, Arc<Line>)>,
}

impl Growing {
    /// Creates a share that grows step by step: of one user, one such share at a time grows, until [`Self::complete`]. Otherwise shares
    /// that wait for more could keep each other waiting for ever.
    pub fn by_turns() -> Self {
        Self { has_turn: true, ..Self::default() }
    }

    /// Ends the turn of a share that needs no more.
    pub fn complete(&mut self) {
        self.turn = None;
    }

    /// Waits until the share has `count` of the quantity. The quantity and the user are the same in each call.
    pub async fn grow_to(&mut self, shares: &Arc<Shares>, user: &str, count: usize) {
        let count = count.min(shares.of_one);
        if count > self.count {
            if self.has_turn && self.turn.is_none() {
                let line = shares.line(user);
                // The semaphore is never closed.
                self.turn = line.turn.clone().acquire_owned().await.ok().map(|turn| (turn, line));
            }
            self.parts.push(shares.take(user, count - self.count).await);
            self.count = count;
        }
    }

    /// Whether the share is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Shares {
    /// Creates a quantity of `all` for all users together, of which one user gets at most `of_one`; both are at least 1.
    pub fn new(all: usize, of_one: usize) -> Arc<Self> {
        let all = all.clamp(1, Semaphore::MAX_PERMITS);
        let of_one = of_one.clamp(1, all);
        Arc::new(Self { all: Arc::new(Semaphore::new(all)), of_one, lines: Mutex::default() })
    }

    /// Waits for `count` of the quantity, or for all that one user may have if that is less.
    pub async fn take(self: &Arc<Self>, user: &str, count: usize) -> Share {
        let count = u32::try_from(count.min(self.of_one)).unwrap_or(u32::MAX);
        let line = self.line(user);
        // Neither semaphore is ever closed.
        let own = line.own.clone().acquire_many_owned(count).await.ok();
        let all = self.all.clone().acquire_many_owned(count).await.ok();
        Share { _all: all, _own: own, _line: line }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Arc<str>, Weak<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(self: &Arc<Self>, user: &str) -> Arc<Line> {
        let mut lines = self.lines();
        if let Some(line) = lines.get(user).and_then(Weak::upgrade) {
            return line;
        }
        let user: Arc<str> = user.into();
        let own = Arc::new(Semaphore::new(self.of_one));
        let turn = Arc::new(Semaphore::new(1));
        let line = Arc::new(Line { user: user.clone(), own, turn, shares: self.clone() });
        lines.insert(user, Arc::downgrade(&line));
        line
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut lines = self.shares.lines();
        // The map may already hold a new line of the same user.
        if lines.get(&self.user).is_some_and(|line| line.strong_count() == 0) {
            lines.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn one_user_waits_for_its_own_part_and_others_do_not_wait_for_that_user() {
        let shares = Shares::new(10, 6);
        let first = shares.take("a", 4).now_or_never().unwrap();
        assert!(shares.take("a", 3).now_or_never().is_none());
        let other = shares.take("b", 6).now_or_never().unwrap();
        assert!(shares.take("c", 1).now_or_never().is_none());
        drop(first);
        let more_than_there_is = shares.take("a", 100);
        drop(other);
        let whole = more_than_there_is.now_or_never().unwrap();
        assert!(shares.take("a", 1).now_or_never().is_none());
        drop(whole);
        assert!(shares.lines().is_empty());
        assert_eq!(shares.all.available_permits(), 10);
    }

    #[test]
    fn a_share_grows_to_the_part_of_its_user_and_waits_for_others_but_not_for_itself() {
        let shares = Shares::new(10, 6);
        let mut growing = Growing::default();
        for (count, left) in [(0, 10), (2, 8), (1, 8), (5, 5), (100, 4), (200, 4)] {
            growing.grow_to(&shares, "a", count).now_or_never().unwrap();
            assert_eq!((shares.all.available_permits(), growing.is_empty()), (left, left == 10), "{count}");
        }
        let mut other = Growing::default();
        other.grow_to(&shares, "b", 3).now_or_never().unwrap();
        assert!(other.grow_to(&shares, "b", 6).now_or_never().is_none());
        drop(growing);
        other.grow_to(&shares, "b", 6).now_or_never().unwrap();
        drop(other);
        assert_eq!(shares.all.available_permits(), 10);
    }

    #[test]
    fn shares_that_grow_by_turns_do_not_wait_for_each_other() {
        let shares = Shares::new(10, 6);
        let [mut first, mut second, mut other] = [(); 3].map(|()| Growing::by_turns());
        first.grow_to(&shares, "a", 2).now_or_never().unwrap();
        assert!(second.grow_to(&shares, "a", 2).now_or_never().is_none());
        other.grow_to(&shares, "b", 2).now_or_never().unwrap();
        first.grow_to(&shares, "a", 4).now_or_never().unwrap();
        first.complete();
        second.grow_to(&shares, "a", 2).now_or_never().unwrap();
        assert!(second.grow_to(&shares, "a", 3).now_or_never().is_none());
        drop(first);
        second.grow_to(&shares, "a", 3).now_or_never().unwrap();
        drop((second, other));
        assert!(shares.lines().is_empty());
    }
}
