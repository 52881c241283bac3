//! Versions of the API: which of two is newer, and the warnings for deprecated versions.

use crate::kind::{GroupVersionKind, api_version};
use crate::release;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Group, version and kind.
type Names = (&'static str, &'static str, &'static str);

/// The deprecated kinds (`APILifecycleDeprecated`), which `tools/protobuf-table` records: the minor release that deprecates them, and the end
/// of the warning.
static DEPRECATED: LazyLock<HashMap<Names, (u16, &str)>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let mut words = line.splitn(5, ' ');
        let group = words.next()?.trim_matches('"');
        let kind = (group, words.next()?, words.next()?);
        Some((kind, (words.next()?.parse().ok()?, words.next()?)))
    };
    release::lines(include_str!("deprecated.txt")).filter_map(row).collect()
});

/// The warning for a deprecated kind of Kubernetes itself (`deprecation.WarningMessage`).
pub fn deprecation(kind: &GroupVersionKind) -> Option<String> {
    deprecation_in(release::emulated(), kind)
}

/// The warning in a minor release (`deprecation.IsDeprecated`).
fn deprecation_in(minor: u16, kind: &GroupVersionKind) -> Option<String> {
    let (since, text) = DEPRECATED.get(&(&*kind.group, &*kind.version, &*kind.kind))?;
    (*since <= minor).then(|| format!("{} {} is deprecated in {text}", kind.api_version(), kind.kind))
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
        let devices = "resource.k8s.io/v1beta1 DeviceClass is deprecated in v1.35+, unavailable in v1.38+";
        assert_eq!(said("resource.k8s.io", "v1beta1", "DeviceClass").as_deref(), Some(devices));
    }

    #[test]
    fn a_kind_is_deprecated_since_its_release() {
        for (minor, version, kind, is_deprecated) in [
            (34, "v1beta1", "MutatingAdmissionPolicy", false),
            (36, "v1beta1", "MutatingAdmissionPolicy", false),
            (37, "v1beta1", "MutatingAdmissionPolicy", true),
            (34, "v1alpha1", "MutatingAdmissionPolicy", false),
            (35, "v1alpha1", "MutatingAdmissionPolicy", true),
        ] {
            let kind = GroupVersionKind::new("admissionregistration.k8s.io", version, kind);
            assert_eq!(deprecation_in(minor, &kind).is_some(), is_deprecated, "1.{minor} {version}");
        }
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(DEPRECATED.len(), release::lines(include_str!("deprecated.txt")).count());
    }
}
