//! A bounded quantity for which requests wait. A sharer has at most a fixed part of the quantity, and service accounts together leave a reserve
//! to users.
//!
//! Without more, a few sharers with all that each may have would leave nothing to another one, and some shares last long. So a part of the
//! quantity is only for sharers that have little, the newcomers: a sharer gets a share of it only if this part has as much left afterwards as the
//! sharer has of the whole quantity. However many sharers have taken from it, something is left for the next one.

use crate::sharer::{self, Sharer};
use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The divisor of a quantity that gives the part for sharers that have little.
const NEWCOMERS_PART: usize = 4;

/// The quantity. The requests of one sharer are served in their order, and so are all requests that wait for shares of other
/// sharers, except those that the newcomers' part has room for.
#[derive(Debug)]
pub(crate) struct Shares {
    /// The quantity without the newcomers' part.
    common: Arc<Semaphore>,
    /// The part of all service accounts together.
    of_service_accounts: Arc<Semaphore>,
    /// The permit of the only share that would have more than one sharer's part.
    beyond: Arc<Semaphore>,
    count: usize,
    of_one: usize,
    of_one_namespace: usize,
    newcomers: Mutex<Newcomers>,
    /// Notified of each share that is released.
    released: Notify,
    lines: Mutex<HashMap<Sharer, Weak<Line>>>,
}

/// The rest of the newcomers' part.
#[derive(Debug)]
struct Newcomers {
    all: usize,
    left: usize,
    left_for_service_accounts: usize,
}

/// The part of the quantity that one sharer may have.
#[derive(Debug)]
struct Line {
    sharer: Sharer,
    own: Arc<Semaphore>,
    /// The amount of the whole quantity that the sharer has.
    held: AtomicUsize,
    /// The turn of a share that grows step by step.
    turn: Arc<Semaphore>,
    shares: Arc<Shares>,
}

/// A share of the quantity, released when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    count: usize,
    source: Source,
    _own: Option<OwnedSemaphorePermit>,
    line: Arc<Line>,
}

/// The part of the quantity that a share is taken from.
#[derive(Debug)]
enum Source {
    Common { _common: Option<OwnedSemaphorePermit>, _of_service_accounts: Option<OwnedSemaphorePermit> },
    Newcomers,
}

/// A share that grows, up to all that one sharer may have.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    parts: Vec<Share>,
    count: usize,
    has_turn: bool,
    /// The only share of more than one sharer's part.
    beyond: Option<OwnedSemaphorePermit>,
    turn: Option<(OwnedSemaphorePermit, Arc<Line>)>,
}

impl Growing {
    /// Creates a share that grows step by step: of one sharer, one such share at a time grows, until [`Self::complete`]. Otherwise shares
    /// that wait for more could keep each other waiting for ever.
    pub(crate) fn by_turns() -> Self {
        Self { has_turn: true, ..Self::default() }
    }

    /// Ends the turn of a share that needs no more.
    pub(crate) fn complete(&mut self) {
        self.turn = None;
    }

    /// Waits until the share has `count` of the quantity. The quantity and the sharer are the same in each call.
    pub(crate) async fn grow_to(&mut self, shares: &Arc<Shares>, sharer: &Sharer, count: usize) {
        let count = count.min(shares.part_of(sharer));
        if count > self.count {
            if self.has_turn && self.turn.is_none() {
                let line = shares.line(sharer);
                // The semaphore is never closed.
                self.turn = line.turn.clone().acquire_owned().await.ok().map(|turn| (turn, line));
            }
            self.parts.push(shares.take(sharer, count - self.count).await);
            self.count = count;
        }
    }

    /// As [`Self::grow_to`]. Of the shares that would have more than all that one sharer may have, there is one at a time.
    pub(crate) async fn grow_beyond(&mut self, shares: &Arc<Shares>, sharer: &Sharer, count: usize) {
        if count > shares.part_of(sharer) && self.beyond.is_none() {
            self.beyond = shares.beyond.clone().acquire_owned().await.ok();
        }
        self.grow_to(shares, sharer, count).await;
    }

    /// Whether the share is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The part of the quantity that the share has.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Shares {
    /// Creates a quantity of `all` for all sharers together, of which one sharer gets at most half of what is not for newcomers.
    pub(crate) fn in_halves(all: usize) -> Arc<Self> {
        Self::new(all, (all - all / NEWCOMERS_PART) / 2)
    }

