//! The annotation of client-side apply: `kubectl apply --server-side` takes over the fields that the annotation names, and renews the
//! annotation (`lastAppliedManager`, `lastAppliedUpdater`).

use super::compare::compare;
use super::fields;
use super::set::Set;
use crate::go_text::json::escape_html;
use crate::go_text::numbers::canonicalize;
use crate::merge::{Node, validate};
use serde_json::{Map, Value};

/// The only field manager with these rules.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The number of bytes that all annotations may have (`validation.TotalAnnotationSizeLimitB`).
const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// The annotation of an object; `None` if the object has none, or an empty one.
pub(super) fn of(object: &Value) -> Option<&str> {
    let annotation = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?;
    annotation.as_str().filter(|text| !text.is_empty())
}

/// The fields of the last client-side apply that still have their values (`allowedConflictsFromLastApplied`); `None` if the
/// annotation is missing, malformed or of another version.
pub(super) fn unchanged_fields(schema: Node<'_>, live: &Value, api_version: &str) -> Option<Set> {
    let mut applied: Value = serde_json::from_str(of(live)?).ok()?;
    canonicalize(&mut applied);
    if applied.get("apiVersion")?.as_str()? != api_version {
        return None;
    }
    validate(schema, &applied).ok()?;
    validate(schema, live).ok()?;
    let changed = compare(schema, &applied, live);
    Some(fields::of(schema, &applied).into_iter().filter(|path| !changed.contains(path)).collect())
}

/// Replaces the annotation, if the object has one, by the configuration. Removes the annotation if the annotations are too large.
pub(super) fn renew(object: &mut Value, configuration: &Value) {
    if of(object).is_none() {
        return;
    }
    let mut configuration = configuration.clone();
    if let Some(annotations) = annotations(&mut configuration) {
        annotations.remove(ANNOTATION);
    }
    // Go's encoder ends with a line end.
    let text = escape_html(&configuration.to_string()) + "\n";
    let Some(annotations) = annotations(object) else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let bytes: usize = annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > MAX_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}
