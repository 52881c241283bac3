//! Members of several owners, by age, and the owner that has most of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The members. A number is that of one member, and grows with time.
#[derive(Debug)]
pub struct Crowd<K, V> {
    count: usize,
    /// The members of each owner by age.
    owners: HashMap<K, BTreeMap<u64, V>>,
    /// The owners by the number of their members, and by the age of the oldest one.
    by_size: BTreeMap<(usize, Reverse<u64>), K>,
}

impl<K, V> Default for Crowd<K, V> {
    fn default() -> Self {
        Self { count: 0, owners: HashMap::new(), by_size: BTreeMap::new() }
    }
}

/// The owner of most members.
#[derive(Debug)]
pub struct Greediest<'a, K> {
    /// The owner.
    pub owner: &'a K,
    /// The number of its members.
    pub count: usize,
    /// The number of its oldest member.
    pub oldest: u64,
}

impl<K: Clone + Eq + Hash, V> Crowd<K, V> {
    /// The number of members.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a member, whose number is the greatest.
    pub fn insert(&mut self, number: u64, owner: &K, member: V) {
        self.change(owner, |members| members.insert(number, member));
        self.count += 1;
    }

    /// Removes a member; `None` if it is gone.
    pub fn remove(&mut self, number: u64, owner: &K) -> Option<V> {
        let removed = self.change(owner, |members| members.remove(&number))?;
        self.count -= 1;
        Some(removed)
    }

    /// The owner of most members; of several owners, the one with the oldest member.
    pub fn greediest(&self) -> Option<Greediest<'_, K>> {
        self.by_greed().next()
    }

    /// All owners, those of most members first.
    pub fn by_greed(&self) -> impl Iterator<Item = Greediest<'_, K>> {
        let owners = self.by_size.iter().rev();
        owners.map(|((count, Reverse(oldest)), owner)| Greediest { owner, count: *count, oldest: *oldest })
    }

    /// The members of an owner with their numbers, the oldest first.
    pub fn of(&self, owner: &K) -> impl Iterator<Item = (u64, &V)> {
        self.owners.get(owner).into_iter().flatten().map(|(number, member)| (*number, member))
    }

    /// Changes the members of an owner, and its place among the owners.
    fn change<T>(&mut self, owner: &K, change: impl FnOnce(&mut BTreeMap<u64, V>) -> T) -> T {
        let place = |members: &BTreeMap<u64, V>| Some((members.len(), Reverse(*members.first_key_value()?.0)));
        let members = self.owners.entry(owner.clone()).or_default();
        if let Some(before) = place(members) {
            self.by_size.remove(&before);
        }
        let changed = change(members);
        match place(members) {
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
            crowd.insert(number, &owner, ());
        }
        let order = |crowd: &Crowd<&str, ()>| -> Vec<(String, usize, u64)> {
            crowd.by_greed().map(|of| (of.owner.to_string(), of.count, of.oldest)).collect()
        };
        let of = |owner: &str, count, oldest| (owner.to_owned(), count, oldest);
        assert_eq!(order(&crowd), [of("b", 3, 1), of("c", 2, 3), of("a", 1, 0)]);
        assert!(crowd.remove(1, &"b").is_some() && crowd.remove(1, &"b").is_none());
        assert_eq!(order(&crowd), [of("b", 2, 2), of("c", 2, 3), of("a", 1, 0)]);
        assert_eq!(crowd.of(&"c").map(|(number, ())| number).collect::<Vec<_>>(), [3, 5]);
        for (number, owner) in [(0, "a"), (2, "b"), (3, "c"), (4, "b"), (5, "c"), (6, "none")] {
            crowd.remove(number, &owner);
        }
        assert!(crowd.is_empty() && crowd.owners.is_empty() && crowd.by_size.is_empty());
    }
}
