//! `spec` (`validateCustomResourceDefinitionSpec`).

use super::internal::{Fields, Shared, Spec, has};
use super::options::Options;
use super::validation::{self, has_extensions};
use super::{DefinitionChecks, conversion, names, print, structural, version};
use crate::go_text::go_quote;
use crate::names::{dns_1035_label_errors, dns_1123_subdomain_errors};
use crate::status::fault;
use crate::status::{Cause, invalid};
use serde_json::Value;
use std::collections::HashSet;

/// The levels of JSON that a definition may nest. kube-apiserver has no such limit.
const MAX_DEPTH: usize = 256;
/// The bytes of the names on the way to a value in a definition. Each error has a path of this length.
const MAX_PATH_BYTES: usize = 4096;

/// The errors of a `spec`.
pub(super) fn check(spec: &Spec<'_>, options: &Options, checks: DefinitionChecks<'_>) -> Vec<Cause> {
    if spec.fields.0.values().any(|value| is_deeper_than(value, MAX_DEPTH, MAX_PATH_BYTES)) {
        let why =
            format!("must not nest more than {MAX_DEPTH} levels, nor have paths of more than {MAX_PATH_BYTES} bytes");
        return vec![invalid::forbidden("spec", &why)];
    }
    let mut options = options.clone();
    options.requires_structural |= !spec.preserves();
    let mut causes = general(spec, &options);
    if spec.schemas().any(|schema| has(schema, &|schema| schema.given("default").is_some())) {
        options.requires_structural = true;
        if spec.preserves() {
            let why = "must be false in order to use defaults in the schema";
            causes.push(invalid::invalid("spec.preserveUnknownFields", "true", why));
        }
    }
    options.requires_structural |= spec.schemas().any(|schema| has(schema, &has_extensions));
    causes.extend(versions(spec, &options, checks));
    causes.extend(required_names(spec));
    causes.extend(spec.fields.object("names").into_iter().flat_map(|names| names::check(names, "spec.names")));
    let shared = Place { path: "spec", validation: "spec.validation", name: "" };
    let is_unchanged = options.unchanged.contains(spec.version());
    causes.extend(validation::check(
        &spec.top,
        spec.has_any_status(),
        &options,
        is_unchanged,
        checks,
        shared.validation,
    ));
    causes.extend(parts(&spec.top, &options, &shared, "may only be set when validations.schema is included"));
    if let Some(conversion) = spec.fields.object("conversion") {
        let strategy = conversion.text("strategy");
        if strategy != "None" && spec.preserves() {
            let why = "must be None if spec.preserveUnknownFields is true";
            causes.push(fault::invalid_text("spec.conversion.strategy", strategy, why));
        }
        causes.extend(conversion::check(conversion, options.conversion, "spec.conversion"));
    }
    causes
}

