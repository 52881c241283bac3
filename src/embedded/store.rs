//! The store of all objects: in memory, under one lock, with one resourceVersion that only grows.
//!
//! A collection keeps its latest changes, so that a watch can start in the past, and an older list can be rebuilt by undoing changes. Each
//! change is sent to all watchers of its collection under the lock, so that all watchers get one order. A watch whose queue is full is
//! closed, and its client must start again.
//!
//! A store may have a file. The memory stays what requests read; each transaction adds its changes to a queue in the store's order, and a
//! thread writes them in batches. A request, be it a read or a write, gets its answer only after the file has every change that the answer can
//! depend on ([`Store::settled`]), and a watcher gets a change only after the file has it ([`Store::reached`]). So after a crash:
//!
//! - a write with an answer is there, and so is everything that any client has seen;
//! - a transaction, such as the deletion of a namespace with its objects, is there as a whole or not at all;
//! - no client has seen a resourceVersion that the store uses again: the lost ones are only those that the file never had.
//!
//! A failed write to the file ends the service: memory and file differ from then on. Every request gets an error until the process starts
//! again with the content of the file, in which the last changes may be there or not.

mod file;
mod keeper;
mod objects;
mod slot;

use super::garbage::Garbage;
use super::name::Name;
use super::settings::Settings;
use crate::object::Object;
use crate::object::kinds;
use file::{Content, Entry, Loaded};
pub(crate) use file::{File, FileError, Lock};
use keeper::{Keeper, Progress};
use objects::Objects;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub(super) use slot::Slot;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, mpsc, watch};

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
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
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
    pub state: Vec<Slot>,
    /// The changes between the start and the subscription.
    pub backlog: VecDeque<Arc<Change>>,
    /// The changes after the subscription. The channel ends if the watcher is too slow.
    pub signals: mpsc::Receiver<Signal>,
    /// The newest resourceVersion at the subscription.
    pub revision: u64,
    /// The id for [`State::report_progress`].
    pub id: u64,
}

/// Objects of a list.
#[derive(Default)]
pub(super) struct Page {
    /// The objects, in the keys' order.
    pub objects: Vec<(String, Slot)>,
    /// The number of objects below the prefix, those before the page included.
    pub total: usize,
}

/// The error of a resourceVersion that is older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired {
    /// The oldest resourceVersion that is still available.
    pub oldest: u64,
}

/// The error of a change that is not in the file, and will not be, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unkept(pub(super) String);

struct Watcher {
    id: u64,
    signals: mpsc::Sender<Signal>,
}

#[derive(Default)]
struct Table {
    objects: Objects,
    /// The packed objects that were read last, so that frequently read objects stay parsed.
    warm: RefCell<VecDeque<Arc<Object>>>,
    history: VecDeque<Arc<Change>>,
    /// The newest resourceVersion that was dropped from the history.
    forgotten: u64,
    watchers: Vec<Watcher>,
    /// The resourceVersion of the newest change.
    changed: u64,
}

/// Packed objects of a collection that stay parsed after they were read.
const WARM: usize = 1024;

impl Table {
    /// The object in a slot, which is likely to be read again.
    fn read(&self, slot: &Slot) -> Arc<Object> {
        let object = slot.object();
        // The slot is the only holder of the object, so the next reader would parse it again.
        if slot.is_packed() && Arc::strong_count(&object) == 1 {
            let mut warm = self.warm.borrow_mut();
            if warm.len() == WARM {
                warm.pop_front();
            }
            warm.push_back(object.clone());
        }
        object
    }
}

/// The bounds of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Changes that are kept of each collection.
    pub history: usize,
    /// Changes that may be queued for one watcher.
    pub watcher_queue: usize,
    /// Changes that may be missing in the file before further writes wait.
    pub unwritten: usize,
}

/// All objects, their versions and watchers; accessible only under the lock.
pub(super) struct State {
    bounds: Bounds,
    revision: u64,
    /// The resourceVersion of the newest collection that was forgotten: the history of a later one of that name begins after it.
    floor: u64,
    watchers_so_far: u64,
    tables: HashMap<Collection, Table>,
    settings: Arc<Settings>,
    garbage: Garbage,
    /// The steps of the transaction for the file; `None` without a file.
    steps: Option<Vec<Entry>>,
}

/// The store.
pub(super) struct Store {
    state: Mutex<State>,
    keeper: Option<Keeper>,
    unwritten: u64,
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
    /// An empty store in memory.
    pub(super) fn new(bounds: Bounds, settings: Settings) -> Self {
        Self::of(State::new(bounds, settings), None)
    }

