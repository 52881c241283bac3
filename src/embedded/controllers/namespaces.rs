//! The namespaces of every cluster (`systemnamespaces.Controller`), and the deletion of a namespace with its objects
//! (`pkg/controller/namespace`).

use crate::embedded::api::catalog;
use crate::embedded::custom::DEFINITIONS;
use crate::embedded::store::{Collection, Reads, State, Store, Task, Unkept, Work, Writer, prefix};
use crate::embedded::strategies::collections::NAMESPACES;
use crate::embedded::strategies::contents::{self, named};
use crate::embedded::strategies::deletion::{Options, as_controller, is_over};
use crate::embedded::strategies::namespaces::{KUBERNETES, is_emptied, is_terminating, prepare};
use crate::embedded::strategies::{definitions, metadata};
use crate::object::Object;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;

/// Namespaces of every cluster (`systemnamespaces.Controller`).
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates the namespaces of every cluster, and the missing contents of the others.
pub(in crate::embedded) fn start(state: &mut State) {
    let Some(resource) = catalog::resource("", "v1", "namespaces") else { return };
    for (name, namespace) in state.objects(NAMESPACES, "") {
        if !metadata::is_deleting(&namespace) {
            contents::create(state, &name);
        }
    }
    for name in SYSTEM_NAMESPACES {
        if state.object(NAMESPACES, name).is_some() {
            continue;
        }
        let mut object = named("Namespace", "", name);
        metadata::begin(resource, &mut object);
        prepare(&mut object);
        state.put(NAMESPACES, name, object);
        contents::create(state, name);
    }
}

/// Leaves to the controllers what was under way when the server ended.
pub(in crate::embedded) fn resume(store: &Store) {
    let begun = |collection| {
        let objects = store.objects(collection, "").into_iter();
        objects.filter(|(_, object)| metadata::is_deleting(object)).map(|(key, _)| key)
    };
    let (namespaces, definitions) = (begun(NAMESPACES), begun(DEFINITIONS));
    let groups = definitions::names_to_reconsider(store);
    store.with(|state| {
        state.leave(groups.into_iter().map(Task::Names).chain(definitions.map(Task::Definition)));
        if state.settings().controllers.namespace {
            state.leave(namespaces.map(Task::Namespace));
        }
    });
}

/// Deletes all objects in a terminating namespace, and then the namespace. Objects with finalizers stay, marked as deleted.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn empty_namespace(work: &Work, namespace: &str) -> Result<(), Unkept> {
    let collections = work.store().with(|state| match is_terminating(state, namespace) {
        true => state.collections_in(namespace),
        false => Vec::new(),
    });
    for collection in collections {
        all_of(work, &collection, namespace).await?;
    }
    finish_namespace(work, namespace);
    Ok(())
}

/// Removes a terminating namespace that has become empty, unless another finalizer holds it.
pub(in crate::embedded) fn finish_namespace(work: &Work, name: &str) {
    if !work.store().with(|state| is_emptied(state, name)) {
        return;
    }
    let plan = |namespace: &Arc<Object>| {
        let mut object = Object::clone(namespace);
        if let Some(Value::Array(finalizers)) = object.get_mut(&["spec", "finalizers"]) {
            finalizers.retain(|finalizer| finalizer != KUBERNETES);
        }
        Ok::<_, Infallible>(object)
    };
    let _ = work.change(NAMESPACES, name, plan, |state, namespace, object| {
        if !is_emptied(state, name) {
            return;
        }
        if is_over(NAMESPACES, &object) {
            state.remove(NAMESPACES, name, object);
        } else if object != **namespace {
            state.put(NAMESPACES, name, object);
        }
    });
}

/// Deletes all objects of a collection in a namespace, or in all if the namespace is empty. Objects with finalizers stay, marked as deleted.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn all_of(work: &Work, collection: &Collection, namespace: &str) -> Result<(), Unkept> {
    let options = Options::at_once();
    let slots = work.store().with(|state| state.slots(collection, &prefix(namespace)));
    for (key, _) in slots {
        as_controller(work, collection, &key, None, &options);
        work.pause().await?;
    }
    Ok(())
}
