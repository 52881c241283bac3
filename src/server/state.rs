//! The state of a client's connection: open requests, authentication, and end; and budgets of connections.

use super::heads::Counted;
use crate::body::Held;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct ConnectionState {
    requests: Mutex<Requests>,
    authenticated: AtomicBool,
    /// The place in the budget of unauthenticated connections; empty after the connection has authenticated.
    place: Mutex<Option<Place>>,
    /// The place among the connections of a tenant.
    place_of_tenant: OnceLock<Place>,
    closing: CancellationToken,
    ended: CancellationToken,
    /// The head that the client has begun, if it is long.
    head: Mutex<Option<Counted>>,
    /// Whether the connection has left HTTP.
    upgraded: AtomicBool,
    reviews: OnceLock<Semaphore>,
    /// A hash of the first credentials that were reviewed and rejected.
    rejected: OnceLock<[u8; 32]>,
}

#[derive(Debug)]
struct Requests {
    open: usize,
    /// The number of requests so far.
    begun: u64,
    idle_since: Instant,
    /// The time from which a new request ends the connection.
    last_at: Option<Instant>,
}

impl Default for Requests {
    fn default() -> Self {
        Self { open: 0, begun: 0, idle_since: Instant::now(), last_at: None }
    }
}

impl ConnectionState {
    /// Records that a request of the connection has authenticated, which frees the place in the budget of unauthenticated connections.
    pub fn authenticated(&self) {
        if !self.authenticated.swap(true, Ordering::AcqRel) {
            drop(self.place().take());
        }
    }

    /// Takes a place among the connections of a tenant, unless the connection has a place: a connection counts for the tenant of its first
    /// request.
    pub fn join(self: &Arc<Self>, connections: &Arc<ConnectionBudget>) {
        self.place_of_tenant.get_or_init(|| connections.enter(self));
    }