    /// A store with the content of a file, which it keeps up to date.
    ///
    /// # Errors
    /// If the file cannot be read, or no thread can be started for it.
    pub(super) fn open(bounds: Bounds, settings: Settings, file: File) -> Result<Self, FileError> {
        let mut state = State::new(bounds, settings);
        let Content { revision, floor, forgotten } = file.content()?;
        (state.revision, state.floor) = (revision.max(1), floor);
        for (collection, revision) in forgotten {
            let table = state.table(&collection);
            (table.forgotten, table.changed) = (revision, revision);
        }
        file.visit(|collection, change| state.load(collection, change))?;
        state.steps = Some(Vec::new());
        let keeper = Keeper::start(file, state.revision)?;
        Ok(Self::of(state, Some(keeper)))
    }

    fn of(state: State, keeper: Option<Keeper>) -> Self {
        let unwritten = u64::try_from(state.bounds.unwritten).unwrap_or(u64::MAX);
        Self { state: Mutex::new(state), keeper, unwritten, wake: Arc::default() }
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
        let State { revision, steps, .. } = &mut *state;
        if let (Some(keeper), Some(steps)) = (&self.keeper, steps)
            && !steps.is_empty()
        {
            keeper.push(steps, *revision);
        }
        if state.garbage.has_work() {
            self.wake.notify_one();
        }
        result
    }

    /// Waits until the file has every change so far. Without a file, and in all methods below, there is nothing to wait for.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) async fn settled(&self) -> Result<(), Unkept> {
        match &self.keeper {
            Some(_) => self.reached(self.with(|state| state.revision)).await,
            None => Ok(()),
        }
    }

    /// Waits until the file has every change up to a resourceVersion of this store.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) async fn reached(&self, revision: u64) -> Result<(), Unkept> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let mut progress = keeper.progress();
        let reached = progress.wait_for(|progress| progress.revision >= revision || progress.failure.is_some()).await;
        match reached.map(|progress| progress.revision >= revision) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(unkept(&progress)),
        }
    }

    /// Waits for room for further changes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) async fn room(&self) -> Result<(), Unkept> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        if let Some(error) = failure(&keeper.progress()) {
            return Err(error);
        }
        self.reached(self.with(|state| state.revision).saturating_sub(self.unwritten)).await
    }

    /// A check whether the file can be written; `None` without a file.
    pub(super) fn health(&self) -> Option<impl Fn() -> Result<(), Unkept> + Send + Sync + 'static> {
        let progress = self.keeper.as_ref()?.progress();
        Some(move || failure(&progress).map_or(Ok(()), Err))
    }

    /// Writes the changes so far, and closes the file. Later writes fail.
    pub(super) async fn close(&self) {
        let Some(keeper) = &self.keeper else { return };
        keeper.close();
        let mut progress = keeper.progress();
        while progress.changed().await.is_ok() {}
    }
}

/// The reason why changes no longer reach the file.
fn failure(progress: &watch::Receiver<Progress>) -> Option<Unkept> {
    let is_over = progress.has_changed().is_err();
    (is_over || progress.borrow().failure.is_some()).then(|| unkept(progress))
}

fn unkept(progress: &watch::Receiver<Progress>) -> Unkept {
    Unkept(progress.borrow().failure.as_deref().unwrap_or("the file is closed").to_owned())
}

impl Drop for Store {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl State {
    fn new(bounds: Bounds, settings: Settings) -> Self {
        Self {
            bounds,
            revision: 1,
            floor: 0,
            watchers_so_far: 0,
            tables: HashMap::new(),
            garbage: Garbage::new(settings.controllers.garbage_collector),
            settings: Arc::new(settings),
            steps: None,
        }
    }

    /// Repeats a change of the file.
    fn load(&mut self, collection: Collection, change: Loaded) {
        let Loaded { revision, key, action, object } = change;
        let object = Arc::new(object);
        let table = self.table(&collection);
        table.changed = revision;
        let is_history = revision > table.forgotten;
        let before = match action {
            Action::Deleted => table.objects.remove(&key),
            Action::Added | Action::Modified => {
                let mut slot = Slot::Parsed(object.clone());
                if !is_history {
                    slot.pack();
                }
                table.objects.insert(&key, slot)
            }
        };
        let before = before.map(|slot| slot.object());
        let change = Arc::new(Change { revision, key, action, object, before });
        if is_history {
            table.history.push_back(change.clone());
        }
        self.garbage.observe(&collection, &change);
    }

