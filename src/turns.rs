//! The turns of writes that start over. After a conflict, the writes of one object follow each other: without turns, every success
//! would make all others start over again, and n writers would cost n² / 2 attempts.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The objects whose writes start over, with one turn each. An entry lives as long as a write has the turn or waits for it.
#[derive(Default)]
pub(crate) struct Turns {
    /// By the hash of the object's resource, namespace and name. Objects with the same hash share a turn.
    turns: Mutex<HashMap<u64, Arc<Semaphore>>>,
    hasher: RandomState,
}

impl Turns {
    /// Waits for the turn of an object until `end`. Returns `None` if another write has the turn for longer.
    pub(crate) async fn wait(&self, object: impl Hash, end: Instant) -> Option<Turn<'_>> {
        self.wait_for(self.hasher.hash_one(object), end).await
    }

    async fn wait_for(&self, key: u64, end: Instant) -> Option<Turn<'_>> {
        let turn = self.turns().entry(key).or_insert_with(|| Arc::new(Semaphore::new(1))).clone();
        let place = Place { all: self, key, turn };
        let permit = timeout_at(end, place.turn.clone().acquire_owned()).await.ok()?.ok()?;
        Some(Turn { _permit: permit, _place: place })
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<u64, Arc<Semaphore>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of one write. Dropped, it passes to the write that has waited longest.
pub(crate) struct Turn<'a> {
    // Dropped before the place, which counts the users of the semaphore.
    _permit: OwnedSemaphorePermit,
    _place: Place<'a>,
}

/// A write that has a turn or waits for it.
struct Place<'a> {
    all: &'a Turns,
    key: u64,
    turn: Arc<Semaphore>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut turns = self.all.turns();
        // The users left are the map and this place.
        if Arc::strong_count(&self.turn) == 2 {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_turn_passes_on_and_is_forgotten() {
        let turns = Turns::default();
        let soon = || Instant::now() + Duration::from_secs(1);
        let first = turns.wait_for(1, soon()).await.unwrap();
        assert!(turns.wait_for(1, soon()).await.is_none());
        assert!(turns.wait_for(2, soon()).await.is_some());
        let (second, ()) = join(turns.wait_for(1, soon()), async { drop(first) }).await;
        assert!(second.is_some());
        assert_eq!(turns.turns().len(), 1);
        drop(second);
        assert!(turns.turns().is_empty());
    }
}
