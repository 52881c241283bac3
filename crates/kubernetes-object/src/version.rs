//! Versions of the API: which of two is newer, and the warnings for deprecated versions.

use crate::kind::{GroupVersionKind, api_version};
use std::cmp::Reverse;

const DEVICES: [&str; 4] = ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];
const POLICIES: [&str; 2] = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
/// The deprecated kinds that clients can write to a kube-apiserver 1.36 (`APILifecycleDeprecated`): group, version, kinds, and the end of
/// the warning.
const DEPRECATED: [(&str, &str, &[&str], &str); 10] = [
    ("", "v1", &["Endpoints"], "v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    ("admissionregistration.k8s.io", "v1alpha1", &POLICIES, "v1.35+, unavailable in v1.38+"),
    ("certificates.k8s.io", "v1alpha1", &["ClusterTrustBundle"], "v1.34+, unavailable in v1.37+"),
    ("coordination.k8s.io", "v1alpha2", &["LeaseCandidate"], "v1.35+, unavailable in v1.38+"),
    ("coordination.k8s.io", "v1beta1", &["LeaseCandidate"], "v1.36+, unavailable in v1.39+"),
    ("networking.k8s.io", "v1beta1", &["IPAddress", "ServiceCIDR"], "v1.34+, unavailable in v1.37+"),
    ("resource.k8s.io", "v1alpha3", &["DeviceTaintRule"], "v1.36+, unavailable in v1.39+"),
    ("resource.k8s.io", "v1beta1", &DEVICES, "v1.35+, unavailable in v1.38+"),
    ("resource.k8s.io", "v1beta2", &DEVICES, "v1.36+, unavailable in v1.39+"),
    (
        "storage.k8s.io",
        "v1beta1",
        &["VolumeAttributesClass"],
        "v1.34+, unavailable in v1.37+; use storage.k8s.io/v1 VolumeAttributesClass",
    ),
];

/// The warning for a deprecated kind of Kubernetes itself (`deprecation.WarningMessage`).
pub fn deprecation(kind: &GroupVersionKind) -> Option<String> {
    let (.., since) = DEPRECATED.iter().find(|(group, version, kinds, _)| {
        kind.group == *group && kind.version == *version && kinds.contains(&&*kind.kind)
    })?;
    Some(format!("{} {} is deprecated in {since}", kind.api_version(), kind.kind))
}

/// The warning for a deprecated version of a custom resource whose definition has no warning of its own (`defaultDeprecationWarning`). The
/// warning recommends the newest of `others`, the versions that are served and not deprecated.
pub fn custom_deprecation<'v>(kind: &GroupVersionKind, others: impl Iterator<Item = &'v str>) -> String {
    let said = format!("{} {} is deprecated", kind.api_version(), kind.kind);
    let newest = others.filter(|other| newness(other) > newness(&kind.version)).max_by_key(|other| newness(other));
    match newest {
        Some(newest) => format!("{said}; use {} {}", api_version(&kind.group, newest), kind.kind),
        None => said,
    }
}

/// The rank of a version: `v2` is newer than `v1`, then `v1beta2`, then `v1alpha1`, then other versions by their names
/// (`version.CompareKubeAwareVersionStrings`).
pub fn newness(version: &str) -> (Option<(u8, u32, u32)>, Reverse<&str>) {
    let stability = || {
        let rest = version.strip_prefix('v')?;
        for (stability, word) in [(1, "beta"), (0, "alpha")] {
            if let Some((major, minor)) = rest.split_once(word) {
                return Some((stability, major.parse().ok()?, minor.parse().ok()?));
            }
        }
        Some((2, rest.parse().ok()?, 0))
    };
    (stability(), Reverse(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_first() {
        let mut versions = ["v1alpha3", "v1beta1", "odd", "v1", "v1beta2", "even", "v2"];
        versions.sort_by(|one, other| newness(other).cmp(&newness(one)));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha3", "even", "odd"]);
    }

    #[test]
    fn the_replacement_of_a_deprecated_version_is_newer() {
        let said = |version: &str, others: &[&str]| {
            custom_deprecation(&GroupVersionKind::new("e.com", version, "Widget"), others.iter().copied())
        };
        assert_eq!(
            said("v1beta1", &["v1alpha1", "v1", "v1beta2"]),
            "e.com/v1beta1 Widget is deprecated; use e.com/v1 Widget"
        );
        assert_eq!(said("v1", &["v1beta1"]), "e.com/v1 Widget is deprecated");
    }

    #[test]
    fn kinds_of_kubernetes_are_distinguished_from_others() {
        let said = |group: &str, version: &str, kind: &str| deprecation(&GroupVersionKind::new(group, version, kind));
        let endpoints = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
        assert_eq!(said("", "v1", "Endpoints").as_deref(), Some(endpoints));
        assert_eq!(said("", "v1", "Pod"), None);
        assert_eq!(said("resource.k8s.io", "v1", "DeviceClass"), None);
    }
}
