//! The places of connections. A connection that comes gets a place, and if there is none, another connection ends.
//!
//! The more a connection has shown, the later it ends for others: connections that have sent nothing end first. Among equals the oldest one
//! ends, of the address that has most of the places: an address keeps others out only if it is the only one.

use super::state::{ConnectionState, Life};
use crate::config::Limits;
use crate::crowd::Crowd;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a connection has shown so far, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client has sent nothing.
    Silent,
    /// The client has sent a byte. With TLS, the ClientHello is incomplete.
    Begun,
    /// The TLS handshake computes, or waits for the client.
    Handshake,
    /// No request has authenticated.
    Stranger,
    /// A request has authenticated.
    Known,
}

impl Stage {
    /// The stage of a connection that has just come.
    pub(super) fn first(has_spoken: bool) -> Self {
        if has_spoken { Self::Begun } else { Self::Silent }
    }
}

const STAGES: usize = 5;
/// The part of all places that connections with an authenticated request leave to others, as a divisor.
const FOR_OTHERS: usize = 4;
/// The connections that end together if the process has no file descriptor left.
const RELIEF: usize = 16;

/// A bounded number of connections in each stage, and in all stages.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    bounds: [usize; STAGES],
    all: usize,
    /// Whether an authenticated connection with an open request never ends for others.
    spares_known: bool,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    next: u64,
    stages: [Queue; STAGES],
}

/// The connections of one stage, by address.
type Queue = Crowd<Option<IpAddr>, Arc<Life>>;

/// A place in a budget, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    budget: Arc<ConnectionBudget>,
    stage: Stage,
    number: u64,
    address: Option<IpAddr>,
}

impl ConnectionBudget {
    /// Creates a budget of `bound` authenticated connections, at least one. A new one always gets a place.
    pub(crate) fn new(bound: usize) -> Arc<Self> {
        Self::of([bound.max(1); STAGES], usize::MAX, false)
    }

    /// Creates the budget of a listener with TLS.
    pub(super) fn of_listener(limits: &Limits) -> Arc<Self> {
        let known = limits.connections - limits.connections / FOR_OTHERS;
        let bounds = [
            limits.silent_connections,
            limits.handshakes,
            limits.handshakes,
            limits.unauthenticated_connections,
            known,
        ];
        Self::of(bounds, limits.connections, true)
    }

    /// Creates the budget of the health port.
    pub(super) fn of_health_port(limits: &Limits) -> Arc<Self> {
        let all = limits.health_connections;
        Self::of([limits.silent_connections, all / 4, 0, 0, 0], all, false)
    }

    fn of(bounds: [usize; STAGES], all: usize, spares_known: bool) -> Arc<Self> {
        let (bounds, all) = (bounds.map(|bound| bound.max(1)), all.max(1));
        Arc::new(Self { bounds, all, spares_known, members: Mutex::default() })
    }

    /// Takes a place. `None` if all places have authenticated connections with open requests.
    pub(super) fn enter(self: &Arc<Self>, state: &ConnectionState, stage: Stage) -> Option<Place> {
        let mut members = self.members();
        let address = state.address();
        while members.count() >= self.all {
            self.end_one(&mut members, Some(address))?;
        }
        let number = self.put(&mut members, stage, address, state.life().clone())?;
        Some(Place { budget: self.clone(), stage, number, address })
    }

    /// Ends connections, because the process has no file descriptor left for another one.
    pub(super) fn relieve(&self) {
        let mut members = self.members();
        // One of the authenticated connections is enough: their clients come back.
        for _ in 0..RELIEF {
            let (stage, _) = self.end_one(&mut members, None).unzip();
            if stage.is_none_or(|stage| stage == Stage::Known) {
                return;
            }
        }
    }

    /// Ends the connection that has shown the least, for another one from `address`, if there is one. Returns the stage and the number of the
    /// ended connection; `None` if there is none to end.
    fn end_one(&self, members: &mut Members, address: Option<Option<IpAddr>>) -> Option<(Stage, u64)> {
        let mut stages = STAGES_IN_ORDER.into_iter();
        stages.find_map(|stage| Some((stage, self.end_one_of(members, stage, Newcomer { number: None, address })?)))
    }

    fn end_one_of(&self, members: &mut Members, stage: Stage, newcomer: Newcomer) -> Option<u64> {
        let spares = self.spares_known && stage == Stage::Known;
        let queue = members.stage(stage);
        let (number, address) = first_to_end(queue, spares, newcomer)?;
        queue.remove(number, &address)?.end();
        Some(number)
    }

