//! The work of the controllers after a write, and the writers that do it.

use super::{Collection, Reads, State, Store, Unkept};
use crate::object::Object;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of times that a change is computed without the lock of the store. The last time, the lock is held.
const ATTEMPTS: usize = 8;

/// The work of a controller on the objects that a write concerns, done after the write in small transactions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::embedded) enum Task {
    /// Deletes an object.
    Delete {
        /// The collection of the object.
        collection: Collection,
        /// The key of the object.
        key: String,
    },
    /// Deletes the objects of a terminating namespace, and then the namespace.
    Namespace(String),
    /// Removes a terminating namespace if it is empty.
    EmptyNamespace(String),
    /// Deletes the objects of a terminating definition, and then the definition.
    Definition(String),
    /// Removes a terminating definition if it has no objects.
    EmptyDefinition(String),
    /// Accepts the names of the definitions of an API group that became free.
    Names(String),
    /// Registers the versions that the definitions of an API group serve.
    Registrations(String),
    /// Checks whether an APIService is available.
    Availability(String),
    /// Checks whether each APIService of a Service is available.
    Availabilities,
    /// Restores the Service of the API server.
    KubernetesService,
}

/// A writer to a store, which does the tasks that follow from its writes.
pub(in crate::embedded) trait Writer {
    /// The store.
    fn store(&self) -> &Store;

    /// Takes the tasks of a transaction.
    fn follow(&self, tasks: Vec<Task>);

    /// Runs a transaction ([`Store::with`]).
    fn transact<T>(&self, transaction: impl FnOnce(&mut State) -> T) -> T {
        let (result, tasks) = self.store().transact(transaction);
        if !tasks.is_empty() {
            self.follow(tasks);
        }
        result
    }

    /// Changes an object: `plan` computes the change, without the lock of the store but for an object that changes all the time, and `commit` makes
    /// it. Neither may use the store itself. Returns `None` if there is no such object.
    ///
    /// # Errors
    /// Those of `plan`.
    fn change<P, T, E>(
        &self,
        collection: &Collection,
        key: &str,
        plan: impl Fn(&Arc<Object>) -> Result<P, E>,
        commit: impl Fn(&mut State, &Arc<Object>, P) -> T,
    ) -> Result<Option<T>, E> {
        for _ in 1..ATTEMPTS {
            let Some(current) = self.store().object(collection, key) else { return Ok(None) };
            let planned = plan(&current)?;
            let made =
                |state: &mut State| state.has(collection, key, &current).then(|| commit(state, &current, planned));
            if let Some(made) = self.transact(made) {
                return Ok(Some(made));
            }
        }
        self.transact(|state| {
            let Some(current) = state.object(collection, key) else { return Ok(None) };
            let planned = plan(&current)?;
            Ok(Some(commit(state, &current, planned)))
        })
    }
}

/// The tasks that follow from a write, and those that follow from them. If nobody does them to the end, because the client has left or the
/// request took too long, the controllers' own task does the rest: no client has more tasks at a time than it has requests.
pub(in crate::embedded) struct Work {
    store: Arc<Store>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The task that is done now.
    current: Option<Task>,
    tasks: VecDeque<Task>,
    /// The tasks in the queue, each of which is there once.
    known: HashSet<Task>,
}

impl Work {
    /// No tasks.
    pub(in crate::embedded) fn new(store: &Arc<Store>) -> Self {
        Self { store: store.clone(), queue: Mutex::default() }
    }

    /// The next task. The one before is done.
    pub(in crate::embedded) fn next(&self) -> Option<Task> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.current = queue.tasks.pop_front();
        let task = queue.current.clone()?;
        queue.known.remove(&task);
        Some(task)
    }

    /// Gives requests of clients their turns, and the file time for what was written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(in crate::embedded) async fn pause(&self) -> Result<(), Unkept> {
        tokio::task::yield_now().await;
        self.store.room().await
    }
}

impl Writer for Work {
    fn store(&self) -> &Store {
        &self.store
    }

    fn follow(&self, tasks: Vec<Task>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for task in tasks {
            if queue.known.insert(task.clone()) {
                queue.tasks.push_back(task);
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let Queue { current, tasks, .. } = std::mem::take(self.queue.get_mut().unwrap_or_else(PoisonError::into_inner));
        let left: Vec<Task> = current.into_iter().chain(tasks).collect();
        if !left.is_empty() {
            self.store.with(|state| state.leave(left));
        }
    }
}
