//! The graph of owners and dependents, and the queue of the objects that the garbage collector is to check
//! (`pkg/controller/garbagecollector/graph_builder.go`).
//!
//! The store reports each change under its lock. The queue has each object at most once, so that its bound is the number of objects.

use super::{Action, Change, Collection};
use crate::object::Object;
use serde_json::Value;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// The finalizers for the propagation policies of a deletion.
pub(in crate::embedded) const ORPHAN: &str = "orphan";
pub(in crate::embedded) const FOREGROUND: &str = "foregroundDeletion";

/// Whether an object is being deleted.
pub(in crate::embedded) fn is_deleting(object: &Object) -> bool {
    object.get(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// The place of an object in the store.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::embedded) struct Place {
    pub(in crate::embedded) collection: Collection,
    pub(in crate::embedded) key: String,
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

/// The owners of an object, by their state.
#[derive(Default)]
pub(in crate::embedded) struct Owners<'o> {
    /// Whether one exists and does not wait for this object.
    pub(in crate::embedded) has_solid: bool,
    pub(in crate::embedded) dangling: Vec<&'o str>,
    pub(in crate::embedded) waiting: Vec<&'o str>,
    pub(in crate::embedded) has_dependents: bool,
    /// Whether a dependent of the object waits for its own dependents.
    pub(in crate::embedded) is_in_circle: bool,
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
            match is_deleting(object) && is_held_by(object, FOREGROUND) {
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

    pub(in crate::embedded) fn add(&mut self, place: Arc<Place>) {
        if self.queued.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    pub(in crate::embedded) fn next(&mut self) -> Option<Arc<Place>> {
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
    pub(in crate::embedded) fn dependents(&self, uid: &str, at_most: usize) -> Vec<Arc<Place>> {
        self.edges_to(uid).take(at_most).map(|edge| edge.dependent.clone()).collect()
    }

    /// Adds the dependents that hold up the deletion of an owner to the queue, those that are being deleted already excepted. Returns whether any
    /// dependent holds it up.
    pub(in crate::embedded) fn add_blocking(&mut self, uid: &str) -> bool {
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
    pub(in crate::embedded) fn owners<'o>(&self, object: &'o Object) -> Owners<'o> {
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

fn references(object: &Object) -> impl Iterator<Item = &Value> {
    object.items(&["metadata", "ownerReferences"]).iter()
}

fn owners(object: &Object) -> impl Iterator<Item = &str> {
    references(object).map(|reference| text(reference, "uid"))
}

fn has_owners(object: &Object) -> bool {
    !object.items(&["metadata", "ownerReferences"]).is_empty()
}

pub(in crate::embedded) fn is_held_by(object: &Object, finalizer: &str) -> bool {
    object.items(&["metadata", "finalizers"]).iter().any(|each| each == finalizer)
}

fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
}

pub(in crate::embedded) fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference.get(field).and_then(Value::as_str).unwrap_or_default()
}
