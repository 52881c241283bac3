//! Every resource that a kube-apiserver of the release of this process serves by default, recorded by `tools/record-server.py`.
//!
//! Does not contain custom resources ([`custom`](crate::embedded::custom)).

use super::removed;
use crate::config::Apis;
use crate::embedded::custom::resource::Custom;
use crate::embedded::name::Name;
use crate::embedded::store::Collection;
use crate::kind::GroupVersionKind;
use crate::object::kinds::{self, BuiltIn};
use crate::object::normal::{self, NormalError};
use crate::object::{Object, convert, release};
use crate::removed::Api;
use crate::status::Status;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// A resource whose objects can be written and read.
#[derive(Debug)]
pub(crate) struct ServedResource {
    /// API group; empty for the core group.
    pub group: Name,
    /// API version.
    pub version: Name,
    /// Plural name, as in URLs.
    pub name: Name,
    /// Kind of the objects.
    pub kind: Name,
    /// Singular name, which kubectl accepts too.
    pub singular: Name,
    /// Whether the objects live in namespaces.
    pub namespaced: bool,
    /// Names such as `po`.
    pub short_names: Vec<Name>,
    /// Groups of resources such as `all`.
    pub categories: Vec<Name>,
    /// Supported verbs, in alphabetical order: `create`, `delete`, `deletecollection`, `get`, …
    pub verbs: Vec<&'static str>,
    /// Subresources of an object.
    pub subresources: Vec<Subresource>,
    /// The collection that stores the objects. Two resources with one storage share a collection.
    pub collection: Collection,
    /// The additional properties of a resource that a definition defines.
    pub(in crate::embedded) custom: Option<Custom>,
}

/// A subresource of a [`ServedResource`].
#[derive(Debug)]
pub(crate) struct Subresource {
    /// The name, as in URLs.
    pub name: Name,
    /// Kind of the subresource's bodies, which may be of another group (`Scale`, `Eviction`).
    pub kind: GroupVersionKind,
    /// Supported verbs, in alphabetical order.
    pub verbs: Vec<&'static str>,
}

impl ServedResource {
    /// Group, version and kind of the objects.
    pub(crate) fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&*self.group, &*self.version, &*self.kind)
    }

    /// The facts about the resource in Kubernetes.
    pub(crate) fn facts(&self) -> &BuiltIn {
        static NONE: LazyLock<BuiltIn> = LazyLock::new(BuiltIn::default);
        if let Some(custom) = &self.custom {
            return &custom.facts;
        }
        kinds::of_resource(&self.group, &self.name).or_else(|| removed::facts(&self.group, &self.name)).unwrap_or(&NONE)
    }

    /// The kind in which objects are stored, if it is not the resource's kind.
    fn other_stored_kind(&self) -> Option<GroupVersionKind> {
        let version = match (&*self.group, &*self.version, &*self.name) {
            ("autoscaling", "v1", "horizontalpodautoscalers") => "v2",
            _ => &self.version,
        };
        let is_own = self.collection.group == self.group && self.version == version;
        (!is_own).then(|| GroupVersionKind::new(&*self.collection.group, version, &*self.kind))
    }

    /// Converts an object of this resource to its stored form.
    ///
    /// # Errors
    /// 400 for an object that does not fit its kind.
    pub(crate) fn stored(&self, object: Object) -> Result<Object, Status> {
        match self.other_stored_kind() {
            Some(kind) => converted(object, &self.gvk(), &kind).map_err(Status::bad_request),
            None => Ok(object),
        }
    }

    /// Converts a stored object to this resource's kind.
    pub(crate) fn shown<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        if let Some(custom) = &self.custom {
            return custom.shown(object);
        }
        let shown = self.other_stored_kind().map(|kind| converted(object.clone(), &kind, &self.gvk()));
        // An object that does not convert was rejected before it was stored.
        shown.and_then(Result::ok).map_or(Cow::Borrowed(object), Cow::Owned)
    }

    /// A stored object in the version in which kube-apiserver validates it: the stored one, and the resource's own for events.
    pub(crate) fn validated<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        if self.group == "events.k8s.io" { self.shown(object) } else { Cow::Borrowed(object) }
    }

    /// The subresource with that name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether a verb is served.
    pub(crate) fn serves(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// The URL path of the collection without a namespace: `/api/v1/pods`, `/apis/apps/v1/deployments`.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", group_version_path(&self.group, &self.version), self.name)
    }
}

/// The reason why an object cannot be converted.
#[derive(Debug, thiserror::Error)]
enum Unconvertible {
    /// The object does not fit its kind.
    #[error(transparent)]
    NoForm(#[from] NormalError),
    /// The kind is not built in.
    #[error("{0} is not known")]
    Kind(String),
    /// The version does not have the kind.
    #[error("{kind} is not known in {version}")]
    Version { kind: String, version: String },
}

/// Converts an object to another version of its kind, with the defaults of the first version.
fn converted(mut object: Object, from: &GroupVersionKind, to: &GroupVersionKind) -> Result<Object, Unconvertible> {
    if from.kind == "PodSecurityPolicy" {
        object.fields_mut().insert("apiVersion".to_owned(), to.api_version().into());
        return Ok(object);
    }
    let normal = match normal::built_in(from, object.into_value()) {
        Some(normal) => normal?.object,
        None => return Err(Unconvertible::Kind(from.kind.clone())),
    };
    let unknown = || Unconvertible::Version { kind: from.kind.clone(), version: to.api_version() };
    convert::built_in(&normal, from, to).ok_or_else(unknown)
}

/// Every resource, in the order of discovery.
pub(crate) fn resources() -> &'static [Arc<ServedResource>] {
    &CATALOG.resources
}

