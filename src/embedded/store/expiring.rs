//! The objects with a time to live: Events (`--event-ttl`). Each write of an Event begins its time again, as a lease of etcd does.

use super::{Action, Change, Collection};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// The collection of Events, of both API groups.
pub(in crate::embedded) const EVENTS: &Collection = &Collection::built_in("", "events");

/// The Events by the end of their time.
pub(in crate::embedded) struct Expiring {
    /// `None` if Events do not expire.
    ttl: Option<Duration>,
    ends: HashMap<String, Instant>,
    queue: BTreeSet<(Instant, String)>,
}

impl Expiring {
    /// No Events; 0 stands for no end of their time.
    pub(super) fn new(ttl: Duration) -> Self {
        let ttl = Some(ttl).filter(|ttl| !ttl.is_zero());
        Self { ttl, ends: HashMap::new(), queue: BTreeSet::new() }
    }

    /// The time to live; `None` if Events do not expire.
    pub(in crate::embedded) fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    pub(super) fn observe(&mut self, collection: &Collection, change: &Change) {
        let Some(ttl) = self.ttl.filter(|_| collection == EVENTS) else { return };
        if let Some(end) = self.ends.remove(&change.key) {
            self.queue.remove(&(end, change.key.clone()));
        }
        if change.action != Action::Deleted {
            let end = Instant::now() + ttl;
            self.ends.insert(change.key.clone(), end);
            self.queue.insert((end, change.key.clone()));
        }
    }

    /// The end of the time of the first Event.
    pub(in crate::embedded) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(end, _)| *end)
    }

    /// The keys of Events whose time is over.
    pub(in crate::embedded) fn over(&self, now: Instant, at_most: usize) -> Vec<String> {
        let over = self.queue.iter().take_while(|(end, _)| *end <= now);
        over.take(at_most).map(|(_, key)| key.clone()).collect()
    }
}
