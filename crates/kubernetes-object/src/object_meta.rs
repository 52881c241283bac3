//! Validation of metadata (`k8s.io/apimachinery/pkg/api/validation`). The metadata is decoded: a value of a wrong type counts as missing.

use crate::go_text::is_printable;
use crate::go_text::json::{self, string};
use crate::kind::split_api_version;
use crate::names::{dns_1123_label_errors, label_value_errors, path_segment_errors, qualified_name_errors};
use crate::status::Cause;
use crate::status::fault;
use crate::status::invalid::{self, Causes};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// `TotalAnnotationSizeLimitB`
const MAX_ANNOTATION_BYTES: usize = 256 << 10;
/// `FieldManagerMaxLength`
const MAX_MANAGER_BYTES: usize = 128;
/// `MaxSubresourceNameLength`
const MAX_SUBRESOURCE_BYTES: usize = 256;

/// The errors of a name, or of the prefix of a generated name if the second argument is true (`ValidateNameFunc`).
pub type NameErrors<'a> = &'a dyn Fn(&str, bool) -> Vec<String>;

/// The errors of the metadata of a new object (`ValidateObjectMetaAccessor`).
pub fn validate(metadata: &Map<String, Value>, is_namespaced: bool, name_errors: NameErrors, path: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (name, prefix) = (text(metadata, "name"), text(metadata, "generateName"));
    let mut invalid = |field: &str, value: &str, errors: Vec<String>| {
        let field = format!("{path}.{field}");
        causes.extend(errors.iter().map(|why| fault::invalid_text(&field, value, why)));
    };
    if !prefix.is_empty() {
        invalid("generateName", prefix, name_errors(prefix, true));
    }
    if !name.is_empty() {
        invalid("name", name, name_errors(name, false));
    } else {
        causes.push(fault::required(&format!("{path}.name"), "name or generateName is required"));
    }
    let field = format!("{path}.namespace");
    match (is_namespaced, text(metadata, "namespace")) {
        (true, "") => causes.push(fault::required(&field, "")),
        (true, namespace) => {
            let errors = dns_1123_label_errors(namespace);
            causes.extend(errors.iter().map(|why| fault::invalid_text(&field, namespace, why)));
        }
        (false, "") => {}
        (false, _) => causes.push(invalid::forbidden(&field, "not allowed on this type")),
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(invalid::invalid(&format!("{path}.generation"), &generation.to_string(), why));
    }
    keys(metadata, path, &mut causes);
    owner_references(metadata, &format!("{path}.ownerReferences"), &mut causes);
    finalizers(metadata, &format!("{path}.finalizers"), &mut causes);
    managed_fields(metadata, &format!("{path}.managedFields"), &mut causes);
    causes.into_vec()
}

/// The errors of updated metadata (`ValidateObjectMetaAccessorUpdate`).
pub fn validate_update(metadata: &Map<String, Value>, old: &Map<String, Value>, path: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    if old.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        new_finalizers(metadata, old, &format!("{path}.finalizers"), &mut causes);
    }
    if text(metadata, "resourceVersion").is_empty() {
        let why = "must be specified for an update";
        causes.push(fault::invalid_text(&format!("{path}.resourceVersion"), "", why));
    }
    let generation =
        |metadata: &Map<String, Value>| metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(metadata) < generation(old) {
        let value = generation(metadata).to_string();
        causes.push(invalid::invalid(&format!("{path}.generation"), &value, "must not be decremented"));
    }
    const IMMUTABLE: [&str; 6] =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for field in IMMUTABLE {
        let (new, old) = (metadata.get(field).unwrap_or(&Value::Null), old.get(field).unwrap_or(&Value::Null));
        let is_empty = |value: &Value| value.is_null() || value.as_str() == Some("");
        if new == old || (is_empty(new) && is_empty(old)) {
            continue;
        }
        let is_text = matches!(field, "name" | "namespace" | "uid");
        let shown =
            if is_text { fault::shown(&Value::from(new.as_str().unwrap_or_default())) } else { json::text(new) };
        causes.push(invalid::invalid(&format!("{path}.{field}"), &shown, "field is immutable"));
    }
    keys(metadata, path, &mut causes);
    owner_references(metadata, &format!("{path}.ownerReferences"), &mut causes);
    managed_fields(metadata, &format!("{path}.managedFields"), &mut causes);
    causes.into_vec()
}