    /// Whether a request of the connection has authenticated.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Acquire)
    }

    /// Closes the connection after its open requests: GOAWAY over HTTP/2, `Connection: close` over HTTP/1.1.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Returns the places for reviews of the connection's credentials, `bound` at a time. The first call sets the bound.
    pub fn reviews(&self, bound: usize) -> &Semaphore {
        self.reviews.get_or_init(|| Semaphore::new(bound))
    }

    /// Records that credentials with this hash were reviewed and rejected. Of several hashes, the first counts.
    pub fn reject(&self, hash: [u8; 32]) {
        let _ = self.rejected.set(hash);
    }

    /// Whether [`reject`](Self::reject) recorded this hash.
    pub fn has_rejected(&self, hash: &[u8; 32]) -> bool {
        self.rejected.get() == Some(hash)
    }

    pub(super) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Ends the connection at once.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Keeps the place until the connection authenticates.
    pub(super) fn hold(&self, place: Place) {
        *self.place() = Some(place);
    }

    /// Lets requests begin until this time; a later one ends the connection, since its client has ignored the GOAWAY or not read it.
    pub(super) fn take_requests_until(&self, last_at: Instant) {
        self.requests().last_at = Some(last_at);
    }

    /// Counts a request until the guard is dropped; `None` if the connection ends instead.
    pub(super) fn begin(self: &Arc<Self>) -> Option<OpenRequest> {
        let mut requests = self.requests();
        if requests.last_at.is_some_and(|last_at| last_at <= Instant::now()) {
            self.end();
            return None;
        }
        requests.open += 1;
        requests.begun += 1;
        drop(requests);
        drop(self.head().take());
        Some(OpenRequest(Arc::clone(self)))
    }

    /// Records that the connection has left HTTP.
    pub(super) fn upgrade(&self) {
        self.upgraded.store(true, Ordering::Release);
    }

    /// Returns the number of requests so far, if the next bytes of an HTTP/1.1 connection are those of a head.
    pub(super) fn awaits_head(&self) -> Option<u64> {
        let requests = self.requests();
        (requests.open == 0 && !self.upgraded.load(Ordering::Acquire)).then_some(requests.begun)
    }

    /// The head that the client has begun, if it is long.
    pub(super) fn head(&self) -> MutexGuard<'_, Option<Counted>> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when no request has been open for `timeout`, counted from the call at the earliest.
    pub(super) async fn idle_for(&self, timeout: Duration) {
        let mut earliest = Instant::now() + timeout;
        loop {
            tokio::time::sleep_until(earliest).await;
            let now = Instant::now();
            earliest = {
                let requests = self.requests();
                if requests.open > 0 { now + timeout } else { requests.idle_since + timeout }
            };
            if earliest <= now {
                return;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.requests().open == 0
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is open: from its head to the end of its response.
pub(super) struct OpenRequest(Arc<ConnectionState>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut requests = self.0.requests();
        requests.open -= 1;
        if requests.open == 0 {
            requests.idle_since = Instant::now();
        }
    }
}

/// The body of a response; the request counts as open until the body is dropped.
pub(super) type OpenBody = Held<Option<OpenRequest>>;

/// A bounded number of connections. A new connection always gets a place: if none is free, another connection ends, so that
/// clients that only connect cannot keep others out for long.
#[derive(Debug)]
pub struct ConnectionBudget {
    bound: usize,
    members: Mutex<Members>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Members {
    next: u64,
    by_age: BTreeMap<u64, Member>,
}

#[derive(Debug)]
struct Member {
    since: Instant,
    state: Weak<ConnectionState>,
}

/// A place in a budget, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    budget: Arc<ConnectionBudget>,
    number: u64,
}

impl ConnectionBudget {
    /// Creates a budget of `bound` connections, at least one.
    pub fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self { bound: bound.max(1), members: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place. If none is free, the oldest connection without an open request ends, or else the oldest one.
    pub(super) fn enter(self: &Arc<Self>, state: &Arc<ConnectionState>) -> Place {
        let mut members = self.members();
        while members.by_age.len() >= self.bound {
            let idle =
                members.by_age.iter().find(|(_, member)| member.state.upgrade().is_none_or(|state| state.is_idle()));
            let Some(number) = idle.or_else(|| members.by_age.first_key_value()).map(|(number, _)| *number) else {
                break;
            };
            members.end(number);
        }
        let number = members.next;
        members.next += 1;
        members.by_age.insert(number, Member { since: Instant::now(), state: Arc::downgrade(state) });
        Place { budget: Arc::clone(self), number }
    }

    /// Resolves when a place is free. A connection that has held its place for `patience` ends to free it.
    pub(super) async fn room(&self, patience: Duration) {
        loop {
            let oldest = {
                let mut members = self.members();
                let oldest = members.by_age.first_key_value().map(|(number, member)| (*number, member.since));
                let Some((number, since)) = oldest.filter(|_| members.by_age.len() >= self.bound) else { return };
                if since.elapsed() >= patience {
                    return members.end(number);
                }
                since
            };
            // A freed place and an elapsed timeout are both reasons to check again.
            let _ = tokio::time::timeout_at(oldest + patience, self.freed.notified()).await;
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn end(&mut self, number: u64) {
        let member = self.by_age.remove(&number);
        if let Some(state) = member.and_then(|member| member.state.upgrade()) {
            state.end();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.budget.members().by_age.remove(&self.number).is_some() {
            self.budget.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const SECOND: Duration = Duration::from_secs(1);

    fn is_ended(state: &ConnectionState) -> bool {
        state.ended.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_while_no_request_is_open() {
        let state = Arc::new(ConnectionState::default());
        let begun = Instant::now();
        let request = state.begin();
        let idle = state.idle_for(90 * SECOND);
        tokio::pin!(idle);
        assert!(tokio::time::timeout(1000 * SECOND, idle.as_mut()).await.is_err());
        drop(request);
        idle.await;
        assert_eq!(begun.elapsed(), 1090 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_counts_from_the_last_request() {
        let state = Arc::new(ConnectionState::default());
        let begun = Instant::now();
        let asking = async {
            for _ in 0..10 {
                tokio::time::sleep(60 * SECOND).await;
                drop(state.begin());
            }
        };
        tokio::join!(asking, state.idle_for(90 * SECOND));
        assert_eq!(begun.elapsed(), 690 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_after_the_last_one_ends_the_connection() {
        let state = Arc::new(ConnectionState::default());
        state.take_requests_until(Instant::now() + SECOND);
        assert!(state.begin().is_some() && !is_ended(&state));
        tokio::time::advance(SECOND).await;
        assert!(state.begin().is_none() && is_ended(&state));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_idle_connection_makes_room_and_then_the_oldest() {
        let budget = ConnectionBudget::new(3);
        let states: Vec<Arc<ConnectionState>> = (0..5).map(|_| Arc::default()).collect();
        let _busy = [states[0].begin(), states[2].begin()];
        let mut places: Vec<Place> = states[..3].iter().map(|state| budget.enter(state)).collect();
        places.push(budget.enter(&states[3]));
        assert_eq!(states.iter().map(|state| is_ended(state)).collect::<Vec<_>>(), [false, true, false, false, false]);
        let _busy = states[3].begin();
        places.push(budget.enter(&states[4]));
        assert_eq!(states.iter().map(|state| is_ended(state)).collect::<Vec<_>>(), [true, true, false, false, false]);
        drop(places);
        assert!(budget.members().by_age.is_empty());
    }

    #[test]
    fn a_connection_counts_for_its_first_tenant_until_it_is_gone() {
        let (blue, green) = (ConnectionBudget::new(1), ConnectionBudget::new(1));
        let [first, second] = [(); 2].map(|()| Arc::new(ConnectionState::default()));
        first.join(&blue);
        first.join(&green);
        assert_eq!([blue.members().by_age.len(), green.members().by_age.len()], [1, 0]);
        second.join(&blue);
        assert!(is_ended(&first) && !is_ended(&second));
        drop((first, second));
        assert!(blue.members().by_age.is_empty());
    }

    #[test]
    fn a_connection_that_authenticates_leaves_the_budget() {
        let budget = ConnectionBudget::new(1);
        let [first, second] = [(); 2].map(|()| Arc::new(ConnectionState::default()));
        first.hold(budget.enter(&first));
        first.authenticated();
        second.hold(budget.enter(&second));
        assert!(first.is_authenticated() && !is_ended(&first));
        drop(second);
        assert!(budget.members().by_age.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_waited_for_and_then_made() {
        let budget = ConnectionBudget::new(2);
        let [first, second] = [(); 2].map(|()| Arc::new(ConnectionState::default()));
        let place = budget.enter(&first);
        assert!(budget.room(SECOND).now_or_never().is_some());
        let _second = budget.enter(&second);
        let waiting = budget.room(SECOND);
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(place);
        assert!(waiting.now_or_never().is_some() && !is_ended(&first));
        let third = Arc::new(ConnectionState::default());
        tokio::time::advance(SECOND / 2).await;
        let _third = budget.enter(&third);
        budget.room(SECOND).await;
        assert!(is_ended(&second) && !is_ended(&third));
    }
}