    /// Adds a connection to a stage, and returns its number; `None` if it has ended, because the stage has no place for it. The connection
    /// counts before another one is chosen, so that it ends one of its own address.
    fn put(&self, members: &mut Members, stage: Stage, address: Option<IpAddr>, life: Arc<Life>) -> Option<u64> {
        let bound = self.bounds.get(stage as usize).copied().unwrap_or_default();
        let number = members.next;
        members.next += 1;
        members.stage(stage).insert(number, &address, 1, life);
        let newcomer = Newcomer { number: Some(number), address: Some(address) };
        while members.stage(stage).len() > bound {
            if self.end_one_of(members, stage, newcomer).is_none() {
                members.stage(stage).remove(number, &address)?.end();
                return None;
            }
        }
        Some(number)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.members().count()
    }
}

const STAGES_IN_ORDER: [Stage; STAGES] = [Stage::Silent, Stage::Begun, Stage::Handshake, Stage::Stranger, Stage::Known];

impl Members {
    fn count(&self) -> usize {
        self.stages.iter().map(Crowd::len).sum()
    }

    fn stage(&mut self, stage: Stage) -> &mut Queue {
        let [silent, begun, handshake, stranger, known] = &mut self.stages;
        match stage {
            Stage::Silent => silent,
            Stage::Begun => begun,
            Stage::Handshake => handshake,
            Stage::Stranger => stranger,
            Stage::Known => known,
        }
    }
}

/// The connection for which another one ends.
#[derive(Clone, Copy, Debug)]
struct Newcomer {
    /// Its number, if it is in the same stage.
    number: Option<u64>,
    /// `None` if no certain connection comes.
    address: Option<Option<IpAddr>>,
}

/// Chooses the connection that ends: the oldest one without an open request of the address that has most connections; if the address has
/// more than half of all, its oldest one; else any without an open request. If there is none, the oldest one of the address. Where connections
/// with open requests are spared, one ends only for another address than the one that has more than half of all.
fn first_to_end(queue: &Queue, spares_busy: bool, newcomer: Newcomer) -> Option<(u64, Option<IpAddr>)> {
    let idle = |address: &Option<IpAddr>| {
        let mut of_address = queue.of(address);
        of_address.find(|(number, life)| Some(*number) != newcomer.number && life.is_idle()).map(|(number, _)| number)
    };
    let greediest = queue.greediest()?;
    if let Some(number) = idle(greediest.owner) {
        return Some((number, *greediest.owner));
    }
    let has_most = greediest.size * 2 > queue.len();
    let is_for_another = newcomer.address.is_some_and(|address| address != *greediest.owner);
    let may_be_busy = !spares_busy || has_most && is_for_another;
    let oldest = may_be_busy.then_some((greediest.oldest, *greediest.owner));
    if has_most && oldest.is_some() {
        return oldest;
    }
    let mut others = queue.by_greed().skip(1);
    others.find_map(|of| Some((idle(of.owner)?, *of.owner))).or(oldest)
}

