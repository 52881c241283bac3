//! Endpoints and EndpointSlices (`pkg/registry/core/endpoint`, `pkg/registry/discovery/endpointslice`).

use super::context::Context;
use super::services;
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::{Collection, State, Task};
use crate::object::Object;
use crate::status::Status;
use serde_json::Value;

pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn after_change(&self, state: &mut State, object: &Object) {
        services::restore_own(state, object);
    }

    fn storage_path(&self, _: &Collection) -> String {
        "services/endpoints".to_owned()
    }
}

pub(super) struct EndpointSlices;

impl Strategy for EndpointSlices {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        drop_topology(object);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Object, _: &Object) -> Result<bool, Status> {
        Ok(drop_topology(object))
    }

    fn counts_changes(&self, _: &ServedResource) -> bool {
        true
    }

    fn counts_too(&self, _: &str, object: &Object, current: &Object) -> bool {
        let labels = ["metadata", "labels"];
        object.get(&labels) != current.get(&labels)
    }

    fn after_create(&self, state: &mut State, _: &Object) {
        state.then(Task::Availabilities);
    }

    fn after_change(&self, state: &mut State, object: &Object) {
        services::restore_own(state, object);
        state.then(Task::Availabilities);
    }
}

/// Removes the topology of endpoints, which only v1beta1 had (`dropTopologyOnV1`); returns whether there was one.
fn drop_topology(object: &mut Object) -> bool {
    let endpoints = object.get_mut(&["endpoints"]).and_then(Value::as_array_mut);
    let endpoints = endpoints.into_iter().flatten().filter_map(Value::as_object_mut);
    endpoints.filter_map(|endpoint| endpoint.remove("deprecatedTopology")).count() > 0
}
