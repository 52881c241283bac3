//! Strategic merge patch (`strategicpatch.StrategicMergeMapPatch`): lists are merged by keys that the schema names, and directives in the
//! patch (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`) express operations that plain JSON cannot.

mod lists;

use super::unprocessable;
use crate::discard_nulls;
use crate::go_text::{go_print, go_type};
use crate::schema::{ApiType, Field, Shape};
use crate::status::Status;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The directive for the object that contains it: `replace`, `delete`, `merge`.
const DIRECTIVE: &str = "$patch";

/// The fields to keep; all other fields are removed.
const RETAIN_KEYS: &str = "$retainKeys";

/// A prefix of the name of a list of scalars: the items to remove.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// A prefix of the name of a list: the order of its items.
const SET_ORDER: &str = "$setElementOrder";

/// The start of Go's error for a patch that merges a field that the type does not have.
pub const NO_FIELD: &str = "unable to find api field in struct ";

/// 2^53: every whole number up to this one is a float64.
const EXACT: f64 = 9_007_199_254_740_992.0;

type Fields = Map<String, Value>;

/// Applies a strategic merge patch to an object of type `schema`.
pub(super) fn apply(original: Value, patch: &Value, schema: &'static ApiType) -> Result<Value, Status> {
    let original = match original {
        Value::Object(original) => original,
        _ => Map::new(),
    };
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Map::new(),
        other => {
            let found = go_type(other);
            let message = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
            return Err(Status::bad_request(message));
        }
    };
    let mut patched =
        merge_fields(original, patch, Place::Object(schema)).map(Value::Object).map_err(Failure::into_status)?;
    write_whole_numbers_as_go(&mut patched);
    Ok(patched)
}

/// Removes zero fractions, since Go decodes values without a schema into float64: `1.0` becomes `1`.
fn write_whole_numbers_as_go(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(write_whole_numbers_as_go),
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers_as_go),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < EXACT {
                *value = Value::from(float as i64);
            }
        }
        _ => {}
    }
}

/// The reason why a patch does not apply. `handlers.interpretStrategicMergePatchError` maps it to an HTTP status.
#[derive(Debug)]
enum Failure {
    /// 400: a directive of the wrong shape.
    Format(&'static str),
    /// 422.
    ListOfLists,
    /// 500: every failure that kube-apiserver does not attribute to the client.
    Other(String),
}

impl Failure {
    fn into_status(self) -> Status {
        match self {
            Self::Format(what) => Status::bad_request(format!("invalid patch format of {what}")),
            Self::ListOfLists => unprocessable(),
            Self::Other(why) => Status::plain(why),
        }
    }

    fn wrong_type(expected: &Value, received: &Value) -> Self {
        Self::Other(format!("expected a {}, but received a {}", reflected(expected), reflected(received)))
    }

