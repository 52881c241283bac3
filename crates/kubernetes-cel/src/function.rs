//! The functions of a library: overloads for the checker, and implementations for the evaluator.

use super::value::{Error, Value};

/// A function. Several libraries may have functions of one name, with different overloads.
#[derive(Debug)]
pub struct Function {
    /// The name in the syntax tree: `size`, `_+_`, `indexOf`.
    pub name: &'static str,
    /// The overloads.
    pub overloads: &'static [Overload],
    /// The implementation of all overloads.
    pub call: Call,
    /// The cost of a call, if it is not 1.
    pub cost: Option<Cost>,
}

/// An overload of a function: the types of its arguments and of its result.
#[derive(Debug)]
pub struct Overload {
    /// The id in cel-go: `add_int64`.
    pub id: &'static str,
    /// `string.indexOf(string, int): int` for a method, `size(list(A)): int` for a function, `_+_(int, int): int` for an operator. A single
    /// capital letter is a type parameter; `optional_type(T)`, `type(T)`, `map(K, V)`; other names are types of libraries:
    /// `kubernetes.Quantity`.
    pub signature: &'static str,
}

/// An implementation. A method's target is the first argument. Returns [`Error::NoSuchOverload`] for values that no overload takes.
pub(crate) type Call = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, Error>;

/// The cost of a call with these arguments and this result, as in `CallCost` of Kubernetes or cel-go. `overload` is the one that the
/// checker found; empty if several were possible.
pub(crate) type Cost = fn(overload: &str, arguments: &[Value<'_>], result: &Value<'_>) -> u64;
