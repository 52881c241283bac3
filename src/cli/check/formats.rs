//! The output of `check` for programs.

use super::report::{Entry, Finding, Level, Report};
use crate::response::yaml_document;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// The version of the documents that `-o json` and `-o yaml` print.
const API_VERSION: &str = "check.kube-admission-proxy.dev/v1alpha1";
/// The schema of SARIF.
const SARIF_SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Form {
    Text,
    Json,
    Yaml,
    Sarif,
    Junit,
    Github,
    /// The admitted objects instead of the findings.
    Objects,
}

/// A format, and the file for it; the standard output without a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Output {
    pub(in crate::cli) form: Form,
    pub(in crate::cli) file: Option<PathBuf>,
}

impl std::str::FromStr for Output {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (form, file) = text.split_once('=').map_or((text, None), |(form, file)| (form, Some(file.into())));
        let form = match form {
            "text" => Form::Text,
            "json" => Form::Json,
            "yaml" => Form::Yaml,
            "sarif" => Form::Sarif,
            "junit" => Form::Junit,
            "github" => Form::Github,
            "objects" => Form::Objects,
            _ => return Err("must be text, json, yaml, sarif, junit, github or objects, or one of them with =FILE"),
        };
        Ok(Self { form, file })
    }
}

/// The report in a format.
pub(in crate::cli) fn written(report: &Report, form: Form) -> String {
    match form {
        Form::Text => report.to_string(),
        Form::Json => pretty(&document(report)),
        Form::Yaml => yaml_document(&document(report)),
        Form::Sarif => pretty(&sarif(report)),
        Form::Junit => junit(report),
        Form::Github => github(report),
        Form::Objects => {
            let document = |object| yaml_document(&without_storage(object));
            report.admitted.iter().fold(String::new(), |text, object| format!("{text}---\n{}", document(object)))
        }
    }
}

/// The object without what the API server adds when it stores an object.
fn without_storage(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    object
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

/// The plugin, policy or webhook of a finding, or the part of the check that makes it.
fn rule_of(finding: &Finding) -> String {
    match finding {
        Finding::Refused(refusal) => refusal.by(),
        Finding::Answered(_) => "Warning".to_owned(),
        Finding::Error(_) => "Invalid".to_owned(),
        Finding::Warning(..) => "TypeChecking".to_owned(),
        Finding::Expression(..) | Finding::Rule(..) => "Cost".to_owned(),
        Finding::NotChecked(_) => "NotChecked".to_owned(),
    }
}

fn verdict(entry: &Entry) -> &'static str {
    let has = |wanted: fn(&Finding) -> bool| entry.findings.iter().any(|(_, finding)| wanted(finding));
    if has(|finding| finding.level() == Level::Error) {
        "refused"
    } else if has(|finding| matches!(finding, Finding::NotChecked(_))) {
        "notChecked"
    } else {
        "allowed"
    }
}

fn document(report: &Report) -> Value {
    let finding = |(line, finding): &(usize, Finding)| {
        let mut found = json!({
            "level": name_of(finding.level()), "message": finding.message(), "by": rule_of(finding), "line": line,
        });
        let Value::Object(fields) = &mut found else { return found };
        if !finding.field().is_empty() {
            fields.insert("field".to_owned(), json!(finding.field()));
        }
        if let Finding::Refused(refusal) = finding {
            fields.insert("reason".to_owned(), json!(refusal.reason));
            fields.insert("code".to_owned(), json!(refusal.code));
            if !refusal.of.is_empty() {
                fields.insert("of".to_owned(), json!(refusal.of));
            }
        }
        found
    };
    let object = |entry: &Entry| {
        let findings: Vec<Value> = entry.findings.iter().map(finding).collect();
        json!({"file": entry.file, "object": entry.object, "verdict": verdict(entry), "findings": findings})
    };
    let objects: Vec<Value> = report.entries.iter().map(object).collect();
    let summary = json!({
        "objects": report.objects(), "errors": report.count(Level::Error), "warnings": report.count(Level::Warning),
        "notChecked": report.not_checked(),
    });
    json!({"apiVersion": API_VERSION, "kind": "CheckReport", "objects": objects, "summary": summary})
}

