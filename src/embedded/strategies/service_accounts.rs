//! ServiceAccounts (`pkg/registry/core/serviceaccount`): every namespace has the one named `default`.

use super::contents::{self, DEFAULT};
use super::context::Context;
use super::strategy::Strategy;
use crate::embedded::store::State;
use crate::object::Object;
use crate::status::Status;
use serde_json::Value;

pub(super) struct ServiceAccounts;

impl Strategy for ServiceAccounts {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        clean_references(object);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Object, _: &Object) -> Result<bool, Status> {
        clean_references(object);
        Ok(false)
    }

    fn after_change(&self, state: &mut State, object: &Object) {
        if object.name() == DEFAULT {
            contents::restore(state, object.namespace());
        }
    }
}

/// `cleanSecretReferences`: the references of a ServiceAccount have only names.
fn clean_references(object: &mut Object) {
    let references = object.get_mut(&["secrets"]).and_then(Value::as_array_mut);
    for reference in references.into_iter().flatten().filter_map(Value::as_object_mut) {
        reference.retain(|field, _| field == "name");
    }
}
