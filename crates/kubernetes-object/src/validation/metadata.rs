//! Metadata as kinds of Kubernetes validate it: beside the rules for all objects, finalizers are standard or qualified
//! (`pkg/apis/core/validation.ValidateObjectMeta`).

use super::node::{Causes, Node};
use crate::names::{label_value_errors, qualified_name_errors};
use crate::object_meta;
use serde_json::{Map, Value};
use std::sync::LazyLock;

const FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
/// `TotalAnnotationSizeLimitB`
const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// A rule of names. The second argument is true for the prefix of a generated name.
pub(super) type NameRule = fn(&str, bool) -> Vec<String>;

fn fields<'v>(object: &Node<'v>) -> &'v Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    object.at("metadata").value().as_object().unwrap_or(&NONE)
}

/// `ValidateObjectMeta`
pub(super) fn check(object: &Node<'_>, is_namespaced: bool, names: NameRule, out: &mut Causes) {
    out.extend(object_meta::validate(fields(object), is_namespaced, &names, "metadata"));
    own_finalizers(object, out);
}

/// `apimachineryvalidation.ValidateObjectMeta`, which knows no standard finalizers.
pub(super) fn check_generic(object: &Node<'_>, is_namespaced: bool, names: NameRule, out: &mut Causes) {
    check_generic_by(object, is_namespaced, &names, out);
}

/// As [`check_generic`], with a rule that depends on the object.
pub(super) fn check_generic_by(
    object: &Node<'_>,
    is_namespaced: bool,
    names: &dyn Fn(&str, bool) -> Vec<String>,
    out: &mut Causes,
) {
    out.extend(object_meta::validate(fields(object), is_namespaced, names, "metadata"));
}

/// `ValidateObjectMetaUpdate`
pub(super) fn check_update(object: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    out.extend(object_meta::validate_update(fields(object), fields(old), "metadata"));
    own_finalizers(object, out);
}

/// `apimachineryvalidation.ValidateObjectMetaUpdate`, which knows no standard finalizers.
pub(super) fn check_update_generic(object: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    out.extend(object_meta::validate_update(fields(object), fields(old), "metadata"));
}

fn own_finalizers(object: &Node<'_>, out: &mut Causes) {
    for finalizer in object.under(&["metadata", "finalizers"]).items() {
        standard_finalizer(&finalizer, out);
    }
}

/// `validateKubeFinalizerName`
pub(super) fn standard_finalizer(finalizer: &Node<'_>, out: &mut Causes) {
    let name = finalizer.text();
    if !name.contains('/') && !FINALIZERS.contains(&name) {
        out.text(finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

/// `ValidateTemplateObjectMeta`: a template has labels and annotations, and no other metadata.
pub(super) fn template(metadata: &Node<'_>, out: &mut Causes) {
    // The names are those of the Go fields, with a small first letter.
    const OTHERS: [(&str, &str); 13] = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    annotations(&metadata.at("annotations"), out);
    labels(&metadata.at("labels"), out);
    for (field, shown) in OTHERS {
        let value = metadata.at(field);
        if !value.value().is_null() && value.value().as_str() != Some("") {
            out.forbidden(&value.named(metadata, shown), "cannot be set");
        }
    }
}

/// `ValidateLabels`
pub(super) fn labels(labels: &Node<'_>, out: &mut Causes) {
    for (key, value) in labels.entries() {
        let key = Value::from(key);
        out.texts(&labels.with(&key), qualified_name_errors(labels.with(&key).text()));
        out.texts(&value.on(labels), label_value_errors(value.text()));
    }
}

/// `ValidateAnnotations`
pub(super) fn annotations(annotations: &Node<'_>, out: &mut Causes) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        let text = Value::from(key);
        out.texts(&annotations.with(&text), qualified_name_errors(key.to_lowercase()));
        bytes += key.len() + value.len();
    }
    if bytes > MAX_ANNOTATION_BYTES {
        out.too_long(annotations, MAX_ANNOTATION_BYTES);
    }
}
