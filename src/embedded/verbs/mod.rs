//! What a request does: one file for each verb, and for each subresource that is no part of its object.

pub(in crate::embedded) mod initializers;
pub(in crate::embedded) mod attempts;
pub(in crate::embedded) mod list_options;
pub(in crate::embedded) mod select;
pub(in crate::embedded) mod custom;
pub(in crate::embedded) mod read;
pub(in crate::embedded) mod watch;
pub(in crate::embedded) mod write;
pub(in crate::embedded) mod delete;
pub(in crate::embedded) mod scale;
pub(in crate::embedded) mod binding;
pub(in crate::embedded) mod eviction;
pub(in crate::embedded) mod connections;
pub(in crate::embedded) mod component_status;
pub(in crate::embedded) mod token_request;
pub(in crate::embedded) mod review;
