//! Evaluation: by the specification of errors and short circuits, with Kubernetes' cost.

use super::plan::Program;
use super::value::{Error, Value};
use std::time::Instant;

/// What an evaluation may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Cost that must not be passed: `PerCallLimit`, 1,000,000.
    pub cost: u64,
    /// When it ends, looked at every hundred rounds of a comprehension.
    pub deadline: Option<Instant>,
}

/// What an evaluation came to.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The value.
    pub value: Result<Value<'a>, Error>,
    /// What it cost, errors included.
    pub cost: u64,
}

impl Program {
    /// Evaluates with the values of the environment's variables by slot; `None` is a variable that is declared and not bound.
    /// Values borrow from the program and from the variables.
    pub fn evaluate<'a>(&'a self, _variables: &[Option<Value<'a>>], _limits: &Limits) -> Outcome<'a> {
        unimplemented!()
    }
}