    fn table(&mut self, collection: &Collection) -> &mut Table {
        let floor = if kinds::is_built_in_group(&collection.group) { 0 } else { self.floor };
        let new = || Table { forgotten: floor, ..Table::default() };
        self.tables.entry(collection.clone()).or_insert_with(new)
    }

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
        let table = self.tables.get(collection)?;
        table.objects.get(key).map(|slot| table.read(slot))
    }

    /// The resourceVersion of the newest change in a collection; 0 before the first one.
    pub(super) fn changed(&self, collection: &Collection) -> u64 {
        self.tables.get(collection).map_or(0, |table| table.changed)
    }

    /// The number of objects in a collection.
    pub(super) fn count(&self, collection: &Collection) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.count(""))
    }

    /// Ends the watches of a collection.
    pub(super) fn end_watches(&mut self, collection: &Collection) {
        self.tables.get_mut(collection).into_iter().for_each(|table| table.watchers.clear());
    }

    /// Forgets an empty collection, and ends its watches.
    pub(super) fn forget(&mut self, collection: &Collection) {
        let Some(table) = self.tables.remove(collection) else { return };
        self.floor = self.revision;
        if let Some(steps) = &mut self.steps {
            let changes = table.history.iter();
            let of_changes = changes.flat_map(|change| [change.revision].into_iter().chain(change.replaced()));
            let records = of_changes.chain(table.objects.values().map(|slot| revision_of(&slot.object()))).collect();
            steps.push(Entry::Drop { collection: collection.clone(), revision: self.floor, records });
        }
    }

    /// The objects whose keys begin with `prefix`, in the keys' order.
    pub(super) fn objects(&self, collection: &Collection, prefix: &str) -> Vec<(String, Arc<Object>)> {
        let Some(table) = self.tables.get(collection) else { return Vec::new() };
        table.objects.below(prefix, "").map(|(key, slot)| (key.clone(), table.read(slot))).collect()
    }

    /// Some objects below a prefix, from a key on, as of this resourceVersion or an earlier one. The cost grows with the number of the objects
    /// and of the changes since, not with that of the store's objects.
    ///
    /// # Errors
    /// If the history does not reach back that far.
    pub(super) fn page(
        &self,
        collection: &Collection,
        prefix: &str,
        start: &str,
        revision: u64,
        at_most: usize,
    ) -> Result<Page, Expired> {
        let Some(table) = self.tables.get(collection) else { return Ok(Page::default()) };
        let mut total = table.objects.count(prefix);
        if revision < table.forgotten {
            return Err(Expired { oldest: table.forgotten });
        }
        if revision >= table.changed {
            let objects = table.objects.below(prefix, start).take(at_most).map(owned).collect();
            return Ok(Page { objects, total });
        }
        let newer = table.history.iter().rev().take_while(|change| change.revision > revision);
        let mut then = BTreeMap::new();
        for change in newer.filter(|change| change.key.starts_with(prefix)) {
            then.insert(change.key.as_str(), change.before.as_ref());
        }
        for (key, before) in &then {
            total += usize::from(before.is_some());
            total -= usize::from(table.objects.get(key).is_some());
        }
        let unchanged = table.objects.below(prefix, start).filter(|(key, _)| !then.contains_key(key.as_str()));
        let mut objects: BTreeMap<_, _> = unchanged.take(at_most).map(owned).collect();
        let changed = then
            .range::<str, _>((Bound::Included(start), Bound::Unbounded))
            .filter_map(|(key, before)| Some((*key, (*before)?)));
        objects.extend(changed.map(|(key, before)| (key.to_owned(), Slot::Parsed(before.clone()))));
        Ok(Page { objects: objects.into_iter().take(at_most).collect(), total })
    }

    /// The number of current objects below a prefix, from a key on; counts each of them.
    pub(super) fn count_from(&self, collection: &Collection, prefix: &str, start: &str) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.below(prefix, start).count())
    }

    /// The objects that reads of a collection have passed.
    #[cfg(test)]
    pub(super) fn visited(&self, collection: &Collection) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.visited())
    }

    /// The collections that have objects in a namespace.
    pub(super) fn collections_in(&self, namespace: &str) -> Vec<Collection> {
        let prefix = prefix(namespace);
        let inhabited = self.tables.iter().filter(|(_, table)| table.objects.count(&prefix) > 0);
        inhabited.map(|(collection, _)| collection.clone()).collect()
    }

    /// Stores a new or changed object with the next resourceVersion. Returns the stored object.
    pub(super) fn put(&mut self, collection: &Collection, key: &str, object: Object) -> Arc<Object> {
        let (revision, object) = self.stamp(object);
        let before = self.table(collection).objects.insert(key, Slot::Parsed(object.clone()));
        let before = before.map(|slot| slot.object());
        let action = if before.is_some() { Action::Modified } else { Action::Added };
        self.publish(collection, Change { revision, key: key.to_owned(), action, object: object.clone(), before });
        object
    }

    /// Removes an object whose last state is `last`. Returns the object that watchers got; `None` if it did not exist.
    pub(super) fn remove(&mut self, collection: &Collection, key: &str, last: Object) -> Option<Arc<Object>> {
        let before = self.tables.get_mut(collection)?.objects.remove(key)?.object();
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
        let (revision, watcher_queue) = (self.revision, self.bounds.watcher_queue);
        self.watchers_so_far += 1;
        let id = self.watchers_so_far;
        let table = self.table(collection);
        let mut state = Vec::new();
        let mut backlog = VecDeque::new();
        match start {
            Start::State => {
                state = table.objects.below(prefix, "").map(|(_, slot)| slot.clone()).collect();
            }
            Start::Now => {}
            Start::After(after) if after < table.forgotten => return Err(Expired { oldest: table.forgotten }),
            Start::After(after) => {
                let missed = table.history.iter().filter(|change| change.revision > after);
                backlog = missed.cloned().collect();
            }
        }
        let (sender, signals) = mpsc::channel(watcher_queue);
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
        if let Some(steps) = &mut self.steps {
            steps.push(Entry::Change(collection.clone(), change.clone()));
        }
        let most = self.bounds.history;
        let table = self.table(collection);
        table.changed = change.revision;
        table.watchers.retain(|watcher| watcher.signals.try_send(Signal::Change(change.clone())).is_ok());
        table.history.push_back(change);
        let surplus = table.history.len().saturating_sub(most);
        let oldest: Vec<_> = table.history.drain(..surplus).collect();
        let Some(newest) = oldest.last() else { return };
        table.forgotten = newest.revision;
        for change in &oldest {
            let slot = table.objects.get_mut(&change.key).filter(|slot| slot.has(&change.object));
            slot.into_iter().for_each(Slot::pack);
        }
        if let Some(steps) = &mut self.steps {
            let of_deletion = |change: &Change| (change.action == Action::Deleted).then_some(change.revision);
            let records = oldest.iter().flat_map(|change| change.replaced().into_iter().chain(of_deletion(change)));
            let (records, revision) = (records.collect(), newest.revision);
            steps.push(Entry::Forget { collection: collection.clone(), revision, records });
        }
    }
}