/// The resource with that group, version and plural name.
pub(crate) fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Arc<ServedResource>> {
    let index: &HashMap<(&str, &str, &str), &'static Arc<ServedResource>> = &INDEX;
    index.get(&(group, version, plural)).copied()
}

/// The collection of a built-in resource.
pub(in crate::embedded) fn collection(group: &Name, resource: &Name) -> Collection {
    let stored = kinds::storage_group(group, resource);
    let group = if stored == &**group { group.clone() } else { stored.to_owned().into() };
    Collection { group, resource: resource.clone() }
}

/// `/api/v1` or `/apis/apps/v1`.
pub(in crate::embedded) fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// A recorded group: its versions, the preferred one first.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(in crate::embedded) struct Group {
    pub(in crate::embedded) name: Name,
    pub(in crate::embedded) versions: Vec<Version>,
}

/// A recorded version of a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(in crate::embedded) struct Version {
    pub(in crate::embedded) version: Name,
    pub(in crate::embedded) resources: Vec<ApiResource>,
}

/// A recorded `metav1.APIResource`; `name` is `resource/subresource` for a subresource.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'static"))]
pub(in crate::embedded) struct ApiResource {
    pub(in crate::embedded) name: Name,
    pub(in crate::embedded) singular_name: Name,
    pub(in crate::embedded) namespaced: bool,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(in crate::embedded) group: Name,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(in crate::embedded) version: Name,
    pub(in crate::embedded) kind: Name,
    /// Group and version of a custom resource, which the aggregated document names always.
    #[serde(skip)]
    pub(in crate::embedded) place: Option<(Name, Name)>,
    pub(in crate::embedded) verbs: Vec<&'static str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::embedded) short_names: Vec<Name>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::embedded) categories: Vec<Name>,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(in crate::embedded) storage_version_hash: Name,
}

fn is_empty(name: &Name) -> bool {
    name.is_empty()
}

/// The groups that a server with these removed APIs serves, in the order of discovery, the core group first.
pub(in crate::embedded) fn groups(removed: &[&'static Api], apis: &Apis) -> Vec<Group> {
    let mut groups = CATALOG.groups.clone();
    for group in &mut groups {
        let name = &group.name;
        group.versions.retain(|version| apis.serves(name, &version.version));
    }
    groups.retain(|group| !group.versions.is_empty());
    for api in removed {
        removed::add(api, &mut groups);
    }
    groups
}

struct Catalog {
    groups: Vec<Group>,
    resources: Vec<Arc<ServedResource>>,
}

/// The recorded discovery of the release of this process.
pub(super) fn recorded() -> &'static str {
    static RECORDED: LazyLock<String> =
        LazyLock::new(|| release::lines(include_str!("../data/discovery.json")).collect());
    &RECORDED
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let groups: Vec<Group> = serde_json::from_str(recorded()).expect("the recorded discovery is well-formed");
    let mut resources = Vec::new();
    for group in &groups {
        for version in &group.versions {
            resources.extend(resources_of(&group.name, version).into_iter().map(Arc::new));
        }
    }
    Catalog { groups, resources }
});

