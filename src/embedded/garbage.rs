//! The garbage collector (`pkg/controller/garbagecollector`): deletes objects whose owners are gone, and completes deletions that wait for
//! dependents (`foregroundDeletion`) or orphan them (`orphan`).
//!
//! The store reports each change under its lock. Objects to check are in a queue, which a task empties in small transactions. The queue
//! has each object at most once, so that its bound is the number of objects.

use super::delete::{self, FOREGROUND, ORPHAN, Options};
use super::store::{Action, Change, Collection, State};
use super::{Server, metadata};
use crate::object::Object;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The maximum number of objects that one transaction checks.
const BATCH: usize = 64;
/// The number of references to owners after which a transaction ends.
const REFERENCES: usize = 1024;

/// The place of an object in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    collection: Collection,
    key: String,
}

/// The graph of owners and dependents, by UID.
#[derive(Default)]
pub(super) struct Garbage {
    is_on: bool,
    /// The place of each object.
    places: HashMap<String, Place>,
    /// The dependents of each UID, whether its object exists or not.
    dependents: HashMap<String, BTreeSet<Place>>,
    queue: VecDeque<Place>,
    queued: HashSet<Place>,
}

/// Runs the controller until the server is dropped. Must be called inside a tokio runtime.
pub(super) fn run(server: &Arc<Server>) {
    let (store, wake) = (Arc::downgrade(&server.store), server.store.wake());
    tokio::spawn(async move {
        loop {
            wake.notified().await;
            loop {
                let Some(store) = store.upgrade() else { return };
                if store.room().await.is_err() {
                    return;
                }
                if !store.with(|state| collect(state, BATCH)) {
                    break;
                }
                // Requests of clients get their turns between the transactions.
                tokio::task::yield_now().await;
            }
        }
    });
}

/// Looks at the first objects of the queue. Returns whether others are left.
pub(super) fn collect(state: &mut State, at_most: usize) -> bool {
    let mut references_left = REFERENCES;
    for _ in 0..at_most {
        let Some(place) = state.garbage().next() else { return false };
        let Some(object) = state.object(&place.collection, &place.key) else { continue };
        collect_object(state, &place, &object);
        references_left = references_left.saturating_sub(references(&object).count());
        if references_left == 0 {
            break;
        }
    }
    state.garbage().has_work()
}

