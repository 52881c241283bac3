//! The admission plugins, one file each, and the table of all plugins.

pub(crate) mod always_admit;
pub(crate) mod namespace_auto_provision;
pub(crate) mod namespace_lifecycle;
pub(crate) mod namespace_exists;
pub(crate) mod security_context_deny;
pub(crate) mod limit_pod_hard_anti_affinity_topology;
pub(crate) mod initial_resources;
pub(crate) mod pod_preset;
pub(crate) mod limit_ranger;
pub(crate) mod service_account;
pub(crate) mod node_restriction;
pub(crate) mod taint_nodes_by_condition;
pub(crate) mod always_pull_images;
pub(crate) mod image_policy_webhook;
pub(crate) mod pod_security;
pub(crate) mod pod_security_policy;
pub(crate) mod pod_node_selector;
pub(crate) mod priority;
pub(crate) mod default_toleration_seconds;
pub(crate) mod pod_toleration_restriction;
pub(crate) mod deny_escalating_exec;
pub(crate) mod deny_exec_on_privileged;
pub(crate) mod event_rate_limit;
pub(crate) mod extended_resource_toleration;
pub(crate) mod persistent_volume_label;
pub(crate) mod default_storage_class;
pub(crate) mod storage_object_in_use_protection;
pub(crate) mod pod_group_protection;
pub(crate) mod owner_references_permission_enforcement;
pub(crate) mod persistent_volume_claim_resize;
mod rules;
pub(crate) mod runtime_class;
pub(crate) mod certificate_approval;
pub(crate) mod certificate_signing;
pub(crate) mod cluster_trust_bundle_attest;
pub(crate) mod certificate_subject_restriction;
pub(crate) mod default_ingress_class;
pub(crate) mod deny_service_external_ips;
pub(crate) mod pod_topology_labels;
pub(crate) mod pod_group_workload_exists;
pub(crate) mod node_declared_feature_validator;
pub(crate) mod job_validation;
pub(crate) mod pod_resize_validator;
pub(crate) mod mutating_admission_policy;
pub(crate) mod mutating_admission_webhook;
pub(crate) mod in_cluster_clients;
pub(crate) mod initializers;
pub(crate) mod validating_admission_policy;
pub(crate) mod validating_admission_webhook;
pub(crate) mod generic_admission_webhook;
pub(crate) mod resource_quota;
pub(crate) mod always_deny;
mod finalizer;
mod signer;
#[cfg(test)]
pub(crate) mod checker;
#[cfg(test)]
mod wrong_types;

use crate::admission::Spec;
use crate::config::EmulatedRelease;
use std::ops::RangeInclusive;

/// All plugins of all emulated releases, in kube-apiserver's order (`AllOrderedPlugins`). Removed plugins stand where they stood in their last release.
/// InClusterClients, which Kubernetes does not have, changes what webhooks have added.
pub static ALL: &[&Spec] = &[
    &always_admit::SPEC,
    &namespace_auto_provision::SPEC,
    &namespace_lifecycle::SPEC,
    &namespace_exists::SPEC,
    &security_context_deny::SPEC,
    &limit_pod_hard_anti_affinity_topology::SPEC,
    &initial_resources::SPEC,
    &pod_preset::SPEC,
    &limit_ranger::SPEC,
    &service_account::SPEC,
    &node_restriction::SPEC,
    &taint_nodes_by_condition::SPEC,
    &always_pull_images::SPEC,
    &image_policy_webhook::SPEC,
    &pod_security::SPEC,
    &pod_security_policy::SPEC,
    &pod_node_selector::SPEC,
    &priority::SPEC,
    &default_toleration_seconds::SPEC,
    &pod_toleration_restriction::SPEC,
    &deny_escalating_exec::SPEC,
    &deny_exec_on_privileged::SPEC,
    &event_rate_limit::SPEC,
    &extended_resource_toleration::SPEC,
    &persistent_volume_label::SPEC,
    &default_storage_class::SPEC,
    &storage_object_in_use_protection::SPEC,
    &pod_group_protection::SPEC,
    &owner_references_permission_enforcement::SPEC,
    &persistent_volume_claim_resize::SPEC,
    &runtime_class::SPEC,
    &certificate_approval::SPEC,
    &certificate_signing::SPEC,
    &cluster_trust_bundle_attest::SPEC,
    &certificate_subject_restriction::SPEC,
    &default_ingress_class::SPEC,
    &deny_service_external_ips::SPEC,
    &pod_topology_labels::SPEC,
    &pod_group_workload_exists::SPEC,
    &node_declared_feature_validator::SPEC,
    &job_validation::SPEC,
    &pod_resize_validator::SPEC,
    &mutating_admission_policy::SPEC,
    &mutating_admission_webhook::SPEC,
    &in_cluster_clients::SPEC,
    &initializers::SPEC,
    &validating_admission_policy::SPEC,
    &validating_admission_webhook::SPEC,
    &generic_admission_webhook::SPEC,
    &resource_quota::SPEC,
    &always_deny::SPEC,
];

