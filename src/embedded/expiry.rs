//! Deletes Events after their time (`--event-ttl`), as etcd does at the end of a lease: at once, whatever their finalizers.

use super::Server;
use super::delete;
use super::store::{EVENTS, State};
use crate::object::Object;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// The maximum number of Events that one transaction deletes.
const BATCH: usize = 64;

/// Runs the controller until the server is dropped. Must be called inside a tokio runtime.
pub(super) fn run(server: &Arc<Server>) {
    let Some(ttl) = server.store.with(|state| state.expiring().ttl()) else { return };
    let (store, gone) = (Arc::downgrade(&server.store), server.store.gone());
    tokio::spawn(async move {
        loop {
            let Some(next) = store.upgrade().map(|store| store.with(|state| state.expiring().next())) else { return };
            // The time of an Event that does not exist yet ends later than this one.
            tokio::select! {
                () = sleep_until(next.unwrap_or_else(|| Instant::now() + ttl)) => {}
                () = gone.notified() => return,
            }
            loop {
                let Some(store) = store.upgrade() else { return };
                if store.room().await.is_err() {
                    return;
                }
                if !store.with(|state| expire(state, Instant::now())) {
                    break;
                }
                // Requests of clients get their turns between the transactions.
                tokio::task::yield_now().await;
            }
        }
    });
}

/// Deletes some Events whose time is over. Returns whether there may be more.
fn expire(state: &mut State, now: Instant) -> bool {
    let over = state.expiring().over(now, BATCH);
    for key in &over {
        if let Some(last) = state.object(EVENTS, key) {
            delete::finish(state, EVENTS, key, Object::clone(&last));
        }
    }
    over.len() == BATCH
}
