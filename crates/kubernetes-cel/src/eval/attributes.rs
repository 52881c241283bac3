//! Variables and selections from them: attributes and qualifiers of cel-go.

use super::{Evaluation, Local, absorb};
use crate::plan::{Path, Qualifier, QualifierKind, Source};
use crate::value::{Error, List, Map, Value};
use crate::well_known;
use std::sync::Arc;

impl<'a> Evaluation<'a, '_> {
    pub(super) fn attribute(&mut self, path: &'a Path, test: Option<u32>) -> Result<Value<'a>, Error> {
        let mut result = absorb!(self.resolve(path));
        if test.is_some()
            && let Ok(Value::Optional(value)) = &result
        {
            result = Ok(Value::Bool(value.is_some()));
        }
        match path {
            Path::Conditional { condition, truthy, falsy, .. } => {
                self.tracker.drop(falsy.id());
                self.tracker.drop(truthy.id());
                self.tracker.drop(condition.id());
            }
            _ => {
                self.tracker.drop(path.id());
                self.tracker.add(1);
            }
        }
        if test.is_some() {
            self.tracker.cost = self.tracker.cost.wrapping_sub(1);
        }
        self.tracker.observe(test.unwrap_or_else(|| path.id()))?;
        result
    }

    fn resolve(&mut self, path: &'a Path) -> Result<Value<'a>, Error> {
        match path {
            Path::Absolute { source, qualifiers, .. } => {
                let value = match source {
                    Source::Local(slot) => self.local(*slot)?,
                    Source::Variable(slot, name) | Source::Hidden(slot, name) => match self.variables.get(*slot) {
                        Some(Some(value)) => value.clone(),
                        _ => return Err(Error::new(format!("no such attribute(s): {name}"))),
                    },
                };
                self.qualify_all(value, qualifiers, !matches!(source, Source::Hidden(..)))
            }
            Path::Relative { operand, qualifiers, .. } => {
                let value = self.node(operand)?;
                self.qualify_all(value, qualifiers, true)
            }
            Path::Conditional { condition, truthy, falsy, .. } => match self.node(condition)? {
                Value::Bool(true) => self.resolve(truthy),
                Value::Bool(false) => self.resolve(falsy),
                _ => Err(Error::OVERLOAD),
            },
        }
    }

    /// The value of a comprehension variable.
    fn local(&mut self, slot: usize) -> Result<Value<'a>, Error> {
        self.initialize(slot)?;
        match self.locals.get(slot) {
            Some(Local::Is(value)) => value.clone(),
            _ => Err(Error::new("no such attribute(s)")),
        }
    }

    /// Evaluates the first value of an accumulator, unless that has happened.
    pub(super) fn initialize(&mut self, slot: usize) -> Result<(), Error> {
        if let Some(&Local::Lazy(node)) = self.locals.get(slot) {
            let value = absorb!(self.node(node));
            if let Some(local) = self.locals.get_mut(slot) {
                *local = Local::Is(value);
            }
        }
        Ok(())
    }

    /// Selects one after the other; `counts` is whether the selections have a cost.
    fn qualify_all(
        &mut self,
        value: Value<'a>,
        qualifiers: &'a [Arc<Qualifier>],
        counts: bool,
    ) -> Result<Value<'a>, Error> {
        let (mut value, mut optional) = match value {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (innermost(&inner), true),
            value => (value, false),
        };
        for qualifier in qualifiers {
            optional |= qualifier.optional;
            match self.qualify(qualifier, &value, optional, counts)? {
                Some(found) => value = found,
                None => return Ok(Value::Optional(None)),
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Selects, and counts the cost if `counts`. `None` is a missing value, where a missing value is no error.
    fn qualify(
        &mut self,
        qualifier: &'a Qualifier,
        value: &Value<'a>,
        if_present: bool,
        counts: bool,
    ) -> Result<Option<Value<'a>>, Error> {
        let result = match &qualifier.kind {
            QualifierKind::Constant(key) => select(value, key, qualifier, if_present || qualifier.test),
            QualifierKind::Attribute(path) | QualifierKind::Computed(path) => match absorb!(self.resolve(path)) {
                Ok(key) if is_qualifier(&key) => select(value, &key, qualifier, if_present),
                Ok(key) if is_of_the_environment(path) => {
                    Err(Error::new(format!("invalid qualifier type: {}", go_type_of_json(&key))))
                }
                Ok(key) => Err(key.as_invalid_qualifier()),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = &result
            && !error.is_absorbable()
        {
            return result;
        }
        let result =
            if qualifier.test && !if_present { result.map(|found| Some(Value::Bool(found.is_some()))) } else { result };
        if counts && (!if_present || matches!(result, Ok(Some(_)))) {
            if matches!(qualifier.kind, QualifierKind::Computed(_)) {
                self.tracker.drop(qualifier.id);
            }
            self.tracker.add(1);
            self.tracker.observe(qualifier.id)?;
        }
        result
    }
}

/// The value of an optional in a variable, without nested optionals, as `Value()` of cel-go.
fn innermost<'a>(value: &Value<'a>) -> Value<'a> {
    match value {
        Value::Optional(Some(inner)) => innermost(inner),
        Value::Optional(None) => Value::Null,
        value => value.clone(),
    }
}

fn is_qualifier(key: &Value<'_>) -> bool {
    matches!(key, Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_))
}

