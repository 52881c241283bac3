//! The garbage collector (`pkg/controller/garbagecollector`): deletes objects whose owners are gone, and completes deletions that wait for
//! dependents (`foregroundDeletion`) or orphan them (`orphan`).
//!
//! The store keeps the graph, and the queue of the objects to check (`store/dependents.rs`), which a task empties in small transactions.

use super::tasks;
use crate::embedded::server::Server;
use crate::embedded::store::{
    FOREGROUND, ORPHAN, Place, Reads, SizedObject, Store, Unkept, Work, Writer, is_held_by, reference_text as text,
};
use crate::embedded::strategies::deletion::{self, Options};
use crate::embedded::strategies::metadata;
use crate::object::Object;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

/// The maximum number of dependents that are orphaned before other objects get their turn.
const BATCH: usize = 64;

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
    deletion::as_controller(work, &place.collection, &place.key, Some(&object), &Options::with_policy(policy));
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
    let edited = work.change(collection, key, plan, |state, _, object| match deletion::is_over(collection, &object) {
        true => deletion::finish(state, collection, key, object),
        false => state.put(collection, key, object),
    });
    edited.ok().flatten()
}
