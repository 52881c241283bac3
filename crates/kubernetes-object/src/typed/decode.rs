//! Decodes a value in place (`decodeState.value` of `sigs.k8s.io/json`).

use super::DecodeError;
use super::path::{Path, Step};
use super::scalar;
use super::table::{self, Holds, Shape, Type};
use crate::go_text::{go_quote, go_type};
use serde_json::{Map, Value};

/// The number of strict errors that are kept.
const MAX_STRICT_ERRORS: usize = 100;
/// The number of bytes that all strict errors may have together: each contains a whole path.
const MAX_STRICT_ERRORS_BYTES: usize = 1 << 20;

/// The number of zero values that encoding may add, which the length of a document does not bound: `{}` can stand for a whole object of
/// zeros.
const MAX_ZEROS: usize = 500_000;

/// The state of one decoding.
#[derive(Default)]
pub(super) struct Decoder {
    /// The first type error; decoding continues after it.
    saved: Option<String>,
    strict_errors: Vec<String>,
    strict_errors_bytes: usize,
    zeros: usize,
    /// Whether the value is within a type with an `UnmarshalJSON`, for which there are no strict errors.
    is_nested: bool,
    /// Whether a number was decoded whose literal text matters.
    pub(super) met_literal: bool,
}

/// An error that ends decoding.
pub(super) struct Fatal(pub(super) String);

/// The Go value after decoding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Nil, or the zero of a scalar.
    Nothing,
    /// An empty list, map or byte slice.
    Empty,
    Something,
}

impl Decoder {
    pub(super) fn document(&mut self, schema: &'static Type, value: &mut Value) -> Result<(), DecodeError> {
        let result = match value {
            Value::Object(fields) => self.fields(schema, fields, &Path::ROOT),
            Value::Null => {
                *value = Value::Object(Map::new());
                Ok(())
            }
            other => {
                self.save(Path::ROOT.type_error(go_type(other), schema.go_type()));
                Ok(())
            }
        };
        self.finish(result)
    }

