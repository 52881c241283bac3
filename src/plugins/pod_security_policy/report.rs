//! The violations of policies, in the text form of Go's field errors.

use crate::go_text::go_quote;
use std::fmt;

/// The size in bytes from which a report takes no further violations. A pod may have thousands of containers, and a cluster may
/// have many policies.
const MAX_BYTES: usize = 1 << 20;

/// Collects violations, or only whether there are any.
pub(super) struct Report {
    is_refused: bool,
    /// The texts, separated by spaces; `None` if they are not read.
    text: Option<String>,
}

impl Report {
    /// A report without texts, which costs almost nothing.
    pub(super) fn brief() -> Self {
        Self { is_refused: false, text: None }
    }

    /// A report with texts.
    pub(super) fn full() -> Self {
        Self { is_refused: false, text: Some(String::new()) }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Whether further violations change nothing.
    pub(super) fn is_complete(&self) -> bool {
        self.is_refused && self.text.as_ref().is_none_or(|text| text.len() >= MAX_BYTES)
    }

    /// The violations as Go prints a `field.ErrorList`, without the brackets.
    pub(super) fn into_text(self) -> String {
        self.text.unwrap_or_default()
    }

    /// `field.Invalid`
    pub(super) fn invalid(&mut self, path: impl fmt::Display, value: impl fmt::Display, detail: impl fmt::Display) {
        self.add(format_args!("{path}: Invalid value: {value}: {detail}"));
    }

    /// `field.Invalid` without a detail.
    pub(super) fn invalid_value(&mut self, path: impl fmt::Display, value: impl fmt::Display) {
        self.add(format_args!("{path}: Invalid value: {value}"));
    }

    /// `field.Forbidden`
    pub(super) fn forbidden(&mut self, path: impl fmt::Display, detail: impl fmt::Display) {
        self.add(format_args!("{path}: Forbidden: {detail}"));
    }

    /// `field.Required`
    pub(super) fn required(&mut self, path: impl fmt::Display, detail: impl fmt::Display) {
        self.add(format_args!("{path}: Required value: {detail}"));
    }

    fn add(&mut self, violation: fmt::Arguments<'_>) {
        self.is_refused = true;
        if let Some(text) = self.text.as_mut().filter(|text| text.len() < MAX_BYTES) {
            if !text.is_empty() {
                text.push(' ');
            }
            // Writing to a string does not fail.
            let _ = fmt::Write::write_fmt(text, violation);
        }
    }
}

/// A string in Go's quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go_quote(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_report_has_no_text() {
        let mut report = Report::brief();
        assert!(!report.is_refused() && !report.is_complete());
        report.invalid("spec.a", Quoted("x"), "bad");
        assert!(report.is_refused() && report.is_complete());
        assert_eq!(report.into_text(), "");
    }

    #[test]
    fn a_full_report_has_the_texts_of_go() {
        let mut report = Report::full();
        report.invalid("spec.a", Quoted("x\"y"), "bad");
        report.invalid_value("spec.b", true);
        report.forbidden("spec.c", "not this");
        report.required("spec.d", "must be true");
        let texts = [
            r#"spec.a: Invalid value: "x\"y": bad"#,
            "spec.b: Invalid value: true",
            "spec.c: Forbidden: not this",
            "spec.d: Required value: must be true",
        ];
        assert_eq!(report.into_text(), texts.join(" "));
    }

    #[test]
    fn a_full_report_is_bounded() {
        let mut report = Report::full();
        let detail = "x".repeat(1000);
        (0..2000).for_each(|_| report.forbidden("a", &detail));
        assert!(report.is_complete());
        assert!(report.into_text().len() < MAX_BYTES + 2000);
    }
}
