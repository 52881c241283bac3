//! The changes of a cache by the list and the watch of its kind.

use super::{Cache, Keys, Listed, Measured, OBJECT_BYTES, Projection, Taken};
use crate::cluster::decode::{Identity, Undecodable, decode_measured};
use crate::cluster::follow::{Failure, Follower};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The writer of a cache. During a list, `listed` collects the items, and readers see the old objects.
pub(in crate::cluster) struct Following<'c, P, C> {
    cache: &'c Cache<P>,
    kind: &'c str,
    complete: C,
    listed: Listed<P>,
    undecodable: Keys,
    /// The estimated size of `listed` and `undecodable`.
    bytes: usize,
    /// The room for the items that the cache does not hold yet.
    taken: Taken,
    /// Whether the cache became full since the list began.
    is_full: bool,
    /// The error that the log has, until the API server answers.
    told: Option<String>,
}

impl<P: Projection> Cache<P> {
    pub(in crate::cluster) fn following<'c, C: Fn(&mut P)>(
        &'c self,
        kind: &'c str,
        complete: C,
    ) -> Following<'c, P, C> {
        let (listed, undecodable) = Default::default();
        let taken = Taken::nothing(&self.room);
        Following { cache: self, kind, complete, listed, undecodable, bytes: 0, taken, is_full: false, told: None }
    }
}

impl<P: Projection, C: Fn(&mut P)> Following<'_, P, C> {
    /// Decodes the object. If that fails, returns the key, and logs the failure unless the key is known as undecodable.
    fn read(&self, text: &str) -> Result<(Arc<str>, Measured<P>), Arc<str>> {
        match decode_measured::<P>(text) {
            Ok((key, mut kept, text)) => {
                (self.complete)(&mut kept);
                let bytes = kept.bytes(text).saturating_add(OBJECT_BYTES);
                // Shares an unchanged object with the cache, so that memory does not hold it twice during a list.
                let same = self.cache.find(&key).filter(|old| **old == kept);
                Ok((key.into(), Measured { object: same.unwrap_or_else(|| Arc::new(kept)), bytes }))
            }
            Err(why) => Err(self.note_undecodable(text, why)),
        }
    }

    fn note_undecodable(&self, text: &str, why: Undecodable) -> Arc<str> {
        let key: Arc<str> = Identity::of(text).key().into();
        self.cache.state().undecodable += 1;
        if !self.cache.read().undecodable.all.contains(&key) {
            let last = if self.cache.find(&key).is_some() { "its last readable state counts" } else { "it is refused" };
            tracing::warn!(kind = self.kind, key = &*key, %why, "an object of the API server cannot be decoded; {last}");
        }
        key
    }

    /// Empties the cache, because there is no room for the objects.
    fn fill(&mut self) {
        (self.listed, self.undecodable, self.is_full) = (Vec::new(), Keys::default(), true);
        self.taken = Taken::nothing(&self.cache.room);
        let is_new = !std::mem::replace(&mut self.cache.state().is_full, true);
        self.cache.change(|store| {
            store.undecodable = Keys::default();
            store.taken = Taken::nothing(&self.cache.room);
            store.replace(BTreeMap::new())
        });
        if is_new {
            if !self.cache.has_own_bound() {
                self.cache.room.count_full(true);
            }
            tracing::error!(
                kind = self.kind,
                bound_bytes = self.cache.most_bytes.min(self.cache.room.bytes()),
                "the API server has more objects than the proxy may cache: requests that need them are refused; give the proxy more \
                 memory (--memory-limit), or delete objects",
            );
        }
        // Readers of a cache with a bound of its own check `is_full` and fail at once, because a longer wait would not help.
        self.cache.synced.send_replace(self.cache.has_own_bound());
    }
}

