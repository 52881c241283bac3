//! The changes to a built-in object by its conversion to the internal version and back (`Convert_v1_*_To_core_*` and its inverse).
//! kube-apiserver converts an object after decoding a request, and after all webhooks or policies of a plugin have changed the object;
//! between two of them it only decodes and defaults the object.
//!
//! The object must have its defaults already.

mod apiextensions;
mod apps;
pub(super) mod autoscaling;
mod core;
mod pod;
mod policy;

pub(crate) use policy::strip_empty_selector;

use super::defaults::fields::{Fields, each, embedded, pointer};
use crate::kind::GroupVersionKind;
use autoscaling::Annotated;

/// The reason why a conversion refuses an object, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RoundTripError(String);

/// Values that an object's internal version keeps although the versioned object has no fields for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InternalValues {
    /// `spec.templateGeneration` of a DaemonSet.
    template_generation: Option<i64>,
    /// The values that autoscaling/v1 has no fields for, and the metrics.
    autoscaler: Annotated,
}

impl InternalValues {
    /// Returns the kept values of an object that has been through the internal version.
    pub fn of(kind: &GroupVersionKind, object: &Fields) -> Self {
        let mut kept = Self::default();
        match (&*kind.group, &*kind.version, &*kind.kind) {
            ("apps", "v1", "DaemonSet") => kept.template_generation = apps::template_generation(object),
            ("autoscaling", "v1", "HorizontalPodAutoscaler") => kept.autoscaler = autoscaling::kept(object.clone()),
            _ => {}
        }
        kept
    }
}

/// Converts the object, in place: to the internal version, which has `kept`, and back. Leaves other kinds and values of a wrong type alone.
///
/// # Errors
/// If a conversion refuses the object, though its fields have the right types.
pub fn make(kind: &GroupVersionKind, object: &mut Fields, kept: &InternalValues) -> Result<(), RoundTripError> {
    let name = kind.kind.as_str();
    match (kind.group.as_str(), kind.version.as_str()) {
        ("", "v1") => core::make(name, object),
        ("apps", "v1") => apps::make(name, object, kept)?,
        ("batch", "v1") => batch(name, object),
        ("autoscaling", version) if name == "HorizontalPodAutoscaler" => autoscaling::make(version, object, kept),
        ("policy", "v1") if name == "PodDisruptionBudget" => policy::make(object),
        ("apiextensions.k8s.io", "v1") if name == "CustomResourceDefinition" => apiextensions::make(object),
        ("resource.k8s.io", "v1beta1") if name == "ResourceSlice" => resource_slice(object),
        _ => {}
    }
    Ok(())
}

fn batch(kind: &str, object: &mut Fields) {
    let Some(spec) = pointer(object, "spec") else { return };
    match kind {
        "Job" => pod::template(spec),
        "CronJob" => {
            let job = pointer(spec, "jobTemplate").and_then(|template| pointer(template, "spec"));
            job.map(pod::template);
        }
        _ => {}
    }
}

/// Adds `basic` to each device: the internal version has no `basic`, and v1beta1 always writes one
/// (`Convert_resource_Device_To_v1beta1_Device`).
fn resource_slice(object: &mut Fields) {
    let Some(spec) = pointer(object, "spec") else { return };
    for device in each(spec, "devices") {
        embedded(device, "basic");
    }
}

#[cfg(test)]
mod tests;
