//! Evaluation with the language's rules of errors and short circuits, and with Kubernetes' costs.

mod attributes;
#[cfg(test)]
mod bounds;
mod cost;
mod folds;
mod stack;
#[cfg(test)]
mod tests;

use super::messages::is_patch;
use super::plan::{Call, Dispatch, Node, Program};
use super::release::Release;
use super::value::{Entries, Error, List, Map, Struct, Text, Value};
use super::{well_known, work};
use cost::Tracker;
use std::sync::Arc;
use std::time::Instant;

/// The limits of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationLimits {
    /// The highest cost of the evaluation: `PerCallLimit`, 1,000,000.
    pub cost: u64,
    /// The time at which the evaluation ends; checked every hundred rounds of a comprehension.
    pub deadline: Option<Instant>,
}

/// The result of an evaluation.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The value.
    pub value: Result<Value<'a>, Error>,
    /// The cost of the evaluation, also if it failed.
    pub cost: u64,
}

impl Program {
    /// Evaluates the program. `variables` are the values of the environment's variables by slot; `None` is a declared variable without a
    /// value. Results borrow from the program and the variables.
    pub fn evaluate<'a>(&'a self, variables: &[Option<Value<'a>>], limits: &EvaluationLimits) -> Outcome<'a> {
        if limits.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Outcome { value: Err(Error::Interrupted), cost: 0 };
        }
        let evaluate = || self.evaluate_here(variables, limits);
        let evaluated = work::bounded(|| stack::with_room_for(self.depth, evaluate));
        evaluated.unwrap_or_else(|why| Outcome {
            value: Err(Error::new(format!("the expression could not be evaluated: {why}"))),
            cost: 0,
        })
    }

    fn evaluate_here<'a>(&'a self, variables: &[Option<Value<'a>>], limits: &EvaluationLimits) -> Outcome<'a> {
        let mut evaluation = Evaluation {
            variables,
            locals: vec![Local::Unset; self.locals],
            tracker: Tracker::new(self.nodes, limits.cost.min(work::cost_left())),
            deadline: limits.deadline,
            rounds: 0,
        };
        let value = evaluation.node(&self.root);
        let cost = evaluation.tracker.cost;
        work::spend(cost);
        Outcome { value, cost }
    }
}

/// The state of one evaluation.
struct Evaluation<'a, 'v> {
    variables: &'v [Option<Value<'a>>],
    /// The comprehension variables by slot.
    locals: Vec<Local<'a>>,
    tracker: Tracker,
    deadline: Option<Instant>,
    /// Rounds of comprehensions so far.
    rounds: u64,
}

