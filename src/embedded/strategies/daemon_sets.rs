//! The generation of a DaemonSet's template, which apps/v1 shows as an annotation.

use crate::object::Object;
use serde_json::Value;

/// `apps.DeprecatedTemplateGeneration`
const TEMPLATE_GENERATION: [&str; 3] = ["metadata", "annotations", "deprecated.daemonset.template.generation"];

/// Sets the generation of a new DaemonSet's template to at least 1 (`daemonSetStrategy.PrepareForCreate`).
pub(in crate::embedded) fn prepare(object: &mut Object) {
    set(object, generation(object).max(1));
}

/// Restores the generation, which a client cannot change (`daemonSetStrategy.PrepareForUpdate`).
pub(in crate::embedded) fn keep(object: &mut Object, current: &Object) {
    set(object, generation(current));
}

/// Increments the generation if the template changes (`daemonSetStrategy.PrepareForUpdate`).
pub(in crate::embedded) fn count(object: &mut Object, current: &Object) {
    let template = ["spec", "template"];
    if object.get(&template) != current.get(&template) {
        set(object, generation(current).saturating_add(1));
    }
}

fn generation(object: &Object) -> i64 {
    object.str(&TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set(object: &mut Object, generation: i64) {
    let _ = object.set(&TEMPLATE_GENERATION, Value::from(generation.to_string()));
}
