//! The effect of a deletion on an object: immediate, graceful, or delayed by finalizers (`rest.BeforeDelete`, `Store.Delete`).

pub(in crate::embedded) use super::delete_options::Options;
use super::strategy::Grace;
use super::{metadata, namespaces};
use crate::embedded::store::{Collection, SizedObject, State, Task, Writer};
use crate::object::Object;
use serde_json::Value;
use std::sync::Arc;

/// The effect of a deletion on an object, computed without the lock of the store.
pub(in crate::embedded) enum Deletion {
    /// The object stays as it is.
    Unchanged,
    /// The object stays, in this state.
    Marked(SizedObject),
    /// The object goes, in this last state.
    Gone(SizedObject),
}

/// The result of a deletion.
pub(in crate::embedded) struct Outcome {
    pub(in crate::embedded) object: Arc<Object>,
    pub(in crate::embedded) is_deleted: bool,
}

/// Computes the effect of a deletion on the current object.
pub(in crate::embedded) fn planned(collection: &Collection, current: &Arc<Object>, options: &Options) -> Deletion {
    let mut object = Object::clone(current);
    let strategy = super::of_collection(collection);
    let grace = strategy.begin_deletion(&mut object, options);
    match grace {
        Grace::Pending => return Deletion::Unchanged,
        Grace::Marked => return Deletion::Marked(object.into()),
        Grace::None | Grace::Over | Grace::Period => {}
    }
    let finalizers = options.finalizers(strategy.orphans_dependents(), &object);
    if finalizers.is_empty() {
        object.remove(&["metadata", "finalizers"]);
        let object = object.into();
        return if grace == Grace::Period { Deletion::Marked(object) } else { Deletion::Gone(object) };
    }
    let _ = object.set(&["metadata", "finalizers"], Value::Array(finalizers));
    if grace == Grace::None {
        mark_as_deleting(&mut object);
    }
    if object == **current { Deletion::Unchanged } else { Deletion::Marked(object.into()) }
}

/// Stores a deletion of the current object.
pub(in crate::embedded) fn commit(
    state: &mut State,
    collection: &Collection,
    key: &str,
    current: &Arc<Object>,
    deletion: Deletion,
) -> Outcome {
    let object = match deletion {
        Deletion::Gone(last) => {
            return Outcome { object: finish(state, collection, key, last), is_deleted: true };
        }
        Deletion::Marked(object) => state.put(collection, key, object),
        Deletion::Unchanged => current.clone(),
    };
    super::of_collection(collection).after_deletion_begun(state, key);
    Outcome { object, is_deleted: false }
}

/// `registry.markAsDeleting`.
fn mark_as_deleting(object: &mut Object) {
    if !metadata::is_deleting(object) {
        metadata::next_generation(object);
        let _ = object.set(&["metadata", "deletionTimestamp"], Value::from(metadata::now()));
    }
    let _ = object.set(&["metadata", "deletionGracePeriodSeconds"], Value::from(0));
}

/// Whether a deletion can be completed, with neither a grace period nor finalizers left (`ShouldDeleteDuringUpdate`).
pub(in crate::embedded) fn is_over(collection: &Collection, object: &Object) -> bool {
    let grace = object.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
    metadata::is_deleting(object)
        && grace == 0
        && object.items(&["metadata", "finalizers"]).is_empty()
        && !super::of_collection(collection).is_held(object)
}

/// Removes an object. The last object of a terminating namespace or definition takes that with it.
pub(in crate::embedded) fn finish(
    state: &mut State,
    collection: &Collection,
    key: &str,
    last: impl Into<SizedObject>,
) -> Arc<Object> {
    let removed = state.remove(collection, key, last.into());
    let strategy = super::of_collection(collection);
    strategy.after_delete(state, collection, &removed);
    let namespace = removed.namespace();
    if !namespace.is_empty() && namespaces::is_emptied(state, namespace) {
        state.then(Task::EmptyNamespace(namespace.to_owned()));
    }
    strategy.after_change(state, &removed);
    removed
}

/// Deletes an object for a controller, or only this state of it.
pub(in crate::embedded) fn as_controller(
    writer: &impl Writer,
    collection: &Collection,
    key: &str,
    only: Option<&Arc<Object>>,
    options: &Options,
) {
    let plan = |current: &Arc<Object>| match only.is_none_or(|only| Arc::ptr_eq(only, current)) {
        true => Ok(planned(collection, current, options)),
        false => Err(()),
    };
    let _ = writer.change(collection, key, plan, |state, current, deletion| {
        commit(state, collection, key, current, deletion);
    });
}
