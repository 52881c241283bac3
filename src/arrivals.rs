//! A bounded memory for bodies that arrive. A body always gets memory: if there is none, another body is given up, the oldest one of the
//! sharer with most bytes. A client that sends slowly, under however many names, keeps nobody out.

use crate::body::Buffer;
use crate::crowd::Crowd;
use crate::sharer::{self, Sharer};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio_util::sync::CancellationToken;

/// The memory, which clones share.
#[derive(Clone, Debug)]
pub struct Arrivals(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    all: usize,
    /// The memory of a body of which nothing has arrived.
    least: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    of_service_accounts: Crowd<Sharer, Arc<Place>>,
    of_others: Crowd<Sharer, Arc<Place>>,
}

/// The part of an arriving body that the other bodies reach, to give it up.
#[derive(Debug, Default)]
struct Place {
    given_up: CancellationToken,
    buffer: OnceLock<Arc<Buffer>>,
}

/// The memory of a body, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Arrival {
    arrivals: Arrivals,
    number: u64,
    sharer: Sharer,
    place: Arc<Place>,
}

impl Arrivals {
    /// Creates a memory of `all` bytes, of which a body has at least `least`; there is room for one body.
    pub fn new(all: usize, least: usize) -> Self {
        let least = least.max(1);
        Self(Arc::new(Memory { all: all.max(least), least, taken: Mutex::default() }))
    }

    /// Takes the memory for a new body.
    pub(crate) fn enter(&self, sharer: Sharer) -> Arrival {
        let (mut taken, place) = (self.taken(), Arc::<Place>::default());
        let number = taken.next;
        taken.next += 1;
        taken.crowd(&sharer).insert(number, &sharer, self.0.least, place.clone());
        self.make_room(&mut taken);
        drop(taken);
        Arrival { arrivals: self.clone(), number, sharer, place }
    }

    /// Gives up bodies until there is room.
    fn make_room(&self, taken: &mut Taken) {
        while taken.of_service_accounts.size() > sharer::of_service_accounts(self.0.all)
            && taken.of_service_accounts.len() > 1
        {
            give_up(&mut taken.of_service_accounts);
        }
        let most = |crowd: &Crowd<Sharer, Arc<Place>>| crowd.greediest().map(|greediest| greediest.size);
        while taken.of_service_accounts.size() + taken.of_others.size() > self.0.all {
            match most(&taken.of_service_accounts) > most(&taken.of_others) {
                true => give_up(&mut taken.of_service_accounts),
                false => give_up(&mut taken.of_others),
            }
        }
    }

    /// The number of bodies that arrive.
    pub fn count(&self) -> usize {
        let taken = self.taken();
        taken.of_service_accounts.len() + taken.of_others.len()
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn crowd(&mut self, sharer: &Sharer) -> &mut Crowd<Sharer, Arc<Place>> {
        if sharer.is_service_accounts() { &mut self.of_service_accounts } else { &mut self.of_others }
    }
}

/// Gives up the oldest body of the sharer that has most.
fn give_up(crowd: &mut Crowd<Sharer, Arc<Place>>) {
    let Some((number, sharer)) = crowd.greediest().map(|of| (of.oldest, of.owner.clone())) else { return };
    if let Some(place) = crowd.remove(number, &sharer) {
        place.given_up.cancel();
        place.buffer.get().inspect(|buffer| buffer.clear());
    }
}

impl Arrival {
    /// The sharer of the body.
    pub(crate) fn sharer(&self) -> &Sharer {
        &self.sharer
    }

    /// Has the data in the buffer freed when the body is given up. A body has one buffer.
    pub(crate) fn keep_in(&self, buffer: &Arc<Buffer>) {
        let _one = self.place.buffer.set(buffer.clone());
    }

    /// Records the memory that the body takes by now. A body counts as half of all memory at most: the longest one can arrive beside others.
    pub(crate) fn grow(&self, bytes: usize) {
        let Memory { all, least, .. } = *self.arrivals.0;
        let size = bytes.min(all / 2);
        if size <= least {
            return;
        }
        let mut taken = self.arrivals.taken();
        if taken.crowd(&self.sharer).resize(self.number, &self.sharer, size) {
            self.arrivals.make_room(&mut taken);
        }
    }

    /// True once the body is given up for another one.
    pub(crate) fn is_given_up(&self) -> bool {
        self.place.given_up.is_cancelled()
    }

    /// Resolves when the body is given up for another one.
    pub(crate) async fn given_up(&self) {
        self.place.given_up.cancelled().await;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.arrivals.taken().crowd(&self.sharer).remove(self.number, &self.sharer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given_up(arrivals: &[Arrival]) -> Vec<usize> {
        (0..arrivals.len()).filter(|at| arrivals[*at].is_given_up()).collect()
    }

    #[test]
    fn a_new_body_takes_the_place_of_the_oldest_of_the_sharer_with_most() {
        let places = Arrivals::new(4, 1);
        let quiet = [places.enter(Sharer::named("quiet"))];
        let greedy: Vec<Arrival> = (0..10).map(|_| places.enter(Sharer::named("greedy"))).collect();
        assert_eq!((given_up(&quiet), given_up(&greedy)), (vec![], (0..7).collect()));
        let other = [places.enter(Sharer::named("other"))];
        assert_eq!((given_up(&other), given_up(&greedy).len(), places.count()), (vec![], 8, 4));
        drop((quiet, greedy, other));
        assert_eq!(places.count(), 0);
    }

    #[test]
    fn a_body_that_grows_takes_the_memory_of_the_sharer_with_most_bytes() {
        let memory = Arrivals::new(100, 10);
        let [quiet, greedy] = ["quiet", "greedy"].map(|name| move || Sharer::named(name));
        let one = [memory.enter(quiet())];
        let many = [memory.enter(greedy()), memory.enter(greedy()), memory.enter(greedy())];
        many[0].grow(40);
        many[1].grow(40);
        assert_eq!((given_up(&one), given_up(&many)), (vec![], vec![]));
        many[2].grow(11);
        assert_eq!((given_up(&one), given_up(&many)), (vec![], vec![0]));
        // A body that was given up grows no more.
        many[0].grow(1000);
        one[0].grow(1000);
        assert_eq!((given_up(&one), given_up(&many)), (vec![], vec![0, 1]));
        drop((one, many));
        assert_eq!(memory.count(), 0);
    }

    #[test]
    fn namespaces_leave_a_quarter_to_users() {
        let places = Arrivals::new(8, 1);
        let of_user: Vec<Arrival> = (0..2).map(|_| places.enter(Sharer::named("user"))).collect();
        let account = |number| Sharer::named(&format!("system:serviceaccount:n-{number}:a"));
        let accounts: Vec<Arrival> = (0..20).map(|number| places.enter(account(number))).collect();
        assert_eq!((given_up(&of_user), given_up(&accounts)), (vec![], (0..14).collect()));
        assert_eq!(places.count(), 8);
    }
}
