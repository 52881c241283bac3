//! Validation of CustomResourceDefinitions (`ValidateCustomResourceDefinition`). Their defaults are those of all built-in kinds
//! ([`crate::normal`]).
//!
//! The expressions of rules (`x-kubernetes-validations`) need a compiler of CEL, which [`DefinitionChecks::rules`] supplies.

mod internal;
mod print;
mod field_path;
mod names;
mod conversion;
mod version;
mod rules;
mod schema;
mod structural;
mod default_values;
mod options;
mod validation;
mod spec;
#[cfg(test)]
mod tests;

use crate::Object;
use crate::go_text::go_quote;
use crate::go_text::json;
use crate::names::{dns_1123_subdomain_errors, mask_trailing_dash};
use crate::object_meta;
use crate::status::Cause;
use crate::status::fault;
use crate::status::invalid::{self, Causes};
use crate::structural::validate::Compile;
use internal::{Fields, Spec};
use options::Options;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The checks of texts in other languages.
#[derive(Clone, Copy)]
pub struct DefinitionChecks<'a> {
    /// Compiles patterns.
    pub patterns: &'a Compile<'a>,
    /// The errors of the expressions of all rules in a schema at a path. The schema is valid otherwise; the fields of a rule other than its
    /// expressions are checked already. The last argument is true if an update does not change the schema: the cost of a single expression
    /// is then no error.
    pub rules: &'a dyn Fn(&Value, &str, bool) -> Vec<Cause>,
    /// Evaluates the rules for defaults.
    pub defaults: &'a EvaluateDefault<'a>,
}

/// Evaluates the rules for a default, at no higher cost than the given one. Returns the errors, and the cost that is left; `None` if none is.
pub type EvaluateDefault<'a> = dyn Fn(Default<'_>, u64) -> (Vec<Cause>, Option<u64>) + 'a;

/// A default that is valid by its schema, apart from the rules.
#[derive(Clone, Copy)]
pub struct Default<'a> {
    /// The schema that has the default.
    pub schema: &'a Value,
    /// The default.
    pub value: &'a Value,
    /// The path of the default in the definition.
    pub path: &'a str,
    /// Whether the schema describes a whole object.
    pub is_resource: bool,
}

/// Sets the status of a new definition (`PrepareForCreate`).
pub fn prepare_for_create(definition: &mut Object) {
    let stored: Vec<_> = storage_version(definition).map(Value::from).into_iter().collect();
    let mut status = Map::new();
    if !stored.is_empty() {
        status.insert("storedVersions".to_owned(), Value::from(stored));
    }
    definition.fields_mut().insert("status".to_owned(), Value::Object(status));
}

/// Sets the status of an updated definition (`PrepareForUpdate`): the old one, and the new storage version.
pub fn prepare_for_update(definition: &mut Object, old: &Object) {
    let mut status = old.fields().get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(version) = storage_version(definition) {
        let stored = status.entry("storedVersions").or_insert_with(|| Value::Array(Vec::new()));
        match stored.as_array_mut() {
            Some(stored) if stored.iter().any(|stored| stored.as_str() == Some(&version)) => {}
            Some(stored) => stored.push(Value::from(version)),
            None => *stored = Value::from(vec![version]),
        }
    }
    definition.fields_mut().insert("status".to_owned(), Value::Object(status));
}

fn storage_version(definition: &Object) -> Option<String> {
    let versions = definition.items(&["spec", "versions"]).iter().filter_map(Fields::of);
    let mut stored = versions.filter(|version| version.flag("storage"));
    stored.next().map(|version| version.text("name").to_owned())
}

