//! Webhook configurations, policies and bindings (`pkg/registry/admissionregistration`). Their rules come from a higher layer, which has the
//! compiler of expressions.

use super::context::Context;
use super::policy_status;
use super::strategy::Strategy;
use crate::object::Object;
use crate::status::{Cause, Status};

/// A MutatingAdmissionPolicy, or a binding of a policy.
pub(super) struct Registrations;

impl Strategy for Registrations {
    fn takes_long(&self) -> bool {
        true
    }

    fn validate(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        checked(context, object, true)
    }

    fn validate_update(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        checked(context, object, false)
    }
}

/// The errors of an updated object. The stored object is valid, so that no rule is weaker for what an update does not change.
pub(super) fn changed(context: &Context<'_>, object: &Object) -> Vec<Cause> {
    if context.subresource.is_empty() { context.settings.registration_causes(object) } else { Vec::new() }
}

/// The errors of a write. Without errors, the client gets the warnings.
fn checked(context: &Context<'_>, object: &Object, is_new: bool) -> Vec<Cause> {
    if !context.subresource.is_empty() {
        return Vec::new();
    }
    let causes = context.settings.registration_causes(object);
    if causes.is_empty() {
        let warnings = (context.settings.registration_warnings)(object, is_new, &context.settings.gates);
        warnings.into_iter().for_each(|warning| context.warnings.warn(warning));
    }
    causes
}

pub(super) struct WebhookConfigurations;

impl Strategy for WebhookConfigurations {
    fn takes_long(&self) -> bool {
        true
    }

    /// An empty list counts as a change, since its Go value is not nil: the strategy compares with `reflect.DeepEqual`.
    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Object, _: &Object) -> Result<bool, Status> {
        Ok(object.has_empty_but_not_nil("webhooks"))
    }

    fn validate(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        checked(context, object, true)
    }

    fn validate_update(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        checked(context, object, false)
    }
}

pub(super) struct ValidatingAdmissionPolicies;

impl Strategy for ValidatingAdmissionPolicies {
    fn takes_long(&self) -> bool {
        true
    }

    fn validate(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        checked(context, object, true)
    }

    fn validate_update(&self, context: &Context<'_>, object: &Object) -> Vec<Cause> {
        match context.subresource {
            "status" => policy_status::causes(object),
            _ => checked(context, object, false),
        }
    }
}
