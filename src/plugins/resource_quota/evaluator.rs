//! The usage of an object: one evaluator per resource (`quota.Evaluator`).

use super::scopes::{PodScopes, Scoped};
use super::{device_claims, pods, services, volume_claims};
use crate::admission::{Attributes, Operation};
use crate::cluster::Cluster;
use crate::config::FeatureGates;
use crate::initializers;
use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::ResourceList;
use crate::status::group_resource;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// The resources that are never counted (`DefaultIgnoredResources`): those that are not stored, and events.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("", "events"),
    ("events.k8s.io", "events"),
];
/// The resources that are also counted under their bare name (`legacyObjectCountAliases`).
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// The feature gates that change the usage, and the clock.
#[derive(Clone, Debug)]
pub(super) struct Gates {
    pub(super) in_place_resize: bool,
    pub(super) pod_level_resources: bool,
    pub(super) expansion_recovery: bool,
    pub(super) extended_device_resources: bool,
    pub(super) since_1_37: bool,
    pub(super) now: fn() -> Timestamp,
}

impl Gates {
    pub(super) fn new(gates: &FeatureGates) -> Self {
        Self {
            in_place_resize: gates.is_on("InPlacePodVerticalScaling"),
            pod_level_resources: gates.is_on("PodLevelResources"),
            expansion_recovery: gates.is_on("RecoverVolumeExpansionFailure"),
            extended_device_resources: gates.is_on("DRAExtendedResource"),
            since_1_37: gates.since(37),
            now: Timestamp::now,
        }
    }
}

/// The data of an object that quotas need.
#[derive(Debug, Default)]
pub(super) struct Subject {
    /// The usage of the object.
    pub(super) usage: ResourceList,
    pub(super) scoped: Scoped,
    /// The containers that must specify resources, each with the resource names that it specifies.
    pub(super) containers: Vec<(String, BTreeSet<String>)>,
}

/// The evaluator of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// Counts objects, under these names.
    Count(Vec<String>),
}

impl Evaluator {
    /// The evaluator of the resource. `None` if the resource is never counted.
    pub(super) fn of(group: &str, resource: &str) -> Option<Self> {
        match (group, resource) {
            ("", "pods") => Some(Self::Pods),
            ("", "services") => Some(Self::Services),
            ("", "persistentvolumeclaims") => Some(Self::VolumeClaims),
            ("resource.k8s.io", "resourceclaims") => Some(Self::DeviceClaims),
            on if IGNORED.contains(&on) => None,
            _ => {
                let alias = (group.is_empty() && ALIASES.contains(&resource)).then(|| resource.to_owned());
                let name = format!("count/{}", group_resource(group, resource));
                Some(Self::Count([name].into_iter().chain(alias).collect()))
            }
        }
    }

    /// Whether the operation can change the usage (`Handles`).
    pub(super) fn handles(&self, attributes: &Attributes) -> bool {
        let is_create = attributes.operation == Operation::Create;
        let is_update = attributes.operation == Operation::Update;
        match (self, &*attributes.subresource) {
            (Self::Pods, "") => {
                is_create || is_update && (pods::changes_scope(attributes) || completes_initialization(attributes))
            }
            (Self::Pods, "resize") => is_update,
            // kube-apiserver compares two pointers, and so always finds a difference.
            (Self::VolumeClaims, "status") => attributes.object.is_some() && attributes.old_object.is_some(),
            (Self::VolumeClaims, "") => is_create || is_update && is_initialized(attributes),
            (Self::Services | Self::DeviceClaims, "") => is_create || is_update,
            (Self::Count(_), "") => is_create,
            _ => false,
        }
    }

    /// The names among a quota's resources that the evaluator counts (`MatchingResources`).
    pub(super) fn matching<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
        cluster: &Cluster,
        gates: &Gates,
    ) -> BTreeSet<String> {
        let counts = |name: &str| match self {
            Self::Pods => pods::counts(name),
            Self::Services => services::counts(name),
            Self::VolumeClaims => volume_claims::counts(name),
            Self::DeviceClaims => device_claims::counts(name, cluster, gates),
            Self::Count(own) => own.iter().any(|one| one == name),
        };
        names.into_iter().filter(|name| counts(name)).cloned().collect()
    }

    /// The data of an object that quotas need. `desired` provides the spec and `observed` the status; `None` means that there
    /// is no status yet.
    pub(super) async fn subject(
        &self,
        desired: &Object,
        observed: Option<&Object>,
        cluster: &Cluster,
        gates: &Gates,
        namespace: &str,
    ) -> Subject {
        match self {
            Self::Pods => pods::subject(desired, observed, gates),
            Self::Services => Subject { usage: services::usage(desired), ..Subject::default() },
            Self::VolumeClaims => volume_claims::subject(desired, observed, gates),
            Self::DeviceClaims => {
                let usage = device_claims::usage(desired, cluster, gates, namespace).await;
                Subject { usage, ..Subject::default() }
            }
            Self::Count(names) => {
                let usage = names.iter().map(|name| (name.clone(), Quantity::whole(1))).collect();
                Subject { usage, ..Subject::default() }
            }
        }
    }
}

