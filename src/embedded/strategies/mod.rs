//! What is particular to a kind.

pub(in crate::embedded) mod metadata;
pub(in crate::embedded) mod owners;
pub(in crate::embedded) mod validation;
pub(in crate::embedded) mod disabled;
pub(in crate::embedded) mod strategy;
pub(in crate::embedded) mod initial;
pub(in crate::embedded) mod pods;
pub(in crate::embedded) mod privileged;
pub(in crate::embedded) mod services;
pub(in crate::embedded) mod daemon_sets;
pub(in crate::embedded) mod signing_requests;
pub(in crate::embedded) mod policy_status;
pub(in crate::embedded) mod roles;
pub(in crate::embedded) mod api_services;
pub(in crate::embedded) mod definitions;
