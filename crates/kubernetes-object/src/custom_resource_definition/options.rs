//! Rules of validation that an update does not tighten (`validationOptions`).

use super::internal::{Fields, Spec, has};
use super::{DefinitionChecks, conversion, default_values, schema, structural, version};
use serde_json::Value;
use std::collections::HashSet;

/// The invalid parts of a definition that an update may keep.
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
    pub(super) fn of_update(
        spec: &Spec<'_>,
        old: &Spec<'_>,
        is_established: bool,
        checks: DefinitionChecks<'_>,
    ) -> Self {
        let has = |test: &dyn Fn(Fields<'_>) -> bool| old.schemas().any(|schema| has(schema, test));
        let is_structural = |schema: &Value| {
            Fields::of(schema).is_none_or(|fields| {
                structural::unsupported(fields).is_none() && structural::check(fields, checks.patterns, "").is_empty()
            })
        };
        let versions = || spec.versions.iter().map(|version| version.fields.text("name"));
        let (by_name, old_by_name) = (spec.by_name(), old.by_name());
        let is_unchanged = |name: &&str| {
            old_by_name.get(name).is_some_and(|before| {
                by_name.get(name).and_then(|version| spec.schema_of(version)) == old.schema_of(before)
            })
        };
        let mut selectable = HashSet::new();
        let many = |fields: &[Value]| fields.len() > version::MAX_SELECTABLE_FIELDS;
        if many(old.top.selectable) && spec.top.selectable == old.top.selectable {
            selectable.insert(String::new());
        }
        for version in &spec.versions {
            let name = version.fields.text("name");
            let before = old_by_name.get(name);
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
