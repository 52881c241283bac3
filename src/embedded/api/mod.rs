//! The served API: the resources of the catalog and of definitions, and what the server publishes about them.

pub(crate) mod catalog;
pub(in crate::embedded) mod removed;
pub(in crate::embedded) mod registrations;
pub(crate) mod document;
pub(in crate::embedded) mod discovery;
pub(in crate::embedded) mod openapi;
pub(in crate::embedded) mod index;
pub(in crate::embedded) mod open_id;
pub(crate) mod table;
