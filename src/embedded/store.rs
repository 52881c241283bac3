//! The store of all objects: in memory, under one lock, with one resourceVersion that only grows.
//!
//! A collection keeps its latest changes, so that a watch can start in the past, and an older list can be rebuilt by undoing changes. Each
//! change is sent to all watchers of its collection under the lock, so that all watchers get one order. A watch whose queue is full is
//! closed, and its client must start again.

use super::garbage::Garbage;
use super::name::Name;
use super::settings::Settings;
use crate::object::Object;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, mpsc};

/// The objects of one resource in all of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collection {
    /// API group under which the objects are stored.
    pub group: Name,
    /// Plural resource name.
    pub resource: Name,
}

impl Collection {
    /// The collection of a built-in resource.
    pub(super) const fn built_in(group: &'static str, resource: &'static str) -> Self {
        Self { group: Name::Static(group), resource: Name::Static(resource) }
    }
}

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The object was created.
    Added,
    /// The object was modified.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub(super) struct Change {
    /// The resourceVersion of the change.
    pub revision: u64,
    /// The object's key.
    pub key: String,
    /// The type of the change.
    pub action: Action,
    /// The object after the change; for a deletion the object's last state, with the deletion's resourceVersion.
    pub object: Arc<Object>,
    /// The object before the change.
    pub before: Option<Arc<Object>>,
}

/// A message to a watcher.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    /// A change.
    Change(Arc<Change>),
    /// Every change up to this resourceVersion has been sent.
    Progress(u64),
}

/// The start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Starts with all current objects.
    State,
    /// Starts after the newest change.
    Now,
    /// Starts after this resourceVersion.
    After(u64),
}

/// A watch of a collection.
pub(super) struct Subscription {
    /// The objects at the start, for [`Start::State`].
    pub state: Vec<Arc<Object>>,
    /// The changes between the start and the subscription.
    pub backlog: VecDeque<Arc<Change>>,
    /// The changes after the subscription. The channel ends if the watcher is too slow.
    pub signals: mpsc::Receiver<Signal>,
    /// The newest resourceVersion at the subscription.
    pub revision: u64,
    /// The id for [`State::report_progress`].
    pub id: u64,
}

/// The error of a resourceVersion that is older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired {
    /// The oldest resourceVersion that is still available.
    pub oldest: u64,
}

struct Watcher {
    id: u64,
    signals: mpsc::Sender<Signal>,
}

#[derive(Default)]
struct Table {
    objects: BTreeMap<String, Arc<Object>>,
    history: VecDeque<Arc<Change>>,
    /// The newest resourceVersion that was dropped from the history.
    forgotten: u64,
    watchers: Vec<Watcher>,
    /// The resourceVersion of the newest change.
    changed: u64,
}

/// The bounds of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Changes that are kept of each collection.
    pub history: usize,
    /// Changes that may be queued for one watcher.
    pub watcher_queue: usize,
}

/// All objects, their versions and watchers; accessible only under the lock.
pub(super) struct State {
    bounds: Bounds,
    revision: u64,
    watchers_so_far: u64,
    tables: HashMap<Collection, Table>,
    settings: Arc<Settings>,
    garbage: Garbage,
}

/// The store.
pub(super) struct Store {
    state: Mutex<State>,
    /// Notified when the garbage collector has work, and when the store is dropped.
    wake: Arc<Notify>,
}

/// The key of an object, as in etcd, so that lists have equal orders.
pub(super) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The prefix of the keys of a namespace; empty for all namespaces.
pub(super) fn prefix(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("{namespace}/") }
}

impl Store {
    /// An empty store.
    pub(super) fn new(bounds: Bounds, settings: Settings) -> Self {
        let state = State {
            bounds,
            revision: 1,
            watchers_so_far: 0,
            tables: HashMap::new(),
            garbage: Garbage::new(settings.controllers.garbage_collector),
            settings: Arc::new(settings),
        };
        Self { state: Mutex::new(state), wake: Arc::default() }
    }

