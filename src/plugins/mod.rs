//! The admission plugins: one file each, and one table of all of them.

pub mod always_admit;
pub mod namespace_auto_provision;
pub mod namespace_lifecycle;
pub mod namespace_exists;
pub mod limit_pod_hard_anti_affinity_topology;
pub mod taint_nodes_by_condition;
pub mod always_pull_images;
pub mod pod_node_selector;
pub mod priority;
pub mod default_toleration_seconds;
pub mod pod_toleration_restriction;
pub mod extended_resource_toleration;
pub mod default_storage_class;
pub mod storage_object_in_use_protection;
pub mod pod_group_protection;
pub mod persistent_volume_claim_resize;
pub mod runtime_class;
pub mod default_ingress_class;
pub mod deny_service_external_ips;
pub mod pod_topology_labels;
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
    &pod_node_selector::SPEC,
    &priority::SPEC,
    &default_toleration_seconds::SPEC,
    &pod_toleration_restriction::SPEC,
    &extended_resource_toleration::SPEC,
    &default_storage_class::SPEC,
    &storage_object_in_use_protection::SPEC,
    &pod_group_protection::SPEC,
    &persistent_volume_claim_resize::SPEC,
    &runtime_class::SPEC,
    &default_ingress_class::SPEC,
    &deny_service_external_ips::SPEC,
    &pod_topology_labels::SPEC,
    &mutating_admission_webhook::SPEC,
    &validating_admission_webhook::SPEC,
    &always_deny::SPEC,
];
