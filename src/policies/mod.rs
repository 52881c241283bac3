//! Admission policies: rules in the Common Expression Language, stored in the cluster.
//!
//! The two plugins in `plugins/` are thin: they hand a request to `ValidatingPolicies` or `MutatingPolicies`. Policies are compiled when
//! they change (`source.rs`), so that a request pays only for those that name its resource. An evaluation is synchronous and
//! borrows the request; if it needs an access review, it stops, and starts again with the answer (`reviews.rs`).

mod policy;
mod cached;
mod binding;
mod source;
mod files;
mod misconfigured;
mod parameters;
mod metrics;
mod shadow;
mod machinery;
mod validating;
mod mutating;
pub(crate) mod config;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use binding::Binding;
#[cfg(test)]
pub(crate) use binding::{MUTATING_BINDINGS, VALIDATING_BINDINGS};
pub(crate) use mutating::MutatingPolicies;
pub(crate) use source::{MUTATING_NEEDS, VALIDATING_NEEDS};
pub(crate) use validating::ValidatingPolicies;

use crate::admission::Attributes;
use crate::matching::is_review;

/// Resources that only policies from files match, so that a policy cannot block its own removal (`generic.admissionResources`).
const POLICIES: [&str; 4] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// The policies that may match a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// Policies from files and from the API.
    All,
    /// Policies from files only.
    Files,
}

impl Audience {
    /// Returns the audience of a request; `None` if no policy may match it (`generic.Plugin.Dispatch`).
    fn of(attributes: &Attributes) -> Option<Self> {
        let (group, resource) = (&*attributes.resource.group, &*attributes.resource.resource);
        if is_review(group, resource) {
            return None;
        }
        let is_policy = group == "admissionregistration.k8s.io" && POLICIES.contains(&resource);
        Some(if is_policy { Self::Files } else { Self::All })
    }
}
