//! The changes of a cache by the list and the watch of its kind.

use super::{Cache, Listed, Objects, Projection};
use crate::cluster::decode::{Identity, Undecodable, decode};
use crate::cluster::follow::{Failure, Follower};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;

/// The writer of a cache. During a list, `listed` collects the items, and readers see the old objects.
pub(in crate::cluster) struct Following<'c, P, C> {
    cache: &'c Cache<P>,
    kind: &'c str,
    complete: C,
    listed: Listed<P>,
    undecodable: BTreeSet<Arc<str>>,
    /// The sum of [`Projection::bytes`] of `listed`.
    bytes: usize,
    /// Whether the cache became full since the list began.
    is_full: bool,
}

impl<P: Projection> Cache<P> {
    pub(in crate::cluster) fn following<'c, C: Fn(&mut P)>(
        &'c self,
        kind: &'c str,
        complete: C,
    ) -> Following<'c, P, C> {
        let (listed, undecodable) = Default::default();
        Following { cache: self, kind, complete, listed, undecodable, bytes: 0, is_full: false }
    }
}

impl<P: Projection, C: Fn(&mut P)> Following<'_, P, C> {
    /// Decodes the object. If that fails, returns the key, and logs the failure unless the key is known as undecodable.
    fn read(&self, text: &str) -> Result<(Arc<str>, Arc<P>), Arc<str>> {
        match decode::<P>(text) {
            Ok((key, mut kept)) => {
                (self.complete)(&mut kept);
                // Shares an unchanged object with the cache, so that memory does not hold it twice during a list.
                let same = self.cache.find(&key).filter(|old| **old == kept);
                Ok((key.into(), same.unwrap_or_else(|| Arc::new(kept))))
            }
            Err(why) => Err(self.note_undecodable(text, why)),
        }
    }

    fn note_undecodable(&self, text: &str, why: Undecodable) -> Arc<str> {
        let key: Arc<str> = Identity::of(text).key().into();
        self.cache.state().undecodable += 1;
        if !self.cache.read().undecodable.contains(&key) {
            let last = if self.cache.find(&key).is_some() { "its last readable state counts" } else { "it is refused" };
            tracing::warn!(kind = self.kind, key = &*key, %why, "an object of the API server cannot be decoded; {last}");
        }
        key
    }

    /// Empties the cache if the objects exceed the maximum.
    fn bound(&mut self, bytes: usize) {
        if bytes <= self.cache.most_bytes {
            return;
        }
        (self.listed, self.is_full) = (Vec::new(), true);
        self.cache.state().is_full = true;
        self.cache.change(|store| {
            store.undecodable.clear();
            store.replace(Objects::new())
        });
        // Callers check `is_full` and fail at once, because a longer wait would not help.
        self.cache.synced.send_replace(true);
    }
}

impl<P: Projection, C: Fn(&mut P)> Follower for Following<'_, P, C> {
    fn begin(&mut self) {
        (self.listed, self.undecodable, self.bytes, self.is_full) = Default::default();
    }

    fn item(&mut self, object: &str) {
        match self.read(object) {
            Ok((key, kept)) => {
                self.bytes += kept.bytes();
                self.listed.push((key, kept));
            }
            Err(key) => {
                // The last readable state of an undecodable object still counts.
                self.listed.extend(self.cache.find(&key).map(|last| (key.clone(), last)));
                self.undecodable.insert(key);
            }
        }
        self.bound(self.bytes);
    }

    fn end(&mut self) {
        let (listed, undecodable) = (std::mem::take(&mut self.listed), std::mem::take(&mut self.undecodable));
        self.cache.change(|store| {
            let are_others = std::mem::replace(&mut store.undecodable, undecodable) != store.undecodable;
            store.replace(listed.into_iter().collect()) || are_others
        });
        let mut state = self.cache.state();
        (state.is_full, state.is_absent) = (false, false);
        drop(state);
        self.cache.synced.send_replace(true);
    }

    fn applied(&mut self, object: &str) {
        match self.read(object) {
            Ok((key, kept)) => self.cache.change(|store| {
                let is_readable_now = store.undecodable.remove(&key);
                store.insert(key, kept) || is_readable_now
            }),
            Err(key) => self.cache.change(|store| store.undecodable.insert(key)),
        }
        let bytes = self.cache.read().bytes;
        self.bound(bytes);
    }

    fn deleted(&mut self, object: &str) {
        let identity = Identity::of(object);
        let key = identity.key();
        self.cache.change(|store| store.undecodable.remove(&*key) | store.remove(&key));
    }

    fn answered(&mut self) {
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
        (state.answered, state.failing_since, state.is_full) = (Some(Instant::now()), None, false);
        drop(state);
        // An empty list removes the old objects and makes the cache synced. `end` resets `is_absent`.
        self.begin();
        self.end();
        self.cache.state().is_absent = true;
        true
    }

    fn failed(&mut self, failure: &Failure) {
        let error = failure.to_string();
        tracing::warn!(kind = self.kind, error, "watch of the API server failed; trying again");
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
