//! Access to the fields of an object as Go's defaulting functions have it: an absent field is nil or the zero value. These functions do not
//! change a value of an unexpected type.

use serde_json::{Map, Value};

pub(crate) type Fields = Map<String, Value>;

/// Whether the field is nil in Go.
pub(crate) fn is_nil(fields: &Fields, name: &str) -> bool {
    matches!(fields.get(name), None | Some(Value::Null))
}

/// Whether the field is nil, the zero value, or of length zero in Go.
pub(crate) fn is_zero(fields: &Fields, name: &str) -> bool {
    match fields.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Bool(true)) => false,
    }
}

/// Sets a pointer if it is nil.
pub(crate) fn if_nil(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if is_nil(fields, name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Sets a field if it has its zero value.
pub(crate) fn if_zero(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if is_zero(fields, name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The text of a field; empty if the field is no string.
pub(crate) fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a boolean field is true.
pub(crate) fn is_true(fields: &Fields, name: &str) -> bool {
    fields.get(name) == Some(&Value::Bool(true))
}

/// The object behind a pointer or in a map; `None` if the field is no object.
pub(crate) fn pointer<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name)?.as_object_mut()
}

/// The object of a field that is no pointer in Go; inserts an empty object if the field is absent.
pub(crate) fn embedded<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    if is_nil(fields, name) {
        fields.insert(name.to_owned(), Value::Object(Fields::new()));
    }
    pointer(fields, name)
}

/// The objects of a list.
pub(crate) fn each<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let items = fields.get_mut(name).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Removes an annotation, and also an annotations map that becomes empty, which Go would not write.
pub(crate) fn take_annotation(object: &mut Fields, key: &str) -> Option<Value> {
    let metadata = pointer(object, "metadata")?;
    let annotations = pointer(metadata, "annotations")?;
    let taken = annotations.remove(key)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Some(taken)
}

/// Sets an annotation.
pub(crate) fn annotate(object: &mut Fields, key: &str, value: String) {
    let annotations = embedded(object, "metadata").and_then(|metadata| embedded(metadata, "annotations"));
    if let Some(annotations) = annotations {
        annotations.insert(key.to_owned(), Value::String(value));
    }
}