/// The errors of a new definition, decoded and with its status.
pub fn validate(definition: &Object, checks: DefinitionChecks<'_>) -> Vec<Cause> {
    let fields = Fields(definition.fields());
    let none = Map::new();
    let spec = Spec::of(fields.object("spec").unwrap_or(Fields(&none)));
    let required = {
        let plural = spec.fields.object("names").map_or("", |names| names.text("plural"));
        format!("{plural}.{}", spec.fields.text("group"))
    };
    let name_errors = |name: &str, is_prefix: bool| {
        let masked = mask_trailing_dash(name);
        let mut errors = if is_prefix { dns_1123_subdomain_errors(masked) } else { dns_1123_subdomain_errors(name) };
        if name != required {
            errors.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        errors
    };
    let metadata = fields.object("metadata").unwrap_or(Fields(&none));
    let mut causes = object_meta::validate(metadata.0, false, &name_errors, "metadata");
    causes.extend(spec::check(&spec, &Options::of_create(), checks));
    causes.extend(common(fields, &spec, None));
    causes
}

/// The errors of an updated definition, decoded and with its status. A part that was invalid before may stay invalid where kube-apiserver
/// allows it.
pub fn validate_update(definition: &Object, old: &Object, checks: DefinitionChecks<'_>) -> Vec<Cause> {
    let (fields, old) = (Fields(definition.fields()), Fields(old.fields()));
    let none = Map::new();
    let spec = Spec::of(fields.object("spec").unwrap_or(Fields(&none)));
    let old_spec = Spec::of(old.object("spec").unwrap_or(Fields(&none)));
    let mut causes = update_metadata(fields, old);
    let is_established = is_established(old);
    let options = Options::of_update(&spec, &old_spec, is_established, checks);
    causes.extend(spec::check(&spec, &options, checks));
    causes.extend(immutable(&spec, &old_spec, is_established));
    causes.extend(common(fields, &spec, Some(old)));
    causes
}

/// The errors of an update of the status (`ValidateUpdateCustomResourceDefinitionStatus`).
pub fn validate_status_update(definition: &Object, old: &Object) -> Vec<Cause> {
    let (fields, old) = (Fields(definition.fields()), Fields(old.fields()));
    let mut causes = update_metadata(fields, old);
    causes.extend(accepted_names(fields));
    causes
}

pub use names::ApprovalState;

/// The approval of a definition in a group of Kubernetes; `None` in other groups (`GetAPIApprovalState`).
pub fn approval(definition: &Object) -> Option<ApprovalState> {
    names::approval_state(Fields(definition.fields()))
}

/// The warnings of a new definition, or of an update: formats that the API server ignores; with `warns_of_sets`, which holds since 1.37, also
/// sets whose items are objects or lists. An update has no warning about what the old definition has too.
pub fn warnings(definition: &Object, old: Option<&Object>, warns_of_sets: bool) -> Vec<String> {
    let all = |object: &Object| -> Vec<String> {
        let Some(spec) = Fields(object.fields()).object("spec").map(Spec::of) else { return Vec::new() };
        let formats = validation::unknown_formats(&spec).into_iter();
        let formats = formats.map(|format| format!("unrecognized format {}", go_quote(format)));
        let sets = warns_of_sets.then(|| validation::unsupported_sets(&spec)).into_iter().flatten();
        let sets = sets.map(|of| {
            format!(
                "x-kubernetes-list-type: set for items of type {} is not supported by server-side apply or CEL validation rules",
                go_quote(of)
            )
        });
        formats.chain(sets).collect()
    };
    let known: HashSet<String> = old.map(all).unwrap_or_default().into_iter().collect();
    all(definition).into_iter().filter(|warning| !known.contains(warning)).collect()
}

fn update_metadata(fields: Fields<'_>, old: Fields<'_>) -> Vec<Cause> {
    let none = Map::new();
    let metadata = |fields: Fields<'_>| fields.object("metadata").map(|metadata| metadata.0.clone());
    let (new, old) = (metadata(fields), metadata(old));
    object_meta::validate_update(new.as_ref().unwrap_or(&none), old.as_ref().unwrap_or(&none), "metadata")
}

fn is_established(definition: Fields<'_>) -> bool {
    definition.object("status").is_some_and(|status| {
        let mut conditions = status.objects("conditions");
        conditions.any(|(_, condition)| (condition.text("type"), condition.text("status")) == ("Established", "True"))
    })
}

/// The errors of fields that an update must not change.
fn immutable(spec: &Spec<'_>, old: &Spec<'_>, is_established: bool) -> Vec<Cause> {
    let name = |spec: &Spec<'_>, name: &str| {
        spec.fields.object("names").map(|names| names.text(name).to_owned()).unwrap_or_default()
    };
    let field = |spec: &Spec<'_>, field: &str| spec.fields.text(field).to_owned();
    let mut fields = Vec::new();
    if is_established {
        fields.push(("spec.scope", field(spec, "scope"), field(old, "scope")));
        fields.push(("spec.names.kind", name(spec, "kind"), name(old, "kind")));
    }
    fields.push(("spec.group", field(spec, "group"), field(old, "group")));
    fields.push(("spec.names.plural", name(spec, "plural"), name(old, "plural")));
    let changed = fields.into_iter().filter(|(_, new, old)| new != old);
    changed.map(|(field, new, _)| fault::invalid_text(field, &new, "field is immutable")).collect()
}

/// The errors of the status, the approval and `preserveUnknownFields`.
fn common(definition: Fields<'_>, spec: &Spec<'_>, old: Option<Fields<'_>>) -> Vec<Cause> {
    let mut causes = accepted_names(definition);
    causes.extend(stored_versions(definition, spec));
    causes.extend(names::approval(definition, old));
    let preserved = old.and_then(|old| old.object("spec")).is_some_and(|old| old.flag("preserveUnknownFields"));
    if spec.preserves() && !preserved {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(invalid::invalid("spec.preserveUnknownFields", "true", why));
    }
    causes
}

fn accepted_names(definition: Fields<'_>) -> Vec<Cause> {
    let names = definition.object("status").and_then(|status| status.object("acceptedNames"));
    names.map(|names| names::check(names, "status.acceptedNames")).unwrap_or_default()
}

/// `ValidateCustomResourceDefinitionStoredVersions`
fn stored_versions(definition: Fields<'_>, spec: &Spec<'_>) -> Vec<Cause> {
    const FIELD: &str = "status.storedVersions";
    let status = definition.object("status");
    let stored: Vec<_> = status.into_iter().flat_map(|status| status.texts("storedVersions")).collect();
    if stored.is_empty() {
        let is_null = status.is_none_or(|status| status.given("storedVersions").is_none());
        let shown = if is_null { "null" } else { "[]" };
        return vec![invalid::invalid(FIELD, shown, "must have at least one stored version")];
    }
    let mut causes = Causes::default();
    let mut remaining: HashSet<&str> = stored.iter().copied().collect();
    for version in &spec.versions {
        let name = version.fields.text("name");
        let is_stored = remaining.remove(name);
        if version.fields.flag("storage") && !is_stored {
            let why = format!("must have the storage version {name}");
            causes.add(|| invalid::invalid(FIELD, &json::text(&Value::from(stored.clone())), &why));
        }
    }
    // The last one of equal versions counts.
    let places: HashMap<&str, usize> = stored.iter().copied().zip(0..).collect();
    for name in stored.iter().copied().filter(|name| remaining.contains(name)) {
        let index = places.get(name).copied().unwrap_or_default();
        let why = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage \
             migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        causes.push(fault::invalid_text(&format!("{FIELD}[{index}]"), name, &why));
    }
    causes.into_vec()
}
