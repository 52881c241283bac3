//! The additional properties of a `ServedResource` that a definition defines.

use super::definition::{Definition, Version};
use crate::embedded::name::Name;
use crate::embedded::store::Collection;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::Object;
use crate::object::kinds::BuiltIn;
use crate::object::structural::Structural;
use std::borrow::Cow;
use std::sync::Arc;

/// The verbs of a custom resource, and of one whose definition is being deleted (`DiscoveryController.sync`).
pub(in crate::embedded) const VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
pub(in crate::embedded) const VERBS_OF_TERMINATING: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// A version of a definition, as the part of a resource that built-in resources lack.
#[derive(Debug)]
pub(in crate::embedded) struct Custom {
    pub(in crate::embedded) definition: Arc<Definition>,
    pub(in crate::embedded) version: Arc<Version>,
    pub(in crate::embedded) facts: BuiltIn,
}

impl Custom {
    /// A version of a definition.
    pub(in crate::embedded) fn new(definition: &Arc<Definition>, version: &Arc<Version>) -> Self {
        let mut facts = BuiltIn::stored("", definition.is_namespaced);
        facts.has_generation = true;
        facts.updated_by_version = true;
        facts.has_status = version.has_status;
        facts.has_scale = version.scale.is_some();
        Self { definition: definition.clone(), version: version.clone(), facts }
    }

    /// The kind of lists.
    pub(in crate::embedded) fn list_kind(&self) -> &Name {
        &self.definition.list_kind
    }

    /// The warning for clients, if the version is deprecated.
    pub(in crate::embedded) fn deprecation(&self) -> Option<&str> {
        self.version.deprecation.as_deref()
    }

    /// Whether the schemas are compiled. Otherwise their first use compiles them.
    pub(in crate::embedded) fn is_compiled(&self) -> bool {
        self.version.is_compiled()
    }

    /// The structural schema; `None` if the schema cannot be used.
    pub(in crate::embedded) fn structural(&self) -> Option<&Structural> {
        Some(&self.version.schema().ok()?.structural)
    }

    /// The structural schema of a version; `None` if it cannot be used.
    pub(in crate::embedded) fn structural_of(&self, version: &str) -> Option<&Structural> {
        Some(&self.definition.version(version)?.schema().ok()?.structural)
    }

    /// The kind in all versions.
    pub(in crate::embedded) fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.definition.versions.iter().map(|version| &version.kind)
    }

    /// Converts an object to another version as the strategy `None` does.
    pub(in crate::embedded) fn converted(&self, object: Object, version: &str) -> Option<Object> {
        Some(self.in_version(object, self.definition.version(version)?))
    }

    /// Converts a stored object to the version, without a webhook.
    pub(in crate::embedded) fn shown<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        let (_, from) = split_api_version(object.api_version());
        let mut shown = Cow::Borrowed(object);
        if let Some(Ok(schema)) = self.definition.version(from).map(|version| version.schema()) {
            let read = schema.read(object);
            if read != *object {
                shown = Cow::Owned(read);
            }
        }
        if self.version.name != *from {
            shown = Cow::Owned(self.in_version(shown.into_owned(), &self.version));
        }
        shown
    }

    /// Converts an object to another version as the strategy `None` does. Fields that the version does not have are dropped.
    pub(in crate::embedded) fn in_version(&self, mut object: Object, version: &Version) -> Object {
        object.fields_mut().insert("apiVersion".to_owned(), version.kind.api_version().into());
        self.pruned(object, version)
    }

    /// Drops the fields that a version does not have (`schemaCoercingConverter`).
    pub(in crate::embedded) fn pruned(&self, object: Object, version: &Version) -> Object {
        let Ok(schema) = version.schema() else { return object };
        let whole = object.clone();
        let pruned = schema.structural.coerce(object.into_value());
        pruned.map_or(whole, |normal| normal.object)
    }

    /// The names of the fields for selectors, besides name and namespace.
    pub(in crate::embedded) fn selectable(&self) -> impl Iterator<Item = &str> {
        self.version.selectable.iter().map(|field| &*field.name)
    }

    /// The value of a field for selectors, in an object of the version.
    pub(in crate::embedded) fn selected(&self, object: &Object, field: &str) -> String {
        let Some(selectable) = self.version.selectable.iter().find(|each| each.name == field) else {
            return String::new();
        };
        let found = selectable.path.select(object.as_value()).unwrap_or_default();
        found.first().and_then(|value| super::json_path::text(value)).unwrap_or_default()
    }
}

impl Definition {
    /// The collection of the objects.
    pub(in crate::embedded) fn collection(&self) -> Collection {
        Collection { group: self.group.clone(), resource: self.plural.clone() }
    }
}