    /// The signal that the garbage collector has work.
    pub(super) fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    /// Runs a transaction, isolated from all others.
    pub(super) fn with<T>(&self, transaction: impl FnOnce(&mut State) -> T) -> T {
        // Each step of a transaction leaves the state consistent, so a panic in one transaction does not affect others.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = transaction(&mut state);
        if state.garbage.has_work() {
            self.wake.notify_one();
        }
        result
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl State {
    /// The configuration of the server.
    pub(super) fn settings(&self) -> Arc<Settings> {
        self.settings.clone()
    }

    /// The state of the garbage collector.
    pub(super) fn garbage(&mut self) -> &mut Garbage {
        &mut self.garbage
    }

    /// The newest resourceVersion.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The object with this key.
    pub(super) fn object(&self, collection: &Collection, key: &str) -> Option<Arc<Object>> {
        self.tables.get(collection)?.objects.get(key).cloned()
    }

    /// The resourceVersion of the newest change in a collection; 0 before the first one.
    pub(super) fn changed(&self, collection: &Collection) -> u64 {
        self.tables.get(collection).map_or(0, |table| table.changed)
    }

    /// The number of objects in a collection.
    pub(super) fn count(&self, collection: &Collection) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.len())
    }

    /// Ends the watches of a collection.
    pub(super) fn end_watches(&mut self, collection: &Collection) {
        self.tables.get_mut(collection).into_iter().for_each(|table| table.watchers.clear());
    }

    /// Forgets an empty collection, and ends its watches.
    pub(super) fn forget(&mut self, collection: &Collection) {
        self.tables.remove(collection);
    }

    /// The objects whose keys begin with `prefix`, in the keys' order.
    pub(super) fn objects(&self, collection: &Collection, prefix: &str) -> Vec<(String, Arc<Object>)> {
        self.tables.get(collection).map_or_else(Vec::new, |table| beginning_with(&table.objects, prefix))
    }

    /// The objects whose keys begin with `prefix`, as of an earlier resourceVersion.
    ///
    /// # Errors
    /// If the history does not reach back that far.
    pub(super) fn objects_at(
        &self,
        collection: &Collection,
        prefix: &str,
        revision: u64,
    ) -> Result<Vec<(String, Arc<Object>)>, Expired> {
        let Some(table) = self.tables.get(collection) else { return Ok(Vec::new()) };
        if revision < table.forgotten {
            return Err(Expired { oldest: table.forgotten });
        }
        let newer = table.history.iter().rev().take_while(|change| change.revision > revision);
        let mut newer = newer.filter(|change| change.key.starts_with(prefix)).peekable();
        if newer.peek().is_none() {
            return Ok(beginning_with(&table.objects, prefix));
        }
        let mut objects: BTreeMap<_, _> = beginning_with(&table.objects, prefix).into_iter().collect();
        for change in newer {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects.into_iter().collect())
    }

    /// The collections that have objects in a namespace.
    pub(super) fn collections_in(&self, namespace: &str) -> Vec<Collection> {
        let prefix = prefix(namespace);
        let inhabited = self.tables.iter().filter(|(_, table)| {
            let from = table.objects.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded)).next();
            from.is_some_and(|(key, _)| key.starts_with(&prefix))
        });
        inhabited.map(|(collection, _)| collection.clone()).collect()
    }

    /// Stores a new or changed object with the next resourceVersion. Returns the stored object.
    pub(super) fn put(&mut self, collection: &Collection, key: &str, object: Object) -> Arc<Object> {
        let (revision, object) = self.stamp(object);
        let before = self.tables.entry(collection.clone()).or_default().objects.insert(key.to_owned(), object.clone());
        let action = if before.is_some() { Action::Modified } else { Action::Added };
        self.publish(collection, Change { revision, key: key.to_owned(), action, object: object.clone(), before });
        object
    }

    /// Removes an object whose last state is `last`. Returns the object that watchers got; `None` if it did not exist.
    pub(super) fn remove(&mut self, collection: &Collection, key: &str, last: Object) -> Option<Arc<Object>> {
        let before = self.tables.get_mut(collection)?.objects.remove(key)?;
        let (revision, object) = self.stamp(last);
        let change = Change {
            revision,
            key: key.to_owned(),
            action: Action::Deleted,
            object: object.clone(),
            before: Some(before),
        };
        self.publish(collection, change);
        Some(object)
    }

    /// Starts a watch.
    ///
    /// # Errors
    /// If the start is older than the history.
    pub(super) fn subscribe(
        &mut self,
        collection: &Collection,
        prefix: &str,
        start: Start,
    ) -> Result<Subscription, Expired> {
        let revision = self.revision;
        let table = self.tables.entry(collection.clone()).or_default();
        let mut state = Vec::new();
        let mut backlog = VecDeque::new();
        match start {
            Start::State => {
                state = beginning_with(&table.objects, prefix).into_iter().map(|(_, object)| object).collect();
            }
            Start::Now => {}
            Start::After(after) if after < table.forgotten => return Err(Expired { oldest: table.forgotten }),
            Start::After(after) => {
                let missed = table.history.iter().filter(|change| change.revision > after);
                backlog = missed.cloned().collect();
            }
        }
        self.watchers_so_far += 1;
        let id = self.watchers_so_far;
        let (sender, signals) = mpsc::channel(self.bounds.watcher_queue);
        table.watchers.retain(|watcher| !watcher.signals.is_closed());
        table.watchers.push(Watcher { id, signals: sender });
        Ok(Subscription { state, backlog, signals, revision, id })
    }

    /// Reports to a watcher that it has got all changes so far, unless its queue is full.
    pub(super) fn report_progress(&mut self, collection: &Collection, id: u64) {
        let revision = self.revision;
        let watchers = self.tables.get(collection).map_or(&[][..], |table| &table.watchers);
        if let Some(watcher) = watchers.iter().find(|watcher| watcher.id == id) {
            // A watcher with a full queue must read other messages first.
            let _ = watcher.signals.try_send(Signal::Progress(revision));
        }
    }

    fn stamp(&mut self, mut object: Object) -> (u64, Arc<Object>) {
        self.revision += 1;
        // `set` fails only if the metadata is no object, and such an object has no key.
        let _ = object.set(&["metadata", "resourceVersion"], Value::from(self.revision.to_string()));
        (self.revision, Arc::new(object))
    }

    fn publish(&mut self, collection: &Collection, change: Change) {
        let change = Arc::new(change);
        self.garbage.observe(collection, &change);
        let table = self.tables.entry(collection.clone()).or_default();
        table.changed = change.revision;
        table.watchers.retain(|watcher| watcher.signals.try_send(Signal::Change(change.clone())).is_ok());
        table.history.push_back(change);
        while table.history.len() > self.bounds.history {
            if let Some(oldest) = table.history.pop_front() {
                table.forgotten = oldest.revision;
            }
        }
    }
}

