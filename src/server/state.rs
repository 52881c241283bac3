//! The state of a client's connection: open requests, authentication, and end.

use super::budget::{ConnectionBudget, Place, Stage};
use super::heads::Counted;
use crate::body::Held;
use crate::sharer;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct ConnectionState {
    life: Arc<Life>,
    /// The client's address, as it counts among others.
    address: Option<IpAddr>,
    authenticated: AtomicBool,
    /// The place among the connections of the listener; empty after the connection has left them.
    place: Mutex<Option<Place>>,
    /// The place among the connections of a tenant.
    place_of_tenant: OnceLock<Option<Place>>,
    closing: CancellationToken,
    /// The head that the client has begun, if it is long.
    head: Mutex<Option<Counted>>,
    /// Whether the connection has left HTTP.
    upgraded: AtomicBool,
    reviews: OnceLock<Semaphore>,
    /// A hash of the first credentials that were reviewed and rejected.
    rejected: OnceLock<[u8; 32]>,
}

/// The part of the state by which a budget chooses connections and ends them.
#[derive(Debug, Default)]
pub(super) struct Life {
    requests: Mutex<Requests>,
    ended: CancellationToken,
}

impl Life {
    /// Ends the connection at once.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Whether no request is open.
    pub(super) fn is_idle(&self) -> bool {
        self.requests().open == 0
    }

    #[cfg(test)]
    pub(super) fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// Creates the state of a connection from this address.
    pub(super) fn of(address: IpAddr) -> Self {
        Self { address: Some(sharer::whole(address)), ..Self::default() }
    }

    /// Records that a request of the connection has authenticated: the connection no longer ends for strangers.
    pub(crate) fn authenticated(&self) {
        if !self.authenticated.swap(true, Ordering::AcqRel) {
            self.advance(Stage::Known);
        }
    }

    /// Takes a place among the connections of a tenant, unless the connection has a place: a connection counts for the tenant of its first
    /// request.
    pub(crate) fn join(self: &Arc<Self>, connections: &Arc<ConnectionBudget>) {
        self.place_of_tenant.get_or_init(|| connections.enter(self, Stage::Known));
    }

    /// Whether a request of the connection has authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Acquire)
    }

    /// Closes the connection after its open requests: GOAWAY over HTTP/2, `Connection: close` over HTTP/1.1.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Whether [`close`](Self::close) was called.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Returns the places for reviews of the connection's credentials, `bound` at a time. The first call sets the bound.
    pub(crate) fn reviews(&self, bound: usize) -> &Semaphore {
        self.reviews.get_or_init(|| Semaphore::new(bound))
    }

    /// Records that credentials with this hash were reviewed and rejected. Of several hashes, the first counts.
    pub(crate) fn reject(&self, hash: [u8; 32]) {
        let _ = self.rejected.set(hash);
    }

    /// Whether [`reject`](Self::reject) recorded this hash.
    pub(crate) fn has_rejected(&self, hash: &[u8; 32]) -> bool {
        self.rejected.get() == Some(hash)
    }

    pub(super) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Ends the connection at once, whatever its requests.
    pub(crate) fn end(&self) {
        self.life.end();
    }

    /// True after a call of [`end`](Self::end).
    #[cfg(test)]
    pub(crate) fn is_ended(&self) -> bool {
        self.life.is_ended()
    }

    pub(super) async fn ended(&self) {
        self.life.ended.cancelled().await;
    }

    /// Keeps the place until the connection leaves.
    pub(super) fn hold(&self, place: Place) {
        *self.place() = Some(place);
    }

    /// Moves the connection to a later stage among those of its listener.
    pub(super) fn advance(&self, stage: Stage) {
        if let Some(place) = &mut *self.place() {
            place.advance(stage);
        }
    }

    /// Frees the place.
    pub(super) fn leave(&self) {
        drop(self.place().take());
    }

    /// The client's address, as it counts among others; `None` if it is unknown.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    pub(super) fn life(&self) -> &Arc<Life> {
        &self.life
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

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.life.requests()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;

    const SECOND: Duration = Duration::from_secs(1);

    fn is_ended(state: &ConnectionState) -> bool {
        state.life.is_ended()
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

    #[test]
    fn a_connection_counts_for_its_first_tenant_until_it_is_gone() {
        let (blue, green) = (ConnectionBudget::new(1), ConnectionBudget::new(1));
        let [first, second] = [(); 2].map(|()| Arc::new(ConnectionState::default()));
        first.join(&blue);
        first.join(&green);
        assert_eq!([blue.count(), green.count()], [1, 0]);
        second.join(&blue);
        assert!(is_ended(&first) && !is_ended(&second));
        drop((first, second));
        assert_eq!(blue.count(), 0);
    }

    #[test]
    fn a_connection_that_authenticates_stays_when_strangers_come() {
        let limits = Limits { unauthenticated_connections: 1, ..Limits::default() };
        let budget = ConnectionBudget::of_listener(&limits);
        let states = [(); 3].map(|()| Arc::new(ConnectionState::default()));
        for state in &states {
            state.hold(budget.enter(state, Stage::Silent).unwrap());
            state.advance(Stage::Stranger);
            if Arc::ptr_eq(state, &states[0]) {
                state.authenticated();
            }
        }
        assert!(states[0].is_authenticated());
        assert_eq!(states.each_ref().map(|state| is_ended(state)), [false, true, false]);
        states[0].leave();
        assert_eq!(budget.count(), 1);
        drop(states);
        assert_eq!(budget.count(), 0);
    }
}
