//! A list of validation errors (`field.ErrorList`) with the texts of `field.Error`.

use crate::go_text::go_quote;
use crate::status::Cause;
use std::fmt::Display;

/// The validation errors of an object, in kube-apiserver's order.
#[derive(Debug, Default)]
pub(super) struct Causes(pub(super) Vec<Cause>);

impl Causes {
    fn add(&mut self, reason: &str, field: impl Into<String>, problem: String, detail: &str) {
        let message = if detail.is_empty() { problem } else { format!("{problem}: {detail}") };
        self.0.push(Cause { reason: reason.to_owned(), field: field.into(), message });
    }

    /// `field.Required`
    pub(super) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.add("FieldValueRequired", field, "Required value".to_owned(), detail);
    }

    /// `field.Invalid` for a string value.
    pub(super) fn invalid(&mut self, field: impl Into<String>, value: &str, detail: &str) {
        self.invalid_value(field, go_quote(value), detail);
    }

    /// `field.Invalid` with each of these details.
    pub(super) fn invalid_each(&mut self, field: &str, value: &str, details: Vec<String>) {
        details.iter().for_each(|detail| self.invalid(field, value, detail));
    }

    /// `field.Invalid` for a value in Go's text form.
    pub(super) fn invalid_value(&mut self, field: impl Into<String>, value: impl Display, detail: &str) {
        self.add("FieldValueInvalid", field, format!("Invalid value: {value}"), detail);
    }

    /// `field.Forbidden`
    pub(super) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.add("FieldValueForbidden", field, "Forbidden".to_owned(), detail);
    }

    /// `field.Duplicate`
    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &str) {
        self.add("FieldValueDuplicate", field, format!("Duplicate value: {}", go_quote(value)), "");
    }

    /// `field.NotFound`
    pub(super) fn not_found(&mut self, field: impl Into<String>, value: &str) {
        self.add("FieldValueNotFound", field, format!("Not found: {}", go_quote(value)), "");
    }

    /// `field.TooLong`
    pub(super) fn too_long(&mut self, field: impl Into<String>, most_bytes: usize) {
        let detail = format!("must have at most {most_bytes} bytes");
        self.add("FieldValueTooLong", field, "Too long".to_owned(), &detail);
    }

    /// `field.NotSupported`, unless the value is supported.
    pub(super) fn one_of(&mut self, field: impl Into<String>, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            let supported: Vec<_> = supported.iter().map(|value| go_quote(value)).collect();
            self.not_supported(field, value, &supported.join(", "));
        }
    }

    /// `field.NotSupported` of Kubernetes 1.8, which does not quote the supported values, unless the value is supported.
    pub(super) fn one_of_unquoted(&mut self, field: impl Into<String>, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.not_supported(field, value, &supported.join(", "));
        }
    }

    fn not_supported(&mut self, field: impl Into<String>, value: &str, supported: &str) {
        let problem = format!("Unsupported value: {}", go_quote(value));
        self.add("FieldValueNotSupported", field, problem, &format!("supported values: {supported}"));
    }
}

/// Prints a slice of strings as Go's `%#v` does.
pub(super) fn go_slice(item_type: &str, items: &[&str]) -> String {
    let items: Vec<_> = items.iter().map(|item| go_quote(item)).collect();
    format!("[]{item_type}{{{}}}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_detail_ends_after_the_value() {
        let mut causes = Causes::default();
        causes.required("a", "");
        causes.required("a", "why");
        causes.invalid("a", "x\"", "why");
        causes.invalid_value("a", 1, "");
        causes.duplicate("a", "x");
        causes.not_found("a", "x");
        causes.forbidden("a", "why");
        causes.too_long("a", 63);
        causes.one_of("a", "x", &["y", "z"]);
        causes.one_of_unquoted("a", "x", &["y", "z"]);
        causes.one_of("a", "y", &["y", "z"]);
        let messages: Vec<_> = causes.0.iter().map(|cause| cause.message.as_str()).collect();
        let expected = [
            "Required value",
            "Required value: why",
            "Invalid value: \"x\\\"\": why",
            "Invalid value: 1",
            "Duplicate value: \"x\"",
            "Not found: \"x\"",
            "Forbidden: why",
            "Too long: must have at most 63 bytes",
            "Unsupported value: \"x\": supported values: \"y\", \"z\"",
            "Unsupported value: \"x\": supported values: y, z",
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn slices_are_printed_with_their_type() {
        assert_eq!(go_slice("string", &["*", "a\"b"]), r#"[]string{"*", "a\"b"}"#);
        assert_eq!(go_slice("core.Capability", &[]), "[]core.Capability{}");
    }
}
