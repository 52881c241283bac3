//! The APIs that Kubernetes removed, as the embedded API server serves them: resources, discovery, defaults and validation.

use super::catalog::{self, ApiResource, Group, ServedResource, Version};
use crate::embedded::name::Name;
use crate::object::kinds::BuiltIn;
use crate::object::structural::Structural;
use crate::removed::{self, Api};
use std::sync::{Arc, LazyLock};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A group and version in which a removed API was served.
struct Place {
    api: &'static Api,
    group: &'static str,
    version: &'static str,
    /// The group before which the group stands in discovery, if it has no other versions (`apiVersionPriorities`).
    before: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
    /// `StorageVersionHash`.
    hash: &'static str,
}

static PLACES: [Place; 5] = [
    Place {
        api: &removed::POD_PRESETS,
        group: "settings.k8s.io",
        version: "v1alpha1",
        before: "storage.k8s.io",
        singular: "podpreset",
        short_names: &[],
        hash: "m42I63HOBR0=",
    },
    Place {
        api: &removed::POD_SECURITY_POLICIES,
        group: "extensions",
        version: "v1beta1",
        before: "policy",
        singular: "podsecuritypolicy",
        // kubectl of today warns of a short name in two groups.
        short_names: &[],
        hash: "khBLobUXkqA=",
    },
    Place {
        api: &removed::POD_SECURITY_POLICIES,
        group: "policy",
        version: "v1beta1",
        before: "",
        singular: "podsecuritypolicy",
        short_names: &["psp"],
        hash: "khBLobUXkqA=",
    },
    Place {
        api: &removed::INITIALIZER_CONFIGURATIONS,
        group: "admissionregistration.k8s.io",
        version: "v1alpha1",
        before: "",
        singular: "initializerconfiguration",
        short_names: &[],
        hash: "uTMQ0j7obTA=",
    },
    Place {
        api: &removed::EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS,
        group: "admissionregistration.k8s.io",
        version: "v1alpha1",
        before: "",
        singular: "externaladmissionhookconfiguration",
        short_names: &[],
        hash: "2CgsOqNHfXQ=",
    },
];

/// Every resource of a removed API.
static RESOURCES: LazyLock<Vec<(&'static Api, Arc<ServedResource>)>> =
    LazyLock::new(|| PLACES.iter().map(|place| (place.api, Arc::new(place.resource()))).collect());

impl Place {
    fn resource(&self) -> ServedResource {
        ServedResource {
            group: self.group.into(),
            version: self.version.into(),
            name: self.api.plural.into(),
            kind: self.api.kind.into(),
            singular: self.singular.into(),
            namespaced: self.api.is_namespaced(),
            short_names: self.short_names(),
            categories: Vec::new(),
            verbs: VERBS.to_vec(),
            subresources: Vec::new(),
            collection: catalog::collection(&self.group.into(), &self.api.plural.into()),
            custom: None,
        }
    }

    fn in_discovery(&self) -> ApiResource {
        ApiResource {
            name: self.api.plural.into(),
            singular_name: self.singular.into(),
            namespaced: self.api.is_namespaced(),
            group: Name::default(),
            version: Name::default(),
            kind: self.api.kind.into(),
            place: None,
            verbs: VERBS.to_vec(),
            short_names: self.short_names(),
            categories: Vec::new(),
            storage_version_hash: self.hash.into(),
        }
    }

    fn short_names(&self) -> Vec<Name> {
        self.short_names.iter().copied().map(Name::from).collect()
    }
}

/// Adds the resources of the API to the groups of discovery.
pub(in crate::embedded) fn add(api: &'static Api, groups: &mut Vec<Group>) {
    for place in PLACES.iter().filter(|place| std::ptr::eq(place.api, api)) {
        let at = groups.iter().position(|group| group.name == place.group).unwrap_or_else(|| {
            let at = groups.iter().position(|group| group.name == place.before).unwrap_or(groups.len());
            groups.insert(at, Group { name: place.group.into(), versions: Vec::new() });
            at
        });
        let Some(group) = groups.get_mut(at) else { continue };
        match group.versions.iter_mut().find(|version| version.version == place.version) {
            Some(version) => version.resources.push(place.in_discovery()),
            None => {
                group.versions.push(Version { version: place.version.into(), resources: vec![place.in_discovery()] });
            }
        }
    }
}

/// The resource with that group, version and plural name, and its API, if it is one of `served`.
pub(in crate::embedded) fn resource(
    served: &[&'static Api],
    group: &str,
    version: &str,
    plural: &str,
) -> Option<&'static Arc<ServedResource>> {
    let is_it =
        |resource: &ServedResource| (&*resource.group, &*resource.version, &*resource.name) == (group, version, plural);
    let (api, resource) = RESOURCES.iter().find(|(_, resource)| is_it(resource))?;
    served.iter().any(|each| std::ptr::eq(*each, *api)).then_some(resource)
}

/// The resources whose objects are in the collection of the group and plural name, if they are of a removed API.
pub(in crate::embedded) fn of_collection(group: &str, plural: &str) -> Option<&'static ServedResource> {
    resources().find(|resource| (&*resource.group, &*resource.name) == (group, plural))
}

