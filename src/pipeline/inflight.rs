//! `--max-requests-inflight` and `--max-mutating-requests-inflight`: who comes on top is told to come back.

use crate::authn::UserInfo;
use crate::request::RequestInfo;
use crate::status::Status;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// They always get an answer (`user.SystemPrivilegedGroup`).
const PRIVILEGED: &str = "system:masters";

/// Seats for requests that are neither watches nor upgrades (`filters.WithMaxInFlightLimit`). Nobody takes more of them than
/// are left to all others: a user whose requests do not end leaves room.
pub struct InFlight {
    reads: Option<Arc<Seats>>,
    writes: Option<Arc<Seats>>,
}

/// A seat, given back when it is dropped.
pub(super) struct Seat(Option<(Arc<Seats>, Arc<UserInfo>)>);

struct Seats(Mutex<Free>);

struct Free {
    left: usize,
    taken: HashMap<Name, usize>,
}

/// A user, told apart by name.
struct Name(Arc<UserInfo>);

impl InFlight {
    /// So many reads and writes at a time; 0 is any number.
    pub fn new(reads: usize, writes: usize) -> Self {
        let seats = |left: usize| (left > 0).then(|| Arc::new(Seats(Mutex::new(Free { left, taken: HashMap::new() }))));
        Self { reads: seats(reads), writes: seats(writes) }
    }

    /// Takes a seat.
    ///
    /// # Errors
    /// 429 when none is left, or no more than this user has.
    pub(super) fn enter(&self, info: &RequestInfo, user: &Arc<UserInfo>) -> Result<Seat, Status> {
        if info.is_long_running() || user.groups.iter().any(|group| group == PRIVILEGED) {
            return Ok(Seat(None));
        }
        let is_read = matches!(info.verb.as_str(), "get" | "list" | "watch" | "head" | "options");
        let Some(seats) = (if is_read { &self.reads } else { &self.writes }) else { return Ok(Seat(None)) };
        if seats.take(user) {
            return Ok(Seat(Some((seats.clone(), user.clone()))));
        }
        Err(Status::try_again_later())
    }
}

impl Seats {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the user gets one.
    fn take(&self, user: &Arc<UserInfo>) -> bool {
        let Free { left, taken } = &mut *self.free();
        match taken.get_mut(&*user.username) {
            Some(count) if *count >= *left => return false,
            Some(count) => *count += 1,
            None if *left == 0 => return false,
            None => drop(taken.insert(Name(user.clone()), 1)),
        }
        *left -= 1;
        true
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some((seats, user)) = &self.0 else { return };
        let Free { left, taken } = &mut *seats.free();
        *left += 1;
        let Some(count) = taken.get_mut(&*user.username) else { return };
        *count -= 1;
        if *count == 0 {
            taken.remove(&*user.username);
        }
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0.username
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.username == other.0.username
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.username.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(verb: &str) -> RequestInfo {
        RequestInfo { verb: verb.into(), ..RequestInfo::default() }
    }

    fn user(name: &str) -> Arc<UserInfo> {
        Arc::new(UserInfo { username: name.into(), ..UserInfo::default() })
    }

    #[test]
    fn refuses_who_comes_on_top_until_a_seat_is_free() {
        let (in_flight, [a, b]) = (InFlight::new(0, 1), ["a", "b"].map(user));
        let seat = in_flight.enter(&info("create"), &a).unwrap_or_else(|_| unreachable!());
        assert_eq!(in_flight.enter(&info("update"), &b).err().unwrap().code, 429);
        assert!(in_flight.enter(&info("get"), &b).is_ok());
        drop(seat);
        assert!(in_flight.enter(&info("update"), &b).is_ok());
    }

    #[test]
    fn lets_watches_in_without_a_seat() {
        let (in_flight, a) = (InFlight::new(1, 1), user("a"));
        let _seat = in_flight.enter(&info("list"), &a);
        assert!(in_flight.enter(&info("watch"), &a).is_ok());
    }

    #[test]
    fn nobody_takes_more_seats_than_are_left() {
        let in_flight = InFlight::new(0, 12);
        let taken_by = |name: &str| {
            let enter = || in_flight.enter(&info("create"), &user(name)).ok();
            std::iter::from_fn(enter).collect::<Vec<_>>()
        };
        let [greedy, second, third] = ["greedy", "second", "third"].map(taken_by);
        assert_eq!([greedy.len(), second.len(), third.len()], [6, 3, 2]);
        drop(greedy);
        assert_eq!(taken_by("greedy").len(), 4);
        drop((second, third));
        assert_eq!(taken_by("greedy").len(), 6);
        let free = in_flight.writes.as_ref().unwrap().free();
        assert!(free.left == 12 && free.taken.is_empty());
    }

    #[test]
    fn masters_always_get_an_answer() {
        let in_flight = InFlight::new(0, 1);
        let _seat = in_flight.enter(&info("create"), &user("a"));
        let masters = UserInfo { username: "admin".into(), groups: vec![PRIVILEGED.into()], ..UserInfo::default() };
        assert!(in_flight.enter(&info("create"), &Arc::new(masters)).is_ok());
    }
}