fn beginning_with(objects: &BTreeMap<String, Arc<Object>>, prefix: &str) -> Vec<(String, Arc<Object>)> {
    let from = objects.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
    from.take_while(|(key, _)| key.starts_with(prefix)).map(|(key, object)| (key.clone(), object.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PODS: &Collection = &Collection::built_in("", "pods");

    fn named(name: &str, n: u64) -> Object {
        Object::from_value(json!({"metadata": {"name": name}, "n": n})).unwrap()
    }

    fn store(history: usize, watcher_queue: usize) -> Store {
        Store::new(Bounds { history, watcher_queue }, Settings::default())
    }

    fn seen(objects: Vec<(String, Arc<Object>)>) -> Vec<(String, Value)> {
        objects.into_iter().map(|(key, object)| (key, object.get(&["n"]).cloned().unwrap_or_default())).collect()
    }

    #[test]
    fn an_older_list_is_rebuilt_by_undoing_what_came_later() {
        store(10, 10).with(|state| {
            state.put(PODS, "a/1", named("1", 1));
            state.put(PODS, "a/2", named("2", 1));
            let then = state.revision();
            state.put(PODS, "a/1", named("1", 2));
            state.remove(PODS, "a/2", named("2", 1));
            state.put(PODS, "a/3", named("3", 1));
            let old = state.objects_at(PODS, "a/", then).unwrap();
            assert_eq!(seen(old), [("a/1".to_owned(), json!(1)), ("a/2".to_owned(), json!(1))]);
            assert_eq!(seen(state.objects(PODS, "a/")), [("a/1".to_owned(), json!(2)), ("a/3".to_owned(), json!(1))]);
        });
    }

    #[test]
    fn what_fell_out_of_the_history_is_expired() {
        store(2, 10).with(|state| {
            let start = state.revision();
            for n in 0..3 {
                state.put(PODS, "a", named("a", n));
            }
            let oldest = start + 1;
            assert_eq!(state.objects_at(PODS, "", start).err(), Some(Expired { oldest }));
            assert_eq!(state.subscribe(PODS, "", Start::After(start)).err(), Some(Expired { oldest }));
            assert_eq!(state.subscribe(PODS, "", Start::After(oldest)).unwrap().backlog.len(), 2);
        });
    }

    #[test]
    fn a_slow_watcher_is_closed_after_what_it_was_sent() {
        let store = store(10, 2);
        let mut watch = store.with(|state| state.subscribe(PODS, "", Start::Now)).unwrap();
        store.with(|state| {
            for n in 0..4 {
                state.put(PODS, "a", named("a", n));
            }
        });
        let received: Vec<_> = std::iter::from_fn(|| watch.signals.blocking_recv()).collect();
        assert_eq!(received.len(), 2);
    }
}
