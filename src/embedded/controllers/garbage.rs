//! The garbage collector (`pkg/controller/garbagecollector`): deletes objects whose owners are gone, and completes deletions that wait for
//! dependents (`foregroundDeletion`) or orphan them (`orphan`).
//!
//! The store reports each change under its lock. Objects to check are in a queue, which a task empties in small transactions. The queue
//! has each object at most once, so that its bound is the number of objects.

use super::tasks;
use crate::embedded::Server;
use crate::embedded::store::{Action, Change, Collection, Reads, SizedObject, Store, Unkept, Work, Writer};
use crate::embedded::strategies::metadata;
use crate::embedded::verbs::delete::{self, FOREGROUND, ORPHAN, Options};
use crate::object::Object;
use serde_json::Value;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// The maximum number of dependents that are orphaned before other objects get their turn.
const BATCH: usize = 64;

/// The place of an object in the store.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    collection: Collection,
    key: String,
}

/// An object in the graph.
struct Node {
    place: Arc<Place>,
    kind: String,
}

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    /// The hash of the owner's UID.
    owner: u64,
    /// Whether the reference lets the owner's deletion go on without the dependent. Those that hold it up come first.
    is_free: bool,
    dependent: Arc<Place>,
}

/// The graph of owners and dependents.
#[derive(Default)]
pub(in crate::embedded) struct Garbage {
    is_on: bool,
    /// The objects by UID.
    nodes: HashMap<String, Node>,
    /// The dependents of each owner, whether its object exists or not. A list of owners may be as long as an object, so that an edge takes little
    /// memory and time.
    edges: BTreeSet<Edge>,
    /// The objects that wait for the deletion of their dependents.
    waiting: HashSet<Arc<Place>>,
    hasher: RandomState,
    queue: VecDeque<Arc<Place>>,
    queued: HashSet<Arc<Place>>,
}

/// Runs the controller, and the tasks that nobody does, until the server is dropped. Must be called inside a tokio runtime.
pub(in crate::embedded) fn run(server: &Arc<Server>) {
    let (store, wake) = (Arc::downgrade(&server.store), server.store.wake());
    tokio::spawn(async move {
        loop {
            wake.notified().await;
            loop {
                let Some(store) = store.upgrade() else { return };
                match collect(&store).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(Unkept(_)) => return,
                }
            }
        }
    });
}

/// Looks at the first object of the queue, and does the tasks that nobody does. Returns whether others are left.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn collect(store: &Arc<Store>) -> Result<bool, Unkept> {
    let work = Work::new(store);
    let (left, next) = store.with(|state| (state.take_left(), state.garbage().next()));
    work.follow(left);
    if let Some(place) = next
        && let Some(object) = store.object(&place.collection, &place.key)
    {
        collect_object(&work, &place, &object).await?;
    }
    tasks::finish(&work).await?;
    work.pause().await?;
    Ok(store.with(|state| state.garbage().has_work()))
}

/// The owners of an object, by their state.
#[derive(Default)]
struct Owners<'o> {
    /// Whether one exists and does not wait for this object.
    has_solid: bool,
    dangling: Vec<&'o str>,
    waiting: Vec<&'o str>,
    has_dependents: bool,
    /// Whether a dependent of the object waits for its own dependents.
    is_in_circle: bool,
}

impl Garbage {
    pub(in crate::embedded) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Whether objects wait in the queue.
    pub(in crate::embedded) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Adds a change to the graph, and the objects that it concerns to the queue.
    pub(in crate::embedded) fn observe(&mut self, collection: &Collection, change: &Change) {
        // Events are short-lived and own nothing (`ignoredResources`).
        if !self.is_on || collection.resource == *"events" {
            return;
        }
        let (object, before) = (&*change.object, change.before.as_deref());
        let is_deleted = change.action == Action::Deleted;
        let place = match self.nodes.get(object.uid()) {
            Some(known) if known.place.key == change.key && known.place.collection == *collection => {
                known.place.clone()
            }
            _ => Arc::new(Place { collection: collection.clone(), key: change.key.clone() }),
        };
        if is_deleted || before.is_none_or(|before| !references(before).eq(references(object))) {
            for edge in before.into_iter().flat_map(|before| self.edges_of(before, &place)).collect::<Vec<_>>() {
                self.edges.remove(&edge);
            }
            if !is_deleted {
                let edges: Vec<_> = self.edges_of(object, &place).collect();
                self.edges.extend(edges);
            }
        }
        if is_deleted {
            self.nodes.remove(object.uid());
            self.waiting.remove(&place);
            let dependents = self.dependents(object.uid(), usize::MAX);
            dependents.into_iter().for_each(|dependent| self.add(dependent));
        } else {
            let node = Node { place: place.clone(), kind: object.kind().to_owned() };
            self.nodes.insert(object.uid().to_owned(), node);
            match metadata::is_deleting(object) && is_held_by(object, FOREGROUND) {
                true => self.waiting.insert(place.clone()),
                false => self.waiting.remove(&place),
            };
            if has_owners(object) || is_held_by(object, ORPHAN) || is_held_by(object, FOREGROUND) {
                self.add(place);
            }
        }
        // An owner may wait for this dependent.
        for uid in before.into_iter().flat_map(owners) {
            if let Some(owner) = self.nodes.get(uid).map(|node| node.place.clone()) {
                self.add(owner);
            }
        }
    }

