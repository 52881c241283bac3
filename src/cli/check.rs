//! `check`: validates expressions, and admits the other objects, without a cluster.

mod formats;
mod manifests;
mod pods;
mod policies;
mod report;
mod resources;
mod trial;
#[cfg(test)]
mod tests;

pub(super) use formats::{Output, written};
pub(super) use report::Report;
pub(super) use trial::{Caller, Operation, Terms};

use crate::cel::{Release, rules};
use crate::config::{EmulatedRelease, FeatureGates, admission_file, plugin_hint};
use crate::manifests::validation;
use crate::object::Object;
use anyhow::Result;
use manifests::{Manifest, STANDARD_INPUT};
use report::{Finding, Refusal};
use resources::Definitions;
use serde_json::Value;
use std::path::{Path, PathBuf};
use trial::{Outcome, Verdict};

/// The files of a check.
#[derive(Debug, Default)]
pub(super) struct Files<'a> {
    /// The objects to check.
    pub(super) checked: &'a [PathBuf],
    /// Custom resources that only the rules of the definitions among the files validate.
    pub(super) by_rules: &'a [PathBuf],
    /// The objects that exist already.
    pub(super) state: &'a [PathBuf],
}

/// Checks the manifests in files, as of a release. With terms, those without expressions are admitted.
///
/// # Errors
/// If the state does not fit, or the API server of the check does not start.
pub(super) async fn check(files: Files<'_>, release: EmulatedRelease, terms: Option<&Terms>) -> Result<Report> {
    let mut report = Report::default();
    let mut read = |files: &[PathBuf]| {
        let mut all = Vec::new();
        let no_line = |_: &str| 0;
        for named in files {
            let found = manifests::files(named).unwrap_or_else(|why| {
                report.add(named, "", vec![Finding::Error(why.to_string())], no_line);
                Vec::new()
            });
            for file in found {
                match manifests::read(&file) {
                    Ok(manifests) => all.extend(manifests),
                    Err(why) => report.add(&file, "", vec![Finding::Error(why.to_string())], no_line),
                }
            }
        }
        all
    };
    let (manifests, by_rules, state) = (read(files.checked), read(files.by_rules), read(files.state));
    let definitions = Definitions::of(&manifests, &state);
    let is_admitted = |manifest: &Manifest| !manifest.is_known() && !is_admission_file(manifest);
    let mut outcomes = Vec::new();
    if let Some(terms) = terms
        && manifests.iter().any(is_admitted)
    {
        outcomes = trial::admit(terms, &manifests, &state, &definitions).await?;
    }
    let mut outcomes = outcomes.into_iter().peekable();
    for (at, manifest) in manifests.iter().enumerate() {
        let mut findings = match &manifest.object {
            Ok(object) => of_object(manifest, object, &definitions, release),
            Err(why) => vec![Finding::Error(why.to_string())],
        };
        while let Some(outcome) = outcomes.next_if(|outcome| outcome.manifest == at) {
            add(outcome, &mut findings, &mut report.admitted);
        }
        report.add(&manifest.file, &manifest.name, findings, |field| manifest.line_of(field));
    }
    for manifest in &by_rules {
        let findings = match definitions.schema_of(&manifest.value) {
            Some(schema) => rules::validate(schema, &manifest.value, release.expressions())
                .into_iter()
                .map(Finding::Error)
                .collect(),
            None => vec![Finding::Error("no definition of its kind is among the files".to_owned())],
        };
        report.add(&manifest.file, &manifest.name, findings, |field| manifest.line_of(field));
    }
    Ok(report)
}

/// Adds the findings of a verdict to those about its manifest.
fn add(outcome: Outcome, findings: &mut Vec<Finding>, admitted: &mut Vec<Value>) {
    let Outcome { of, verdict, .. } = outcome;
    findings.retain(|finding| !matches!(finding, Finding::NotChecked(_)));
    let warnings = match verdict {
        Verdict::Admitted { object, warnings } => {
            if of.is_empty() {
                admitted.push(object);
            }
            warnings
        }
        // The checks of expressions say more.
        Verdict::Refused { .. }
            if of.is_empty() && findings.iter().any(|finding| matches!(finding, Finding::Error(_))) =>
        {
            Vec::new()
        }
        Verdict::Refused { status, warnings } => {
            findings.push(Finding::Refused(Refusal::of(&status, of.clone())));
            warnings
        }
        Verdict::NotChecked(why) => {
            findings.push(Finding::NotChecked(why));
            Vec::new()
        }
    };
    let of = if of.is_empty() { of } else { format!("{of}: ") };
    findings.extend(warnings.into_iter().map(|text| Finding::Answered(format!("{of}{text}"))));
}

fn is_admission_file(manifest: &Manifest) -> bool {
    manifest.kind.kind == admission_file::KIND && admission_file::GROUPS.contains(&&*manifest.kind.group)
}

