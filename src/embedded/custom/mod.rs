//! The kinds that CustomResourceDefinitions define while the server runs: their definitions, compiled from the stored objects.

pub(in crate::embedded) mod json_path;
pub(in crate::embedded) mod schema;
pub(in crate::embedded) mod definition;
pub(in crate::embedded) mod resource;
mod webhooks;

use super::store::Collection;
pub(crate) use webhooks::Webhooks;

/// The collection of the definitions.
pub(in crate::embedded) const DEFINITIONS: &Collection =
    &Collection::built_in("apiextensions.k8s.io", "customresourcedefinitions");

/// The name of the definition of a collection.
pub(in crate::embedded) fn name_of(collection: &Collection) -> String {
    format!("{}.{}", collection.resource, collection.group)
}
