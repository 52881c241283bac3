//! Namespaces (`pkg/registry/core/namespace`): their finalizers, their deletion, and the objects that each of them has.

use super::collections::NAMESPACES;
use super::context::Context;
use super::delete_options::Options;
use super::fields::{part, put};
use super::strategy::{Grace, Strategy};
use super::{contents, metadata};
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::{State, Task};
use crate::object::Object;
use crate::status::Status;
use serde_json::{Value, json};

/// The finalizer of the namespace controller (`core.FinalizerKubernetes`).
pub(in crate::embedded) const KUBERNETES: &str = "kubernetes";
const FINALIZERS: [&str; 2] = ["spec", "finalizers"];

pub(super) struct Namespaces;

impl Strategy for Namespaces {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        prepare(object);
        Ok(())
    }

    /// The namespace's own finalizers can only be changed through `finalize`.
    fn part(&self, context: &Context<'_>, object: Object, current: &Object) -> Object {
        let mut changed = part(context, object, current);
        if !matches!(context.subresource, "status" | "finalize")
            && let Some(finalizers) = current.get(&FINALIZERS)
        {
            put(&mut changed, &FINALIZERS, finalizers.clone());
        }
        changed
    }

    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Object, _: &Object) -> Result<bool, Status> {
        label(object);
        Ok(false)
    }

    fn after_create(&self, state: &mut State, object: &Object) {
        contents::create(state, object.name());
    }

    fn begin_deletion(&self, object: &mut Object, _: &Options) -> Grace {
        if metadata::is_deleting(object) {
            return Grace::Pending;
        }
        put(object, &["metadata", "deletionTimestamp"], Value::from(metadata::now()));
        put(object, &["status", "phase"], Value::from("Terminating"));
        Grace::Marked
    }

    fn after_deletion_begun(&self, state: &mut State, key: &str) {
        if state.settings().controllers.namespace {
            state.then(Task::Namespace(key.to_owned()));
        }
    }

    fn is_held(&self, object: &Object) -> bool {
        !object.items(&FINALIZERS).is_empty()
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["status.phase"]
    }
}

/// Sets fields of a new namespace.
pub(in crate::embedded) fn prepare(object: &mut Object) {
    label(object);
    let mut finalizers = object.items(&FINALIZERS).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == KUBERNETES) {
        finalizers.push(json!(KUBERNETES));
    }
    put(object, &FINALIZERS, Value::Array(finalizers));
    put(object, &["status"], json!({"phase": "Active"}));
}

/// `namespaceStrategy.Canonicalize`
fn label(object: &mut Object) {
    let name = Value::from(object.name());
    put(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
}

/// Leaves a new object to the namespace controller if its namespace is being deleted. Admission refuses such an object, unless the deletion comes
/// between.
pub(in crate::embedded) fn follow_create(state: &mut State, namespace: &str) {
    if state.settings().controllers.namespace && is_terminating(state, namespace) {
        state.then(Task::Namespace(namespace.to_owned()));
    }
}

/// Whether a namespace is being deleted.
pub(in crate::embedded) fn is_terminating(state: &State, namespace: &str) -> bool {
    state.object(NAMESPACES, namespace).is_some_and(|namespace| metadata::is_deleting(&namespace))
}

/// Whether the namespace controller is to remove a namespace, which is terminating and empty.
pub(in crate::embedded) fn is_emptied(state: &State, namespace: &str) -> bool {
    state.settings().controllers.namespace
        && is_terminating(state, namespace)
        && state.collections_in(namespace).is_empty()
}
