//! The kinds with a template of pods (`pkg/registry/apps`, `pkg/registry/batch`), DaemonSets excepted.

use super::context::Context;
use super::delete_options::Options;
use super::disabled::DisabledFields;
use super::fields::{default, text};
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::Collection;
use crate::object::{Object, validation};
use crate::status::Status;
use serde_json::json;

/// The path to the spec of the pods in most kinds.
pub(super) const POD_SPEC: &[&str] = &["spec", "template", "spec"];

pub(super) struct PodTemplates;

impl Strategy for PodTemplates {
    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(&["template", "spec"])
    }
}

fn set_replicas(object: &mut Object) -> Result<(), Status> {
    default(object, &["spec", "replicas"], json!(1));
    Ok(())
}

pub(super) struct ReplicationControllers;

impl Strategy for ReplicationControllers {
    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(POD_SPEC)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        set_replicas(object)
    }

    fn orphans_dependents(&self) -> bool {
        true
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn unset(&self, _: &str) -> &'static str {
        "0"
    }

    fn storage_path(&self, _: &Collection) -> String {
        "controllers".to_owned()
    }
}

pub(super) struct ReplicaSets;

impl Strategy for ReplicaSets {
    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(POD_SPEC)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        set_replicas(object)
    }
}

pub(super) struct Deployments;

impl Strategy for Deployments {
    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(POD_SPEC)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        set_replicas(object)
    }

    fn counts_changes(&self, _: &ServedResource) -> bool {
        true
    }

    fn counts_too(&self, subresource: &str, object: &Object, current: &Object) -> bool {
        let annotations = ["metadata", "annotations"];
        subresource != "status" && object.get(&annotations) != current.get(&annotations)
    }
}

pub(super) struct StatefulSets;

impl Strategy for StatefulSets {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[DisabledFields {
            gate: "MaxUnavailableStatefulSet",
            paths: &[&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]],
        }]
    }

    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(POD_SPEC)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        set_replicas(object)
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn unset(&self, _: &str) -> &'static str {
        "0"
    }
}

pub(super) struct Jobs;

impl Strategy for Jobs {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[DisabledFields { gate: "WorkloadWithJob", paths: &[&["spec", "scheduling"]] }]
    }

    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(POD_SPEC)
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        validation::prepare_for_create(&context.resource.gvk(), object);
        Ok(())
    }

    /// `deleteOptionWarnings`
    fn deletion_warning(&self, options: &Options) -> Option<&'static str> {
        (!options.has_policy()).then_some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
             propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn orphans_dependents(&self) -> bool {
        true
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn selected(&self, _: &ServedResource, object: &Object, _: &str) -> String {
        text(object, "status.succeeded").unwrap_or_else(|| "0".to_owned())
    }
}

pub(super) struct CronJobs;

impl Strategy for CronJobs {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[DisabledFields { gate: "WorkloadWithJob", paths: &[&["spec", "jobTemplate", "spec", "scheduling"]] }]
    }

    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(&["spec", "jobTemplate", "spec", "template", "spec"])
    }
}
