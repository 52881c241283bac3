//! PersistentVolumes and PersistentVolumeClaims (`pkg/registry/core/persistentvolume`, `pkg/registry/core/persistentvolumeclaim`).

use super::context::Context;
use super::disabled::DisabledFields;
use super::fields::put;
use super::metadata;
use super::strategy::Strategy;
use crate::object::{Object, validation};
use crate::status::Status;
use serde_json::json;

const TRANSITION: [&str; 2] = ["status", "lastPhaseTransitionTime"];
const SOURCE: [&str; 2] = ["spec", "dataSourceRef"];

pub(super) struct PersistentVolumes;

impl Strategy for PersistentVolumes {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        put(object, &["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": metadata::now()}));
        Ok(())
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        if context.subresource == "status" {
            keep_transition(object, current);
        }
        Ok(false)
    }
}

/// `persistentvolumeStatusStrategy.PrepareForUpdate`
fn keep_transition(object: &mut Object, current: &Object) {
    let time = |object: &Object| object.get(&TRANSITION).filter(|time| !time.is_null()).cloned();
    let (new, old) = (time(object), time(current));
    let is_same_phase = object.str(&["status", "phase"]) == current.str(&["status", "phase"]);
    match (is_same_phase, new) {
        (true, None) => old.into_iter().for_each(|old| put(object, &TRANSITION, old)),
        (false, new) if new.is_none() || new == old => put(object, &TRANSITION, json!(metadata::now())),
        _ => {}
    }
}

pub(super) struct PersistentVolumeClaims;

impl Strategy for PersistentVolumeClaims {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[DisabledFields { gate: "CSIVolumeHealth", paths: &[&["status", "healthStatus"]] }]
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        drop_foreign_source(context, object, None);
        validation::prepare_for_create(&context.resource.gvk(), object);
        put(object, &["status"], json!({"phase": "Pending"}));
        Ok(())
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        drop_foreign_source(context, object, Some(current));
        if context.subresource != "status" {
            validation::prepare_for_update(&context.resource.gvk(), object, current);
        }
        Ok(false)
    }
}

/// Removes a source in another namespace, unless the claim has a source already or the feature is on (`DropDisabledFields`).
fn drop_foreign_source(context: &Context<'_>, object: &mut Object, current: Option<&Object>) {
    let is_elsewhere = !object.str(&[SOURCE[0], SOURCE[1], "namespace"]).is_empty();
    let is_in_use = current.is_some_and(|current| current.get(&SOURCE).is_some());
    if is_elsewhere && !is_in_use && !context.settings.gates.is_on("CrossNamespaceVolumeDataSource") {
        object.remove(&SOURCE);
    }
}