    fn edges_of<'g>(&'g self, object: &'g Object, place: &'g Arc<Place>) -> impl Iterator<Item = Edge> + 'g {
        references(object).map(|reference| Edge {
            owner: self.hasher.hash_one(text(reference, "uid")),
            is_free: !blocks(reference),
            dependent: place.clone(),
        })
    }

    fn add(&mut self, place: Arc<Place>) {
        if self.queued.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    fn next(&mut self) -> Option<Arc<Place>> {
        let place = self.queue.pop_front()?;
        self.queued.remove(&place);
        Some(place)
    }

    /// The references to an owner, those that hold up its deletion first.
    fn edges_to(&self, uid: &str) -> impl Iterator<Item = &Edge> {
        let owner = self.hasher.hash_one(uid);
        let first = Place { collection: Collection::built_in("", ""), key: String::new() };
        let first = Edge { owner, is_free: false, dependent: Arc::new(first) };
        self.edges.range(first..).take_while(move |edge| edge.owner == owner)
    }

    /// The first dependents of an owner.
    fn dependents(&self, uid: &str, at_most: usize) -> Vec<Arc<Place>> {
        self.edges_to(uid).take(at_most).map(|edge| edge.dependent.clone()).collect()
    }

    /// Adds the dependents that hold up the deletion of an owner to the queue, those that are being deleted already excepted. Returns whether any
    /// dependent holds it up.
    fn add_blocking(&mut self, uid: &str) -> bool {
        let blocking = self.edges_to(uid).take_while(|edge| !edge.is_free).map(|edge| edge.dependent.clone());
        let blocking: Vec<_> = blocking.collect();
        let is_held = !blocking.is_empty();
        for dependent in blocking {
            if !self.waiting.contains(&dependent) {
                self.add(dependent);
            }
        }
        is_held
    }

    /// Sorts the owners of an object by their state (`GarbageCollector.classifyReferences`).
    fn owners<'o>(&self, object: &'o Object) -> Owners<'o> {
        let mut owners = Owners::default();
        for reference in references(object) {
            let uid = text(reference, "uid");
            match self.owner(reference, object) {
                None => owners.dangling.push(uid),
                Some(owner) if self.waiting.contains(&owner.place) && blocks(reference) => owners.waiting.push(uid),
                Some(_) => owners.has_solid = true,
            }
        }
        if !owners.waiting.is_empty() {
            let mut dependents = self.edges_to(object.uid()).peekable();
            owners.has_dependents = dependents.peek().is_some();
            owners.is_in_circle = dependents.any(|edge| self.waiting.contains(&edge.dependent));
        }
        owners
    }

    /// The owner that a reference names, if it exists.
    fn owner(&self, reference: &Value, dependent: &Object) -> Option<&Node> {
        let owner = self.nodes.get(text(reference, "uid"))?;
        let (namespace, name) = owner.place.key.split_once('/').unwrap_or(("", &owner.place.key));
        let is_reachable = namespace.is_empty() || namespace == dependent.namespace();
        let is_named = name == text(reference, "name") && owner.kind == text(reference, "kind");
        Some(owner).filter(|_| is_reachable && is_named)
    }
}