    /// Creates a quantity of `all` for all sharers together, of which one sharer gets at most `of_one`; both are at least 1.
    pub(crate) fn new(all: usize, of_one: usize) -> Arc<Self> {
        let all = all.clamp(1, Semaphore::MAX_PERMITS);
        // A newcomers' part of one would be of no use: a share leaves as much as the sharer has.
        let for_newcomers = if all / NEWCOMERS_PART > 1 { all / NEWCOMERS_PART } else { 0 };
        let count = all - for_newcomers;
        let of_one = of_one.clamp(1, count);
        let of_service_accounts = sharer::of_service_accounts(count);
        let newcomers = Newcomers {
            all: for_newcomers,
            left: for_newcomers,
            left_for_service_accounts: sharer::of_service_accounts(for_newcomers),
        };
        Arc::new(Self {
            common: Arc::new(Semaphore::new(count)),
            of_service_accounts: Arc::new(Semaphore::new(of_service_accounts)),
            beyond: Arc::new(Semaphore::new(1)),
            count,
            of_one,
            of_one_namespace: of_one.min(of_service_accounts),
            newcomers: Mutex::new(newcomers),
            released: Notify::new(),
            lines: Mutex::default(),
        })
    }

    /// The most that a share can be.
    pub(crate) fn longest(&self) -> usize {
        self.count
    }

    /// Waits for `count` of the quantity, or for all that one sharer may have if that is less.
    pub(crate) async fn take(self: &Arc<Self>, sharer: &Sharer, count: usize) -> Share {
        self.take_beyond(sharer, count.min(self.part_of(sharer))).await
    }

    /// Waits for `count` of the quantity, even if that is more than the sharer's part: the share is all of that part then, and takes the rest
    /// from what the others leave. With more than [`Self::longest`], it is as much as that.
    pub(crate) async fn take_beyond(self: &Arc<Self>, sharer: &Sharer, count: usize) -> Share {
        let (line, count) = (self.line(sharer), count.min(self.count));
        // No semaphore is ever closed. The narrowest comes first: who waits for it holds nothing that others could use.
        let own = line.own.clone().acquire_many_owned(permits(count, self.part_of(sharer))).await.ok();
        let source = tokio::select! {
            biased;
            common = self.take_common(&line, count) => {
                line.held.fetch_add(count, Ordering::AcqRel);
                common
            }
            newcomers = self.take_for_newcomer(&line, count) => newcomers,
        };
        Share { count, source, _own: own, line }
    }

    /// True if the sharer would exceed its part with `count` more.
    pub(crate) fn is_beyond(self: &Arc<Self>, sharer: &Sharer, count: usize) -> bool {
        self.line(sharer).held.load(Ordering::Acquire) + count > self.part_of(sharer)
    }

    async fn take_common(&self, line: &Line, count: usize) -> Source {
        let of_service_accounts = match line.sharer.is_service_accounts() {
            true => {
                let count = permits(count, sharer::of_service_accounts(self.count));
                self.of_service_accounts.clone().acquire_many_owned(count).await.ok()
            }
            false => None,
        };
        let common = self.common.clone().acquire_many_owned(permits(count, self.count)).await.ok();
        Source::Common { _common: common, _of_service_accounts: of_service_accounts }
    }

    /// Waits until the newcomers' part has `count` for this sharer.
    async fn take_for_newcomer(&self, line: &Line, count: usize) -> Source {
        if count > self.newcomers().all / 2 {
            return pending().await;
        }
        loop {
            let mut released = pin!(self.released.notified());
            released.as_mut().enable();
            if self.newcomers().take(line, count) {
                return Source::Newcomers;
            }
            released.await;
        }
    }

    /// The part that this sharer may have.
    fn part_of(&self, sharer: &Sharer) -> usize {
        if sharer.is_service_accounts() { self.of_one_namespace } else { self.of_one }
    }

    fn newcomers(&self) -> MutexGuard<'_, Newcomers> {
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Sharer, Weak<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(self: &Arc<Self>, sharer: &Sharer) -> Arc<Line> {
        let mut lines = self.lines();
        if let Some(line) = lines.get(sharer).and_then(Weak::upgrade) {
            return line;
        }
        let (own, turn) = (Arc::new(Semaphore::new(self.part_of(sharer))), Arc::new(Semaphore::new(1)));
        let line =
            Arc::new(Line { sharer: sharer.clone(), own, held: AtomicUsize::new(0), turn, shares: self.clone() });
        lines.insert(sharer.clone(), Arc::downgrade(&line));
        line
    }
}

fn permits(count: usize, most: usize) -> u32 {
    u32::try_from(count.min(most)).unwrap_or(u32::MAX)
}

impl Newcomers {
    /// Takes `count` for a sharer, if afterwards as much is left as the sharer has.
    fn take(&mut self, line: &Line, count: usize) -> bool {
        let is_service_accounts = line.sharer.is_service_accounts();
        let left = if is_service_accounts { self.left.min(self.left_for_service_accounts) } else { self.left };
        let held = line.held.load(Ordering::Acquire) + count;
        if held + count > left {
            return false;
        }
        self.left -= count;
        if is_service_accounts {
            self.left_for_service_accounts -= count;
        }
        line.held.fetch_add(count, Ordering::AcqRel);
        true
    }

