//! The admission plugins: one file each, and one table of all of them.

pub mod always_admit;
pub mod namespace_auto_provision;
pub mod namespace_lifecycle;
pub mod namespace_exists;
pub mod limit_pod_hard_anti_affinity_topology;
pub mod taint_nodes_by_condition;
pub mod always_pull_images;
pub mod default_toleration_seconds;
pub mod default_storage_class;
pub mod storage_object_in_use_protection;
pub mod pod_group_protection;
pub mod persistent_volume_claim_resize;
pub mod default_ingress_class;
pub mod deny_service_external_ips;
pub mod mutating_admission_webhook;
pub mod validating_admission_webhook;
pub mod always_deny;
mod finalizer;
#[cfg(test)]
pub(crate) mod checker;

use crate::admission::Spec;

/// Every plugin, in kube-apiserver's order (`AllOrderedPlugins`).
pub static ALL: &[&Spec] = &[
    &always_admit::SPEC,
    &namespace_auto_provision::SPEC,
    &namespace_lifecycle::SPEC,
    &namespace_exists::SPEC,
    &limit_pod_hard_anti_affinity_topology::SPEC,
    &taint_nodes_by_condition::SPEC,
    &always_pull_images::SPEC,
    &default_toleration_seconds::SPEC,
    &default_storage_class::SPEC,
    &storage_object_in_use_protection::SPEC,
    &pod_group_protection::SPEC,
    &persistent_volume_claim_resize::SPEC,
    &default_ingress_class::SPEC,
    &deny_service_external_ips::SPEC,
    &mutating_admission_webhook::SPEC,
    &validating_admission_webhook::SPEC,
    &always_deny::SPEC,
];