impl Place {
    /// Moves the connection to a later stage. If the stage has no place, the connection ends.
    pub(super) fn advance(&mut self, stage: Stage) {
        let mut members = self.budget.members();
        // Without a life the connection has ended for another one.
        let Some(life) = members.stage(self.stage).remove(self.number, &self.address) else { return };
        if let Some(number) = self.budget.put(&mut members, stage, self.address, life) {
            (self.stage, self.number) = (stage, number);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.budget.members().stage(self.stage).remove(self.number, &self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(address: [u8; 4]) -> Arc<ConnectionState> {
        Arc::new(ConnectionState::of(address.into()))
    }

    fn ended(states: &[Arc<ConnectionState>]) -> Vec<usize> {
        (0..states.len()).filter(|at| states[*at].life().is_ended()).collect()
    }

    const ATTACKER: [u8; 4] = [10, 0, 0, 1];
    const OTHER: [u8; 4] = [10, 0, 0, 2];

    /// A listener with 8 places: 4 for silent connections, 2 for each stage until authentication.
    fn small() -> Arc<ConnectionBudget> {
        let two = Limits { handshakes: 2, unauthenticated_connections: 2, ..Limits::default() };
        ConnectionBudget::of_listener(&Limits { connections: 8, silent_connections: 4, ..two })
    }

    #[test]
    fn the_oldest_idle_connection_makes_room_and_then_the_oldest() {
        let budget = ConnectionBudget::new(3);
        let states: Vec<Arc<ConnectionState>> = (0..5).map(|_| Arc::default()).collect();
        let _busy = [states[0].begin(), states[2].begin()];
        let enter = |at: usize| budget.enter(&states[at], Stage::Known).unwrap();
        let mut places = vec![enter(0), enter(1), enter(2), enter(3)];
        assert_eq!(ended(&states), [1]);
        let _busy = states[3].begin();
        places.push(enter(4));
        assert_eq!(ended(&states), [0, 1]);
        drop(places);
        assert_eq!(budget.count(), 0);
    }

    #[test]
    fn an_address_does_not_keep_others_out() {
        let budget = small();
        let others: Vec<Arc<ConnectionState>> = (0..2).map(|_| state(OTHER)).collect();
        let attackers: Vec<Arc<ConnectionState>> = (0..100).map(|_| state(ATTACKER)).collect();
        let mut places: Vec<Place> = Vec::new();
        for state in others.iter().chain(&attackers) {
            places.push(budget.enter(state, Stage::Silent).unwrap());
        }
        assert_eq!((ended(&others), ended(&attackers).len()), (vec![], 98));
        // The others are the older ones in each stage.
        for stage in [Stage::Begun, Stage::Handshake, Stage::Stranger] {
            places[0].advance(stage);
            for place in &mut places[100..] {
                place.advance(stage);
            }
            assert!(!others[0].life().is_ended(), "{stage:?}");
        }
        drop(places);
        assert_eq!(budget.count(), 0);
    }

    #[test]
    fn connections_end_for_others_in_the_order_of_what_they_have_shown() {
        let budget = small();
        let states: Vec<Arc<ConnectionState>> = (0..8).map(|_| state(OTHER)).collect();
        let mut places: Vec<Place> =
            states.iter().take(7).map(|state| budget.enter(state, Stage::Silent).unwrap()).collect();
        assert_eq!(ended(&states), [0, 1, 2]);
        let stages = [Stage::Known, Stage::Stranger, Stage::Handshake];
        for (place, stage) in places[3..].iter_mut().zip(stages) {
            place.advance(stage);
        }
        budget.relieve();
        assert_eq!(ended(&states), [0, 1, 2, 3, 4, 5, 6]);
        // Nothing happens to a place that is lost.
        places[6].advance(Stage::Known);
        assert_eq!(budget.count(), 0);
        let last = budget.enter(&states[7], Stage::Silent);
        drop(places);
        assert!(last.is_some() && budget.count() == 1);
    }

    #[test]
    fn authenticated_connections_with_open_requests_stay_and_leave_room() {
        let budget = small();
        let states: Vec<Arc<ConnectionState>> = (0..7).map(|_| state(ATTACKER)).collect();
        let mut busy = Vec::new();
        let mut places = Vec::new();
        for state in &states {
            let mut place = budget.enter(state, Stage::Silent).unwrap();
            busy.push(state.begin());
            place.advance(Stage::Known);
            places.push(place);
        }
        // The seventh is one too many.
        assert_eq!((ended(&states), budget.count()), (vec![6], 6));
        let new = [state(OTHER), state(OTHER), state(OTHER)];
        let _silent = new.each_ref().map(|state| budget.enter(state, Stage::Silent).unwrap());
        assert_eq!((ended(&states), ended(&new)), (vec![6], vec![0]));
        drop(busy.remove(3));
        places.push(budget.enter(&states[6], Stage::Silent).unwrap());
        places[7].advance(Stage::Known);
        assert_eq!(ended(&states), [3, 6]);
    }

    #[test]
    fn an_address_with_open_requests_everywhere_leaves_room_for_another() {
        let budget = small();
        let states: Vec<Arc<ConnectionState>> = (0..6).map(|_| state(ATTACKER)).collect();
        let _busy: Vec<_> = states.iter().map(|state| state.begin()).collect();
        let mut places: Vec<Place> = Vec::new();
        for state in &states {
            let mut place = budget.enter(state, Stage::Silent).unwrap();
            place.advance(Stage::Known);
            places.push(place);
        }
        let other = state(OTHER);
        let _request = other.begin();
        let mut place = budget.enter(&other, Stage::Silent).unwrap();
        place.advance(Stage::Known);
        assert_eq!((ended(&states), other.life().is_ended()), (vec![0], false));
    }
}
