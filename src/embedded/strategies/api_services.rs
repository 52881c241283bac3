//! APIServices (`k8s.io/kube-aggregator/pkg/registry/apiservice`).

use super::context::Context;
use super::metadata;
use super::strategy::Strategy;
use crate::embedded::api::registrations::is_remote;
use crate::embedded::store::{Collection, State, Task};
use crate::object::Object;
use crate::status::Status;
use serde_json::{Value, json};

pub(super) struct ApiServices;

impl Strategy for ApiServices {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        prepare(object);
        Ok(())
    }

    fn after_create(&self, state: &mut State, object: &Object) {
        follow(state, object.name());
    }

    fn after_change(&self, state: &mut State, object: &Object) {
        follow(state, object.name());
    }

    fn storage_path(&self, Collection { group, resource }: &Collection) -> String {
        format!("{group}/{resource}")
    }
}

/// Leaves it to the controllers to restore registrations, and to check whether the API is available.
fn follow(state: &mut State, name: &str) {
    if let Some((_, group)) = name.split_once('.') {
        state.then(Task::Registrations(group.to_owned()));
    }
    state.then(Task::Availability(name.to_owned()));
}

/// Sets the status of a new APIService (`apiServerStrategy.PrepareForCreate`).
pub(in crate::embedded) fn prepare(object: &mut Object) {
    if !is_remote(object) {
        let condition = condition("True", "Local", "Local APIServices are always available", &metadata::now());
        let _ = object.set(&["status"], json!({"conditions": [condition]}));
    }
}

/// The condition `Available`.
pub(in crate::embedded) fn condition(status: &str, reason: &str, message: &str, since: &str) -> Value {
    json!({
        "type": "Available", "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    })
}
