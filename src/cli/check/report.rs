//! What is printed.

use crate::cel::estimate::Range;
use crate::cel::rules::Cost;
use std::fmt;
use std::path::Path;

/// Something about an object.
#[derive(Debug, PartialEq)]
pub(super) enum Finding {
    /// An expression costs this.
    Expression(String, Range),
    /// A rule of a schema does.
    Rule(String, Cost),
    /// A field has this in `status.typeChecking`.
    Warning(String, String),
    /// kube-apiserver refuses it.
    Error(String),
}

/// What is found, file by file.
#[derive(Debug, Default)]
pub(in crate::cli) struct Report {
    text: String,
    objects: usize,
    errors: usize,
    warnings: usize,
}

impl Finding {
    /// Whether an error is about the same field.
    pub(super) fn is_of_field_of(&self, error: &str) -> bool {
        match self {
            Self::Expression(field, _) | Self::Rule(field, _) | Self::Warning(field, _) => {
                error.strip_prefix(&**field).is_some_and(|rest| rest.starts_with(':'))
            }
            Self::Error(_) => false,
        }
    }
}

impl Report {
    /// What was found about one object in a file; about the file itself if it has no name.
    pub(super) fn add(&mut self, file: &Path, object: &str, findings: Vec<Finding>) {
        let colon = if object.is_empty() { "" } else { ": " };
        self.text += &format!("{}{colon}{object}\n", file.display());
        self.objects += usize::from(!object.is_empty());
        for finding in findings {
            match &finding {
                Finding::Warning(..) => self.warnings += 1,
                Finding::Error(_) => self.errors += 1,
                Finding::Expression(..) | Finding::Rule(..) => {}
            }
            for (index, line) in finding.to_string().lines().enumerate() {
                self.text += &format!("{}{line}\n", if index == 0 { "  " } else { "    " });
            }
        }
    }

    /// Whether something would be refused.
    pub(in crate::cli) fn has_errors(&self) -> bool {
        self.errors > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (objects, errors) = (count(self.objects, "object"), count(self.errors, "error"));
        writeln!(f, "{}{objects}, {errors}, {}", self.text, count(self.warnings, "warning"))
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
        }
    }
}
