//! Deletes Events after their time (`--event-ttl`), as etcd does at the end of a lease: at once, whatever their finalizers.

use crate::embedded::server::Server;
use crate::embedded::store::{EVENTS, Store, Work, Writer};
use crate::embedded::strategies::deletion;
use crate::object::Object;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// The maximum number of Events that are deleted before requests of clients get their turns.
const BATCH: usize = 64;

/// Runs the controller until the server is dropped. Must be called inside a tokio runtime.
pub(in crate::embedded) fn run(server: &Arc<Server>) {
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
                if !expire(&store, Instant::now()) {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    });
}

/// Deletes some Events whose time is over. Returns whether there may be more.
fn expire(store: &Arc<Store>, now: Instant) -> bool {
    let over = store.with(|state| state.expiring().over(now, BATCH));
    for key in &over {
        let last = |event: &Arc<Object>| Ok::<_, Infallible>(Object::clone(event));
        let _ = Work::new(store).change(EVENTS, key, last, |state, _, last| deletion::finish(state, EVENTS, key, last));
    }
    over.len() == BATCH
}