async fn collect_object(work: &Work, place: &Arc<Place>, object: &Arc<Object>) -> Result<(), Unkept> {
    if !metadata::is_deleting(object) {
        delete_without_owners(work, place, object);
    } else if is_held_by(object, ORPHAN) {
        orphan_dependents(work, place, object).await?;
    } else if is_held_by(object, FOREGROUND)
        // `GarbageCollector.processDeletingDependentsItem`
        && !work.store().with(|state| state.garbage().add_blocking(object.uid()))
    {
        edit(work, place, None, without_finalizer(FOREGROUND));
    }
    Ok(())
}

/// `GarbageCollector.orphanDependents`, a batch of dependents at a time.
async fn orphan_dependents(work: &Work, place: &Arc<Place>, owner: &Arc<Object>) -> Result<(), Unkept> {
    let dependents = work.store().with(|state| state.garbage().dependents(owner.uid(), BATCH + 1));
    for dependent in dependents.iter().take(BATCH) {
        edit(work, dependent, None, without_owners(&[owner.uid()]));
        work.pause().await?;
    }
    match dependents.len() > BATCH {
        true => work.store().with(|state| state.garbage().add(place.clone())),
        false => drop(edit(work, place, None, without_finalizer(ORPHAN))),
    }
    Ok(())
}

/// `GarbageCollector.attemptToDeleteItem`. Does nothing to an object that has changed meanwhile: its owners may have changed, and if it has any it is
/// in the queue again.
fn delete_without_owners(work: &Work, place: &Place, object: &Arc<Object>) {
    let owners = work.store().with(|state| state.garbage().owners(object));
    if owners.dangling.is_empty() && owners.waiting.is_empty() {
        return;
    }
    if owners.has_solid {
        let gone = [owners.dangling, owners.waiting].concat();
        edit(work, place, Some(object), without_owners(&gone));
        return;
    }
    let mut object = object.clone();
    let policy = if owners.has_dependents {
        if owners.is_in_circle {
            // The owners may form a circle, in which each would wait for the next one.
            let Some(unblocked) = edit(work, place, Some(&object), unblock_owners) else { return };
            object = unblocked;
        }
        "Foreground"
    } else if is_held_by(&object, ORPHAN) {
        "Orphan"
    } else if is_held_by(&object, FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    delete::as_controller(work, &place.collection, &place.key, Some(&object), &Options::with_policy(policy));
}

/// Removes the references to these owners.
fn without_owners(uids: &[&str]) -> impl Fn(&mut Object) {
    let uids: HashSet<&str> = uids.iter().copied().collect();
    move |object| {
        if let Some(Value::Array(references)) = object.get_mut(&["metadata", "ownerReferences"]) {
            references.retain(|reference| !uids.contains(text(reference, "uid")));
            if references.is_empty() {
                object.remove(&["metadata", "ownerReferences"]);
            }
        }
    }
}

fn unblock_owners(object: &mut Object) {
    if let Some(Value::Array(references)) = object.get_mut(&["metadata", "ownerReferences"]) {
        for reference in references.iter_mut().filter_map(Value::as_object_mut) {
            reference.insert("blockOwnerDeletion".to_owned(), Value::Bool(false));
        }
    }
}

/// Removes a finalizer.
fn without_finalizer(finalizer: &str) -> impl Fn(&mut Object) {
    move |object| {
        if let Some(Value::Array(finalizers)) = object.get_mut(&["metadata", "finalizers"]) {
            finalizers.retain(|each| each != finalizer);
            if finalizers.is_empty() {
                object.remove(&["metadata", "finalizers"]);
            }
        }
    }
}

/// Changes an object, or only this state of it. Removes it if nothing holds up its deletion any more. Returns the new state; `None` if the object is
/// gone or has another state.
fn edit(work: &Work, place: &Place, only: Option<&Arc<Object>>, edit: impl Fn(&mut Object)) -> Option<Arc<Object>> {
    let Place { collection, key } = place;
    let plan = |current: &Arc<Object>| {
        if only.is_some_and(|only| !Arc::ptr_eq(only, current)) {
            return Err(());
        }
        let mut object = Object::clone(current);
        edit(&mut object);
        Ok(SizedObject::from(object))
    };
    let edited = work.change(collection, key, plan, |state, _, object| match delete::is_over(&object) {
        true => delete::finish(state, collection, key, object),
        false => state.put(collection, key, object),
    });
    edited.ok().flatten()
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

fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
}

fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference.get(field).and_then(Value::as_str).unwrap_or_default()
}
