//! The admission plugins: one file each, and one table of all of them.

pub mod always_admit;
pub mod namespace_auto_provision;
pub mod namespace_lifecycle;
pub mod namespace_exists;
pub mod always_pull_images;
pub mod mutating_admission_webhook;
pub mod validating_admission_webhook;
pub mod always_deny;
#[cfg(test)]
pub(crate) mod checker;

use crate::admission::Spec;

/// Every plugin, in kube-apiserver's order (`AllOrderedPlugins`).
pub static ALL: &[&Spec] = &[
    &always_admit::SPEC,
    &namespace_auto_provision::SPEC,
    &namespace_lifecycle::SPEC,
    &namespace_exists::SPEC,
    &always_pull_images::SPEC,
    &mutating_admission_webhook::SPEC,
    &validating_admission_webhook::SPEC,
    &always_deny::SPEC,
];
