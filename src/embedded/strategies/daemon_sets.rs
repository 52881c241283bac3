//! DaemonSets (`pkg/registry/apps/daemonset`): the generation of the template, which apps/v1 shows as an annotation.

use super::context::Context;
use super::strategy::Strategy;
use super::workloads::POD_SPEC;
use crate::object::Object;
use crate::status::Status;
use serde_json::Value;

/// `apps.DeprecatedTemplateGeneration`
const TEMPLATE_GENERATION: [&str; 3] = ["metadata", "annotations", "deprecated.daemonset.template.generation"];

pub(super) struct DaemonSets;

impl Strategy for DaemonSets {
    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(POD_SPEC)
    }

    /// Sets the generation of a new DaemonSet's template to at least 1.
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        set(object, generation(object).max(1));
        Ok(())
    }

    /// Restores the generation, which a client cannot change.
    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        set(object, generation(current));
        Ok(false)
    }

    /// Increments the generation if the template changes (`daemonSetStrategy.PrepareForUpdate`).
    fn complete_update(&self, object: &mut Object, current: &Object) {
        let template = ["spec", "template"];
        if object.get(&template) != current.get(&template) {
            set(object, generation(current).saturating_add(1));
        }
    }
}

fn generation(object: &Object) -> i64 {
    object.str(&TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set(object: &mut Object, generation: i64) {
    let _ = object.set(&TEMPLATE_GENERATION, Value::from(generation.to_string()));
}
