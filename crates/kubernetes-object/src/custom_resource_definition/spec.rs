//! `spec` (`validateCustomResourceDefinitionSpec`).

use super::internal::{Fields, Shared, Spec, children, has};
use super::{Checks, conversion, default_values, names, print, rules, schema, structural, version};
use crate::go_text::go_quote;
use crate::names::{dns_1035_label_errors, dns_1123_subdomain_errors};
use crate::status::fault;
use crate::status::{Cause, invalid};
use serde_json::Value;
use std::collections::HashSet;

/// The fields that the root of a schema may have beside a status subresource, with Go's names.
const ALLOWED_AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];
/// The levels of JSON that a definition may nest. kube-apiserver has no such limit.
const MAX_DEPTH: usize = 256;

/// What an update may keep although it is invalid (`validationOptions`).
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) conversion: conversion::Options,
    pub(super) schema: schema::Options,
    pub(super) requires_schema: bool,
    pub(super) requires_structural: bool,
    pub(super) requires_pruned_defaults: bool,
    /// The versions whose schema does not change.
    pub(super) unchanged: HashSet<String>,
    /// The versions that may have too many selectable fields; the empty one stands for all versions.
    pub(super) selectable: HashSet<String>,
}

impl Options {
    /// The options of a new definition.
    pub(super) fn of_create() -> Self {
        Self {
            conversion: conversion::Options { requires_known_review: true, allows_invalid_bundle: true },
            schema: schema::Options {
                requires_valid_types: true,
                requires_atomic_sets: true,
                requires_list_keys: true,
            },
            requires_schema: true,
            requires_structural: true,
            requires_pruned_defaults: true,
            unchanged: HashSet::new(),
            selectable: HashSet::new(),
        }
    }

