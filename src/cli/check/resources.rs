//! The known kinds: built-in kinds, and kinds that CustomResourceDefinitions among the files define.

use super::manifests::Manifest;
use crate::cel::schema::Declared;
use crate::embedded::api::catalog;
use crate::kind::{GroupVersionKind, GroupVersionResource, split_api_version};
use crate::object::Object;
use serde_json::Value;
use std::borrow::Cow;

/// The versions of custom resources.
pub(super) struct Definitions<'m>(Vec<Definition<'m>>);

struct Definition<'m> {
    kind: GroupVersionKind,
    /// The plural and the singular name.
    names: [Cow<'m, str>; 2],
    schema: Option<&'m Value>,
    is_served: bool,
    is_namespaced: bool,
}

/// The resource of a kind.
pub(super) struct Route<'d> {
    /// The plural name.
    pub(super) resource: &'d str,
    pub(super) is_namespaced: bool,
}

impl<'m> Definitions<'m> {
    /// Collects the kinds that CustomResourceDefinitions among the manifests and the state define.
    pub(super) fn of(manifests: &'m [Manifest], state: &'m [Manifest]) -> Self {
        let definitions =
            manifests.iter().chain(state).filter(|manifest| manifest.kind.kind == "CustomResourceDefinition");
        let definitions = definitions.filter_map(|manifest| manifest.object.as_ref().ok());
        Self(definitions.flat_map(versions).collect())
    }

    /// Returns the kinds of a resource; for the core group, those of the resource in all groups.
    pub(super) fn kinds_of(&self, resource: &GroupVersionResource) -> Vec<GroupVersionKind> {
        let wanted = resource.resource.to_lowercase();
        let is_meant = |group: &str, version: &str, names: [&str; 2]| {
            (resource.group.is_empty() || resource.group == group)
                && resource.version == version
                && names.contains(&&*wanted)
        };
        let built_in = catalog::resources().iter();
        let built_in =
            built_in.filter(|of| is_meant(&of.group, &of.version, [&of.name, &of.singular])).map(|of| of.gvk());
        let custom = self.0.iter().filter(|of| {
            let [plural, singular] = &of.names;
            of.is_served && is_meant(&of.kind.group, &of.kind.version, [plural, singular])
        });
        built_in.chain(custom.map(|of| of.kind.clone())).collect()
    }

    /// Returns the resource whose objects have a kind, if the kind is known.
    pub(super) fn route_of(&self, kind: &GroupVersionKind) -> Option<Route<'_>> {
        let custom = self.0.iter().find(|of| of.kind == *kind && of.is_served);
        if let Some(Definition { names: [plural, _], is_namespaced, .. }) = custom {
            return Some(Route { resource: plural, is_namespaced: *is_namespaced });
        }
        let mut built_in = catalog::resources().iter();
        let of = built_in.find(|of| of.gvk() == *kind && of.verbs.contains(&"create"))?;
        Some(Route { resource: &of.name, is_namespaced: of.namespaced })
    }

    /// Returns the declaration of a kind for policies, if the kind is known.
    pub(super) fn declared(&self, kind: &GroupVersionKind) -> Option<Declared> {
        let custom = self.0.iter().find(|of| of.kind == *kind && of.is_served);
        match custom {
            Some(of) => Declared::of_custom_kind(of.schema?),
            None => Declared::of_kind(kind),
        }
    }

    /// Returns the schema of a custom resource.
    pub(super) fn schema_of(&self, object: &Value) -> Option<&'m Value> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        let kind = GroupVersionKind::new(group, version, text("kind"));
        self.0.iter().find(|of| of.kind == kind)?.schema
    }
}

fn versions(definition: &Object) -> impl Iterator<Item = Definition<'_>> {
    let text = |path: &[&str]| definition.str(path);
    let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
    let singular = match text(&["spec", "names", "singular"]) {
        "" => Cow::Owned(kind.to_lowercase()),
        singular => Cow::Borrowed(singular),
    };
    let names = [Cow::Borrowed(text(&["spec", "names", "plural"])), singular];
    let is_namespaced = text(&["spec", "scope"]) == "Namespaced";
    let versions = definition.items(&["spec", "versions"]).iter();
    versions.filter_map(move |version| {
        let kind = GroupVersionKind::new(group, version.get("name")?.as_str()?, kind);
        let is_served = version.get("served") == Some(&Value::Bool(true));
        let schema = version.pointer("/schema/openAPIV3Schema");
        Some(Definition { kind, names: names.clone(), schema, is_served, is_namespaced })
    })
}