    fn no_merge_key(item: &Fields, key: &str) -> Self {
        let item = go_print(&Value::Object(item.clone()));
        Self::Other(format!("map: {item} does not contain declared merge key: {key}"))
    }
}

/// The name of a decoded value's Go type.
fn reflected(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The part of the schema that describes an object.
#[derive(Clone, Copy)]
enum Place {
    Object(&'static ApiType),
    Map(&'static Shape),
    /// A part without a schema.
    Unknown,
}

/// The schema of a field.
#[derive(Clone, Copy)]
struct Lookup {
    shape: Option<&'static Shape>,
    field: Option<&'static Field>,
}

impl Place {
    fn of(shape: Option<&'static Shape>) -> Self {
        match shape {
            Some(Shape::Object(reference)) => reference.resolve().map_or(Self::Unknown, Self::Object),
            Some(Shape::Map(values)) => Self::Map(values),
            _ => Self::Unknown,
        }
    }

    fn lookup(self, key: &str) -> Result<Lookup, Failure> {
        let unknown = |name: &str| Failure::Other(format!("{NO_FIELD}{name} for the json field {key:?}"));
        match self {
            Self::Object(schema) => {
                let field = schema.field(key).ok_or_else(|| unknown(schema.go_name()))?;
                Ok(Lookup { shape: Some(&field.shape), field: Some(field) })
            }
            Self::Map(values) => Ok(Lookup { shape: Some(values), field: None }),
            Self::Unknown => Err(unknown("RawExtension")),
        }
    }
}

impl Lookup {
    /// The schema of an object in this field.
    fn place(self) -> Place {
        Place::of(self.shape)
    }

    /// The schema of the items of a list in this field.
    fn items(self) -> Result<Place, Failure> {
        match self.shape {
            Some(Shape::List(items)) => Ok(Place::of(Some(items))),
            _ => Err(Failure::Other("expected slice or array type, but got: struct".to_owned())),
        }
    }

    fn merges(self) -> bool {
        self.field.is_some_and(Field::merges)
    }

    fn replaces(self) -> bool {
        self.field.is_some_and(Field::replaces)
    }

    fn merge_key(self) -> &'static str {
        self.field.and_then(Field::merge_key).unwrap_or_default()
    }
}

/// `strategicpatch.mergeMap`.
fn merge_fields(mut original: Fields, mut patch: Fields, place: Place) -> Result<Fields, Failure> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => {
                patch.insert(DIRECTIVE.to_owned(), directive.clone());
                Err(unknown_directive(&directive, patch))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    lists::set_orders(&mut original, &mut patch, place)?;
    for (key, value) in patch {
        match key.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => {
                let key = rest.strip_prefix('/').ok_or(Failure::Format("primitive list"))?;
                delete_from_list(&mut original, key, value, place)?;
            }
            None => merge_field(&mut original, key, value, place)?,
        }
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, patch: Fields) -> Failure {
    // Go prints values other than strings with %s.
    let directive = match directive {
        Value::Null => reflected(directive).to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={directive})", reflected(directive)),
        other => go_print(other),
    };
    Failure::Other(format!("unknown patch type: {directive} in map: {}", go_print(&Value::Object(patch))))
}

/// `strategicpatch.applyRetainKeysDirective`.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), Failure> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(Failure::Format("retainKeys")) };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_retained = |key: &str| retained.contains(key);
    let contradicts = patch.iter().any(|(key, value)| {
        !value.is_null() && !key.starts_with(DELETE_FROM_LIST) && !key.starts_with(SET_ORDER) && !is_retained(key)
    });
    if contradicts {
        return Err(Failure::Format("retainKeys"));
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

fn delete_from_list(original: &mut Fields, key: &str, deleted: Value, place: Place) -> Result<(), Failure> {
    if deleted.is_null() {
        original.remove(key);
        return Ok(());
    }
    let (Some(Value::Array(items)), Value::Array(deleted)) = (original.get_mut(key), deleted) else { return Ok(()) };
    let lookup = place.lookup(key)?;
    let merged = lists::merge(std::mem::take(items), deleted, lookup.items()?, lookup.merge_key(), true)?;
    *items = merged;
    Ok(())
}

fn merge_field(original: &mut Fields, key: String, value: Value, place: Place) -> Result<(), Failure> {
    match (original.get_mut(&key), value) {
        (_, Value::Null) => {
            original.remove(&key);
        }
        (Some(Value::Object(current)), Value::Object(value)) => {
            let lookup = place.lookup(&key)?;
            *current = match lookup.replaces() {
                true => value,
                false => merge_fields(std::mem::take(current), value, lookup.place())?,
            };
        }
        (Some(Value::Array(current)), Value::Array(value)) => {
            let lookup = place.lookup(&key)?;
            let items = lookup.items()?;
            *current = match lookup.merges() {
                true => lists::merge(std::mem::take(current), value, items, lookup.merge_key(), false)?,
                false => value,
            };
        }
        (_, mut value) => {
            discard_nulls(&mut value);
            if remove_directives(&mut value) {
                original.insert(key, value);
            } else {
                original.remove(&key);
            }
        }
    }
    Ok(())
}

/// Removes objects that are directives, at any depth. Returns false if the value itself is a directive.
fn remove_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            if map.contains_key(DIRECTIVE) {
                return false;
            }
            map.retain(|_, value| remove_directives(value));
        }
        Value::Array(items) => items.retain_mut(remove_directives),
        _ => {}
    }
    true
}