/// Whether the object of the request is initialized.
fn is_initialized(attributes: &Attributes) -> bool {
    !attributes.object.as_ref().is_some_and(initializers::are_pending)
}

/// Whether the update ends the initialization (`util.IsInitializationCompletion` of Kubernetes 1.13).
fn completes_initialization(attributes: &Attributes) -> bool {
    attributes.updates_uninitialized() && is_initialized(attributes)
}

impl From<PodScopes> for Scoped {
    fn from(scopes: PodScopes) -> Self {
        Self::Pod(scopes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::attributes;
    use serde_json::json;

    #[test]
    fn a_resource_without_an_evaluator_is_counted_by_number() {
        let names = |group, resource| match Evaluator::of(group, resource) {
            Some(Evaluator::Count(names)) => names.join(" "),
            other => format!("{other:?}"),
        };
        for (group, resource, want) in [
            ("", "configmaps", "count/configmaps configmaps"),
            ("", "secrets", "count/secrets secrets"),
            ("other.io", "secrets", "count/secrets.other.io"),
            ("", "serviceaccounts", "count/serviceaccounts"),
            ("apps", "deployments", "count/deployments.apps"),
            ("", "pods", "Some(Pods)"),
            ("resource.k8s.io", "resourceclaims", "Some(DeviceClaims)"),
            ("", "events", "None"),
            ("events.k8s.io", "events", "None"),
            ("authorization.k8s.io", "localsubjectaccessreviews", "None"),
        ] {
            assert_eq!(names(group, resource), want, "{group} {resource}");
        }
    }

    #[test]
    fn an_uninitialized_object_is_counted_at_its_end() {
        let waiting = json!({"metadata": {"initializers": {"pending": [{"name": "a.b.c"}]}}});
        let done = json!({"metadata": {}});
        for (resource, old, new, want) in [
            ("pods", &waiting, &waiting, false),
            ("pods", &waiting, &done, true),
            ("pods", &done, &done, false),
            ("persistentvolumeclaims", &waiting, &waiting, false),
            ("persistentvolumeclaims", &waiting, &done, true),
            ("persistentvolumeclaims", &done, &done, true),
            ("services", &waiting, &waiting, true),
            ("configmaps", &waiting, &done, false),
        ] {
            let update = attributes(Operation::Update, "", resource, Some(new.clone()), Some(old.clone()));
            assert_eq!(Evaluator::of("", resource).unwrap().handles(&update), want, "{resource}: {old} {new}");
        }
    }

    #[test]
    fn only_requests_that_can_change_the_usage_are_evaluated() {
        use Operation::{Create, Update};
        let deadline = |seconds: Option<i64>| Some(json!({"spec": {"activeDeadlineSeconds": seconds}}));
        let handled = |operation, resource: &str, subresource: &str, old, new| {
            let mut attributes = attributes(operation, "", resource, new, old);
            attributes.subresource = subresource.to_owned();
            Evaluator::of("", resource).unwrap().handles(&attributes)
        };
        for (operation, resource, subresource, want) in [
            (Create, "pods", "", true),
            (Update, "pods", "", false),
            (Update, "pods", "resize", true),
            (Update, "pods", "status", false),
            (Create, "pods", "binding", false),
            (Create, "services", "", true),
            (Update, "services", "", true),
            (Update, "services", "status", false),
            (Update, "persistentvolumeclaims", "", true),
            (Update, "persistentvolumeclaims", "status", true),
            (Create, "configmaps", "", true),
            (Update, "configmaps", "", false),
            (Create, "serviceaccounts", "token", false),
        ] {
            let (old, new) = (deadline(None), deadline(None));
            assert_eq!(handled(operation, resource, subresource, old, new), want, "{resource}/{subresource}");
        }
        for (old, new, want) in
            [(None, Some(0), true), (Some(5), None, true), (Some(5), Some(1), false), (None, Some(-1), false)]
        {
            assert_eq!(handled(Update, "pods", "", deadline(old), deadline(new)), want, "{old:?} {new:?}");
        }
    }
}
