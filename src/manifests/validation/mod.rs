//! Validates admission configurations like the API (`kubernetes/pkg/apis/admissionregistration/validation`), fault by fault.
//!
//! The objects are defaulted and were decoded as their kind, so no field has a wrong type. Expressions are compiled in the same
//! environment as in their evaluation.

mod expressions;
mod devices;
mod metadata;
mod rules;
mod selector;
mod url;
mod warnings;
mod webhook;
pub(crate) mod policy;

pub(crate) use warnings::warnings;
pub(crate) use webhook::configuration;

use crate::cel::Release;
use crate::cel::environment::NOT_INSTANTIATED;
use crate::go_text::go_quote;
use crate::object::Object;
use crate::status::Cause;
use serde_json::Value;

/// The reasons of causes, and how their messages begin.
const REASONS: [(&str, &str); 8] = [
    ("FieldValueRequired", "Required value"),
    ("FieldValueInvalid", "Invalid value"),
    ("FieldValueForbidden", "Forbidden"),
    ("FieldValueDuplicate", "Duplicate value"),
    ("FieldValueNotSupported", "Unsupported value"),
    ("FieldValueTooMany", "Too many"),
    ("FieldValueTooLong", "Too long"),
    ("InternalError", "Internal error"),
];

/// The errors that a new webhook configuration, policy or binding has in a release, or those of expressions that select devices, as the
/// causes of a Status.
pub(crate) fn causes(object: &Object, release: Release) -> Vec<Cause> {
    let faults = match object.kind() {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => configuration(object, release),
        kind @ ("MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy") => policy::policy(kind, object, release),
        kind @ ("MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding") => policy::binding(kind, object),
        "DeviceClass" | "ResourceClaim" | "ResourceClaimTemplate" => devices::selectors(object, release),
        _ => Faults::default(),
    };
    let cause = |text: &String| {
        let (field, message) = text.split_once(": ").unwrap_or(("", text.as_str()));
        let reason = REASONS.iter().find(|(_, beginning)| message.starts_with(beginning));
        let reason = reason.map_or("FieldValueInvalid", |(reason, _)| *reason);
        Cause { reason: reason.to_owned(), message: message.to_owned(), field: field.to_owned() }
    };
    faults.0.iter().map(cause).collect()
}

/// The validation errors of an object in the texts of `field.Error`, in kube-apiserver's order.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub Vec<String>);

impl Faults {
    fn add(&mut self, field: &str, kind: &str, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.0.push(format!("{field}: {kind}{colon}{detail}"));
    }

    /// `field.Required`
    fn required(&mut self, field: &str, detail: &str) {
        self.add(field, "Required value", detail);
    }

    /// `field.Invalid` for a string value.
    fn invalid(&mut self, field: &str, value: &str, detail: &str) {
        self.add(field, &format!("Invalid value: {}", go_quote(value)), detail);
    }

    /// The error of an expression that does not compile (`convertCELErrorToValidationError`).
    fn not_compiled(&mut self, field: &str, expression: &str, why: &str) {
        match why.starts_with(NOT_INSTANTIATED) {
            true => self.add(field, "Internal error", why),
            false => self.invalid(field, expression, why),
        }
    }

    /// `field.Invalid` for a value of another type.
    fn invalid_value(&mut self, field: &str, value: impl std::fmt::Display, detail: &str) {
        self.add(field, &format!("Invalid value: {value}"), detail);
    }

    /// `field.Forbidden`
    fn forbidden(&mut self, field: &str, detail: &str) {
        self.add(field, "Forbidden", detail);
    }

    /// `field.Duplicate`
    fn duplicate(&mut self, field: &str, value: &str) {
        self.add(field, &format!("Duplicate value: {}", go_quote(value)), "");
    }

    /// `field.NotSupported`, unless the value is supported.
    fn one_of(&mut self, field: &str, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            let supported: Vec<_> = supported.iter().map(|value| go_quote(value)).collect();
            let detail = format!("supported values: {}", supported.join(", "));
            self.add(field, &format!("Unsupported value: {}", go_quote(value)), &detail);
        }
    }
}

/// The string in a field; empty if the field is missing.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The string in an optional field.
fn given<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// The items of a list; empty if the field is missing.
fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The strings in a list.
fn texts<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    items(value, field).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}
