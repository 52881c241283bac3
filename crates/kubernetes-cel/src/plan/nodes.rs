//! The nodes of a program.

use crate::function::{Cost, Function};
use crate::re2::Regex;
use crate::value::Value;
use std::collections::HashSet;
use std::sync::Arc;

/// A step of a program. Its number is that of the expression it was made of.
#[derive(Debug)]
pub enum Node {
    /// A constant, or what was folded into one.
    Constant(u32, Value<'static>),
    /// A variable or a value with what is selected of it. The number is that of a presence test, if it is one.
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
    /// `[…]`; with each element, whether an empty optional leaves it out.
    List(u32, Vec<(Node, bool)>),
    /// `{…}`; the same.
    Map(u32, Vec<(Node, Node, bool)>),
    /// `Name{…}`; the same.
    Struct { id: u32, name: Arc<str>, fields: Vec<(Arc<str>, Node, bool)> },
    /// A comprehension.
    Fold(Box<Fold>),
    /// `optional.or(…)`, or `optional.orValue(…)`.
    Or { id: u32, value: bool, arguments: Box<[Node; 2]> },
    /// `x in […]` of constants.
    Member(Box<Member>),
}

/// A call of a function.
#[derive(Debug)]
pub struct Call {
    pub id: u32,
    pub name: Box<str>,
    /// The one overload that the checker found, else empty.
    pub overload: &'static str,
    /// With the target of a method first.
    pub arguments: Vec<Node>,
    /// What may be called, tried in order.
    pub dispatch: Dispatch,
    /// What it costs, where that is not 1.
    pub cost: Option<Cost>,
    /// Whether the first failing argument keeps the others from being evaluated: `evalVarArgs`, not `evalBinary` of cel-go.
    pub early: bool,
    /// Whether it searches text for a pattern, which takes as long as it costs.
    pub is_search: bool,
}

/// What a call may come to.
#[derive(Debug)]
pub enum Dispatch {
    /// Functions of the libraries; each says whether the values are for it.
    Functions(Vec<&'static Function>),
    /// `@not_strictly_false`, which takes errors.
    NotStrictlyFalse,
    /// A search with a constant pattern (`OptimizeRegex` of cel-go).
    Search(Search, Regex),
}

/// What is asked of a pattern.
#[derive(Clone, Copy, Debug)]
pub enum Search {
    Matches,
    Find,
    FindAll,
}

/// `x in […]` of constants.
#[derive(Debug)]
pub struct Member {
    pub id: u32,
    pub argument: Node,
    pub set: HashSet<Scalar>,
}

/// A constant in a set. Equal numbers of other types are in it by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Box<str>),
}

/// A comprehension. The variables are slots.
#[derive(Debug)]
pub struct Fold {
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

/// What a value is selected from: cel-go's attributes.
#[derive(Debug)]
pub enum Path {
    /// A variable.
    Absolute { id: u32, source: Source, qualifiers: Vec<Arc<Qualifier>> },
    /// What an expression comes to.
    Relative { id: u32, operand: Node, qualifiers: Vec<Arc<Qualifier>> },
    /// `condition ? truthy : falsy`.
    Conditional { id: u32, condition: Node, truthy: Box<Path>, falsy: Box<Path> },
}

/// Where a variable is.
#[derive(Debug)]
pub enum Source {
    /// In the environment, with its name.
    Variable(usize, Box<str>),
    /// A comprehension's.
    Local(usize),
}

/// One select or index.
#[derive(Debug)]
pub struct Qualifier {
    pub id: u32,
    pub kind: QualifierKind,
    /// `.?` or `[?]`.
    pub optional: bool,
    /// Only whether it is there.
    pub test: bool,
    /// A field of a message that an expression made, by its type.
    pub field: bool,
}

/// What is selected by.
#[derive(Debug)]
pub enum QualifierKind {
    /// A key or index that is known.
    Constant(Value<'static>),
    /// A variable or a part of one.
    Attribute(Path),
    /// What an expression comes to.
    Computed(Path),
}

impl Member {
    /// Whether a value is in the set.
    pub fn contains(&self, value: &Value<'_>) -> bool {
        let is_equal_to_nothing = matches!(value, Value::Double(value) if value.is_nan());
        !is_equal_to_nothing && Scalar::of(value).is_some_and(|scalar| self.set.contains(&scalar))
    }
}

impl Node {
    /// Its number.
    pub fn id(&self) -> u32 {
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
    /// The number of its last part.
    pub fn id(&self) -> u32 {
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

    /// Selects further.
    pub fn qualify(&mut self, qualifier: Arc<Qualifier>) {
        match self {
            Self::Absolute { qualifiers, .. } | Self::Relative { qualifiers, .. } => qualifiers.push(qualifier),
            Self::Conditional { truthy, falsy, .. } => {
                truthy.qualify(qualifier.clone());
                falsy.qualify(qualifier);
            }
        }
    }
}
