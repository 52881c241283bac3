//! The verbs of custom resources, whose objects a webhook may convert between the versions of a definition.

pub(in crate::embedded) mod convert;
pub(in crate::embedded) mod write;
pub(in crate::embedded) mod scale;