    /// The options of an update: a fault that the old definition has is no error in the new one.
    pub(super) fn of_update(spec: &Spec<'_>, old: &Spec<'_>, is_established: bool, checks: Checks<'_>) -> Self {
        let has = |test: &dyn Fn(Fields<'_>) -> bool| old.schemas().any(|schema| has(schema, test));
        let is_structural = |schema: &Value| {
            Fields::of(schema).is_none_or(|fields| {
                structural::unsupported(fields).is_none() && structural::check(fields, checks.patterns, "").is_empty()
            })
        };
        let versions = || spec.versions.iter().map(|version| version.fields.text("name"));
        let is_unchanged = |name: &&str| {
            old.versions.iter().any(|version| version.fields.text("name") == *name)
                && spec.schema_of(name) == old.schema_of(name)
        };
        let mut selectable = HashSet::new();
        let many = |fields: &[Value]| fields.len() > version::MAX_SELECTABLE_FIELDS;
        if many(old.top.selectable) && spec.top.selectable == old.top.selectable {
            selectable.insert(String::new());
        }
        for version in &spec.versions {
            let name = version.fields.text("name");
            let before = old.versions.iter().find(|other| other.fields.text("name") == name);
            if before.is_some_and(|old| many(old.own.selectable) && old.own.selectable == version.own.selectable) {
                selectable.insert(name.to_owned());
            }
        }
        Self {
            conversion: conversion::Options::of_update(old.fields.object("conversion"), is_established),
            schema: schema::Options {
                requires_valid_types: !has(&schema::has_invalid_type),
                requires_atomic_sets: !has(&schema::is_set_of_parts),
                requires_list_keys: !has(&|schema| !schema::list_keys(schema, "").is_empty()),
            },
            requires_schema: old.top.schema().is_some()
                || old.versions.iter().all(|version| version.own.schema().is_some()),
            requires_structural: old.schemas().all(is_structural),
            requires_pruned_defaults: !old
                .schemas()
                .any(|schema| is_structural(schema) && default_values::has_unpruned(schema)),
            unchanged: versions().filter(is_unchanged).map(str::to_owned).collect(),
            selectable,
        }
    }
}

/// The errors of a `spec`.
pub(super) fn check(spec: &Spec<'_>, options: &Options, checks: Checks<'_>) -> Vec<Cause> {
    if spec.fields.0.values().any(|value| is_deeper_than(value, MAX_DEPTH)) {
        let why = format!("must not nest more than {MAX_DEPTH} levels");
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
    causes.extend(validation(&spec.top, spec.has_any_status(), &options, is_unchanged, checks, shared.validation));
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

fn versions(spec: &Spec<'_>, options: &Options, checks: Checks<'_>) -> Vec<Cause> {
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
        causes.extend(validation(&version.own, has_status, options, is_unchanged, checks, &validation_path));
        let place = Place { path: &path, validation: &validation_path, name };
        let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
        causes.extend(parts(&version.own, options, &place, why));
    }
    let mut invalid = |why: &str| {
        causes.push(invalid::invalid("spec.versions", &print::versions(&spec.versions), why));
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

/// The errors of a schema (`validateCustomResourceDefinitionValidation`).
fn validation(
    own: &Shared<'_>,
    has_status: bool,
    options: &Options,
    is_unchanged: bool,
    checks: Checks<'_>,
    path: &str,
) -> Vec<Cause> {
    let Some((value, schema)) = own.schema().and_then(|schema| Some((schema, Fields::of(schema)?))) else {
        return Vec::new();
    };
    let path = format!("{path}.openAPIV3Schema");
    let mut causes = if has_status { beside_status(schema, &path) } else { Vec::new() };
    if schema.flag("nullable") {
        causes.push(invalid::forbidden(&format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let (mut unsupported, mut has_valid_structure) = (None, false);
    if options.requires_structural {
        unsupported = structural::unsupported(schema);
        if unsupported.is_none() {
            let mut errors = structural::check(schema, checks.patterns, &path);
            if errors.is_empty() {
                errors = default_values::check(value, options.requires_pruned_defaults, checks.patterns, &path);
            }
            has_valid_structure = errors.is_empty();
            causes.extend(errors);
        }
    }
    let errors = schema::check(schema, options.schema, &path);
    let checks_rules = has_valid_structure && errors.is_empty() && has(value, &rules::has_rules);
    causes.extend(errors);
    if checks_rules {
        causes.extend((checks.rules)(value, &path, is_unchanged));
    }
    if causes.is_empty() {
        causes.extend(unsupported.map(|why| fault::invalid_text(&path, "", &why)));
    }
    causes
}

/// The errors of the root of a schema whose status has a validation of its own.
fn beside_status(schema: Fields<'_>, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let of = schema.text("type");
    for name in print::given(schema) {
        if name == "Type" {
            if of != "object" {
                let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                causes.push(fault::invalid_text(&format!("{path}.type"), of, why));
                break;
            }
        } else if !ALLOWED_AT_ROOT.contains(&name) {
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED_AT_ROOT.join(" ")
            );
            causes.push(invalid::invalid(path, &print::schema(schema), &why));
            break;
        }
    }
    causes
}

/// `schemaHasKubernetesExtensions`
fn has_extensions(schema: Fields<'_>) -> bool {
    schema.flag("x-kubernetes-embedded-resource")
        || schema.flag("x-kubernetes-int-or-string")
        || schema.given("x-kubernetes-preserve-unknown-fields").is_some()
        || schema.given("x-kubernetes-list-type").is_some()
        || schema.has_any("x-kubernetes-list-map-keys")
        || schema.has_any("x-kubernetes-validations")
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper_than(item, below)),
        Value::Object(fields) => fields.values().any(|value| is_deeper_than(value, below)),
        _ => false,
    }
}

/// The formats that the API server ignores (`getUnrecognizedFormatsInCRD`).
pub(super) fn unknown_formats<'a>(spec: &Spec<'a>) -> Vec<&'a str> {
    fn within<'a>(schema: Fields<'a>, formats: &mut Vec<&'a str>) {
        let format = schema.text("format");
        if !format.is_empty() && !crate::structural::validate::is_supported_of(schema.text("type"), format) {
            formats.push(format);
        }
        children(schema).for_each(|child| within(child, formats));
    }
    let mut formats = Vec::new();
    spec.schemas().filter_map(Fields::of).for_each(|schema| within(schema, &mut formats));
    formats
}
