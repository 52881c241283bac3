//! The schema of a definition or of a version, as a whole.

use super::internal::{Fields, Shared, Spec, children, has};
use super::options::Options;
use super::{DefinitionChecks, default_values, print, rules, schema, structural};
use crate::status::fault;
use crate::status::{Cause, invalid};
use std::collections::BTreeSet;

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

/// The errors of a schema (`validateCustomResourceDefinitionValidation`).
pub(super) fn check(
    own: &Shared<'_>,
    has_status: bool,
    options: &Options,
    is_unchanged: bool,
    checks: DefinitionChecks<'_>,
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
                errors = default_values::check(value, options.requires_pruned_defaults, checks, &path);
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
pub(super) fn has_extensions(schema: Fields<'_>) -> bool {
    schema.flag("x-kubernetes-embedded-resource")
        || schema.flag("x-kubernetes-int-or-string")
        || schema.given("x-kubernetes-preserve-unknown-fields").is_some()
        || schema.given("x-kubernetes-list-type").is_some()
        || schema.has_any("x-kubernetes-list-map-keys")
        || schema.has_any("x-kubernetes-validations")
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

/// The types of the items of sets that are no scalars, sorted (`getNonScalarListTypeSetWarnings`).
pub(super) fn unsupported_sets<'a>(spec: &Spec<'a>) -> BTreeSet<&'a str> {
    fn within<'a>(schema: Fields<'a>, found: &mut BTreeSet<&'a str>) {
        if schema.text("x-kubernetes-list-type") == "set"
            && let Some(items) = schema.object("items")
            && let of @ ("object" | "array") = items.text("type")
        {
            found.insert(of);
        }
        children(schema).for_each(|child| within(child, found));
    }
    let mut found = BTreeSet::new();
    spec.schemas().filter_map(Fields::of).for_each(|schema| within(schema, &mut found));
    found
}
