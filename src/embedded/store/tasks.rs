//! What a write leaves to the controllers, and who writes.

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

/// Who writes to a store, and does the tasks that follow from the writes.
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

/// The tasks of a controller, and those that follow from them.
pub(in crate::embedded) struct Work<'s> {
    store: &'s Store,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// The tasks in the queue, each of which is there once.
    known: HashSet<Task>,
}

impl<'s> Work<'s> {
    /// No tasks.
    pub(in crate::embedded) fn new(store: &'s Store) -> Self {
        Self { store, queue: Mutex::default() }
    }

    /// The next task.
    pub(in crate::embedded) fn next(&self) -> Option<Task> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let task = queue.tasks.pop_front()?;
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

impl Writer for Work<'_> {
    fn store(&self) -> &Store {
        self.store
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