    pub(super) fn finish(&mut self, result: Result<(), Fatal>) -> Result<(), DecodeError> {
        match (result, self.saved.take()) {
            (Err(Fatal(why)), _) | (Ok(()), Some(why)) => Err(DecodeError(why)),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Whether decoding the document's text would give an equal result.
    pub(super) fn is_independent_of_text(&self) -> bool {
        self.strict_errors.len() < 2 && !self.met_literal
    }

    pub(super) fn into_strict_errors(self) -> Vec<String> {
        self.strict_errors
    }

    pub(super) fn save(&mut self, why: String) {
        self.saved.get_or_insert(why);
    }

    /// Counts the zero values of an object.
    pub(super) fn count(&mut self, schema: &Type) -> Result<(), Fatal> {
        self.zeros += schema.zeros;
        if self.zeros > MAX_ZEROS { Err(Fatal("the object has too many fields".to_owned())) } else { Ok(()) }
    }

    /// The value of `null` in a list or map.
    pub(super) fn zero(&mut self, shape: &Shape) -> Result<Value, Fatal> {
        if let (Holds::Struct(index), false) = (&shape.holds, shape.is_pointer)
            && let Some(schema) = table::resolve(*index)
        {
            self.count(schema)?;
        }
        Ok(scalar::zero(shape))
    }

    pub(super) fn note(&mut self, what: &str, path: &Path, key: &str) {
        let is_full =
            self.strict_errors.len() >= MAX_STRICT_ERRORS || self.strict_errors_bytes >= MAX_STRICT_ERRORS_BYTES;
        if self.is_nested || is_full {
            return;
        }
        let error = format!("{what} field {}", go_quote(&path.of_key(key)));
        if !self.strict_errors.contains(&error) {
            self.strict_errors_bytes += error.len();
            self.strict_errors.push(error);
        }
    }

    fn fields(&mut self, schema: &'static Type, fields: &mut Map<String, Value>, path: &Path) -> Result<(), Fatal> {
        self.count(schema)?;
        let mut gone = Vec::new();
        for (key, value) in fields.iter_mut() {
            let held = match schema.field(key) {
                Some(field) => self.value(&field.shape, value, &path.then(Step::Field(schema, field)))?,
                None => {
                    self.note("unknown", path, key);
                    Held::Nothing
                }
            };
            if held == Held::Nothing {
                gone.push(key.clone());
            }
        }
        for key in gone {
            fields.remove(&key);
        }
        Ok(())
    }

    pub(super) fn value(&mut self, shape: &'static Shape, value: &mut Value, path: &Path) -> Result<Held, Fatal> {
        let held = match (&shape.holds, &mut *value) {
            (_, Value::Null) => return Ok(Held::Nothing),
            (Holds::Struct(index), Value::Object(fields)) => {
                if let Some(schema) = table::resolve(*index) {
                    self.fields(schema, fields, path)?;
                }
                Held::Something
            }
            (Holds::List(shape), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.element(shape, item, &path.then(Step::Index(index)))?;
                }
                if items.is_empty() { Held::Empty } else { Held::Something }
            }
            (Holds::Map(_, shape), Value::Object(entries)) => {
                for (key, entry) in entries.iter_mut() {
                    self.element(shape, entry, &path.then(Step::Key(key)))?;
                }
                if entries.is_empty() { Held::Empty } else { Held::Something }
            }
            (Holds::Struct(_) | Holds::List(_) | Holds::Map(..), other) => {
                self.save(path.type_error(go_type(other), &shape.pointee()));
                return Ok(Held::Nothing);
            }
            (Holds::SchemaOrBool | Holds::SchemaOrArray | Holds::SchemaOrStrings, _) => {
                self.schema_or(shape, value, path)?
            }
            (_, value) => scalar::decode(self, shape, value, None, path)?,
        };
        Ok(if shape.is_pointer { Held::Something } else { held })
    }

    fn element(&mut self, shape: &'static Shape, value: &mut Value, path: &Path) -> Result<(), Fatal> {
        if self.value(shape, value, path)? == Held::Nothing {
            *value = self.zero(shape)?;
        }
        Ok(())
    }

    /// `JSONSchemaPropsOrBool.UnmarshalJSON` and similar unions.
    pub(super) fn schema_or(&mut self, shape: &'static Shape, value: &mut Value, path: &Path) -> Result<Held, Fatal> {
        let [schema, schemas, strings] = table::json_schema();
        match (&shape.holds, &mut *value) {
            (_, Value::Object(_)) => self.nested(schema, value, path)?,
            (Holds::SchemaOrBool, Value::Bool(_)) => (),
            (Holds::SchemaOrBool, _) => return Err(Fatal("boolean or JSON schema expected".to_owned())),
            (_, Value::Array(items)) if items.is_empty() => *value = Value::Null,
            (Holds::SchemaOrArray, Value::Array(_)) => self.nested(schemas, value, path)?,
            (_, Value::Array(_)) => self.nested(strings, value, path)?,
            // Any other value becomes nil, without an error.
            (_, other) => *other = Value::Null,
        }
        Ok(Held::Something)
    }

    fn nested(&mut self, shape: &'static Shape, value: &mut Value, path: &Path) -> Result<(), Fatal> {
        let outer = self.enter();
        let result = self.value(shape, value, &path.then(Step::Nested)).map(|_| ());
        self.leave(outer, result)
    }

    /// Begins a nested decoding, which has its own first error.
    pub(super) fn enter(&mut self) -> Outer {
        Outer { was_nested: std::mem::replace(&mut self.is_nested, true), saved: self.saved.take() }
    }

    /// Ends a nested decoding. Any error of it ends the outer decoding too.
    pub(super) fn leave<T>(&mut self, outer: Outer, result: Result<T, Fatal>) -> Result<T, Fatal> {
        let result = result.and_then(|found| self.saved.take().map_or(Ok(found), |why| Err(Fatal(why))));
        self.is_nested = outer.was_nested;
        self.saved = outer.saved;
        result
    }
}

/// The state of an outer decoding.
pub(super) struct Outer {
    was_nested: bool,
    saved: Option<String>,
}