/// The minor versions of the releases with the plugins that not every emulated release has. No release changes the order of the others, or
/// which of them are on by default.
static OF_SOME_RELEASES: [(&Spec, RangeInclusive<u16>); 5] = [
    (&node_declared_feature_validator::SPEC, 35..=u16::MAX),
    (&pod_group_protection::SPEC, 36..=u16::MAX),
    (&pod_resize_validator::SPEC, 36..=u16::MAX),
    (&pod_group_workload_exists::SPEC, 36..=36),
    (&job_validation::SPEC, 36..=36),
];

/// The plugins that exist in a release, in its order.
pub(crate) fn of(release: EmulatedRelease) -> Vec<&'static Spec> {
    let exists = |spec: &Spec| {
        let found = OF_SOME_RELEASES.iter().find(|(other, _)| other.name == spec.name);
        found.is_none_or(|(_, releases)| releases.contains(&release.minor))
    };
    ALL.iter().copied().filter(|spec| exists(spec)).collect()
}

/// A sentence about the releases with a plugin; `None` if every emulated release has it.
pub(crate) fn releases(spec: &Spec) -> Option<String> {
    let (_, releases) = OF_SOME_RELEASES.iter().find(|(other, _)| other.name == spec.name)?;
    Some(match (*releases.start(), *releases.end()) {
        (since, u16::MAX) => format!("Since release 1.{since}."),
        (since, until) if since == until => format!("Only in release 1.{since}."),
        (since, until) => format!("In the releases 1.{since} to 1.{until}."),
    })
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::config::EmulatedRelease;

    /// `AllOrderedPlugins` of Kubernetes 1.36, which has every plugin of the emulated releases.
    const KUBE_APISERVER: [&str; 41] = [
        "AlwaysAdmit",
        "NamespaceAutoProvision",
        "NamespaceLifecycle",
        "NamespaceExists",
        "LimitPodHardAntiAffinityTopology",
        "LimitRanger",
        "ServiceAccount",
        "NodeRestriction",
        "TaintNodesByCondition",
        "AlwaysPullImages",
        "ImagePolicyWebhook",
        "PodSecurity",
        "PodNodeSelector",
        "Priority",
        "DefaultTolerationSeconds",
        "PodTolerationRestriction",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PodGroupProtection",
        "OwnerReferencesPermissionEnforcement",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "DenyServiceExternalIPs",
        "PodTopologyLabels",
        "PodGroupWorkloadExists",
        "NodeDeclaredFeatureValidator",
        "JobValidation",
        "PodResizeValidator",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
        "AlwaysDeny",
    ];

    #[test]
    fn the_plugins_of_a_release_are_those_of_its_kube_apiserver_in_its_order() {
        for release in EmulatedRelease::all() {
            let plugins = of(release);
            let present = plugins.iter().filter(|spec| spec.removed.is_none() && spec.name != "InClusterClients");
            let lacks: &[&str] = match release.minor {
                34 => &[
                    "NodeDeclaredFeatureValidator",
                    "PodGroupProtection",
                    "PodResizeValidator",
                    "PodGroupWorkloadExists",
                    "JobValidation",
                ],
                35 => &["PodGroupProtection", "PodResizeValidator", "PodGroupWorkloadExists", "JobValidation"],
                36 => &[],
                _ => &["PodGroupWorkloadExists", "JobValidation"],
            };
            let wanted: Vec<_> = KUBE_APISERVER.into_iter().filter(|name| !lacks.contains(name)).collect();
            assert_eq!(present.map(|spec| spec.name).collect::<Vec<_>>(), wanted, "{release}");
        }
    }
}
