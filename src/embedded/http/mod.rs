//! A request on a resource, and its response.

pub(in crate::embedded) mod negotiate;
pub(in crate::embedded) mod call;
pub(in crate::embedded) mod body;
pub(in crate::embedded) mod respond;
pub(in crate::embedded) mod pretty;
