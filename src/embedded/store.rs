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
//! - a transaction is there as a whole or not at all, and what the controllers have not done after it they do after the next start;
//! - no client has seen a resourceVersion that the store uses again: the lost ones are only those that the file never had.
//!
//! A failed write to the file ends the service: memory and file differ from then on. Every request gets an error until the process starts
//! again with the content of the file, in which the last changes may be there or not.

mod file;
mod keeper;
pub(super) mod size;
mod expiring;
mod objects;
mod leftovers;
mod lock;
mod slot;
mod state;
mod dependents;
mod tasks;
pub(in crate::embedded) mod capacity;
pub(in crate::embedded) mod data_dir;

use super::name::Name;
use super::settings::Settings;
use crate::config::Limits;
use crate::object::Object;
use crate::turns::Turns;
pub(super) use dependents::{FOREGROUND, ORPHAN, Place, is_deleting, is_held_by, text as reference_text};
pub(super) use expiring::EVENTS;
use file::Content;
pub(crate) use file::{File, FileError, Lock};
use keeper::{Keeper, Progress};
use leftovers::Leftovers;
use lock::Locked;
use serde::{Deserialize, Serialize};
pub(super) use size::SizedObject;
pub(super) use slot::Slot;
pub(super) use state::State;
use std::collections::VecDeque;
use std::sync::Arc;
pub(super) use tasks::{Task, Work, Writer};
use tokio::sync::{Notify, mpsc, watch};

/// The objects of one resource in all of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Collection {
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
    /// The bytes of the object in the history.
    pub bytes: usize,
}

/// A message to a watcher.
#[derive(Clone, Debug)]
pub(super) enum Signal {
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

/// Reads of objects: all in one transaction of [`State`], or each in one of its own at the [`Store`], which then serves other requests while
/// the reader works on what it has read.
pub(super) trait Reads {
    /// The object with this key.
    fn object(&self, collection: &Collection, key: &str) -> Option<Arc<Object>>;
    /// The objects whose keys begin with `prefix`, in the keys' order.
    fn objects(&self, collection: &Collection, prefix: &str) -> Vec<(String, Arc<Object>)>;
    /// The number of objects in a collection.
    fn count(&self, collection: &Collection) -> usize;
    /// The configuration of the server.
    fn settings(&self) -> Arc<Settings>;
}

impl Reads for Store {
    fn object(&self, collection: &Collection, key: &str) -> Option<Arc<Object>> {
        // A packed object is parsed without the lock.
        let slot = self.with(|state| state.slot(collection, key))?;
        let object = slot.object();
        if slot.is_packed() {
            self.with(|state| state.keep_warm(collection, &object));
        }
        Some(object)
    }

    fn objects(&self, collection: &Collection, prefix: &str) -> Vec<(String, Arc<Object>)> {
        let slots = self.with(|state| state.slots(collection, prefix));
        slots.into_iter().map(|(key, slot)| (key, slot.object())).collect()
    }

    fn count(&self, collection: &Collection) -> usize {
        self.with(|state| state.count(collection))
    }

    fn settings(&self) -> Arc<Settings> {
        self.with(|state| state.settings())
    }
}

/// The store.
pub(super) struct Store {
    state: Locked<State>,
    keeper: Option<Keeper>,
    unwritten: u64,
    /// Notified when the garbage collector has work, and when the store is dropped.
    wake: Arc<Notify>,
    /// Notified when the store is dropped.
    gone: Arc<Notify>,
    /// The turns of the writes that start over.
    pub(super) turns: Turns,
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
    pub(super) fn new(limits: Arc<Limits>, settings: Arc<Settings>) -> Self {
        Self::of(State::new(limits, settings), None)
    }

