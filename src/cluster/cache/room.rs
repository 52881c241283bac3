//! The memory for all caches of an API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory for the caches of one API server, which may be a part of the memory for the caches of several API servers.
#[derive(Debug)]
pub(crate) struct CacheRoom {
    bytes: usize,
    taken: AtomicUsize,
    of: Option<Arc<Self>>,
    /// The number of caches without room for their objects.
    full: AtomicUsize,
}

impl CacheRoom {
    /// Creates a memory of `bytes`.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, taken: AtomicUsize::new(0), of: None, full: AtomicUsize::new(0) })
    }

    /// Creates a memory without a bound, for objects that do not come from an API server.
    pub(super) fn unbounded() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// Creates the memory for one of several API servers, of at most a quarter of the memory for all.
    pub(crate) fn quarter(self: &Arc<Self>) -> Arc<Self> {
        let (taken, full) = Default::default();
        Arc::new(Self { bytes: self.bytes / 4, taken, of: Some(self.clone()), full })
    }

    /// The bytes of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a cache has no room for its objects.
    pub(in crate::cluster) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed) > 0
    }

    /// Counts a cache that has no room for its objects, or has room again.
    pub(super) fn count_full(&self, is_full: bool) {
        match is_full {
            true => self.full.fetch_add(1, Ordering::Relaxed),
            false => self.full.fetch_sub(1, Ordering::Relaxed),
        };
    }

    fn take(&self, bytes: usize) -> bool {
        let more = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.bytes);
        if self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        let has_room = self.of.as_ref().is_none_or(|all| all.take(bytes));
        if !has_room {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_room
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(all) = &self.of {
            all.give_back(bytes);
        }
    }
}

/// A part of the memory, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: Arc<CacheRoom>,
    bytes: usize,
}

impl Taken {
    pub(super) fn nothing(room: &Arc<CacheRoom>) -> Self {
        Self { room: room.clone(), bytes: 0 }
    }

    /// Takes more memory. Returns whether there is room for it.
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        let has_room = self.room.take(bytes);
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Changes the part. Returns whether there is room for it.
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        if bytes >= self.bytes {
            return self.add(bytes - self.bytes);
        }
        self.room.give_back(self.bytes - bytes);
        self.bytes = bytes;
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_api_server_has_a_quarter_and_all_together_the_whole() {
        let all = CacheRoom::new(100);
        let rooms = [(); 5].map(|()| all.quarter());
        let mut taken = rooms.each_ref().map(Taken::nothing);
        assert!(taken[0].add(25) && !taken[0].add(1) && taken[0].add(0));
        assert!(taken[1].add(25) && taken[2].add(25) && taken[3].add(20));
        assert!(!taken[4].add(6) && taken[4].add(5) && !taken[4].set(6) && taken[4].set(1));
        assert_eq!((taken[4].bytes, all.taken.load(Ordering::Relaxed)), (1, 96));
        drop(taken);
        assert!(rooms.iter().chain([&all]).all(|room| room.taken.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn a_room_counts_its_full_caches() {
        let room = CacheRoom::new(1);
        room.count_full(true);
        room.count_full(true);
        room.count_full(false);
        assert!(room.is_full());
        room.count_full(false);
        assert!(!room.is_full());
    }
}