/// The group, the scope and missing schemas.
fn general(spec: &Spec<'_>, options: &Options) -> Vec<Cause> {
    let mut causes = Vec::new();
    let group = spec.fields.text("group");
    let errors = dns_1123_subdomain_errors(group);
    if group.is_empty() {
        causes.push(fault::required("spec.group", ""));
    } else if !errors.is_empty() {
        causes.push(fault::invalid_text("spec.group", group, &errors.join(",")));
    } else if !group.contains('.') {
        causes.push(fault::invalid_text("spec.group", group, "should be a domain with at least one dot"));
    }
    match spec.fields.text("scope") {
        "" => causes.push(fault::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => causes.push(fault::not_supported("spec.scope", &go_quote(other), ["Cluster", "Namespaced"])),
    }
    if spec.top.schema().is_some() || (!options.requires_schema && spec.preserves()) {
        return causes;
    }
    for (index, version) in spec.versions.iter().enumerate() {
        if version.own.schema().is_none() && (options.requires_schema || version.fields.flag("served")) {
            let why = if options.requires_schema { "" } else { "because otherwise all fields are pruned" };
            causes.push(fault::required(&format!("spec.versions[{index}].schema.openAPIV3Schema"), why));
        }
    }
    causes
}

fn versions(spec: &Spec<'_>, options: &Options, checks: DefinitionChecks<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut known = HashSet::new();
    let has_own_subresources = spec.versions.iter().any(|version| version.own.subresources.is_some());
    for (index, version) in spec.versions.iter().enumerate() {
        let (path, name) = (format!("spec.versions[{index}]"), version.fields.text("name"));
        known.insert(name);
        let errors = dns_1035_label_errors(name);
        if !errors.is_empty() {
            causes.push(fault::invalid_text(&format!("{path}.name"), name, &errors.join(",")));
        }
        let has_status = if has_own_subresources { version.own.has_status() } else { spec.top.has_status() };
        causes.extend(version::deprecation(version.fields, &path));
        let validation_path = format!("{path}.schema");
        let is_unchanged = options.unchanged.contains(name);
        causes.extend(validation::check(&version.own, has_status, options, is_unchanged, checks, &validation_path));
        let place = Place { path: &path, validation: &validation_path, name };
        let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
        causes.extend(parts(&version.own, options, &place, why));
    }
    let is_null = spec.fields.given("versions").is_none();
    let shown = if is_null { "null".to_owned() } else { print::versions(&spec.versions) };
    let mut invalid = |why: &str| {
        causes.push(invalid::invalid("spec.versions", &shown, why));
    };
    if known.len() != spec.versions.len() {
        invalid("must contain unique version names");
    }
    if spec.versions.iter().filter(|version| version.fields.flag("storage")).count() != 1 {
        invalid("must have exactly one version marked as storage version");
    }
    let version = spec.version();
    let errors = dns_1035_label_errors(version);
    if !version.is_empty() && !errors.is_empty() {
        causes.push(fault::invalid_text("spec.version", version, &errors.join(",")));
    }
    causes
}

fn required_names(spec: &Spec<'_>) -> Vec<Cause> {
    let names = spec.fields.object("names");
    let is_missing = |name: &&str| names.is_none_or(|names| names.text(name).is_empty());
    let missing = ["plural", "singular", "kind", "listKind"].into_iter().filter(is_missing);
    missing.map(|name| fault::required(&format!("spec.names.{name}"), "")).collect()
}

/// The place of fields that all versions share, or of those of one version.
struct Place<'a> {
    path: &'a str,
    validation: &'a str,
    /// The name of the version; empty for all.
    name: &'a str,
}

/// The errors of subresources, columns and selectable fields.
fn parts(own: &Shared<'_>, options: &Options, place: &Place<'_>, without_schema: &str) -> Vec<Cause> {
    let path = place.path;
    let mut causes = Vec::new();
    if let Some(subresources) = own.subresources {
        causes.extend(version::subresources(subresources, &format!("{path}.subresources")));
    }
    for (index, column) in own.columns.iter().enumerate() {
        let Some(column) = Fields::of(column) else { continue };
        causes.extend(version::column(column, &format!("{path}.additionalPrinterColumns[{index}]")));
    }
    if own.selectable.is_empty() {
        return causes;
    }
    let field = format!("{path}.selectableFields");
    match own.schema().and_then(Fields::of) {
        None => causes.push(fault::invalid_text(&field, "", without_schema)),
        Some(schema) => {
            // A schema that is not structural counts as one without fields.
            let why = structural::unsupported(schema);
            causes.extend(why.map(|why| fault::invalid_text(&format!("{path}.schema.openAPIV3Schema"), "", &why)));
            let allows_many = options.selectable.contains(place.name);
            causes.extend(version::selectable(own.selectable, schema, allows_many, &field));
        }
    }
    causes
}

fn is_deeper_than(value: &Value, levels: usize, bytes: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper_than(item, levels, bytes)),
        Value::Object(fields) => fields.iter().any(|(key, value)| match bytes.checked_sub(key.len()) {
            Some(bytes) => is_deeper_than(value, levels, bytes),
            None => true,
        }),
        _ => false,
    }
}
