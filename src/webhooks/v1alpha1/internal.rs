//! The JSON of the internal Go object that Kubernetes 1.8 sends to hooks: Go's field names where a field has no JSON name, and a value for
//! each field.
//!
//! Fields that 1.8 does not have are left out: a hook of that time decodes the object with the types of 1.8, which ignore them.

mod special;

use super::types::{Field, Structure, Type, Types};
use crate::kind::GroupVersionKind;
use crate::object::Object;
use serde_json::{Map, Value};
use special::Special;

/// Writes the internal object of this kind; `None` if Kubernetes 1.8 has no such kind.
pub(super) fn write(kind: &GroupVersionKind, object: &Object) -> Option<String> {
    let (types, structure) = Types::of(kind)?;
    let whole = object.whole();
    let mut writer = Writer { types, text: String::new() };
    writer.structure(structure, Some(whole.fields()));
    Some(writer.text)
}

/// The text so far.
struct Writer {
    types: &'static Types,
    text: String,
}

impl Writer {
    fn structure(&mut self, structure: &Structure, source: Option<&Map<String, Value>>) {
        self.text.push('{');
        self.fields(structure, source);
        self.text.push('}');
    }

    /// Writes the fields of a struct into the braces that are open.
    fn fields(&mut self, structure: &Structure, source: Option<&Map<String, Value>>) {
        let special = Special::of(structure, source);
        for field in &structure.fields {
            let value = field.read.and_then(|name| special.get(name).or_else(|| source?.get(name)));
            let value = value.filter(|value| !value.is_null());
            let Some(name) = field.written else {
                let source = if field.read.is_some() { value.and_then(Value::as_object) } else { source };
                if let Type::Struct(at) = &field.kind
                    && let Some(structure) = self.types.structure(*at)
                {
                    self.fields(structure, source);
                }
                continue;
            };
            if !is_left_out(field, value) {
                if !self.text.ends_with('{') {
                    self.text.push(',');
                }
                self.json(&name.into());
                self.text.push(':');
                self.value(&field.kind, value);
            }
        }
    }

    /// Writes a value; a missing one is the zero value of its type. So is a value of another type, which cannot come from a decoded object.
    fn value(&mut self, kind: &Type, value: Option<&Value>) {
        match (kind, value) {
            (Type::Pointer(_), None) => self.text.push_str("null"),
            (Type::Pointer(kind) | Type::NeverNil(kind), value) => self.value(kind, value),
            (Type::List(kind), Some(Value::Array(items))) => {
                self.text.push('[');
                for (nth, item) in items.iter().enumerate() {
                    if nth > 0 {
                        self.text.push(',');
                    }
                    self.value(kind, Some(item).filter(|item| !item.is_null()));
                }
                self.text.push(']');
            }
            (Type::Map(kind), Some(Value::Object(fields))) => {
                self.text.push('{');
                for (name, value) in fields {
                    if !self.text.ends_with('{') {
                        self.text.push(',');
                    }
                    self.json(&name.as_str().into());
                    self.text.push(':');
                    self.value(kind, Some(value).filter(|value| !value.is_null()));
                }
                self.text.push('}');
            }
            (Type::Struct(at), value) => match self.types.structure(*at) {
                Some(structure) => self.structure(structure, value.and_then(Value::as_object)),
                None => self.text.push_str("null"),
            },
            (Type::String, Some(value @ Value::String(_)))
            | (Type::Int, Some(value @ Value::Number(_)))
            | (Type::Bool, Some(value @ Value::Bool(_)))
            | (Type::Time | Type::Duration | Type::Quantity | Type::Bytes, Some(value @ Value::String(_)))
            | (Type::IntOrString, Some(value @ (Value::Number(_) | Value::String(_))))
            | (Type::Any, Some(value)) => self.json(value),
            (Type::Quantity, Some(Value::Number(number))) => self.json(&number.to_string().into()),
            (Type::String, _) => self.text.push_str("\"\""),
            (Type::Int | Type::IntOrString, _) => self.text.push('0'),
            (Type::Bool, _) => self.text.push_str("false"),
            (Type::Quantity, _) => self.text.push_str("\"0\""),
            (Type::Duration, _) => self.text.push_str("\"0s\""),
            (Type::Time | Type::Bytes | Type::Any | Type::List(_) | Type::Map(_), _) => self.text.push_str("null"),
        }
    }

    fn json(&mut self, value: &Value) {
        self.text.push_str(&value.to_string());
    }
}

/// Whether `omitempty` leaves the field out. Go never leaves out a struct, and times and quantities are structs.
fn is_left_out(field: &Field, value: Option<&Value>) -> bool {
    let is_empty = match (&field.kind, value) {
        (Type::Struct(_) | Type::Time | Type::Duration | Type::Quantity | Type::IntOrString | Type::NeverNil(_), _) => {
            false
        }
        (_, None) => true,
        (Type::String | Type::Bytes, Some(value)) => value == "",
        (Type::Int, Some(value)) => value == 0,
        (Type::Bool, Some(value)) => value == false,
        (Type::List(_), Some(value)) => value.as_array().is_some_and(Vec::is_empty),
        (Type::Map(_), Some(value)) => value.as_object().is_some_and(Map::is_empty),
        (Type::Pointer(_) | Type::Any, Some(_)) => false,
    };
    field.omits_empty && is_empty
}

#[cfg(test)]
mod tests;