    fn release(&mut self, line: &Line, count: usize) {
        self.left += count;
        if line.sharer.is_service_accounts() {
            self.left_for_service_accounts += count;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let shares = &self.line.shares;
        self.line.held.fetch_sub(self.count, Ordering::AcqRel);
        if matches!(self.source, Source::Newcomers) {
            shares.newcomers().release(&self.line, self.count);
        }
        shares.released.notify_waiters();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut lines = self.shares.lines();
        // The map may already hold a new line of the same sharer.
        if lines.get(&self.sharer).is_some_and(|line| line.strong_count() == 0) {
            lines.remove(&self.sharer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// Takes from the quantity for a user, without a wait.
    fn take(shares: &Arc<Shares>, user: &str, count: usize) -> Option<Share> {
        shares.take(&Sharer::named(user), count).now_or_never()
    }

    #[test]
    fn one_user_waits_for_its_own_part_and_others_do_not_wait_for_that_user() {
        let shares = Shares::new(13, 6);
        let first = take(&shares, "a", 4).unwrap();
        assert!(take(&shares, "a", 3).is_none());
        let other = take(&shares, "b", 6).unwrap();
        assert!(take(&shares, "c", 2).is_none());
        drop(first);
        let user = Sharer::named("a");
        let more_than_there_is = shares.take(&user, 100);
        drop(other);
        let whole = more_than_there_is.now_or_never().unwrap();
        assert!(take(&shares, "a", 1).is_none());
        drop(whole);
        assert!(shares.lines().is_empty());
        assert_eq!(shares.common.available_permits(), 10);
    }

    #[test]
    fn a_share_beyond_the_part_of_its_sharer_waits_for_others() {
        let shares = Shares::new(13, 6);
        let [user, account] = ["a", "system:serviceaccount:a:b"].map(Sharer::named);
        let other = take(&shares, "b", 1).unwrap();
        assert!(shares.take_beyond(&user, 10).now_or_never().is_none());
        let most = shares.take_beyond(&user, 9).now_or_never().unwrap();
        assert!(take(&shares, "c", 2).is_none());
        drop((most, other));
        for (sharer, count) in [(user, 100), (account, 10)] {
            let everything = shares.take_beyond(&sharer, count).now_or_never().unwrap();
            assert!(take(&shares, "c", 2).is_none());
            drop(everything);
        }
        assert!(shares.lines().is_empty());
        assert_eq!(shares.common.available_permits(), 10);
    }

    #[test]
    fn service_accounts_share_by_namespace_and_leave_a_reserve() {
        let shares = Shares::new(10, 4);
        let account = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        let mut taken: Vec<Share> =
            ["1", "2", "3", "4"].iter().filter_map(|name| take(&shares, &account("a", name), 1)).collect();
        assert_eq!(taken.len(), 4);
        assert!(take(&shares, &account("a", "5"), 1).is_none());
        taken.extend(take(&shares, &account("b", "1"), 2));
        assert_eq!(taken.len(), 5);
        let newcomer = take(&shares, &account("c", "1"), 1).unwrap();
        assert!(take(&shares, &account("d", "1"), 1).is_none(), "the reserve is for users");
        let of_user = take(&shares, "user", 2);
        assert!(of_user.is_some() && take(&shares, "other", 1).is_none());
        drop((taken, newcomer, of_user));
        assert!(shares.lines().is_empty());
        assert_eq!((shares.common.available_permits(), shares.of_service_accounts.available_permits()), (8, 6));
    }

    /// Takes ones for a user, as many as there are.
    fn take_all(shares: &Arc<Shares>, user: &str) -> Vec<Share> {
        std::iter::from_fn(|| take(shares, user, 1)).collect()
    }

    #[test]
    fn two_with_all_that_they_may_have_leave_something_to_each_further_sharer() {
        let shares = Shares::new(1024, 512);
        let names = ["a", "system:serviceaccount:n:one", "c", "d", "e", "system:serviceaccount:m:one", "f"];
        let taken = names.map(|name| take_all(&shares, name));
        assert_eq!(taken.each_ref().map(Vec::len), [512, 256, 128, 64, 32, 16, 8]);
        drop(taken);
        assert!(shares.lines().is_empty());
        assert_eq!((shares.common.available_permits(), shares.newcomers().left), (768, 256));
        assert_eq!(shares.newcomers().left_for_service_accounts, 192);
    }

    #[test]
    fn namespaces_that_a_user_makes_at_will_leave_something_to_others() {
        let shares = Shares::new(1024, 512);
        let namespaces = (0..100).map(|number| format!("system:serviceaccount:n-{number}:one"));
        let mut taken: Vec<_> = namespaces.map(|name| take_all(&shares, &name)).collect();
        taken.push(take_all(&shares, "maker"));
        assert_eq!(shares.common.available_permits(), 0);
        let others = ["a", "b"].map(|name| take_all(&shares, name).len());
        assert!(others[0] >= 1024 / 32 && others[1] >= 1024 / 64, "{others:?}");
    }

    #[test]
    fn a_sharer_that_has_much_waits_although_there_is_room_for_newcomers() {
        let shares = Shares::new(16, 8);
        let (a, c) = (Sharer::named("a"), Sharer::named("c"));
        let [of_a, of_b] = ["a", "b"].map(|name| take(&shares, name, 6).unwrap());
        let mut again = Box::pin(shares.take(&a, 1));
        assert!(again.as_mut().now_or_never().is_none());
        drop(of_b);
        let again = again.now_or_never().unwrap();
        let of_b = take(&shares, "b", 5).unwrap();
        // A newcomer that waits gets what another one leaves.
        let of_c = take(&shares, "c", 1).unwrap();
        let of_d = take(&shares, "d", 1).unwrap();
        let mut more = Box::pin(shares.take(&c, 1));
        assert!(more.as_mut().now_or_never().is_none());
        drop(of_d);
        let more = more.now_or_never().unwrap();
        drop((of_a, of_b, of_c, again, more));
        assert_eq!((shares.common.available_permits(), shares.newcomers().left), (12, 4));
    }

    #[test]
    fn a_share_grows_to_the_part_of_its_sharer_and_waits_for_others_but_not_for_itself() {
        let (shares, [a, b]) = (Shares::new(13, 6), ["a", "b"].map(Sharer::named));
        let mut growing = Growing::default();
        for (count, left) in [(0, 10), (2, 8), (1, 8), (5, 5), (100, 4), (200, 4)] {
            growing.grow_to(&shares, &a, count).now_or_never().unwrap();
            assert_eq!((shares.common.available_permits(), growing.is_empty()), (left, left == 10), "{count}");
        }
        let mut other = Growing::default();
        other.grow_to(&shares, &b, 3).now_or_never().unwrap();
        assert!(other.grow_to(&shares, &b, 6).now_or_never().is_none());
        drop(growing);
        other.grow_to(&shares, &b, 6).now_or_never().unwrap();
        drop(other);
        assert_eq!(shares.common.available_permits(), 10);
    }

    #[test]
    fn one_share_at_a_time_would_have_more_than_one_sharer_may() {
        let (shares, [a, b]) = (Shares::new(13, 5), ["a", "b"].map(Sharer::named));
        let [mut first, mut second] = [(); 2].map(|()| Growing::by_turns());
        first.grow_beyond(&shares, &a, 6).now_or_never().unwrap();
        first.grow_beyond(&shares, &a, 100).now_or_never().unwrap();
        second.grow_beyond(&shares, &b, 5).now_or_never().unwrap();
        assert!(second.grow_beyond(&shares, &b, 6).now_or_never().is_none());
        drop(first);
        second.grow_beyond(&shares, &b, 6).now_or_never().unwrap();
    }

    #[test]
    fn shares_that_grow_by_turns_do_not_wait_for_each_other() {
        let (shares, [a, b]) = (Shares::new(13, 6), ["a", "b"].map(Sharer::named));
        let [mut first, mut second, mut other] = [(); 3].map(|()| Growing::by_turns());
        first.grow_to(&shares, &a, 2).now_or_never().unwrap();
        assert!(second.grow_to(&shares, &a, 2).now_or_never().is_none());
        other.grow_to(&shares, &b, 2).now_or_never().unwrap();
        first.grow_to(&shares, &a, 4).now_or_never().unwrap();
        first.complete();
        second.grow_to(&shares, &a, 2).now_or_never().unwrap();
        assert!(second.grow_to(&shares, &a, 3).now_or_never().is_none());
        drop(first);
        second.grow_to(&shares, &a, 3).now_or_never().unwrap();
        drop((second, other));
        assert!(shares.lines().is_empty());
    }

    #[test]
    fn a_share_of_service_accounts_grows_to_the_part_without_the_reserve() {
        let (shares, accounts) = (Shares::new(10, 8), Sharer::named("system:serviceaccount:a:one"));
        let mut growing = Growing::by_turns();
        for (count, left) in [(4, 4), (100, 2), (200, 2)] {
            growing.grow_to(&shares, &accounts, count).now_or_never().unwrap();
            assert_eq!(shares.common.available_permits(), left, "{count}");
        }
        drop(growing);
        assert_eq!((shares.common.available_permits(), shares.of_service_accounts.available_permits()), (8, 6));
    }
}