/// The resources of all removed APIs.
pub(in crate::embedded) fn resources() -> impl Iterator<Item = &'static ServedResource> {
    RESOURCES.iter().map(|(_, resource)| &**resource)
}

/// The structural schema of a resource, if its API is a removed one.
pub(in crate::embedded) fn schema(resource: &ServedResource) -> Option<&'static Structural> {
    static SCHEMAS: LazyLock<Vec<(&'static str, Structural)>> = LazyLock::new(|| {
        let compiled = |api: &&'static Api| Some((api.kind, Structural::compile(api.schema()).ok()?));
        removed::ALL.iter().filter_map(compiled).collect()
    });
    let api = api(resource)?;
    SCHEMAS.iter().find(|(kind, _)| *kind == api.kind).map(|(_, schema)| schema)
}

/// The API of a resource, if it is a removed one.
pub(in crate::embedded) fn api(resource: &ServedResource) -> Option<&'static Api> {
    let is_it = |other: &ServedResource| (&other.group, &other.name) == (&resource.group, &resource.name);
    RESOURCES.iter().find(|(_, other)| is_it(other)).map(|(api, _)| *api)
}

/// The facts about a removed resource.
pub(in crate::embedded) fn facts(group: &str, name: &str) -> Option<&'static BuiltIn> {
    static FACTS: LazyLock<Vec<BuiltIn>> = LazyLock::new(|| removed::ALL.iter().map(|api| facts_of(api)).collect());
    let resource = of_collection(group, name)?;
    FACTS.iter().find(|facts| facts.kind == &*resource.kind)
}

fn facts_of(api: &Api) -> BuiltIn {
    let mut facts = BuiltIn::stored(api.kind, api.is_namespaced());
    let is_configuration = api.group == "admissionregistration.k8s.io";
    facts.has_generation = is_configuration || api.kind == "PodPreset";
    facts.updated_by_version = is_configuration;
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::catalog;

    #[test]
    fn discovery_has_the_groups_in_their_old_places() {
        let groups = catalog::groups(&removed::ALL, &Default::default());
        let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
        let at = |name: &str| names.iter().position(|each| *each == name).unwrap();
        assert_eq!(at("extensions") + 1, at("policy"));
        assert_eq!(at("settings.k8s.io") + 1, at("storage.k8s.io"));
        let versions =
            |name: &str| -> Vec<&str> { groups[at(name)].versions.iter().map(|each| &*each.version).collect() };
        assert_eq!(versions("policy"), ["v1", "v1beta1"]);
        assert_eq!(versions("admissionregistration.k8s.io"), ["v1", "v1alpha1"]);
        assert_eq!(catalog::groups(&[], &Default::default()).len() + 2, groups.len());
    }

    #[test]
    fn a_resource_is_only_served_with_its_api() {
        let psp = |served: &[&'static Api], group| resource(served, group, "v1beta1", "podsecuritypolicies").is_some();
        assert!(!psp(&[], "policy") && !psp(&[&removed::POD_PRESETS], "policy"));
        assert!(psp(&[&removed::POD_SECURITY_POLICIES], "policy"));
        assert!(psp(&[&removed::POD_SECURITY_POLICIES], "extensions"));
    }
}
