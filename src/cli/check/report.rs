//! The output of `check`.

use crate::cel::estimate::Range;
use crate::cel::rules::Cost;
use std::fmt;
use std::path::Path;

/// A finding about an object.
#[derive(Debug, PartialEq)]
pub(super) enum Finding {
    /// The cost of an expression, by field.
    Expression(String, Range),
    /// The cost of a rule of a schema, by field.
    Rule(String, Cost),
    /// The warning about a field in `status.typeChecking`.
    Warning(String, String),
    /// The error with which kube-apiserver refuses the object.
    Error(String),
    /// Nothing is checked in an object of this kind.
    NotChecked,
}

/// The findings, file by file.
#[derive(Debug, Default)]
pub(in crate::cli) struct Report {
    text: String,
    objects: usize,
    errors: usize,
    warnings: usize,
    not_checked: usize,
}

impl Finding {
    /// Whether the error is about the field of this finding.
    pub(super) fn is_of_field_of(&self, error: &str) -> bool {
        match self {
            Self::Expression(field, _) | Self::Rule(field, _) | Self::Warning(field, _) => {
                error.strip_prefix(&**field).is_some_and(|rest| rest.starts_with(':'))
            }
            Self::Error(_) | Self::NotChecked => false,
        }
    }
}

impl Report {
    /// Adds the findings about an object in a file, or about the file itself if `object` is empty.
    pub(super) fn add(&mut self, file: &Path, object: &str, findings: Vec<Finding>) {
        let colon = if object.is_empty() { "" } else { ": " };
        self.text += &format!("{}{colon}{object}\n", file.display());
        self.objects += usize::from(!object.is_empty());
        for finding in findings {
            match &finding {
                Finding::Warning(..) => self.warnings += 1,
                Finding::Error(_) => self.errors += 1,
                Finding::NotChecked => self.not_checked += 1,
                Finding::Expression(..) | Finding::Rule(..) => {}
            }
            for (index, line) in finding.to_string().lines().enumerate() {
                self.text += &format!("{}{line}\n", if index == 0 { "  " } else { "    " });
            }
        }
    }

    /// Whether kube-apiserver would refuse an object.
    pub(in crate::cli) fn has_errors(&self) -> bool {
        self.errors > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (objects, errors) = (count(self.objects, "object"), count(self.errors, "error"));
        let not_checked = match self.not_checked {
            0 => String::new(),
            some => format!(", {some} not checked"),
        };
        writeln!(f, "{}{objects}, {errors}, {}{not_checked}", self.text, count(self.warnings, "warning"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression(field, cost) => write!(f, "{field}: costs {cost}"),
            Self::Rule(field, Cost { once, in_all }) if once.max == *in_all => write!(f, "{field}: costs {once}"),
            Self::Rule(field, Cost { once, in_all }) => {
                write!(f, "{field}: costs {once}, in a request {} at most", Range::fixed(*in_all))
            }
            Self::Warning(field, text) => write!(f, "warning: {field}: {}", text.trim_end()),
            Self::Error(text) => write!(f, "error: {text}"),
            Self::NotChecked => f.write_str("not checked: the kind has no expressions"),
        }
    }
}