    /// A store with the content of a file, which it keeps up to date.
    ///
    /// # Errors
    /// If the file cannot be read, or no thread can be started for it.
    pub(super) fn open(limits: Arc<Limits>, settings: Arc<Settings>, file: File) -> Result<Self, FileError> {
        let mut state = State::new(limits, settings);
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
        let unwritten = u64::try_from(state.limits.unwritten_changes.max(1)).unwrap_or(u64::MAX);
        Self {
            state: Locked::new(state),
            keeper,
            unwritten,
            wake: Arc::default(),
            gone: Arc::default(),
            turns: Turns::default(),
        }
    }

    /// The signal that the garbage collector has work.
    pub(super) fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    /// The signal that the store is dropped.
    pub(super) fn gone(&self) -> Arc<Notify> {
        self.gone.clone()
    }

    /// Runs a transaction, isolated from all others. The lock is held for the transaction: the work on a client's data precedes it.
    pub(super) fn with<T>(&self, transaction: impl FnOnce(&mut State) -> T) -> T {
        // Each step of a transaction leaves the state consistent, so a panic in one transaction does not affect others.
        let (result, leftovers) = self.state.with(|state| {
            let result = transaction(state);
            let State { revision, steps, .. } = &mut *state;
            if let (Some(keeper), Some(steps)) = (&self.keeper, steps)
                && !steps.is_empty()
            {
                keeper.push(steps, *revision);
            }
            if state.garbage.has_work() || !state.left.is_empty() {
                self.wake.notify_one();
            }
            (result, std::mem::take(&mut state.leftovers))
        });
        self.pack(leftovers);
        result
    }

    /// Runs a transaction, and returns the tasks that it leaves to its caller.
    pub(super) fn transact<T>(&self, transaction: impl FnOnce(&mut State) -> T) -> (T, Vec<Task>) {
        self.with(|state| {
            let result = transaction(state);
            (result, std::mem::take(&mut state.tasks))
        })
    }

    /// Packs objects, and drops what only the history had, without the lock.
    fn pack(&self, leftovers: Leftovers) {
        for (collection, key, object) in leftovers.unpacked {
            if let Some(packed) = Slot::packed(&object) {
                self.state.with(|state| state.replace_by_packed(&collection, &key, &object, packed));
            }
        }
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
        self.gone.notify_one();
    }
}

#[cfg(test)]
impl Store {
    /// The longest transaction since the last call, in CPU time.
    pub(super) fn take_longest(&self) -> std::time::Duration {
        self.state.take_longest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PODS: &Collection = &Collection::built_in("", "pods");

    fn named(name: &str, n: u64) -> Object {
        Object::from_value(json!({"metadata": {"name": name}, "n": n})).unwrap()
    }

    fn store(history: usize, watcher_queue: usize) -> Store {
        let limits = Limits { watch_history: history, watcher_queue, unwritten_changes: 10, ..Limits::default() };
        Store::new(Arc::new(limits), Arc::default())
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
    fn the_bytes_of_the_histories_are_bounded() {
        let limits = Limits { watch_history_bytes: 10_000, ..Limits::default() };
        let store = Store::new(Arc::new(limits), Arc::default());
        let large =
            |name: &str| Object::from_value(json!({"metadata": {"name": name}, "text": "x".repeat(1000)})).unwrap();
        let maps = &Collection::built_in("", "configmaps");
        store.with(|state| {
            state.put(maps, "a", named("a", 1));
            let start = state.revision();
            for n in 0..100 {
                state.put(PODS, &n.to_string(), large(&n.to_string()));
            }
            let backlog = state.subscribe(PODS, "", Start::After(state.revision() - 5)).unwrap().backlog;
            assert_eq!(backlog.len(), 5);
            // The changes of pods are dropped, not those of others.
            assert_eq!(
                state.subscribe(PODS, "", Start::After(start)).err().map(|error| error.oldest > start),
                Some(true)
            );
            assert_eq!(state.subscribe(maps, "", Start::After(start - 1)).unwrap().backlog.len(), 1);
            assert_eq!(state.count(PODS), 100);
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
