//! Custom resources: the kinds that CustomResourceDefinitions define while the server runs.
//!
//! A definition is stored as any other object; `lifecycle` does with it what the controllers of kube-apiserver do. The served resources, discovery and OpenAPI are derived from the stored definitions when a request needs them (`index`).

mod json_path;
mod schema;
mod definition;
mod resource;
mod index;
mod discovery;
mod openapi;
mod table;
mod lifecycle;
mod convert;
mod write;
mod scale;

pub(crate) use convert::Webhooks;
pub(super) use convert::shown_to;
pub(super) use index::{CurrentIndex, Index};
pub(super) use lifecycle::{
    DEFINITIONS, Following, check_count, check_preconditions, check_status, empty_definition, finish_definition,
    is_definition, mark_as_deleting, name_of, names_to_reconsider, prepare, prepare_for_update, reconsider_names,
    removed, served_versions,
};
pub(super) use resource::Custom;
pub(super) use scale::{get as get_scale, patch as patch_scale, update as update_scale};
pub(super) use table::{cells, columns};
pub(super) use write::{create, patch, update};