/// A comprehension variable.
#[derive(Clone, Debug)]
enum Local<'a> {
    Unset,
    /// An accumulator that has not been read yet: its first value is evaluated at the first read.
    Lazy(&'a Node),
    Is(Result<Value<'a>, Error>),
}

/// `?` for errors that end the evaluation; other errors, which `||` and similar operators can absorb, stay in the result.
macro_rules! absorb {
    ($result:expr) => {
        match $result {
            Err(error) if !error.is_absorbable() => return Err(error),
            result => result,
        }
    };
}
use absorb;

impl<'a> Evaluation<'a, '_> {
    fn node(&mut self, node: &'a Node) -> Result<Value<'a>, Error> {
        match node {
            Node::Constant(id, value) => {
                self.tracker.push(*id);
                Ok(borrow(value))
            }
            Node::Attribute(path, test) => self.attribute(path, *test),
            Node::Equal { id, negated, arguments } => self.equal(*id, *negated, arguments),
            Node::Call(call) => self.call(call),
            Node::Logic { id, or, terms } => self.logic(*id, *or, terms),
            Node::Fold(fold) => self.fold(fold),
            Node::Member(member) => {
                let value = absorb!(self.node(&member.argument));
                self.tracker.push(member.id);
                Ok(Value::Bool(member.contains(&value?)))
            }
            Node::Or { id, value, is_strict, arguments } => {
                let [left, right] = &**arguments;
                let result = match absorb!(self.node(left)) {
                    Ok(Value::Optional(None)) => absorb!(self.node(right)),
                    Ok(Value::Optional(Some(inner))) if *value => Ok((*inner).clone()),
                    Ok(other) if *is_strict && !matches!(other, Value::Optional(_)) => Err(Error::OVERLOAD),
                    result => result,
                };
                self.tracker.push(*id);
                result
            }
            Node::Append(call, slot) => self.append(call, *slot),
            Node::Insert(call, slot) => self.insert(call, *slot),
            Node::List(id, elements) => {
                let result = absorb!(self.list(elements));
                self.tracker.drop_arguments(elements.iter().map(|(element, _)| element.id()));
                self.tracker.add(cost::LIST_CREATION);
                self.tracker.observe(*id)?;
                result
            }
            Node::Map(id, entries) => {
                let result = absorb!(self.map(entries));
                self.tracker.drop_arguments(entries.iter().flat_map(|(key, value, _)| [key.id(), value.id()]));
                self.tracker.add(cost::MAP_CREATION);
                self.tracker.observe(*id)?;
                result
            }
            Node::Struct { id, release, name, fields } => {
                let result = absorb!(self.message(name, fields, *release));
                self.tracker.drop_arguments(fields.iter().map(|(_, value, _)| value.id()));
                self.tracker.add(cost::STRUCT_CREATION);
                self.tracker.observe(*id)?;
                result
            }
        }
    }

    fn logic(&mut self, id: u32, or: bool, terms: &'a [Node; 2]) -> Result<Value<'a>, Error> {
        let mut result = Ok(Value::Bool(!or));
        for term in terms {
            match absorb!(self.node(term)) {
                Ok(Value::Bool(value)) if value == or => {
                    result = Ok(Value::Bool(or));
                    break;
                }
                Ok(Value::Bool(_)) => {}
                other if result.is_ok() => result = other.and(Err(Error::OVERLOAD)),
                _ => {}
            }
        }
        for term in terms {
            self.tracker.drop(term.id());
        }
        self.tracker.push(id);
        result
    }

    fn equal(&mut self, id: u32, negated: bool, arguments: &'a [Node; 2]) -> Result<Value<'a>, Error> {
        let [first, second] = arguments;
        let left = absorb!(self.node(first));
        let right = absorb!(self.node(second));
        if self.tracker.drop_arguments(arguments.iter().map(Node::id)) {
            self.tracker.add(equality_cost(negated, &left, &right));
        }
        self.tracker.observe(id)?;
        let (left, right) = (left?, right?);
        let equal = left.equals(&right);
        match equal {
            // For `!=`, values that cannot be compared are not equal.
            Err(error) if negated && error.is_absorbable() => Ok(Value::Bool(true)),
            equal => equal.map(|equal| Value::Bool(equal != negated)),
        }
    }

    fn call(&mut self, call: &'a Call) -> Result<Value<'a>, Error> {
        match &*call.arguments {
            [argument] => {
                let argument = absorb!(self.node(argument));
                let result = match argument {
                    Ok(argument) => {
                        let arguments = [argument];
                        let result = absorb!(call.of(&arguments));
                        self.charge(call, &arguments, &result)?;
                        return result;
                    }
                    Err(_) if matches!(call.dispatch, Dispatch::NotStrictlyFalse) => Ok(Value::Bool(true)),
                    Err(error) => Err(error),
                };
                self.charge(call, &[Value::Null], &result)?;
                result
            }
            [left, right] if !call.early => {
                let left = absorb!(self.node(left));
                let right = absorb!(self.node(right));
                match (left, right) {
                    (Ok(left), Ok(right)) => {
                        let arguments = [left, right];
                        self.affords(call, &arguments)?;
                        let result = absorb!(call.of(&arguments));
                        self.charge(call, &arguments, &result)?;
                        result
                    }
                    (left, right) => {
                        let [left, error] = match left {
                            Ok(left) => [Ok(left), right.map(|_| Value::Null)],
                            Err(error) => {
                                let arguments = [Value::Null, right.unwrap_or(Value::Null)];
                                let result = Err(error);
                                self.charge(call, &arguments, &result)?;
                                return result;
                            }
                        };
                        self.charge(call, &[left?, Value::Null], &error)?;
                        error
                    }
                }
            }
            arguments => {
                let mut values = Vec::with_capacity(arguments.len());
                let mut error = None;
                for argument in arguments {
                    match absorb!(self.node(argument)) {
                        Ok(value) => values.push(value),
                        Err(failed) => {
                            error = Some(failed);
                            break;
                        }
                    }
                }
                let result = match error {
                    None => {
                        self.affords(call, &values)?;
                        absorb!(call.of(&values))
                    }
                    Some(error) => {
                        values.resize(arguments.len(), Value::Null);
                        Err(error)
                    }
                };
                self.charge(call, &values, &result)?;
                result
            }
        }
    }

    /// Checks the cost of a search before it begins, because a search cannot be interrupted.
    fn affords(&mut self, call: &Call, arguments: &[Value<'a>]) -> Result<(), Error> {
        match call.cost.filter(|_| call.is_search) {
            Some(cost) => self.tracker.affords(cost(call.overload, arguments, &Value::Null)),
            None => Ok(()),
        }
    }

    /// Counts the cost of a call. An argument or a result that is an error counts as null.
    fn charge(&mut self, call: &Call, arguments: &[Value<'a>], result: &Result<Value<'a>, Error>) -> Result<(), Error> {
        work::write(result.as_ref().map_or(0, |made| made_bytes(made, arguments)))?;
        if self.tracker.drop_arguments(call.arguments.iter().map(Node::id)) {
            let cost =
                call.cost.map_or(1, |cost| cost(call.overload, arguments, result.as_ref().unwrap_or(&Value::Null)));
            self.tracker.add(cost);
        }
        self.tracker.observe(call.id)
    }

    fn list(&mut self, elements: &'a [(Node, bool)]) -> Result<Value<'a>, Error> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            match self.node(element)? {
                value if !optional => values.push(value),
                Value::Optional(None) => {}
                Value::Optional(Some(value)) => values.push((*value).clone()),
                value => {
                    let message = format!("cannot initialize optional list element from non-optional value {value}");
                    return Err(Error::new(message));
                }
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Result<Value<'a>, Error> {
        let mut values = Entries::default();
        for (key, value, optional) in entries {
            let key = self.node(key)?;
            let value = self.node(value)?;
            match optional_entry(&key, value, *optional)? {
                Some(value) => values.insert(key, value),
                None => values.remove(&key),
            }
        }
        Ok(Value::Map(Map::Values(Arc::new(values))))
    }

    fn message(
        &mut self,
        name: &Arc<str>,
        fields: &'a [(Arc<str>, Node, bool)],
        release: Release,
    ) -> Result<Value<'a>, Error> {
        let mut values: Vec<(Arc<str>, Value<'a>)> = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            let value = self.node(value)?;
            let value = optional_entry(&Value::text(field), value, *optional)?;
            values.retain(|(other, _)| other != field);
            values.extend(value.map(|value| (field.clone(), value)));
        }
        if let Some(made) = well_known::make(name, &values, release) {
            return made;
        }
        if !is_patch(name) {
            // Only the checker knows the type: `null_type`, `kubernetes.UserInfo`.
            return Err(Error::new(format!("unknown type '{name}'")));
        }
        Struct::new(name.clone(), values).map(|value| Value::Struct(Arc::new(value)))
    }
}

/// The value of an entry; `None` if the entry is omitted.
fn optional_entry<'a>(key: &Value<'_>, value: Value<'a>, optional: bool) -> Result<Option<Value<'a>>, Error> {
    match value {
        value if !optional => Ok(Some(value)),
        Value::Optional(None) => Ok(None),
        Value::Optional(Some(value)) => Ok(Some((*value).clone())),
        value => Err(Error::new(format!("cannot initialize optional entry '{key}' from non-optional value {value}"))),
    }
}

/// Copies a constant, and borrows its text.
#[inline]
fn borrow<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::String(Text::Shared(text)) => Value::text(text),
        Value::Int(value) => Value::Int(*value),
        Value::Bool(value) => Value::Bool(*value),
        value => value.clone(),
    }
}

/// The cost of comparing two values: that of the smaller one; 1 for values of libraries (`CallCost` of Kubernetes for `_==_`).
fn equality_cost(negated: bool, left: &Result<Value<'_>, Error>, right: &Result<Value<'_>, Error>) -> u64 {
    let size = |value: &Result<Value<'_>, Error>| value.as_ref().map_or(1, Value::cost_size);
    if !negated && matches!(left, Ok(Value::Opaque(_))) {
        return 1;
    }
    super::plan::traversal(size(left).min(size(right)))
}

/// The number of bytes of a function's result, unless the result is one of its arguments.
fn made_bytes(made: &Value<'_>, arguments: &[Value<'_>]) -> usize {
    let bytes = match made {
        Value::String(Text::Shared(text)) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list @ List::Values(_)) => list.len() * size_of::<Value<'_>>(),
        Value::Map(map @ Map::Values(_)) => 4 * map.len() * size_of::<Value<'_>>(),
        _ => return 0,
    };
    if arguments.iter().any(|argument| is_shared(argument, made)) { 0 } else { bytes }
}

fn is_shared(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::String(Text::Shared(a)), Value::String(Text::Shared(b))) => Arc::ptr_eq(a, b),
        (Value::Bytes(a), Value::Bytes(b)) => Arc::ptr_eq(a, b),
        (Value::List(List::Values(a)), Value::List(List::Values(b))) => Arc::ptr_eq(a, b),
        (Value::Map(Map::Values(a)), Value::Map(Map::Values(b))) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// The elements of a list; moved out of the list if nothing else refers to it.
fn elements<'a>(list: List<'a>) -> Vec<Value<'a>> {
    match list {
        List::Values(elements) => Arc::unwrap_or_clone(elements),
        list => list.iter().collect(),
    }
}
