//! The nodes of a program.

use crate::function::{Cost, Function};
use crate::library::regex::{find_all_with, find_with};
use crate::re2::Regex;
use crate::release::Release;
use crate::value::{Error, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// A step of a program. Its number is that of the expression that it was made from.
#[derive(Debug)]
pub(crate) enum Node {
    /// A constant, or the result of constant folding.
    Constant(u32, Value<'static>),
    /// A variable or a value with selections from it. The number is that of a presence test, if the node is one.
    Attribute(Box<Path>, Option<u32>),
    /// `||` (or `&&`) of the terms.
    Logic { id: u32, or: bool, terms: Box<[Node; 2]> },
    /// `==` (or `!=`).
    Equal { id: u32, negated: bool, arguments: Box<[Node; 2]> },
    /// A function.
    Call(Box<Call>),
    /// `accumulator + list`, in place.
    Append(Box<Call>, usize),
    /// `cel.@mapInsert(accumulator, …)`, in place.
    Insert(Box<Call>, usize),
    /// `[…]`; each element has a flag whether it is omitted if it is an empty optional.
    List(u32, Vec<(Node, bool)>),
    /// `{…}`; entries have the flag of a list's elements.
    Map(u32, Vec<(Node, Node, bool)>),
    /// `Name{…}`; fields have the flag of a list's elements. The release decides about texts.
    Struct { id: u32, release: Release, name: Arc<str>, fields: Vec<(Arc<str>, Node, bool)> },
    /// A comprehension.
    Fold(Box<Fold>),
    /// `optional.or(…)`, or `optional.orValue(…)`. If it is not strict, a target that is no optional is the result.
    Or { id: u32, value: bool, is_strict: bool, arguments: Box<[Node; 2]> },
    /// `x in […]` of constants.
    Member(Box<Member>),
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub id: u32,
    pub name: Box<str>,
    /// The only overload that the checker found; empty if there are several.
    pub overload: &'static str,
    /// The arguments, a method's target first.
    pub arguments: Vec<Node>,
    /// The implementations, tried in order.
    pub dispatch: Dispatch,
    /// The cost of the call, if it is not 1.
    pub cost: Option<Cost>,
    /// Whether the first failing argument stops the evaluation of the others: `evalVarArgs`, not `evalBinary` of cel-go.
    pub early: bool,
    /// Whether the call searches text for a pattern, so that its time is proportional to its cost.
    pub is_search: bool,
}

impl Call {
    /// Calls the first function that takes the values.
    ///
    /// # Errors
    /// If the function fails, or if no overload takes the values.
    pub(crate) fn of<'a>(&self, arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
        let functions = match &self.dispatch {
            Dispatch::Functions(functions) => functions,
            Dispatch::NotStrictlyFalse => return Ok(Value::Bool(!matches!(arguments, [Value::Bool(false)]))),
            Dispatch::Search(search, regex) => {
                return match (search, arguments) {
                    (Search::Matches, [Value::String(text), _]) => Ok(Value::Bool(regex.is_match(text))),
                    (Search::Find, [Value::String(text), _]) => Ok(find_with(regex, text)),
                    (Search::FindAll, [Value::String(text), _]) => find_all_with(regex, text, -1),
                    (Search::FindAll, [Value::String(text), _, Value::Int(limit)]) => {
                        find_all_with(regex, text, *limit)
                    }
                    _ => Err(Error::OVERLOAD),
                };
            }
        };
        for function in functions {
            match (function.call)(arguments) {
                Err(Error::NoSuchOverload) => {}
                result => return result,
            }
        }
        let types: Vec<_> = arguments.iter().map(Value::type_name).collect();
        Err(Error::new(format!("no such overload: {}({})", self.name, types.join(", "))))
    }
}

/// The implementation of a call.
#[derive(Debug)]
pub(crate) enum Dispatch {
    /// Functions of the libraries; each one checks whether it takes the values.
    Functions(Vec<&'static Function>),
    /// `@not_strictly_false`, which accepts errors.
    NotStrictlyFalse,
    /// A search with a constant pattern (`OptimizeRegex` of cel-go).
    Search(Search, Regex),
}

/// The kind of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Search {
    Matches,
    Find,
    FindAll,
}

/// `x in […]` of constants.
#[derive(Debug)]
pub(crate) struct Member {
    pub id: u32,
    pub argument: Node,
    pub set: HashSet<Scalar>,
}

/// A constant in a set. The set contains equal numbers of other types as separate entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Box<str>),
}

