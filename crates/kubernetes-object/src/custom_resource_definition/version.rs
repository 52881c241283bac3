//! Parts of a version other than its schema: deprecation, columns, subresources and selectable fields.

use super::field_path;
use super::internal::Fields;
use crate::go_text::is_printable;
use crate::go_text::json::string;
use crate::status::fault;
use crate::status::{Cause, invalid};
use serde_json::Value;
use std::collections::HashSet;

/// `MaxSelectableFields`
pub(super) const MAX_SELECTABLE_FIELDS: usize = 8;
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";

/// The errors of a `deprecationWarning` (`validateDeprecationWarning`).
pub(super) fn deprecation(version: Fields<'_>, path: &str) -> Vec<Cause> {
    let Some(warning) = version.optional_text("deprecationWarning") else { return Vec::new() };
    let mut errors = Vec::new();
    if !version.flag("deprecated") {
        errors.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > 256 {
            errors.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            errors.push("must not be an empty string".to_owned());
        }
        if let Some((index, _)) = warning.char_indices().find(|(_, character)| !is_printable(*character)) {
            errors.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    }
    let field = format!("{path}.deprecationWarning");
    errors.iter().map(|why| invalid::invalid(&field, &string(warning), why)).collect()
}

/// The errors of a printer column (`ValidateCustomResourceColumnDefinition`).
pub(super) fn column(column: Fields<'_>, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if column.text("name").is_empty() {
        causes.push(fault::required(&format!("{path}.name"), ""));
    }
    let must_be = |allowed: &str| format!("must be one of {allowed}");
    match column.text("type") {
        "" => causes.push(fault::required(&format!("{path}.type"), &must_be(COLUMN_TYPES))),
        of if COLUMN_TYPES.split(',').any(|known| known == of) => {}
        of => causes.push(fault::invalid_text(&format!("{path}.type"), of, &must_be(COLUMN_TYPES))),
    }
    let format = column.text("format");
    if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format) {
        causes.push(fault::invalid_text(&format!("{path}.format"), format, &must_be(COLUMN_FORMATS)));
    }
    let field = format!("{path}.JSONPath");
    match column.text("jsonPath") {
        "" => causes.push(fault::required(&field, "")),
        json_path => causes.extend(simple_path(json_path, &field)),
    }
    causes
}

/// `validateSimpleJSONPath`, for a path that is not empty.
fn simple_path(json_path: &str, field: &str) -> Option<Cause> {
    let why = "must be a simple json path starting with .";
    (!json_path.starts_with('.')).then(|| fault::invalid_text(field, json_path, why))
}

/// The errors of subresources (`ValidateCustomResourceDefinitionSubresources`).
pub(super) fn subresources(subresources: Fields<'_>, path: &str) -> Vec<Cause> {
    let Some(scale) = subresources.object("scale") else { return Vec::new() };
    let mut causes = Vec::new();
    for (name, below) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (field, json_path) = (format!("{path}.scale.{name}"), scale.text(name));
        if json_path.is_empty() {
            causes.push(fault::required(&field, ""));
        } else if let Some(cause) = simple_path(json_path, &field) {
            causes.push(cause);
        } else if !json_path.strip_prefix(below).is_some_and(|rest| rest.starts_with('.')) {
            causes.push(fault::invalid_text(&field, json_path, &format!("should be a json path under {below}")));
        }
    }
    let (field, selector) = (format!("{path}.scale.labelSelectorPath"), scale.text("labelSelectorPath"));
    if selector.is_empty() {
        return causes;
    }
    if let Some(cause) = simple_path(selector, &field) {
        causes.push(cause);
    } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let why = "should be a json path under either .spec or .status";
        causes.push(invalid::invalid(&field, &string(selector), why));
    }
    causes
}

/// The errors of selectable fields (`ValidateCustomResourceSelectableFields`).
pub(super) fn selectable(fields: &[Value], schema: Fields<'_>, allows_many: bool, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut known = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        let json_path = Fields::of(field).map_or("", |field| field.text("jsonPath"));
        if json_path.is_empty() {
            causes.push(fault::required(&at, ""));
            continue;
        }
        let found = match field_path::find(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                causes.push(fault::invalid_text(&at, json_path, &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found.root == "metadata" {
            causes.push(fault::invalid_text(&at, json_path, "must not point to fields in metadata"));
        }
        let of = found.schema.map_or("", |schema| schema.text("type"));
        if !matches!(of, "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                       allowed.";
            causes.push(fault::invalid_text(&at, json_path, why));
        }
        if !known.insert(found.path) {
            causes.push(fault::duplicate(&at, &crate::go_text::go_quote(json_path)));
        }
    }
    if known.len() > MAX_SELECTABLE_FIELDS && !allows_many {
        causes.push(fault::too_many(path, known.len(), MAX_SELECTABLE_FIELDS as i64));
    }
    causes
}