/// Whether a value is JSON that Go decoded, rather than a value of cel-go.
fn is_of_the_environment(path: &Path) -> bool {
    match path {
        Path::Absolute { source, .. } => matches!(source, Source::Variable(..) | Source::Hidden(..)),
        Path::Relative { .. } => false,
        Path::Conditional { truthy, falsy, .. } => is_of_the_environment(truthy) && is_of_the_environment(falsy),
    }
}

/// The Go name of the type of a value that Go decoded from JSON.
fn go_type_of_json(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::List(List::Json(_)) => "[]interface {}",
        Value::Map(Map::Json(_)) => "map[string]interface {}",
        value => value.go_type(),
    }
}

/// `refQualify` of cel-go.
fn select<'a>(
    value: &Value<'a>,
    key: &Value<'_>,
    qualifier: &Qualifier,
    if_present: bool,
) -> Result<Option<Value<'a>>, Error> {
    let found = match (value, key) {
        (Value::Map(Map::Json(fields)), Value::String(name)) => fields.get(&**name).map(Value::json),
        (Value::Map(Map::BuiltIn(fields)), Value::String(name)) => fields.get(&**name).map(Value::built_in),
        (Value::Map(Map::BuiltIn(_)), key) => return Err(key.as_invalid_key()),
        (Value::Map(Map::Lazy(map)), Value::String(name)) => map.get(name).transpose()?,
        (Value::Map(map), _) => map.get(key),
        (Value::List(list), _) => {
            let index = position(key)?;
            let found = usize::try_from(index).ok().and_then(|index| list.get(index));
            if found.is_none() && !if_present {
                return Err(Error::new(format!("index out of bounds: {key}")));
            }
            if found.is_some()
                && !if_present
                && matches!((list, key), (List::BuiltIn(_), Value::Uint(_) | Value::Double(_)))
            {
                return Err(Error::new(format!("unsupported index type: {}", key.go_type())));
            }
            found
        }
        (Value::Struct(made), Value::String(name)) => match well_known::is_message(&made.name) {
            true => well_known::qualify(made, name, if_present)?,
            false => made.select(name, qualifier.field, if_present)?,
        },
        _ => None,
    };
    if found.is_none() && qualifier.field && !if_present && matches!(value, Value::Map(_)) {
        return Ok(Some(Value::Null));
    }
    match found {
        None if !if_present => Err(Error::new(format!("no such key: {key}"))),
        found => Ok(found),
    }
}

/// `IndexOrError` of cel-go.
fn position(key: &Value<'_>) -> Result<i64, Error> {
    let index = match key {
        Value::Int(index) => Some(*index),
        Value::Uint(index) => i64::try_from(*index).ok(),
        Value::Double(index) => {
            let within = *index > i64::MIN as f64 && *index < i64::MAX as f64;
            (within && index.trunc() == *index).then_some(*index as i64)
        }
        key => {
            let message = format!("unsupported index type '{}' in list", key.type_name());
            return Err(Error::new(message));
        }
    };
    index.ok_or_else(|| Error::new(format!("unsupported index value {key} in list")))
}
