//! The findings of `check`, and its output for persons.

use crate::cel::estimate::Range;
use crate::cel::rules::Cost;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

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
    /// The refusal of the object by admission or validation.
    Refused(Refusal),
    /// A warning of the answer to the write.
    Answered(String),
    /// Nothing is checked in the object, for this reason.
    NotChecked(String),
}

/// The refusal of a write.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    /// The object that is refused, if it is not the manifest itself.
    pub(super) of: String,
    pub(super) message: String,
    pub(super) reason: String,
    pub(super) code: u64,
    /// The fields that the causes name.
    pub(super) fields: Vec<String>,
}

/// The level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Note,
    Warning,
    Error,
}

/// The findings about an object, or about a file if `object` is empty.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) file: PathBuf,
    /// Kind and name.
    pub(super) object: String,
    /// The findings, each with its line in the file; 0 if it has none.
    pub(super) findings: Vec<(usize, Finding)>,
}

/// The findings, file by file.
#[derive(Debug, Default)]
pub(in crate::cli) struct Report {
    pub(super) entries: Vec<Entry>,
    /// The admitted objects.
    pub(super) admitted: Vec<Value>,
}

impl Refusal {
    /// Reads the Status of a refusal.
    pub(super) fn of(status: &Value, of: String) -> Self {
        let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let causes = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
        let mut fields: Vec<String> = causes
            .filter_map(|cause| Some(cause.get("field")?.as_str()?.to_owned()))
            .filter(|field| !field.is_empty())
            .collect();
        fields.dedup();
        if fields.is_empty()
            && let Some((_, unknown)) = text("/message").split_once("unknown field \"")
        {
            fields.extend(unknown.split('"').next().map(str::to_owned));
        }
        let code = status.get("code").and_then(Value::as_u64).unwrap_or_default();
        Self { of, message: text("/message"), reason: text("/reason"), code, fields }
    }

    /// The plugin, policy or webhook that the message names; otherwise the reason.
    pub(super) fn by(&self) -> String {
        let between = |before: &str, after: &str| {
            let rest = self.message.split_once(before)?.1;
            Some(rest.split_once(after)?.0)
        };
        if let Some(name) = between("ValidatingAdmissionPolicy '", "'") {
            return format!("ValidatingAdmissionPolicy/{name}");
        }
        if let Some(name) = between("admission webhook \"", "\"") {
            return format!("webhook/{name}");
        }
        let plugins = [
            ("violates PodSecurity", "PodSecurity"),
            ("exceeded quota", "ResourceQuota"),
            ("must specify", "ResourceQuota"),
            (" usage per ", "LimitRanger"),
            ("error looking up service account", "ServiceAccount"),
            ("no PriorityClass with name", "Priority"),
        ];
        let plugin = plugins.iter().find(|(words, _)| self.message.contains(words));
        plugin.map_or_else(|| self.reason.clone(), |(_, plugin)| (*plugin).to_owned())
    }
}

impl Finding {
    /// Whether the error is about the field of this finding.
    pub(super) fn is_of_field_of(&self, error: &str) -> bool {
        match self {
            Self::Expression(field, _) | Self::Rule(field, _) | Self::Warning(field, _) => {
                error.strip_prefix(&**field).is_some_and(|rest| rest.starts_with(':'))
            }
            _ => false,
        }
    }

    /// The field that the finding is about; empty for the whole object.
    pub(super) fn field(&self) -> &str {
        match self {
            Self::Expression(field, _) | Self::Rule(field, _) | Self::Warning(field, _) => field,
            Self::Refused(refusal) if refusal.of.is_empty() => refusal.fields.first().map_or("", String::as_str),
            // `unknown field "spec.a"`
            Self::Error(text) if text.starts_with("unknown field \"") => text.split('"').nth(1).unwrap_or_default(),
            // `spec.a: Required value`
            Self::Error(text) => text.split_once(": ").map_or("", |(field, _)| field).trim(),
            _ => "",
        }
    }

    pub(super) fn level(&self) -> Level {
        match self {
            Self::Error(_) | Self::Refused(_) => Level::Error,
            Self::Warning(..) | Self::Answered(_) => Level::Warning,
            Self::Expression(..) | Self::Rule(..) | Self::NotChecked(_) => Level::Note,
        }
    }

    /// The text without the level.
    pub(super) fn message(&self) -> String {
        let text = self.to_string();
        let text = text.strip_prefix("error: ").or_else(|| text.strip_prefix("warning: ")).unwrap_or(&text);
        text.to_owned()
    }
}

impl Report {
    /// Adds the findings about an object in a file, or about the file itself if `object` is empty. `line_of` returns the line of a field.
    pub(super) fn add(&mut self, file: &Path, object: &str, findings: Vec<Finding>, line_of: impl Fn(&str) -> usize) {
        let findings = findings.into_iter().map(|finding| (line_of(finding.field()), finding)).collect();
        self.entries.push(Entry { file: file.to_owned(), object: object.to_owned(), findings });
    }

    fn all(&self) -> impl Iterator<Item = &Finding> {
        self.entries.iter().flat_map(|entry| &entry.findings).map(|(_, finding)| finding)
    }

    /// The number of findings of a level.
    pub(super) fn count(&self, level: Level) -> usize {
        self.all().filter(|finding| finding.level() == level).count()
    }

    /// The number of objects of which nothing is checked.
    pub(super) fn not_checked(&self) -> usize {
        self.all().filter(|finding| matches!(finding, Finding::NotChecked(_))).count()
    }

    /// The number of objects.
    pub(super) fn objects(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.object.is_empty()).count()
    }

    /// Whether kube-apiserver would refuse an object.
    pub(in crate::cli) fn has_errors(&self) -> bool {
        self.count(Level::Error) > 0
    }

    /// Whether there is a warning.
    pub(in crate::cli) fn has_warnings(&self) -> bool {
        self.count(Level::Warning) > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { file, object, findings } in &self.entries {
            let colon = if object.is_empty() { "" } else { ": " };
            writeln!(f, "{}{colon}{object}", file.display())?;
            for (_, finding) in findings {
                for (index, line) in finding.to_string().lines().enumerate() {
                    writeln!(f, "{}{line}", if index == 0 { "  " } else { "    " })?;
                }
            }
        }
        let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (objects, errors) = (count(self.objects(), "object"), count(self.count(Level::Error), "error"));
        let not_checked = match self.not_checked() {
            0 => String::new(),
            some => format!(", {some} not checked"),
        };
        writeln!(f, "{objects}, {errors}, {}{not_checked}", count(self.count(Level::Warning), "warning"))
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
            Self::Refused(Refusal { of, message, .. }) if of.is_empty() => write!(f, "error: {message}"),
            Self::Refused(Refusal { of, message, .. }) => write!(f, "error: {of}: {message}"),
            Self::Answered(text) => write!(f, "warning: {text}"),
            Self::NotChecked(why) => write!(f, "not checked: {why}"),
        }
    }
}