/// The findings of persons' interest, entry by entry.
fn problems(report: &Report) -> impl Iterator<Item = (&Entry, usize, &Finding)> {
    report.entries.iter().flat_map(|entry| {
        let problems = entry.findings.iter().filter(|(_, finding)| finding.level() != Level::Note);
        problems.map(move |(line, finding)| (entry, *line, finding))
    })
}

/// SARIF 2.1.0: a rule for each plugin, policy or webhook, a result for each error and warning.
fn sarif(report: &Report) -> Value {
    let mut rules: Vec<String> = problems(report).map(|(.., finding)| rule_of(finding)).collect();
    rules.sort();
    rules.dedup();
    let result = |(entry, line, finding): (&Entry, usize, &Finding)| {
        let rule = rule_of(finding);
        let mut place = json!({"artifactLocation": {"uri": uri(entry)}});
        if let (Value::Object(fields), true) = (&mut place, line > 0) {
            fields.insert("region".to_owned(), json!({"startLine": line}));
        }
        json!({
            "ruleId": rule,
            "ruleIndex": rules.iter().position(|known| *known == rule),
            "level": name_of(finding.level()),
            "message": {"text": format!("{}: {}", entry.object, finding.message())},
            "locations": [{"physicalLocation": place}],
            "partialFingerprints": {"object/v1": format!("{}:{}:{rule}", entry.object, finding.field())},
        })
    };
    let results: Vec<Value> = problems(report).map(result).collect();
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"id": rule})).collect();
    let driver = json!({"name": "kube-admission-proxy", "version": env!("CARGO_PKG_VERSION"), "rules": rules});
    json!({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]})
}

/// The path of the file as a reference of a URI.
fn uri(entry: &Entry) -> String {
    let path = entry.file.to_string_lossy();
    path.split('/').map(crate::cluster::segment).collect::<Vec<_>>().join("/")
}

/// JUnit: a suite for each file, a case for each object.
fn junit(report: &Report) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for of_file in report.entries.chunk_by(|one, other| one.file == other.file) {
        let Some(first) = of_file.first() else { continue };
        let count = |wanted: &str| of_file.iter().filter(|entry| verdict(entry) == wanted).count();
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            escaped(&first.file.to_string_lossy()),
            of_file.len(),
            count("refused"),
            count("notChecked")
        );
        for entry in of_file {
            let name = if entry.object.is_empty() { "the file" } else { &entry.object };
            let _ = write!(
                text,
                "    <testcase classname=\"{}\" name=\"{}\"",
                escaped(&entry.file.to_string_lossy()),
                escaped(name)
            );
            let mut content = String::new();
            for (line, finding) in &entry.findings {
                let message = escaped(&finding.message());
                let _ = match finding.level() {
                    Level::Error => writeln!(
                        content,
                        "      <failure type=\"{}\" message=\"{message}\">line {line}</failure>",
                        escaped(&rule_of(finding))
                    ),
                    Level::Warning => writeln!(content, "      <system-err>{message}</system-err>"),
                    Level::Note if matches!(finding, Finding::NotChecked(_)) => {
                        writeln!(content, "      <skipped message=\"{message}\"/>")
                    }
                    Level::Note => Ok(()),
                };
            }
            text += &if content.is_empty() { "/>\n".to_owned() } else { format!(">\n{content}    </testcase>\n") };
        }
        text += "  </testsuite>\n";
    }
    text + "</testsuites>\n"
}

/// Escapes a text for XML. Characters that XML lacks are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped += "&#10;",
            '\t' => escaped += "&#9;",
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The commands of GitHub's runner, which marks the lines.
fn github(report: &Report) -> String {
    let of_value = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let of_property = |text: &str| of_value(text).replace(':', "%3A").replace(',', "%2C");
    problems(report).fold(String::new(), |mut text, (entry, line, finding)| {
        let (level, file) = (name_of(finding.level()), of_property(&entry.file.to_string_lossy()));
        let line = if line > 0 { format!(",line={line}") } else { String::new() };
        let message = of_value(&format!("{}: {}", entry.object, finding.message()));
        let _ = writeln!(text, "::{level} file={file}{line},title={}::{message}", of_property(&rule_of(finding)));
        text
    })
}
