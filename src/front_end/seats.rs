//! The places of reviews, of which one caller gets a part.

use crate::sharer::Sharer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of places, shared by the callers.
#[derive(Clone, Debug)]
pub struct Seats(Arc<Places>);

#[derive(Debug)]
struct Places {
    all: usize,
    of_one: usize,
    taken: Mutex<HashMap<Sharer, usize>>,
}

/// A taken place, free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    caller: Sharer,
}

impl Seats {
    /// Creates `all` places, of which one caller gets at most `of_one`, and never more than are left.
    #[must_use]
    pub fn new(all: usize, of_one: usize) -> Self {
        Self(Arc::new(Places { all, of_one, taken: Mutex::default() }))
    }

    /// Takes a place; `None` if none is left for this caller.
    pub(super) fn take(&self, caller: &Sharer) -> Option<Seat> {
        let mut taken = self.taken();
        let of_caller = taken.get(caller).copied().unwrap_or_default();
        let left = self.0.all.saturating_sub(taken.values().sum());
        if of_caller >= self.0.of_one.min(left) {
            return None;
        }
        taken.insert(caller.clone(), of_caller + 1);
        Some(Seat { seats: self.clone(), caller: caller.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Sharer, usize>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(count) = taken.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_places_to_others() {
        let seats = Seats::new(3, 2);
        let take = |name| seats.take(&Sharer::named(name));
        let of_a = [take("a"), take("a")];
        assert!(of_a.iter().all(Option::is_some) && take("a").is_none());
        let of_b = take("b");
        assert!(of_b.is_some() && take("c").is_none());
        drop(of_a);
        assert!(take("c").is_some());
        drop(of_b);
        assert!(seats.taken().is_empty());
    }

    #[test]
    fn two_callers_leave_places_to_others() {
        let seats = Seats::new(16, 12);
        let all = |name| std::iter::from_fn(|| seats.take(&Sharer::named(name))).collect::<Vec<_>>();
        let taken = ["a", "b", "c", "d"].map(all);
        assert_eq!(taken.each_ref().map(Vec::len), [8, 4, 2, 1]);
    }
}