/// The resources by group, version and plural name.
type Index = HashMap<(&'static str, &'static str, &'static str), &'static Arc<ServedResource>>;

static INDEX: LazyLock<Index> =
    LazyLock::new(|| CATALOG.resources.iter().map(|r| ((&*r.group, &*r.version, &*r.name), r)).collect());

pub(in crate::embedded) fn resources_of(group: &Name, version: &Version) -> Vec<ServedResource> {
    let (below, top): (Vec<&ApiResource>, Vec<&ApiResource>) =
        version.resources.iter().partition(|recorded| recorded.name.contains('/'));
    let subresources_of = |parent: &str| {
        let subresource = |recorded: &&ApiResource| {
            let (of, name) = recorded.name.split_once('/')?;
            // An empty version means the list's group and version.
            let (kind_group, kind_version) = match &*recorded.version {
                "" => (&**group, &*version.version),
                other => (&*recorded.group, other),
            };
            (of == parent).then(|| Subresource {
                name: name.to_owned().into(),
                kind: GroupVersionKind::new(kind_group, kind_version, &*recorded.kind),
                verbs: recorded.verbs.clone(),
            })
        };
        below.iter().filter_map(subresource).collect()
    };
    top.into_iter()
        .map(|recorded| ServedResource {
            group: group.clone(),
            version: version.version.clone(),
            name: recorded.name.clone(),
            kind: recorded.kind.clone(),
            singular: recorded.singular_name.clone(),
            namespaced: recorded.namespaced,
            short_names: recorded.short_names.clone(),
            categories: recorded.categories.clone(),
            verbs: recorded.verbs.clone(),
            subresources: subresources_of(&recorded.name),
            collection: collection(group, &recorded.name),
            custom: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn holds_every_recorded_resource_and_subresource() {
        let recorded: serde_json::Value = serde_json::from_str(recorded()).unwrap();
        let names: Vec<String> = recorded
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|group| group["versions"].as_array().unwrap())
            .flat_map(|version| version["resources"].as_array().unwrap())
            .map(|resource| resource["name"].as_str().unwrap().to_owned())
            .collect();
        let top = names.iter().filter(|name| !name.contains('/')).count();
        assert_eq!(resources().len(), top);
        assert_eq!(top + resources().iter().map(|r| r.subresources.len()).sum::<usize>(), names.len());
        assert!(top > 60, "{top}");
    }

    #[test]
    fn is_served_as_the_table_of_kinds_has_it() {
        for resource in resources() {
            let ServedResource { group, name, kind, namespaced, .. } = &**resource;
            let facts = kinds::of_resource(group, name).unwrap();
            let subresources = (resource.subresource("status").is_some(), resource.subresource("scale").is_some());
            assert_eq!((facts.kind, facts.is_namespaced), (&**kind, *namespaced), "{group} {name}");
            assert_eq!((facts.has_status, facts.has_scale), subresources, "{group} {name}");
        }
    }

    #[test]
    fn finds_a_resource_by_group_version_and_name() {
        let pods = resource("", "v1", "pods").unwrap();
        assert_eq!((&*pods.kind, &*pods.singular, pods.namespaced), ("Pod", "pod", true));
        assert_eq!((&*pods.short_names[0], &*pods.categories[0]), ("po", "all"));
        assert!(pods.serves("watch"));
        assert_eq!(pods.path(), "/api/v1/pods");
        assert_eq!(pods.subresource("eviction").unwrap().kind, GroupVersionKind::new("policy", "v1", "Eviction"));
        assert_eq!(pods.subresource("status").unwrap().kind, pods.gvk());
        assert!(pods.subresource("scale").is_none());
        let deployments = resource("apps", "v1", "deployments").unwrap();
        assert_eq!(deployments.subresource("scale").unwrap().kind, GroupVersionKind::new("autoscaling", "v1", "Scale"));
        assert_eq!(deployments.path(), "/apis/apps/v1/deployments");
        assert!(resource("apps", "v1", "pods").is_none());
        assert!(resource("autoscaling", "v2", "horizontalpodautoscalers").is_some());
    }

    #[test]
    fn an_autoscaler_survives_the_way_through_v1() {
        let v1 = resource("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
        let stored = Object::from_value(json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 1, "maxReplicas": 3, "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
                "behavior": {"scaleUp": {
                    "stabilizationWindowSeconds": 5, "selectPolicy": "Max",
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}}},
        }))
        .unwrap();
        let shown = v1.shown(&stored).into_owned();
        assert_eq!(shown.get(&["spec", "targetCPUUtilizationPercentage"]), Some(&json!(50)));
        let again = v1.stored(shown).unwrap();
        assert_eq!(again.api_version(), "autoscaling/v2");
        for field in ["scaleTargetRef", "minReplicas", "maxReplicas", "metrics"] {
            assert_eq!(again.get(&["spec", field]), stored.get(&["spec", field]), "{field}");
        }
        let policies = |object: &Object| object.get(&["spec", "behavior", "scaleUp", "policies"]).cloned();
        assert_eq!(policies(&again), policies(&stored));
    }

    #[test]
    fn an_event_has_other_names_in_its_own_group() {
        let events = resource("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(events.collection, resource("", "v1", "events").unwrap().collection);
        let core = Object::from_value(json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "message": "m",
            "involvedObject": {"name": "x"}, "reportingComponent": "c",
        }))
        .unwrap();
        let event = events.shown(&core).into_owned();
        assert_eq!(event.get(&["note"]), Some(&json!("m")));
        assert_eq!(event.get(&["regarding", "name"]), Some(&json!("x")));
        assert_eq!(event.api_version(), "events.k8s.io/v1");
        let again = events.stored(event).unwrap();
        assert_eq!(again.api_version(), "v1");
        for field in ["message", "involvedObject", "reportingComponent"] {
            assert_eq!(again.get(&[field]), core.get(&[field]), "{field}");
        }
    }

    #[test]
    fn an_object_that_its_kind_cannot_hold_is_not_stored() {
        let events = resource("events.k8s.io", "v1", "events").unwrap();
        let wrong = Object::from_value(json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": 1})).unwrap();
        assert_eq!(events.stored(wrong).unwrap_err().code, 400);
    }

    #[test]
    fn every_resource_is_found_under_its_own_name() {
        for each in resources() {
            let found = resource(&each.group, &each.version, &each.name).unwrap();
            assert!(std::ptr::eq(each, found), "{}", each.path());
        }
    }
}
