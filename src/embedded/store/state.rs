//! All objects, their versions and watchers, which only a transaction of the store can reach.

use super::dependents::Garbage;
use super::expiring::Expiring;
use super::file::{Entry, Loaded};
use super::leftovers::Leftovers;
use super::objects::Objects;
use super::slot::Slot;
use super::{Action, Change, Collection, Expired, Page, Reads, Signal, SizedObject, Start, Subscription, Task, prefix};
use crate::config::Limits;
use crate::embedded::settings::Settings;
use crate::object::Object;
use crate::object::kinds;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::mpsc;

/// All objects, their versions and watchers; accessible only under the lock.
pub(in crate::embedded) struct State {
    pub(super) limits: Arc<Limits>,
    pub(super) revision: u64,
    /// The resourceVersion of the newest collection that was forgotten: the history of a later one of that name begins after it.
    pub(super) floor: u64,
    watchers_so_far: u64,
    tables: HashMap<Collection, Table>,
    /// The bytes of all objects.
    bytes: usize,
    /// The bytes of the objects in the histories of all collections.
    history_bytes: usize,
    /// The objects with a time to live.
    pub(super) expiring: Expiring,
    settings: Arc<Settings>,
    pub(super) garbage: Garbage,
    /// The steps of the transaction for the file; `None` without a file.
    pub(super) steps: Option<Vec<Entry>>,
    /// The tasks that follow from the transaction.
    pub(super) tasks: Vec<Task>,
    /// The tasks that nobody does.
    pub(super) left: HashSet<Task>,
    pub(super) leftovers: Leftovers,
}

struct Watcher {
    id: u64,
    signals: mpsc::Sender<Signal>,
}

/// The objects of one collection, with their history and watchers.
#[derive(Default)]
pub(super) struct Table {
    objects: Objects,
    /// The packed objects that were read last, so that frequently read objects stay parsed.
    warm: RefCell<VecDeque<Arc<Object>>>,
    history: VecDeque<Arc<Change>>,
    /// The bytes of the objects in the history.
    history_bytes: usize,
    /// The newest resourceVersion that was dropped from the history.
    pub(super) forgotten: u64,
    watchers: Vec<Watcher>,
    /// The resourceVersion of the newest change.
    pub(super) changed: u64,
}

/// Packed objects of a collection that stay parsed after they were read.
const WARM: usize = 1024;

impl Table {
    /// The object in a slot, which is likely to be read again.
    fn read(&self, slot: &Slot) -> Arc<Object> {
        let object = slot.object();
        if slot.is_packed() {
            self.keep_warm(&object);
        }
        object
    }

    fn keep_warm(&self, object: &Arc<Object>) {
        // The reader is the only holder of the object, so the next reader would parse it again.
        if Arc::strong_count(object) == 1 {
            let mut warm = self.warm.borrow_mut();
            if warm.len() == WARM {
                warm.pop_front();
            }
            warm.push_back(object.clone());
        }
    }
}

impl State {
    pub(super) fn new(limits: Arc<Limits>, settings: Arc<Settings>) -> Self {
        Self {
            limits,
            revision: 1,
            floor: 0,
            watchers_so_far: 0,
            tables: HashMap::new(),
            bytes: 0,
            history_bytes: 0,
            expiring: Expiring::new(settings.event_ttl),
            garbage: Garbage::new(settings.controllers.garbage_collector),
            settings,
            steps: None,
            tasks: Vec::new(),
            left: HashSet::new(),
            leftovers: Leftovers::default(),
        }
    }

    /// Repeats a change of the file.
    pub(super) fn load(&mut self, collection: Collection, change: Loaded) {
        let Loaded { revision, key, action, object } = change;
        let object = SizedObject::from(object);
        let bytes = if action == Action::Deleted { 0 } else { object.bytes() };
        let (bytes_in_history, object) = (object.bytes_in_history(), Arc::new(object.into_object()));
        self.count_bytes(&collection, &key, bytes);
        let table = self.table(&collection);
        table.changed = revision;
        let is_history = revision > table.forgotten;
        let before = match action {
            Action::Deleted => table.objects.remove(&key),
            Action::Added | Action::Modified => {
                let mut slot = Slot::Parsed(object.clone());
                if let (false, Some(packed)) = (is_history, Slot::packed(&object)) {
                    slot = packed;
                }
                table.objects.insert(&key, slot, bytes)
            }
        };
        let before = before.map(|slot| slot.object());
        let change = Arc::new(Change { revision, key, action, object, before, bytes: bytes_in_history });
        if is_history {
            self.remember(&collection, change.clone());
        }
        self.garbage.observe(&collection, &change);
        self.expiring.observe(&collection, &change);
    }

