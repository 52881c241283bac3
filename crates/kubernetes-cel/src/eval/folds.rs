//! Comprehensions.

use super::{Evaluation, Local, absorb, elements};
use crate::plan::{Call, Fold};
use crate::value::{Error, List, Map, Value};
use std::sync::Arc;
use std::time::Instant;

/// The number of rounds between two checks of the clock: `CheckFrequency` of Kubernetes.
const ROUNDS: u64 = 100;

impl<'a> Evaluation<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Result<Value<'a>, Error> {
        let result = match absorb!(self.node(&fold.range)) {
            Ok(range) => absorb!(self.rounds(fold, range)),
            Err(error) => Err(error),
        };
        self.tracker.drop(fold.range.id());
        self.tracker.push(fold.id);
        result
    }

    fn rounds(&mut self, fold: &'a Fold, range: Value<'a>) -> Result<Value<'a>, Error> {
        self.set(fold.accumulator, Local::Lazy(&fold.initial));
        let two = fold.variable2.is_some();
        match range {
            Value::List(List::Json(elements)) => {
                for (index, element) in elements.iter().enumerate() {
                    if !self.round(fold, Value::Int(index as i64), Value::json(element))? {
                        break;
                    }
                }
            }
            Value::List(list) => {
                for (index, element) in list.iter().enumerate() {
                    if !self.round(fold, Value::Int(index as i64), element)? {
                        break;
                    }
                }
            }
            Value::Map(Map::Json(fields)) => {
                for (key, value) in fields {
                    if !self.round_of_map(fold, Value::text(key), || Value::json(value))? {
                        break;
                    }
                }
            }
            Value::Map(Map::BuiltIn(fields)) => {
                for (key, value) in fields {
                    if !self.round_of_map(fold, Value::text(key), || Value::built_in(value))? {
                        break;
                    }
                }
            }
            Value::Map(Map::Values(entries)) => {
                for (key, value) in entries.iter() {
                    if !self.round_of_map(fold, key.clone(), || value.clone())? {
                        break;
                    }
                }
            }
            Value::Map(map @ Map::Object(_)) => {
                for (key, value) in map.iter() {
                    if !self.round_of_map(fold, key, || value)? {
                        break;
                    }
                }
            }
            Value::Map(Map::Lazy(_)) => {}
            range => {
                let name = range.go_type();
                return Err(Error::new(if two {
                    format!("unsupported comprehension range type: {name}")
                } else {
                    format!("got '{name}', expected iterable type")
                }));
            }
        }
        self.node(&fold.result)
    }

    fn round_of_map(
        &mut self,
        fold: &'a Fold,
        key: Value<'a>,
        value: impl FnOnce() -> Value<'a>,
    ) -> Result<bool, Error> {
        match fold.variable2 {
            Some(_) => self.round(fold, key, value()),
            None => self.round(fold, Value::Null, key),
        }
    }

    /// Runs one round; returns false after the last one. With one variable, `first` is unused.
    fn round(&mut self, fold: &'a Fold, first: Value<'a>, second: Value<'a>) -> Result<bool, Error> {
        match fold.variable2 {
            Some(variable2) => {
                self.set(fold.variable, Local::Is(Ok(first)));
                self.set(variable2, Local::Is(Ok(second)));
            }
            None => self.set(fold.variable, Local::Is(Ok(second))),
        }
        if let Ok(Value::Bool(false)) = absorb!(self.node(&fold.condition)) {
            return Ok(false);
        }
        let value = absorb!(self.node(&fold.step));
        self.set(fold.accumulator, Local::Is(value));
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS) && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::Interrupted);
        }
        Ok(true)
    }

    #[inline]
    fn set(&mut self, slot: usize, value: Local<'a>) {
        if let Some(local) = self.locals.get_mut(slot) {
            *local = value;
        }
    }

    /// Reads an accumulator that will be replaced: counts the cost of reading a variable, but leaves the value in place.
    fn accumulator(&mut self, call: &Call, slot: usize) -> Result<(), Error> {
        self.initialize(slot)?;
        if let Some(id) = call.arguments.first().map(crate::plan::Node::id) {
            self.tracker.drop(id);
            self.tracker.add(1);
            self.tracker.observe(id)?;
        }
        Ok(())
    }

    /// Moves the value out of an accumulator.
    fn take(&mut self, slot: usize) -> Result<Value<'a>, Error> {
        match self.locals.get_mut(slot).map(|local| std::mem::replace(local, Local::Unset)) {
            Some(Local::Is(value)) => value,
            _ => Err(Error::OVERLOAD),
        }
    }

    /// Evaluates `accumulator + list`.
    pub(super) fn append(&mut self, call: &'a Call, slot: usize) -> Result<Value<'a>, Error> {
        self.accumulator(call, slot)?;
        let added = match call.arguments.get(1) {
            Some(added) => absorb!(self.node(added)),
            None => Err(Error::OVERLOAD),
        };
        self.charge(call, &[Value::Null, Value::Null], &Ok(Value::Null))?;
        match (self.take(slot)?, added?) {
            (Value::List(list), Value::List(added)) => {
                let mut all = elements(list);
                match added {
                    List::Values(added) => match Arc::try_unwrap(added) {
                        Ok(added) => all.extend(added),
                        Err(added) => all.extend(added.iter().cloned()),
                    },
                    added => all.extend(added.iter()),
                }
                Ok(Value::list(all))
            }
            _ => Err(Error::OVERLOAD),
        }
    }

    /// Evaluates `cel.@mapInsert(accumulator, key, value)` or `cel.@mapInsert(accumulator, map)`.
    pub(super) fn insert(&mut self, call: &'a Call, slot: usize) -> Result<Value<'a>, Error> {
        self.accumulator(call, slot)?;
        let mut values = Vec::with_capacity(2);
        let mut error = match self.locals.get(slot) {
            Some(Local::Is(Err(error))) if call.early => Some(error.clone()),
            _ => None,
        };
        let others = if error.is_some() { &[] } else { call.arguments.get(1..).unwrap_or_default() };
        for argument in others {
            match absorb!(self.node(argument)) {
                Ok(value) => values.push(value),
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            }
        }
        self.charge(call, &[Value::Null, Value::Null, Value::Null], &Ok(Value::Null))?;
        let accumulator = self.take(slot)?;
        if let Some(error) = error {
            return Err(error);
        }
        let Value::Map(Map::Values(entries)) = accumulator else { return Err(Error::OVERLOAD) };
        let mut entries = Arc::unwrap_or_clone(entries);
        match <[Value<'a>; 2]>::try_from(values) {
            Ok([key, value]) => entries.insert_new(key, value)?,
            Err(values) => {
                let Some(Value::Map(added)) = values.first() else { return Err(Error::OVERLOAD) };
                added.iter().try_for_each(|(key, value)| entries.insert_new(key, value))?;
            }
        }
        Ok(Value::Map(Map::Values(Arc::new(entries))))
    }
}
