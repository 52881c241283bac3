//! The registrations of served groups and versions by APIServices (`k8s.io/kube-aggregator`). They order the groups of discovery.

use super::catalog::Group;
use crate::embedded::name::Name;
use crate::embedded::store::Collection;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::object::version::newness;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The collection of APIServices.
pub(in crate::embedded) const API_SERVICES: &Collection = &Collection::built_in(GROUP, "apiservices");
/// The group of APIServices, which no APIService registers.
pub(in crate::embedded) const GROUP: &str = "apiregistration.k8s.io";

/// The priorities of the group and the version of a custom resource (`crdRegistrationController.handleVersionUpdate`).
const CUSTOM: (i64, i64) = (1000, 100);

/// Group, version, priority of the group, and priority of the version in the group (`DefaultGenericAPIServicePriorities`,
/// `defaultAPIServicePriorities`). Those of the removed APIs are from the releases that served them.
const PRIORITIES: [(&str, &str, i64, i64); 26] = [
    ("", "v1", 18000, 1),
    ("apps", "v1", 17800, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v2", 17500, 30),
    ("autoscaling", "v1", 17500, 15),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("networking.k8s.io", "v1", 17200, 15),
    ("extensions", "v1beta1", 17150, 1),
    ("policy", "v1", 17100, 15),
    ("policy", "v1beta1", 17100, 9),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("settings.k8s.io", "v1alpha1", 16900, 9),
    ("storage.k8s.io", "v1", 16800, 15),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("admissionregistration.k8s.io", "v1alpha1", 16700, 9),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("resource.k8s.io", "v1", 16200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("storagemigration.k8s.io", "v1", 15800, 15),
];

/// The registration by an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Registered {
    pub(in crate::embedded) group: Name,
    pub(in crate::embedded) version: Name,
    group_priority: i64,
    version_priority: i64,
    /// Whether a Service, rather than this server, serves the version.
    pub(in crate::embedded) is_remote: bool,
}

impl Registered {
    pub(in crate::embedded) fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    pub(in crate::embedded) fn spec(&self) -> Value {
        let mut spec = json!({
            "version": &*self.version, "groupPriorityMinimum": self.group_priority, "versionPriority": self.version_priority,
        });
        if let (false, Some(spec)) = (self.group.is_empty(), spec.as_object_mut()) {
            spec.insert("group".to_owned(), json!(&*self.group));
        }
        spec
    }

    pub(in crate::embedded) fn custom(group: &str, version: &str) -> Self {
        let (group_priority, version_priority) = CUSTOM;
        let (group, version) = (group.to_owned().into(), version.to_owned().into());
        Self { group, version, group_priority, version_priority, is_remote: false }
    }

    /// The registration by an APIService.
    pub(in crate::embedded) fn of(object: &Object) -> Self {
        let number = |field: &str| object.get(&["spec", field]).and_then(Value::as_i64).unwrap_or_default();
        Self {
            group: object.str(&["spec", "group"]).to_owned().into(),
            version: object.str(&["spec", "version"]).to_owned().into(),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
            is_remote: is_remote(object),
        }
    }
}

/// The registrations of built-in groups (`apiServicesToRegister`).
pub(in crate::embedded) fn built_in(groups: &[Group]) -> Vec<Registered> {
    let all = groups.iter().flat_map(|group| group.versions.iter().map(move |version| (&group.name, &version.version)));
    let registered = all.filter_map(|(group, version)| {
        let (.., group_priority, version_priority) = priority(group, version)?;
        let (group, version) = (group.clone(), version.clone());
        Some(Registered { group, version, group_priority, version_priority, is_remote: false })
    });
    registered.collect()
}

pub(in crate::embedded) fn priority(group: &str, version: &str) -> Option<(&'static str, &'static str, i64, i64)> {
    PRIORITIES.iter().find(|known| (known.0, known.1) == (group, version)).copied()
}

/// The groups by the highest priority of their versions, each with its versions by their priority, without the core group and the group of
/// the APIServices (`SortedByGroupAndVersion`). Groups of one priority are in the order of the names of their APIServices.
pub(in crate::embedded) fn by_priority(registered: &[Registered]) -> Vec<(Name, Vec<&Registered>)> {
    let mut sorted: Vec<&Registered> = registered.iter().filter(|each| !matches!(&*each.group, "" | GROUP)).collect();
    sorted.sort_by_cached_key(|each| (Reverse(each.group_priority), each.name()));
    let mut groups: Vec<(Name, Vec<&Registered>)> = Vec::new();
    for each in sorted {
        match groups.iter_mut().find(|(group, _)| *group == each.group) {
            Some((_, versions)) => versions.push(each),
            None => groups.push((each.group.clone(), vec![each])),
        }
    }
    for (_, versions) in &mut groups {
        versions.sort_by(|one, other| {
            let by_priority = other.version_priority.cmp(&one.version_priority);
            by_priority.then_with(|| newness(&other.version).cmp(&newness(&one.version)))
        });
    }
    groups
}

/// As [`by_priority`], with groups of one priority in the order of their names (`resourceDiscoveryManager.calculateAPIGroupsLocked`).
pub(in crate::embedded) fn by_priority_and_name(registered: &[Registered]) -> Vec<(Name, Vec<&Registered>)> {
    let mut groups = by_priority(registered);
    groups.sort_by_cached_key(|(group, versions)| {
        let highest = versions.iter().map(|version| version.group_priority).max();
        (Reverse(highest), group.clone())
    });
    groups
}

/// Whether a Service, rather than this server, serves what an APIService registers.
pub(in crate::embedded) fn is_remote(object: &Object) -> bool {
    object.get(&["spec", "service"]).is_some_and(|service| !service.is_null())
}

/// The kind of APIServices.
pub(in crate::embedded) fn kind() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, "v1", "APIService")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::catalog;

    fn registered(group: &str, version: &str, group_priority: i64, version_priority: i64) -> Registered {
        let (group, version) = (group.to_owned().into(), version.to_owned().into());
        Registered { group, version, group_priority, version_priority, is_remote: false }
    }

    #[test]
    fn every_served_group_and_version_is_registered() {
        let groups = catalog::groups(&crate::removed::ALL, &Default::default());
        let versions: usize = groups.iter().map(|group| group.versions.len()).sum();
        // All but the group of the APIServices.
        assert_eq!(built_in(&groups).len(), versions - 1);
        // storagemigration.k8s.io/v1 is served since 1.37.
        assert_eq!(versions, PRIORITIES.len());
    }

    #[test]
    fn groups_and_versions_are_sorted_by_priority_and_name() {
        let all = [
            registered("", "v1", 18000, 1),
            registered(GROUP, "v1", 1, 1),
            registered("b.example.com", "v1", 1000, 100),
            registered("c.example.com", "v1alpha1", 10, 100),
            registered("c.example.com", "v2", 1000, 100),
            registered("a.example.com", "v3", 1000, 100),
            registered("b.example.com", "v2", 10, 100),
            registered("b.example.com", "v1beta1", 1, 200),
            registered("high.example.com", "v1", 2000, 1),
        ];
        let shown = |groups: Vec<(Name, Vec<&Registered>)>| -> Vec<String> {
            let shown = groups.iter().map(|(group, versions)| {
                let versions: Vec<&str> = versions.iter().map(|version| &*version.version).collect();
                format!("{} {}", group.split('.').next().unwrap_or_default(), versions.join(" "))
            });
            shown.collect()
        };
        assert_eq!(shown(by_priority(&all)), ["high v1", "b v1beta1 v2 v1", "c v2 v1alpha1", "a v3"]);
        assert_eq!(shown(by_priority_and_name(&all)), ["high v1", "a v3", "b v1beta1 v2 v1", "c v2 v1alpha1"]);
    }
}