    pub(super) fn table(&mut self, collection: &Collection) -> &mut Table {
        let floor = if kinds::is_built_in_group(&collection.group) { 0 } else { self.floor };
        let new = || Table { forgotten: floor, ..Table::default() };
        self.tables.entry(collection.clone()).or_insert_with(new)
    }

    /// The configuration of the server.
    pub(in crate::embedded) fn settings(&self) -> Arc<Settings> {
        self.settings.clone()
    }

    /// Whether the store has room for an object of so many bytes in the place of the one with this key. A smaller object always has room.
    pub(in crate::embedded) fn has_room(&self, collection: &Collection, key: &str, bytes: usize) -> bool {
        let before = self.bytes_of(collection, key);
        bytes <= before || (self.bytes - before).saturating_add(bytes) <= self.limits.stored_bytes
    }

    /// The bytes of an object; 0 if there is none.
    pub(in crate::embedded) fn bytes_of(&self, collection: &Collection, key: &str) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.bytes(key))
    }

    /// Counts the bytes of an object that replaces the one with this key.
    fn count_bytes(&mut self, collection: &Collection, key: &str, bytes: usize) {
        self.bytes = (self.bytes + bytes).saturating_sub(self.bytes_of(collection, key));
    }

    /// The objects with a time to live.
    pub(in crate::embedded) fn expiring(&self) -> &Expiring {
        &self.expiring
    }

    /// The server's bounds.
    pub(in crate::embedded) fn limits(&self) -> Arc<Limits> {
        self.limits.clone()
    }

    /// The state of the garbage collector.
    pub(in crate::embedded) fn garbage(&mut self) -> &mut Garbage {
        &mut self.garbage
    }

    /// The newest resourceVersion.
    pub(in crate::embedded) fn revision(&self) -> u64 {
        self.revision
    }

    /// The object with this key.
    pub(in crate::embedded) fn object(&self, collection: &Collection, key: &str) -> Option<Arc<Object>> {
        let table = self.tables.get(collection)?;
        table.objects.get(key).map(|slot| table.read(slot))
    }

    /// The slot with this key.
    pub(super) fn slot(&self, collection: &Collection, key: &str) -> Option<Slot> {
        self.tables.get(collection)?.objects.get(key).cloned()
    }

    /// Whether an object with this key exists.
    pub(in crate::embedded) fn contains(&self, collection: &Collection, key: &str) -> bool {
        self.tables.get(collection).is_some_and(|table| table.objects.get(key).is_some())
    }

    /// Whether this is the object with this key.
    pub(in crate::embedded) fn has(&self, collection: &Collection, key: &str, object: &Arc<Object>) -> bool {
        self.tables.get(collection).and_then(|table| table.objects.get(key)).is_some_and(|slot| slot.is(object))
    }

    /// Keeps a packed object parsed for the next readers.
    pub(super) fn keep_warm(&self, collection: &Collection, object: &Arc<Object>) {
        self.tables.get(collection).into_iter().for_each(|table| table.keep_warm(object));
    }

    /// Replaces an object by its packed form, unless it has changed.
    pub(super) fn replace_by_packed(&mut self, collection: &Collection, key: &str, object: &Arc<Object>, packed: Slot) {
        let slot = self.tables.get_mut(collection).and_then(|table| table.objects.get_mut(key));
        if let Some(slot) = slot.filter(|slot| slot.has(object)) {
            *slot = packed;
        }
    }

    /// Leaves work to the controllers.
    pub(in crate::embedded) fn then(&mut self, task: Task) {
        if !self.tasks.contains(&task) {
            self.tasks.push(task);
        }
    }

    /// Leaves tasks to the controllers' own task.
    pub(in crate::embedded) fn leave(&mut self, tasks: impl IntoIterator<Item = Task>) {
        self.left.extend(tasks);
    }

    /// The tasks that nobody does.
    pub(in crate::embedded) fn take_left(&mut self) -> Vec<Task> {
        self.left.drain().collect()
    }

    /// The resourceVersion of the newest change in a collection; 0 before the first one.
    pub(in crate::embedded) fn changed(&self, collection: &Collection) -> u64 {
        self.tables.get(collection).map_or(0, |table| table.changed)
    }

    /// The number of objects in a collection.
    pub(in crate::embedded) fn count(&self, collection: &Collection) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.count(""))
    }

    /// Ends the watches of a collection.
    pub(in crate::embedded) fn end_watches(&mut self, collection: &Collection) {
        self.tables.get_mut(collection).into_iter().for_each(|table| table.watchers.clear());
    }

    /// Forgets an empty collection, and ends its watches.
    pub(in crate::embedded) fn forget(&mut self, collection: &Collection) {
        let Some(mut table) = self.tables.remove(collection) else { return };
        self.bytes = self.bytes.saturating_sub(table.objects.total_bytes());
        self.history_bytes = self.history_bytes.saturating_sub(table.history_bytes);
        self.floor = self.revision;
        if let Some(steps) = &mut self.steps {
            let changes = table.history.iter();
            let of_changes = changes.flat_map(|change| [change.revision].into_iter().chain(change.replaced()));
            let records = of_changes.chain(table.objects.values().map(|slot| revision_of(&slot.object()))).collect();
            steps.push(Entry::Drop { collection: collection.clone(), revision: self.floor, records });
        }
        self.leftovers.changes.extend(table.history.drain(..));
    }

    /// The objects whose keys begin with `prefix`, in the keys' order.
    pub(in crate::embedded) fn objects(&self, collection: &Collection, prefix: &str) -> Vec<(String, Arc<Object>)> {
        let Some(table) = self.tables.get(collection) else { return Vec::new() };
        table.objects.below(prefix, "").map(|(key, slot)| (key.clone(), table.read(slot))).collect()
    }

    /// The slots of the objects whose keys begin with `prefix`, in the keys' order.
    pub(in crate::embedded) fn slots(&self, collection: &Collection, prefix: &str) -> Vec<(String, Slot)> {
        let Some(table) = self.tables.get(collection) else { return Vec::new() };
        table.objects.below(prefix, "").map(|(key, slot)| (key.clone(), slot.clone())).collect()
    }

    /// Some objects below a prefix, from a key on, as of this resourceVersion or an earlier one. The cost grows with the number of the objects
    /// and of the changes since, not with that of the store's objects.
    ///
    /// # Errors
    /// If the history does not reach back that far.
    pub(in crate::embedded) fn page(
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
    pub(in crate::embedded) fn count_from(&self, collection: &Collection, prefix: &str, start: &str) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.below(prefix, start).count())
    }

    /// The objects that reads of a collection have passed.
    #[cfg(test)]
    pub(in crate::embedded) fn visited(&self, collection: &Collection) -> usize {
        self.tables.get(collection).map_or(0, |table| table.objects.visited())
    }

    /// The collections that have objects in a namespace.
    pub(in crate::embedded) fn collections_in(&self, namespace: &str) -> Vec<Collection> {
        let prefix = prefix(namespace);
        let inhabited = self.tables.iter().filter(|(_, table)| table.objects.count(&prefix) > 0);
        inhabited.map(|(collection, _)| collection.clone()).collect()
    }

    /// Stores a new or changed object with the next resourceVersion. Returns the stored object.
    pub(in crate::embedded) fn put(
        &mut self,
        collection: &Collection,
        key: &str,
        object: impl Into<SizedObject>,
    ) -> Arc<Object> {
        let object = self.stamp(object.into());
        let (revision, bytes, bytes_in_history) = (self.revision, object.bytes(), object.bytes_in_history());
        let object = Arc::new(object.into_object());
        self.count_bytes(collection, key, bytes);
        let before = self.table(collection).objects.insert(key, Slot::Parsed(object.clone()), bytes);
        let before = before.map(|slot| slot.object());
        let action = if before.is_some() { Action::Modified } else { Action::Added };
        let (key, bytes) = (key.to_owned(), bytes_in_history);
        self.publish(collection, Change { revision, key, action, object: object.clone(), before, bytes });
        object
    }

    /// Removes an object whose last state is `last`, unless it does not exist. Returns the object that watchers get.
    pub(in crate::embedded) fn remove(
        &mut self,
        collection: &Collection,
        key: &str,
        last: impl Into<SizedObject>,
    ) -> Arc<Object> {
        self.count_bytes(collection, key, 0);
        let before = self.tables.get_mut(collection).and_then(|table| table.objects.remove(key));
        let last = last.into();
        let Some(before) = before.map(|slot| slot.object()) else { return Arc::new(last.into_object()) };
        let last = self.stamp(last);
        let (bytes, object) = (last.bytes_in_history(), Arc::new(last.into_object()));
        let change = Change {
            revision: self.revision,
            key: key.to_owned(),
            action: Action::Deleted,
            object: object.clone(),
            before: Some(before),
            bytes,
        };
        self.publish(collection, change);
        object
    }

    /// Starts a watch.
    ///
    /// # Errors
    /// If the start is older than the history.
    pub(in crate::embedded) fn subscribe(
        &mut self,
        collection: &Collection,
        prefix: &str,
        start: Start,
    ) -> Result<Subscription, Expired> {
        let (revision, watcher_queue) = (self.revision, self.limits.watcher_queue.max(1));
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
    pub(in crate::embedded) fn report_progress(&mut self, collection: &Collection, id: u64) {
        let revision = self.revision;
        let watchers = self.tables.get(collection).map_or(&[][..], |table| &table.watchers);
        if let Some(watcher) = watchers.iter().find(|watcher| watcher.id == id) {
            // A watcher with a full queue must read other messages first.
            let _ = watcher.signals.try_send(Signal::Progress(revision));
        }
    }

    /// The object with the next resourceVersion.
    fn stamp(&mut self, mut object: SizedObject) -> SizedObject {
        self.revision += 1;
        object.stamp(self.revision);
        object
    }

    fn publish(&mut self, collection: &Collection, change: Change) {
        let change = Arc::new(change);
        self.garbage.observe(collection, &change);
        self.expiring.observe(collection, &change);
        if let Some(steps) = &mut self.steps {
            steps.push(Entry::Change(collection.clone(), change.clone()));
        }
        let most = self.limits.watch_history.max(1);
        let table = self.table(collection);
        table.changed = change.revision;
        table.watchers.retain(|watcher| watcher.signals.try_send(Signal::Change(change.clone())).is_ok());
        let surplus = (table.history.len() + 1).saturating_sub(most);
        self.remember(collection, change);
        self.forget_changes(collection, surplus);
        while self.history_bytes > self.limits.watch_history_bytes {
            let longest = self.tables.iter().max_by_key(|(_, table)| table.history_bytes);
            let Some(longest) = longest.map(|(collection, _)| collection.clone()) else { break };
            let before = self.history_bytes;
            self.forget_changes(&longest, 1);
            if self.history_bytes == before {
                break;
            }
        }
    }

    /// Adds a change to the history of a collection.
    fn remember(&mut self, collection: &Collection, change: Arc<Change>) {
        let bytes = change.bytes;
        self.history_bytes += bytes;
        let table = self.table(collection);
        table.history_bytes += bytes;
        table.history.push_back(change);
    }

    /// Drops the oldest changes of a collection from its history.
    fn forget_changes(&mut self, collection: &Collection, count: usize) {
        let table = self.table(collection);
        let count = count.min(table.history.len());
        let oldest: Vec<_> = table.history.drain(..count).collect();
        let Some(newest) = oldest.last() else { return };
        let bytes: usize = oldest.iter().map(|change| change.bytes).sum();
        table.forgotten = newest.revision;
        table.history_bytes = table.history_bytes.saturating_sub(bytes);
        self.history_bytes = self.history_bytes.saturating_sub(bytes);
        let table = self.table(collection);
        let current = oldest.iter().filter(|change| {
            let slot = table.objects.get(&change.key);
            slot.is_some_and(|slot| slot.has(&change.object))
        });
        let unpacked = current.map(|change| (collection.clone(), change.key.clone(), change.object.clone()));
        let unpacked: Vec<_> = unpacked.collect();
        self.leftovers.unpacked.extend(unpacked);
        if let Some(steps) = &mut self.steps {
            let of_deletion = |change: &Change| (change.action == Action::Deleted).then_some(change.revision);
            let records = oldest.iter().flat_map(|change| change.replaced().into_iter().chain(of_deletion(change)));
            let (records, revision) = (records.collect(), newest.revision);
            steps.push(Entry::Forget { collection: collection.clone(), revision, records });
        }
        self.leftovers.changes.extend(oldest);
    }
}

impl Reads for State {
    fn object(&self, collection: &Collection, key: &str) -> Option<Arc<Object>> {
        Self::object(self, collection, key)
    }

    fn objects(&self, collection: &Collection, prefix: &str) -> Vec<(String, Arc<Object>)> {
        Self::objects(self, collection, prefix)
    }

    fn count(&self, collection: &Collection) -> usize {
        Self::count(self, collection)
    }

    fn settings(&self) -> Arc<Settings> {
        Self::settings(self)
    }
}

impl Change {
    /// The resourceVersion of the state before the change.
    pub(super) fn replaced(&self) -> Option<u64> {
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