impl Change {
    /// The resourceVersion of the state before the change.
    fn replaced(&self) -> Option<u64> {
        self.before.as_deref().map(revision_of)
    }
}

/// The resourceVersion of a stored object.
fn revision_of(object: &Object) -> u64 {
    // The store sets the number itself.
    object.resource_version().parse().unwrap_or_default()
}

fn owned((key, slot): (&String, &Slot)) -> (String, Slot) {
    (key.clone(), slot.clone())
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
        Store::new(Bounds { history, watcher_queue, unwritten: 10 }, Settings::default())
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
            let old = |start: &str, at_most| {
                let page = state.page(PODS, "a/", start, then, at_most).unwrap();
                assert_eq!(page.total, 2);
                seen(page.objects.into_iter().map(|(key, slot)| (key, slot.object())).collect())
            };
            let (first, second) = (("a/1".to_owned(), json!(1)), ("a/2".to_owned(), json!(1)));
            assert_eq!(old("", 9), [first.clone(), second.clone()]);
            assert_eq!(old("", 1), [first]);
            assert_eq!(old("a/1\0", 9), [second]);
            assert_eq!(seen(state.objects(PODS, "a/")), [("a/1".to_owned(), json!(2)), ("a/3".to_owned(), json!(1))]);
        });
    }

    #[test]
    fn a_revision_before_the_history_is_expired() {
        store(2, 10).with(|state| {
            let start = state.revision();
            for n in 0..3 {
                state.put(PODS, "a", named("a", n));
            }
            let oldest = start + 1;
            assert_eq!(state.page(PODS, "", "", start, 1).err(), Some(Expired { oldest }));
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