impl Garbage {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Whether objects wait in the queue.
    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Adds a change to the graph, and the objects that it concerns to the queue.
    pub(super) fn observe(&mut self, collection: &Collection, change: &Change) {
        // Events are short-lived and own nothing (`ignoredResources`).
        if !self.is_on || collection.resource == *"events" {
            return;
        }
        let place = Place { collection: collection.clone(), key: change.key.clone() };
        for uid in change.before.iter().flat_map(|before| owners(before)) {
            if let Some(places) = self.dependents.get_mut(uid) {
                places.remove(&place);
                if places.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        let object = &change.object;
        if change.action == Action::Deleted {
            self.places.remove(object.uid());
            self.dependents_of(object.uid()).into_iter().for_each(|dependent| self.add(dependent));
        } else {
            self.places.insert(object.uid().to_owned(), place.clone());
            for uid in owners(object) {
                self.dependents.entry(uid.to_owned()).or_default().insert(place.clone());
            }
            if has_owners(object) || is_held_by(object, ORPHAN) || is_held_by(object, FOREGROUND) {
                self.add(place);
            }
        }
        // An owner may wait for this dependent.
        let before = change.before.iter().flat_map(|before| owners(before));
        let waiting: Vec<Place> = before.filter_map(|uid| self.places.get(uid).cloned()).collect();
        waiting.into_iter().for_each(|owner| self.add(owner));
    }

    fn add(&mut self, place: Place) {
        if self.queued.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    fn next(&mut self) -> Option<Place> {
        let place = self.queue.pop_front()?;
        self.queued.remove(&place);
        Some(place)
    }

    fn dependents_of(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).map(|places| places.iter().cloned().collect()).unwrap_or_default()
    }
}

fn collect_object(state: &mut State, place: &Place, object: &Object) {
    if metadata::is_deleting(object) {
        if is_held_by(object, ORPHAN) {
            return orphan_dependents(state, place, object);
        }
        if is_held_by(object, FOREGROUND) {
            return delete_dependents(state, place, object);
        }
        return;
    }
    delete_without_owners(state, place, object);
}

/// `GarbageCollector.orphanDependents`, a batch of dependents at a time.
fn orphan_dependents(state: &mut State, place: &Place, owner: &Object) {
    let dependents = state.garbage().dependents_of(owner.uid());
    for dependent in dependents.iter().take(BATCH) {
        if let Some(object) = state.object(&dependent.collection, &dependent.key) {
            without_owners(state, dependent, &object, &[owner.uid()]);
        }
    }
    match dependents.len() > BATCH {
        true => state.garbage().add(place.clone()),
        false => without_finalizer(state, place, ORPHAN),
    }
}

/// `GarbageCollector.processDeletingDependentsItem`.
fn delete_dependents(state: &mut State, place: &Place, owner: &Object) {
    let dependents = state.garbage().dependents_of(owner.uid());
    let blocking: Vec<(Place, Arc<Object>)> = dependents
        .into_iter()
        .filter_map(|place| state.object(&place.collection, &place.key).map(|object| (place, object)))
        .filter(|(_, object)| {
            references(object).any(|reference| text(reference, "uid") == owner.uid() && blocks(reference))
        })
        .collect();
    if blocking.is_empty() {
        return without_finalizer(state, place, FOREGROUND);
    }
    for (dependent, object) in blocking {
        if !is_deleting_dependents(&object) {
            state.garbage().add(dependent);
        }
    }
}

/// `GarbageCollector.attemptToDeleteItem`.
fn delete_without_owners(state: &mut State, place: &Place, object: &Object) {
    let (mut has_solid, mut dangling, mut waiting) = (false, Vec::new(), Vec::new());
    for reference in references(object) {
        let uid = text(reference, "uid");
        match owner(state, reference, object) {
            None => dangling.push(uid),
            Some(owner) if is_deleting_dependents(&owner) && blocks(reference) => waiting.push(uid),
            Some(_) => has_solid = true,
        }
    }
    if dangling.is_empty() && waiting.is_empty() {
        return;
    }
    if has_solid {
        return without_owners(state, place, object, &[dangling, waiting].concat());
    }
    let dependents = state.garbage().dependents_of(object.uid());
    let policy = if !waiting.is_empty() && !dependents.is_empty() {
        let deletes = |place: &Place| {
            state.object(&place.collection, &place.key).is_some_and(|dependent| is_deleting_dependents(&dependent))
        };
        if dependents.iter().any(deletes) {
            // The owners may form a circle, in which each would wait for the next one.
            unblock_owners(state, place, object);
        }
        "Foreground"
    } else if is_held_by(object, ORPHAN) {
        "Orphan"
    } else if is_held_by(object, FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    if let Some(current) = state.object(&place.collection, &place.key) {
        delete::as_controller(state, &place.collection, &place.key, &current, &Options::with_policy(policy));
    }
}

/// The owner that a reference names, if it exists.
fn owner(state: &mut State, reference: &Value, dependent: &Object) -> Option<Arc<Object>> {
    let place = state.garbage().places.get(text(reference, "uid")).cloned()?;
    let owner = state.object(&place.collection, &place.key)?;
    let is_reachable = owner.namespace().is_empty() || owner.namespace() == dependent.namespace();
    (is_reachable && owner.name() == text(reference, "name") && owner.kind() == text(reference, "kind"))
        .then_some(owner)
}

/// Removes the references to these owners.
fn without_owners(state: &mut State, place: &Place, object: &Object, uids: &[&str]) {
    let mut object = object.clone();
    let uids: HashSet<&str> = uids.iter().copied().collect();
    if let Some(Value::Array(references)) = object.get_mut(&["metadata", "ownerReferences"]) {
        references.retain(|reference| !uids.contains(text(reference, "uid")));
        if references.is_empty() {
            object.remove(&["metadata", "ownerReferences"]);
        }
    }
    state.put(&place.collection, &place.key, object);
}

fn unblock_owners(state: &mut State, place: &Place, object: &Object) {
    let mut object = object.clone();
    if let Some(Value::Array(references)) = object.get_mut(&["metadata", "ownerReferences"]) {
        for reference in references.iter_mut().filter_map(Value::as_object_mut) {
            reference.insert("blockOwnerDeletion".to_owned(), Value::Bool(false));
        }
    }
    state.put(&place.collection, &place.key, object);
}

/// Removes a finalizer, and the object with its last one.
fn without_finalizer(state: &mut State, place: &Place, finalizer: &str) {
    let Some(object) = state.object(&place.collection, &place.key) else { return };
    let mut object = Object::clone(&object);
    if let Some(Value::Array(finalizers)) = object.get_mut(&["metadata", "finalizers"]) {
        finalizers.retain(|each| each != finalizer);
        if finalizers.is_empty() {
            object.remove(&["metadata", "finalizers"]);
        }
    }
    match delete::is_over(&object) {
        true => drop(delete::finish(state, &place.collection, &place.key, object)),
        false => drop(state.put(&place.collection, &place.key, object)),
    }
}

fn references(object: &Object) -> impl Iterator<Item = &Value> {
    object.items(&["metadata", "ownerReferences"]).iter()
}

fn owners(object: &Object) -> impl Iterator<Item = &str> {
    references(object).map(|reference| text(reference, "uid"))
}

fn has_owners(object: &Object) -> bool {
    !object.items(&["metadata", "ownerReferences"]).is_empty()
}

fn is_held_by(object: &Object, finalizer: &str) -> bool {
    object.items(&["metadata", "finalizers"]).iter().any(|each| each == finalizer)
}

/// Whether the object waits for the deletion of its dependents.
fn is_deleting_dependents(object: &Object) -> bool {
    metadata::is_deleting(object) && is_held_by(object, FOREGROUND)
}

fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
}

fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference.get(field).and_then(Value::as_str).unwrap_or_default()
}
