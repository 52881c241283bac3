//! The controllers: what follows from a write for other objects, and what happens without a request.

pub(in crate::embedded) mod kubernetes_service;
pub(in crate::embedded) mod tasks;
pub(in crate::embedded) mod garbage;
pub(in crate::embedded) mod expiry;
