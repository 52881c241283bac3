//! Members of several owners, by age, and the owner whose members are the most or the largest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The members. A number is that of one member, and grows with time. Each member has a size.
#[derive(Debug)]
pub(crate) struct Crowd<K, V> {
    count: usize,
    size: usize,
    owners: HashMap<K, Owned<V>>,
    /// The owners by the size of their members, and by the age of the oldest one.
    by_size: BTreeMap<(usize, Reverse<u64>), K>,
}

/// The members of an owner.
#[derive(Debug)]
struct Owned<V> {
    size: usize,
    by_age: BTreeMap<u64, (usize, V)>,
}

impl<K, V> Default for Crowd<K, V> {
    fn default() -> Self {
        Self { count: 0, size: 0, owners: HashMap::new(), by_size: BTreeMap::new() }
    }
}

impl<V> Default for Owned<V> {
    fn default() -> Self {
        Self { size: 0, by_age: BTreeMap::new() }
    }
}

/// The owner of most.
#[derive(Debug)]
pub(crate) struct Greediest<'a, K> {
    pub(crate) owner: &'a K,
    /// The size of its members together.
    pub(crate) size: usize,
    /// The number of its oldest member.
    pub(crate) oldest: u64,
}

impl<K: Clone + Eq + Hash, V> Crowd<K, V> {
    /// The number of members.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The size of all members together.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Adds a member, whose number is the greatest.
    pub(crate) fn insert(&mut self, number: u64, owner: &K, size: usize, member: V) {
        self.change(owner, |owned| {
            owned.by_age.insert(number, (size, member));
            owned.size += size;
        });
        (self.count, self.size) = (self.count + 1, self.size + size);
    }

    /// Changes the size of a member. Returns false if the member is gone.
    pub(crate) fn resize(&mut self, number: u64, owner: &K, size: usize) -> bool {
        let before = self.change(owner, |owned| {
            let (of_member, _) = owned.by_age.get_mut(&number)?;
            let before = std::mem::replace(of_member, size);
            owned.size = owned.size - before + size;
            Some(before)
        });
        let Some(before) = before else { return false };
        self.size = self.size - before + size;
        true
    }

    /// Removes a member; `None` if it is gone.
    pub(crate) fn remove(&mut self, number: u64, owner: &K) -> Option<V> {
        let (size, removed) = self.change(owner, |owned| {
            let removed = owned.by_age.remove(&number)?;
            owned.size -= removed.0;
            Some(removed)
        })?;
        (self.count, self.size) = (self.count - 1, self.size - size);
        Some(removed)
    }

    /// The owner of most; of several owners, the one with the oldest member.
    pub(crate) fn greediest(&self) -> Option<Greediest<'_, K>> {
        self.by_greed().next()
    }

    /// All owners, those of most first.
    pub(crate) fn by_greed(&self) -> impl Iterator<Item = Greediest<'_, K>> {
        let owners = self.by_size.iter().rev();
        owners.map(|((size, Reverse(oldest)), owner)| Greediest { owner, size: *size, oldest: *oldest })
    }

    /// The members of an owner with their numbers, the oldest first.
    pub(crate) fn of(&self, owner: &K) -> impl Iterator<Item = (u64, &V)> {
        let owned = self.owners.get(owner).into_iter();
        owned.flat_map(|owned| &owned.by_age).map(|(number, (_, member))| (*number, member))
    }

    /// Changes the members of an owner, and its place among the owners.
    fn change<T>(&mut self, owner: &K, change: impl FnOnce(&mut Owned<V>) -> T) -> T {
        let place = |owned: &Owned<V>| Some((owned.size, Reverse(*owned.by_age.first_key_value()?.0)));
        let owned = self.owners.entry(owner.clone()).or_default();
        if let Some(before) = place(owned) {
            self.by_size.remove(&before);
        }
        let changed = change(owned);
        match place(owned) {
            Some(after) => drop(self.by_size.insert(after, owner.clone())),
            None => drop(self.owners.remove(owner)),
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_most_members_comes_first_and_then_the_one_with_the_oldest() {
        let mut crowd = Crowd::default();
        for (number, owner) in [(0, "a"), (1, "b"), (2, "b"), (3, "c"), (4, "b"), (5, "c")] {
            crowd.insert(number, &owner, 1, ());
        }
        let order = |crowd: &Crowd<&str, ()>| -> Vec<(String, usize, u64)> {
            crowd.by_greed().map(|of| (of.owner.to_string(), of.size, of.oldest)).collect()
        };
        let of = |owner: &str, count, oldest| (owner.to_owned(), count, oldest);
        assert_eq!(order(&crowd), [of("b", 3, 1), of("c", 2, 3), of("a", 1, 0)]);
        assert!(crowd.remove(1, &"b").is_some() && crowd.remove(1, &"b").is_none());
        assert_eq!(order(&crowd), [of("b", 2, 2), of("c", 2, 3), of("a", 1, 0)]);
        assert!(crowd.resize(0, &"a", 5) && !crowd.resize(3, &"b", 5));
        assert_eq!((order(&crowd), crowd.size()), (vec![of("a", 5, 0), of("b", 2, 2), of("c", 2, 3)], 9));
        assert_eq!(crowd.of(&"c").map(|(number, ())| number).collect::<Vec<_>>(), [3, 5]);
        for (number, owner) in [(0, "a"), (2, "b"), (3, "c"), (4, "b"), (5, "c"), (6, "none")] {
            crowd.remove(number, &owner);
        }
        assert!(crowd.len() == 0 && crowd.size() == 0 && crowd.owners.is_empty() && crowd.by_size.is_empty());
    }
}