/// A comprehension. The variables are slots.
#[derive(Debug)]
pub(crate) struct Fold {
    pub id: u32,
    pub range: Node,
    pub variable: usize,
    pub variable2: Option<usize>,
    pub accumulator: usize,
    pub initial: Node,
    pub condition: Node,
    pub step: Node,
    pub result: Node,
}

/// The value that selections start from: cel-go's attributes.
#[derive(Debug)]
pub(crate) enum Path {
    /// A variable.
    Absolute { id: u32, source: Source, qualifiers: Vec<Arc<Qualifier>> },
    /// The result of an expression.
    Relative { id: u32, operand: Node, qualifiers: Vec<Arc<Qualifier>> },
    /// `condition ? truthy : falsy`.
    Conditional { id: u32, condition: Node, truthy: Box<Path>, falsy: Box<Path> },
}

/// The location of a variable.
#[derive(Debug)]
pub(crate) enum Source {
    /// A variable of the environment, with its name.
    Variable(usize, Box<str>),
    /// A variable of the environment that a comprehension's variable of that name hides, and that a leading dot names. cel-go does not
    /// count the cost of selections from it.
    Hidden(usize, Box<str>),
    /// A variable of a comprehension.
    Local(usize),
}

/// A selection or an index.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub id: u32,
    pub kind: QualifierKind,
    /// `.?` or `[?]`.
    pub optional: bool,
    /// Whether the selection is a presence test.
    pub test: bool,
    /// Whether the operand is, by its type, a message that an expression made.
    pub field: bool,
}

/// The key of a selection.
#[derive(Debug)]
pub(crate) enum QualifierKind {
    /// A constant key or index.
    Constant(Value<'static>),
    /// A variable or a part of one.
    Attribute(Path),
    /// The result of an expression.
    Computed(Path),
}

impl Member {
    /// Whether a value is in the set.
    pub(crate) fn contains(&self, value: &Value<'_>) -> bool {
        let is_equal_to_nothing = matches!(value, Value::Double(value) if value.is_nan());
        !is_equal_to_nothing && Scalar::of(value).is_some_and(|scalar| self.set.contains(&scalar))
    }
}

impl Node {
    /// The node's number.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Constant(id, _) | Self::List(id, _) | Self::Map(id, _) => *id,
            Self::Logic { id, .. } | Self::Equal { id, .. } | Self::Struct { id, .. } | Self::Or { id, .. } => *id,
            Self::Attribute(path, test) => test.unwrap_or_else(|| path.id()),
            Self::Call(call) | Self::Append(call, _) | Self::Insert(call, _) => call.id,
            Self::Fold(fold) => fold.id,
            Self::Member(member) => member.id,
        }
    }
}

impl Path {
    /// The number of the path's last part.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Absolute { id, qualifiers, .. } | Self::Relative { id, qualifiers, .. } => {
                qualifiers.last().map_or(*id, |qualifier| qualifier.id)
            }
            Self::Conditional { id, truthy, falsy, .. } => {
                let last = truthy.id();
                if last == falsy.id() { last } else { *id }
            }
        }
    }

    /// Adds a selection.
    pub(crate) fn qualify(&mut self, qualifier: Arc<Qualifier>) {
        match self {
            Self::Absolute { qualifiers, .. } | Self::Relative { qualifiers, .. } => qualifiers.push(qualifier),
            Self::Conditional { truthy, falsy, .. } => {
                truthy.qualify(qualifier.clone());
                falsy.qualify(qualifier);
            }
        }
    }
}
