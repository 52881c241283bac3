//! What a library brings: functions, with the overloads that the checker knows and what is called at run time.

use super::value::{Error, Value};

/// A function. Several libraries may have one of the same name, with overloads of their own.
#[derive(Debug)]
pub struct Function {
    /// As the syntax tree has it: `size`, `_+_`, `indexOf`.
    pub name: &'static str,
    /// Its overloads.
    pub overloads: &'static [Overload],
    /// What is called, whichever overload it is.
    pub call: Call,
    /// Its cost at run time where that is not 1.
    pub cost: Option<Cost>,
}

/// One way to call a function.
#[derive(Debug)]
pub struct Overload {
    /// cel-go's name for it: `add_int64`.
    pub id: &'static str,
    /// `string.indexOf(string, int): int` for a method, `size(list(A)): int` for a function, `_+_(int, int): int` for an
    /// operator. One capital letter is a type parameter; `optional_type(T)`, `type(T)`, `map(K, V)`; what is not of the
    /// language is a library's: `kubernetes.Quantity`.
    pub signature: &'static str,
}

/// Receives the target of a method as the first argument. Answers [`Error::NoSuchOverload`] for values that no overload takes.
pub type Call = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, Error>;

/// The cost of a call with these arguments and this result, as `CallCost` of Kubernetes or of cel-go has it. The overload is
/// the one that the checker found; empty where it left several.
pub type Cost = fn(overload: &str, arguments: &[Value<'_>], result: &Value<'_>) -> u64;
