//! The controllers of CustomResourceDefinitions: the deletion of their objects (`CRDFinalizer`), and names that become free
//! (`NamingConditionController`).

use super::namespaces::all_of;
use crate::embedded::custom::DEFINITIONS;
use crate::embedded::custom::definition::is_true;
use crate::embedded::store::{Reads, SizedObject, State, Store, Unkept, Work, Writer};
use crate::embedded::strategies::definitions::{
    FINALIZER, FINALIZERS, Taken, changed, collection_of, established, find, is_terminating, kind, removed, set,
    wants_names, with_names,
};
use crate::embedded::strategies::deletion::is_over;
use crate::embedded::strategies::owners;
use crate::object::Object;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

/// Deletes the objects of a definition that is being deleted, and then the definition (`CRDFinalizer.sync`).
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn empty_definition(work: &Work, name: &str) -> Result<(), Unkept> {
    let Some(current) = work.store().object(DEFINITIONS, name).filter(|current| is_terminating(current)) else {
        return Ok(());
    };
    let begin = |current: &Arc<Object>| {
        let is_pending = find(current, "Terminating")
            .is_none_or(|condition| condition.get("reason") == Some(&json!("InstanceDeletionPending")));
        let begun = (is_pending && is_terminating(current)).then(|| {
            changed(current, |object| {
                let message = "CustomResource deletion is in progress";
                set(object, "Terminating", "True", "InstanceDeletionInProgress", message);
            })
        });
        Ok::<_, Infallible>(begun.map(SizedObject::from))
    };
    let _ = work.change(DEFINITIONS, name, begin, |state, _, begun| {
        begun.into_iter().for_each(|begun| _ = state.put(DEFINITIONS, name, begun));
    });
    all_of(work, &collection_of(&current), "").await?;
    finish_definition(work, name);
    Ok(())
}

/// Removes a definition that is being deleted after its last object.
pub(in crate::embedded) fn finish_definition(work: &Work, name: &str) {
    let plan = |current: &Arc<Object>| {
        Ok::<_, Infallible>(is_terminating(current).then(|| SizedObject::from(finished(current))))
    };
    let _ = work.change(DEFINITIONS, name, plan, |state, current, finished| {
        let Some(object) = finished.filter(|_| state.count(&collection_of(current)) == 0) else { return };
        if is_over(DEFINITIONS, &object) {
            state.remove(DEFINITIONS, name, object);
            removed(state, current);
        } else {
            state.put(DEFINITIONS, name, object);
        }
    });
}

/// The last state of a definition by its finalizer.
fn finished(current: &Object) -> Object {
    let (reason, message) = match is_true(current, "Established") {
        true => ("InstanceDeletionCompleted", "removed all instances"),
        false => ("NeverEstablished", "resource was never established"),
    };
    let mut object = current.clone();
    set(&mut object, "Terminating", "False", reason, message);
    if let Some(Value::Array(finalizers)) = object.get_mut(&FINALIZERS) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    if object.items(&FINALIZERS).is_empty() {
        object.remove(&FINALIZERS);
    }
    if !is_over(DEFINITIONS, &object) {
        owners::record_own(&kind(), "status", current, &mut object);
    }
    object
}

/// Accepts names of definitions of a group that became free. Each definition can free names for others. This ends: a definition that gets its names
/// keeps them, and a step that is in vain follows the write of a definition by a request, which does this work itself before its answer, so that
/// there are no more of them at a time than seats for writes.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn reconsider_names(work: &Work, group: &str) -> Result<(), Unkept> {
    while let Some(next) = Renaming::next(work.store(), group) {
        work.transact(|state| next.write(state));
        work.pause().await?;
    }
    Ok(())
}

/// A definition that gets names that became free.
struct Renaming {
    /// The state of the definitions from which this was computed.
    basis: u64,
    name: String,
    steps: Vec<SizedObject>,
}

impl Renaming {
    /// The first one; `None` if no definition of the group gets other names.
    fn next(store: &Store, group: &str) -> Option<Self> {
        let basis = store.with(|state| state.changed(DEFINITIONS));
        let all = store.objects(DEFINITIONS, "").into_iter().map(|(_, definition)| definition);
        let wanting: Vec<_> =
            all.filter(|other| other.str(&["spec", "group"]) == group && wants_names(other)).collect();
        if wanting.is_empty() {
            return None;
        }
        let taken = Taken::of_group(store, group);
        wanting.iter().find_map(|other| {
            let named = with_names(&taken, other)?;
            let established = established(&named);
            let steps = [named].into_iter().chain(established).map(SizedObject::from).collect();
            Some(Self { basis, name: other.name().to_owned(), steps })
        })
    }

    /// Writes the steps, unless a definition has changed.
    fn write(self, state: &mut State) {
        if state.changed(DEFINITIONS) == self.basis {
            self.steps.into_iter().for_each(|step| _ = state.put(DEFINITIONS, &self.name, step));
        }
    }
}
