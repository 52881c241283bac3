//! `check`: validates expressions without a cluster.

mod manifests;
mod policies;
mod report;
mod resources;
#[cfg(test)]
mod tests;

use crate::cel::{Release, rules};
use crate::config::{EmulatedRelease, FeatureGates, admission_file, plugin_hint};
use crate::manifests::validation;
use crate::object::Object;
use manifests::{Manifest, STANDARD_INPUT};
use report::{Finding, Report};
use resources::Definitions;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Checks the manifests in `files`, and the custom resources in `objects` by the rules of the definitions in `files`, as of a release.
pub(super) fn check(files: &[PathBuf], objects: &[PathBuf], release: EmulatedRelease) -> Report {
    let mut report = Report::default();
    let mut read = |files: &[PathBuf]| {
        let mut all = Vec::new();
        for named in files {
            let found = manifests::files(named).unwrap_or_else(|why| {
                report.add(named, "", vec![Finding::Error(why.to_string())]);
                Vec::new()
            });
            for file in found {
                match manifests::read(&file) {
                    Ok(manifests) => all.extend(manifests),
                    Err(why) => report.add(&file, "", vec![Finding::Error(why.to_string())]),
                }
            }
        }
        all
    };
    let (manifests, objects) = (read(files), read(objects));
    let definitions = Definitions::of(&manifests);
    for manifest in &manifests {
        let findings = match &manifest.object {
            Ok(object) => of_object(manifest, object, &definitions, release),
            Err(why) => vec![Finding::Error(why.to_string())],
        };
        report.add(&manifest.file, &manifest.name, findings);
    }
    for Manifest { file, name, value, .. } in &objects {
        let findings = match definitions.schema_of(value) {
            Some(schema) => {
                rules::validate(schema, value, release.expressions()).into_iter().map(Finding::Error).collect()
            }
            None => vec![Finding::Error("no definition of its kind is among the files".to_owned())],
        };
        report.add(file, name, findings);
    }
    report
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
            report.add(folder, "", vec![Finding::Error(error.to_string())]);
            return;
        }
    };
    match checked {
        Ok(count) => report.add(folder, &format!("tenants: {count}"), Vec::new()),
        Err(faults) => {
            for fault in faults {
                let at = if fault.line > 0 { format!("line {}: ", fault.line) } else { String::new() };
                let field = if fault.field.is_empty() { String::new() } else { format!("{}: ", fault.field) };
                report.add(&fault.file, "", vec![Finding::Error(format!("{at}{field}{}", fault.why))]);
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
    if manifest.kind.kind == admission_file::KIND && admission_file::GROUPS.contains(&&*manifest.kind.group) {
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
        _ => return vec![Finding::NotChecked],
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
