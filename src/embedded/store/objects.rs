//! The current objects of a collection by key, and their number in each namespace.

use super::slot::Slot;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

#[derive(Default)]
pub(super) struct Objects {
    by_key: BTreeMap<String, Stored>,
    in_namespaces: HashMap<String, usize>,
    /// The objects that iterators have passed.
    #[cfg(test)]
    visited: std::cell::Cell<usize>,
}

struct Stored {
    slot: Slot,
    bytes: usize,
}

impl Objects {
    pub(super) fn get(&self, key: &str) -> Option<&Slot> {
        self.by_key.get(key).map(|stored| &stored.slot)
    }

    /// The bytes of an object; 0 if there is none.
    pub(super) fn bytes(&self, key: &str) -> usize {
        self.by_key.get(key).map_or(0, |stored| stored.bytes)
    }

    pub(super) fn total_bytes(&self) -> usize {
        self.by_key.values().map(|stored| stored.bytes).sum()
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Slot> {
        self.by_key.get_mut(key).map(|stored| &mut stored.slot)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Slot> {
        self.by_key.values().map(|stored| &stored.slot)
    }

    pub(super) fn insert(&mut self, key: &str, slot: Slot, bytes: usize) -> Option<Slot> {
        let before = self.by_key.insert(key.to_owned(), Stored { slot, bytes });
        if let (None, Some(namespace)) = (&before, namespace(key)) {
            *self.in_namespaces.entry(namespace.to_owned()).or_default() += 1;
        }
        before.map(|stored| stored.slot)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Slot> {
        let before = self.by_key.remove(key)?;
        if let Some(namespace) = namespace(key)
            && let Some(count) = self.in_namespaces.get_mut(namespace)
        {
            *count -= 1;
            if *count == 0 {
                self.in_namespaces.remove(namespace);
            }
        }
        Some(before.slot)
    }

    /// The number of objects below a [`prefix`](super::prefix).
    pub(super) fn count(&self, prefix: &str) -> usize {
        match prefix.strip_suffix('/') {
            Some(namespace) => self.in_namespaces.get(namespace).copied().unwrap_or_default(),
            None => self.by_key.len(),
        }
    }

    /// The objects below a prefix in the keys' order, from this key on.
    pub(super) fn below(&self, prefix: &str, start: &str) -> impl Iterator<Item = (&String, &Slot)> {
        let first = prefix.max(start);
        let from = self.by_key.range::<str, _>((Bound::Included(first), Bound::Unbounded));
        let below = from.take_while(move |(key, _)| key.starts_with(prefix));
        let below = below.map(|(key, stored)| (key, &stored.slot));
        #[cfg(test)]
        let below = below.inspect(|_| self.visited.set(self.visited.get() + 1));
        below
    }

    #[cfg(test)]
    pub(super) fn visited(&self) -> usize {
        self.visited.get()
    }
}

fn namespace(key: &str) -> Option<&str> {
    key.split_once('/').map(|(namespace, _)| namespace)
}
