//! What the API says of admission configurations (`kubernetes/pkg/apis/admissionregistration/validation`), fault by fault.
//!
//! It reads defaulted objects that were decoded as their kind: what has another type than the kind's cannot be there.
//! Expressions are compiled as they are when the API evaluates them.

mod expressions;
mod metadata;
mod rules;
mod selector;
mod url;
mod webhook;
pub mod policy;

pub use webhook::configuration;

use crate::cel::environment::NOT_INSTANTIATED;
use crate::go_text::go_quote;
use serde_json::Value;

/// The faults of an object in the texts of `field.Error`, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Faults(pub Vec<String>);

impl Faults {
    fn add(&mut self, field: &str, kind: &str, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.0.push(format!("{field}: {kind}{colon}{detail}"));
    }

    /// `field.Required`
    fn required(&mut self, field: &str, detail: &str) {
        self.add(field, "Required value", detail);
    }

    /// `field.Invalid` of a text.
    fn invalid(&mut self, field: &str, value: &str, detail: &str) {
        self.add(field, &format!("Invalid value: {}", go_quote(value)), detail);
    }

    /// Why an expression does not compile (`convertCELErrorToValidationError`).
    fn not_compiled(&mut self, field: &str, expression: &str, why: &str) {
        match why.starts_with(NOT_INSTANTIATED) {
            true => self.add(field, "Internal error", why),
            false => self.invalid(field, expression, why),
        }
    }

    /// `field.Invalid` of anything else.
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

    /// `field.NotSupported`, unless the value is one of those that are.
    fn one_of(&mut self, field: &str, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            let supported: Vec<_> = supported.iter().map(|value| go_quote(value)).collect();
            let detail = format!("supported values: {}", supported.join(", "));
            self.add(field, &format!("Unsupported value: {}", go_quote(value)), &detail);
        }
    }
}

/// The text of a field; empty where there is none.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a field that may be missing.
fn given<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// The items of a list; none where it is missing.
fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The texts of a list.
fn texts<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    items(value, field).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}