/// The errors of the metadata of any updated object, which the API server finds before those of its kind
/// (`validateCommonFields`).
pub fn validate_any_update(metadata: &Map<String, Value>, old: &Map<String, Value>, is_namespaced: bool) -> Vec<Cause> {
    let mut causes = validate(metadata, is_namespaced, &path_segment_name_errors, "metadata");
    causes.extend(validate_update(metadata, old, "metadata"));
    causes
}

/// The errors of a name that must be a segment of a path, or of the prefix of such a name (`path.ValidatePathSegmentName`).
pub fn path_segment_name_errors(name: &str, is_prefix: bool) -> Vec<String> {
    if is_prefix && matches!(name, "." | "..") { Vec::new() } else { path_segment_errors(name) }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    fields.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Labels and annotations.
fn keys(metadata: &Map<String, Value>, path: &str, causes: &mut Causes) {
    let map = |name: &str| metadata.get(name).and_then(Value::as_object).into_iter().flatten();
    let field = format!("{path}.labels");
    for (key, value) in map("labels") {
        causes.extend(qualified_name_errors(key).iter().map(|why| fault::invalid_text(&field, key, why)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(label_value_errors(value).iter().map(|why| fault::invalid_text(&field, value, why)));
    }
    let field = format!("{path}.annotations");
    let mut bytes = 0;
    for (key, value) in map("annotations") {
        let errors = qualified_name_errors(key.to_lowercase());
        causes.extend(errors.iter().map(|why| fault::invalid_text(&field, key, why)));
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > MAX_ANNOTATION_BYTES {
        causes.push(fault::too_long(&field, MAX_ANNOTATION_BYTES as i64));
    }
}

fn owner_references(metadata: &Map<String, Value>, path: &str, causes: &mut Causes) {
    let references = list(metadata, "ownerReferences");
    let mut controller: Option<String> = None;
    for reference in references.iter().filter_map(Value::as_object) {
        let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
        let (group, version) = split_api_version(api_version);
        if version.is_empty() || version.contains('/') {
            let field = format!("{path}.apiVersion");
            causes.push(fault::invalid_text(&field, api_version, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if text(reference, field).is_empty() {
                causes.push(fault::invalid_text(&format!("{path}.{field}"), "", "must not be empty"));
            }
        }
        if (group, version, kind) == ("", "v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(invalid::invalid(path, &owner_reference(reference), why));
        }
        if reference.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let name = format!("{kind}/{}", text(reference, "name"));
        match &controller {
            None => controller = Some(name).filter(|name| !name.is_empty()),
            Some(first) => {
                causes.add(|| {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    let all: Vec<_> = references.iter().filter_map(Value::as_object).map(owner_reference).collect();
                    invalid::invalid(path, &format!("[{}]", all.join(",")), &why)
                });
            }
        }
    }
}

/// The JSON of a `metav1.OwnerReference`.
fn owner_reference(reference: &Map<String, Value>) -> String {
    let mut fields: Vec<_> = ["apiVersion", "kind", "name", "uid"]
        .map(|name| format!("\"{name}\":{}", string(text(reference, name))))
        .into();
    for name in ["controller", "blockOwnerDeletion"] {
        fields
            .extend(reference.get(name).filter(|value| value.is_boolean()).map(|value| format!("\"{name}\":{value}")));
    }
    format!("{{{}}}", fields.join(","))
}

/// `ValidateFinalizers`
fn finalizers(metadata: &Map<String, Value>, path: &str, causes: &mut Causes) {
    let names: Vec<_> = list(metadata, "finalizers").iter().filter_map(Value::as_str).collect();
    for name in &names {
        causes.extend(qualified_name_errors(name).iter().map(|why| fault::invalid_text(path, name, why)));
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(invalid::invalid(path, &json::text(&Value::from(names)), why));
    }
}

/// `ValidateNoNewFinalizers`
fn new_finalizers(metadata: &Map<String, Value>, old: &Map<String, Value>, path: &str, causes: &mut Causes) {
    let known: HashSet<&Value> = list(old, "finalizers").iter().collect();
    let added = list(metadata, "finalizers").iter().filter(|name| !known.contains(name)).filter_map(Value::as_str);
    let mut added: Vec<_> = added.map(crate::go_text::go_quote).collect();
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(invalid::forbidden(path, &why));
    }
}

/// `ValidateManagedFields`
fn managed_fields(metadata: &Map<String, Value>, path: &str, causes: &mut Causes) {
    for (index, entry) in list(metadata, "managedFields").iter().enumerate() {
        let Some(entry) = entry.as_object() else { continue };
        let path = format!("{path}[{index}]");
        let (operation, of) = (text(entry, "operation"), text(entry, "fieldsType"));
        if !matches!(operation, "Apply" | "Update") {
            causes.push(fault::invalid_text(&format!("{path}.operation"), operation, "must be `Apply` or `Update`"));
        }
        if !matches!(of, "" | "FieldsV1") {
            causes.push(fault::invalid_text(&format!("{path}.fieldsType"), of, "must be `FieldsV1`"));
        }
        let (manager, field) = (text(entry, "manager"), format!("{path}.manager"));
        if manager.len() > MAX_MANAGER_BYTES {
            causes.push(fault::too_long(&field, MAX_MANAGER_BYTES as i64));
        }
        for (at, character) in manager.char_indices().filter(|(_, character)| !is_printable(*character)) {
            let why = format!("invalid character U+{:04X} (at position {at})", character as u32);
            causes.push(fault::invalid_text(&field, manager, &why));
        }
        if text(entry, "subresource").len() > MAX_SUBRESOURCE_BYTES {
            causes.push(fault::too_long(&format!("{path}.subresource"), MAX_SUBRESOURCE_BYTES as i64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::dns_1123_subdomain_errors;
    use serde_json::json;

    fn causes(metadata: Value) -> Vec<String> {
        let Value::Object(metadata) = metadata else { panic!("no object") };
        let causes = validate(&metadata, true, &|name, _| dns_1123_subdomain_errors(name), "metadata");
        causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn a_name_and_a_namespace_are_required() {
        assert_eq!(
            causes(json!({})),
            ["metadata.name: Required value: name or generateName is required", "metadata.namespace: Required value"]
        );
    }

    #[test]
    fn only_one_owner_controls_an_object() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "A", "name": name, "uid": "u", "controller": true});
        let found = causes(json!({"name": "a", "namespace": "b", "ownerReferences": [owner("x"), owner("y")]}));
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("Found \"true\" in references for A/x and A/y"), "{found:?}");
    }

    #[test]
    fn an_update_keeps_the_identity() {
        let old = json!({"name": "a", "uid": "u", "generation": 2, "deletionTimestamp": "2020-01-01T00:00:00Z"});
        let new = json!({"name": "b", "uid": "u", "generation": 1, "deletionTimestamp": "2020-01-01T00:00:00Z",
            "resourceVersion": "1", "finalizers": ["a/b"]});
        let found = validate_update(new.as_object().unwrap(), old.as_object().unwrap(), "metadata");
        let fields: Vec<_> = found.iter().map(|cause| &*cause.field).collect();
        assert_eq!(fields, ["metadata.finalizers", "metadata.generation", "metadata.name"]);
    }
}