/// The AdmissionConfiguration among the files, if there is exactly one in a file.
pub(super) fn admission_file_among(files: &[PathBuf]) -> Option<PathBuf> {
    let files = files.iter().filter_map(|named| manifests::files(named).ok()).flatten();
    let files = files.filter(|file| file != Path::new(STANDARD_INPUT));
    let mut found = files.filter(|file| manifests::read(file).is_ok_and(|all| all.iter().any(is_admission_file)));
    found.next().filter(|_| found.next().is_none())
}

/// Checks the tenants in a folder. Their expressions and webhooks are checked as at the start of the server.
pub(super) fn tenants(folder: &Path, release: EmulatedRelease, report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let checked = match &runtime {
        Ok(runtime) => {
            let _inside = runtime.enter();
            crate::app::check_tenants(folder, release)
        }
        Err(error) => {
            report.add(folder, "", vec![Finding::Error(error.to_string())], |_| 0);
            return;
        }
    };
    match checked {
        Ok(count) => report.add(folder, &format!("tenants: {count}"), Vec::new(), |_| 0),
        Err(faults) => {
            for fault in faults {
                let at = if fault.line > 0 { format!("line {}: ", fault.line) } else { String::new() };
                let field = if fault.field.is_empty() { String::new() } else { format!("{}: ", fault.field) };
                let finding = Finding::Error(format!("{at}{field}{}", fault.why));
                report.add(&fault.file, "", vec![finding], |_| fault.line);
            }
        }
    }
}

fn of_object(
    manifest: &Manifest,
    object: &Object,
    definitions: &Definitions<'_>,
    release: EmulatedRelease,
) -> Vec<Finding> {
    if is_admission_file(manifest) {
        return of_admission_file(&manifest.file, release);
    }
    let expressions = release.expressions();
    let kind = if manifest.is_known() { &*manifest.kind.kind } else { "" };
    let mut findings: Vec<Finding> = manifest.unknown.iter().cloned().map(Finding::Error).collect();
    let faults = match kind {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            validation::policy::policy(kind, object, expressions)
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            validation::policy::binding(kind, object)
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            validation::configuration(object, expressions)
        }
        "CustomResourceDefinition" => {
            findings.extend(of_definition(object, expressions));
            return findings;
        }
        _ => {
            findings.push(Finding::NotChecked("the kind has no expressions".to_owned()));
            return findings;
        }
    };
    let mut found = policies::findings(kind, object, definitions, expressions);
    // A field with an error needs no other finding.
    found.retain(|finding| !faults.0.iter().any(|fault| finding.is_of_field_of(fault)));
    findings.extend(faults.0.into_iter().map(Finding::Error));
    findings.extend(found);
    if manifest.kind.group == "admissionregistration.k8s.io" {
        let warnings = FeatureGates::of(release, "").map(|gates| validation::warnings(object, true, &gates));
        findings.extend(warnings.into_iter().flatten().map(|warning| {
            let (field, text) = warning.split_once(": ").unwrap_or(("", &warning));
            Finding::Warning(field.to_owned(), text.to_owned())
        }));
    }
    findings
}

/// Checks the file itself and the names in it. A plugin reads its own configuration at the start of the server.
fn of_admission_file(file: &Path, release: EmulatedRelease) -> Vec<Finding> {
    if file == Path::new(STANDARD_INPUT) {
        let why = "an AdmissionConfiguration must be a file: the files that it names are relative to its folder";
        return vec![Finding::Error(why.to_owned())];
    }
    let names: Vec<&str> = crate::plugins::of(release).iter().map(|spec| spec.name).collect();
    match admission_file::read(file, &names) {
        Ok(read) => {
            let why =
                |name: &String| format!("plugin {name:?} is unknown {}", plugin_hint(name, names.iter().copied()));
            read.unused.iter().map(|name| Finding::Warning("plugins".to_owned(), why(name))).collect()
        }
        Err(why) => vec![Finding::Error(why.to_string())],
    }
}

/// Checks the rules of each version. A schema that all versions share is checked once, as in kube-apiserver.
fn of_definition(definition: &Object, release: Release) -> Vec<Finding> {
    let versions = definition.items(&["spec", "versions"]);
    let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
    let mut schemas: Vec<(String, Value)> = versions
        .iter()
        .enumerate()
        .map(|(index, version)| (format!("spec.versions[{index}].schema.openAPIV3Schema"), schema(version)))
        .collect();
    if schemas.windows(2).all(|pair| matches!(pair, [(_, one), (_, other)] if one == other)) {
        schemas.truncate(1);
        schemas.iter_mut().for_each(|(path, _)| *path = "spec.validation.openAPIV3Schema".to_owned());
    }
    let mut findings = Vec::new();
    for (path, schema) in schemas {
        let found = rules::check(&schema, &path, release);
        findings.extend(found.costs.into_iter().map(|(field, cost)| Finding::Rule(field, cost)));
        findings.extend(found.errors.into_iter().map(Finding::Error));
    }
    findings
}