impl<P: Projection, C: Fn(&mut P)> Follower for Following<'_, P, C> {
    fn begin(&mut self) {
        (self.listed, self.undecodable, self.bytes, self.is_full) = Default::default();
        self.taken = Taken::nothing(&self.cache.room);
    }

    fn item(&mut self, object: &str) {
        if self.is_full {
            return;
        }
        // An item that the cache holds already takes only the memory of a reference to it.
        let fresh = match self.read(object) {
            Ok((key, kept)) => {
                let is_new = Arc::strong_count(&kept.object) == 1;
                let fresh = if is_new { kept.bytes } else { OBJECT_BYTES + key.len() };
                self.bytes += kept.bytes;
                self.listed.push((key, kept));
                fresh
            }
            Err(key) => {
                // The last readable state of an undecodable object still counts.
                let last = self.cache.read().by_key.get(&key).cloned();
                let fresh = 2 * (OBJECT_BYTES + key.len());
                self.bytes += last.as_ref().map_or(0, |last| last.bytes);
                self.listed.extend(last.map(|last| (key.clone(), last)));
                self.undecodable.insert(key);
                fresh
            }
        };
        if self.bytes > self.cache.most_bytes || !self.taken.add(fresh) {
            self.fill();
        }
    }

    fn end(&mut self) {
        let (listed, undecodable) = (std::mem::take(&mut self.listed), std::mem::take(&mut self.undecodable));
        self.taken = Taken::nothing(&self.cache.room);
        let mut has_room = true;
        self.cache.change(|store| {
            let are_others = std::mem::replace(&mut store.undecodable, undecodable).all != store.undecodable.all;
            let changed = store.replace(listed.into_iter().collect());
            has_room = store.take_room();
            changed || are_others
        });
        if !has_room {
            return self.fill();
        }
        let mut state = self.cache.state();
        if std::mem::take(&mut state.is_full) && !self.cache.has_own_bound() {
            self.cache.room.count_full(false);
        }
        state.is_absent = false;
        drop(state);
        self.cache.synced.send_replace(true);
    }

    fn applied(&mut self, object: &str) {
        let mut has_room = true;
        let read = self.read(object);
        self.cache.change(|store| {
            let changed = match read {
                Ok((key, kept)) => {
                    let is_readable_now = store.undecodable.remove(&key);
                    store.insert(key, kept) || is_readable_now
                }
                Err(key) => store.undecodable.insert(key),
            };
            has_room = store.take_room() && store.bytes <= self.cache.most_bytes;
            changed
        });
        if !has_room {
            self.fill();
        }
    }

    fn deleted(&mut self, object: &str) {
        let identity = Identity::of(object);
        let key = identity.key();
        self.cache.change(|store| {
            let changed = store.undecodable.remove(&key) | store.remove(&key);
            store.take_room();
            changed
        });
    }

    fn answered(&mut self) {
        self.told = None;
        let mut state = self.cache.state();
        (state.answered, state.failing_since, state.is_absent) = (Some(Instant::now()), None, false);
    }

    fn absent(&mut self) -> bool {
        let mut state = self.cache.state();
        if !std::mem::replace(&mut state.is_absent, true) {
            tracing::info!(
                kind = self.kind,
                "the API server does not have the resource; the proxy asks for it again later"
            );
        }
        (state.answered, state.failing_since) = (Some(Instant::now()), None);
        drop(state);
        // An empty list removes the old objects and makes the cache synced. `end` resets `is_absent`.
        self.begin();
        self.end();
        self.cache.state().is_absent = true;
        true
    }

    fn failed(&mut self, failure: &Failure) {
        let error = failure.to_string();
        // An error that stays is told once.
        if failure.is_unanswered() || self.told.as_ref() == Some(&error) {
            tracing::debug!(kind = self.kind, error, "watch of the API server failed; trying again");
        } else {
            tracing::warn!(kind = self.kind, error, "watch of the API server failed; trying again");
            self.told = Some(error.clone());
        }
        let mut state = self.cache.state();
        state.last_error = Some(error);
        if P::MAY_BE_REFUSED && matches!(failure.code(), Some(401 | 403)) {
            drop(state);
            // Plugins look the objects up at the API server, so readiness must not wait for the cache.
            self.cache.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        } else {
            state.failing_since.get_or_insert_with(Instant::now);
        }
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}
