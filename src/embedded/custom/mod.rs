//! The kinds that CustomResourceDefinitions define while the server runs: their definitions, compiled from the stored objects.

pub(in crate::embedded) mod json_path;
pub(in crate::embedded) mod schema;
pub(in crate::embedded) mod definition;
pub(in crate::embedded) mod resource;
