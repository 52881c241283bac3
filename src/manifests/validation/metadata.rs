//! Validates metadata of cluster-scoped objects (`genericvalidation.ValidateObjectMeta`).

use super::{Faults, items, text};
use crate::names::{dns_1123_subdomain_errors, label_value_errors, mask_trailing_dash, qualified_name_errors};
use serde_json::{Map, Value};

/// The maximum bytes of all annotations together (`TotalAnnotationSizeLimitB`).
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// Validates the metadata of an object whose name is a DNS subdomain.
pub(super) fn check(metadata: &Value, faults: &mut Faults) {
    let (name, prefix) = (text(metadata, "name"), text(metadata, "generateName"));
    if !prefix.is_empty() {
        for error in dns_1123_subdomain_errors(mask_trailing_dash(prefix)) {
            faults.invalid("metadata.generateName", prefix, &error);
        }
    }
    if name.is_empty() {
        faults.required("metadata.name", "name or generateName is required");
    } else {
        dns_1123_subdomain_errors(name).iter().for_each(|error| faults.invalid("metadata.name", name, error));
    }
    if !text(metadata, "namespace").is_empty() {
        faults.forbidden("metadata.namespace", "not allowed on this type");
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|number| *number < 0) {
        faults.invalid_value("metadata.generation", generation, "must be greater than or equal to 0");
    }
    let nothing = Map::new();
    let map = |field: &str| metadata.get(field).and_then(Value::as_object).unwrap_or(&nothing);
    labels(map("labels"), "metadata.labels", faults);
    annotations(map("annotations"), faults);
    for owner in items(metadata, "ownerReferences") {
        self::owner(owner, faults);
    }
    for finalizer in items(metadata, "finalizers") {
        let finalizer = finalizer.as_str().unwrap_or_default();
        qualified_name_errors(finalizer)
            .iter()
            .for_each(|error| faults.invalid("metadata.finalizers", finalizer, error));
    }
    for (index, entry) in items(metadata, "managedFields").iter().enumerate() {
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let field = format!("metadata.managedFields[{index}].operation");
            faults.invalid(&field, operation, "must be `Apply` or `Update`");
        }
    }
}

/// `metav1validation.ValidateLabels`
pub(super) fn labels(labels: &Map<String, Value>, field: &str, faults: &mut Faults) {
    for (key, value) in labels {
        let value = value.as_str().unwrap_or_default();
        qualified_name_errors(key).iter().for_each(|error| faults.invalid(field, key, error));
        label_value_errors(value).iter().for_each(|error| faults.invalid(field, value, error));
    }
}

fn annotations(annotations: &Map<String, Value>, faults: &mut Faults) {
    const FIELD: &str = "metadata.annotations";
    let mut bytes = 0;
    for (key, value) in annotations {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        qualified_name_errors(key.to_lowercase()).iter().for_each(|error| faults.invalid(FIELD, key, error));
    }
    if bytes > MAX_ANNOTATION_BYTES {
        faults.add(FIELD, "Too long", &format!("may not be more than {MAX_ANNOTATION_BYTES} bytes"));
    }
}

fn owner(owner: &Value, faults: &mut Faults) {
    for (name, why) in [
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ] {
        if text(owner, name).is_empty() {
            faults.invalid(&format!("metadata.ownerReferences.{name}"), "", why);
        }
    }
}
