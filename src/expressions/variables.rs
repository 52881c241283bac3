//! `variables`: evaluated when an expression reads them, once for each series of evaluations (`cel.compositionContext`).

use super::expression::{Expression, Failure, Slots, text};
use crate::cel::value::{LazyValue, Map};
use crate::cel::{Error, EvaluationLimits, Value};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A variable of a policy.
#[derive(Debug)]
pub(crate) struct Variable {
    /// The name below `variables`.
    pub(crate) name: Arc<str>,
    /// The expression of the value.
    pub(crate) expression: Expression,
}

/// The variables of one series of evaluations. Their values may refer to each other, so they live as long as the slots from which they
/// are made.
pub(crate) struct Variables<'a> {
    list: &'a [Variable],
    limits: EvaluationLimits,
    found: Box<[OnceLock<Result<Value<'a>, Error>>]>,
    slots: Slots<'a>,
    own: OnceLock<Slots<'a>>,
    names: OnceLock<Names<'a>>,
    /// The variables under evaluation: a variable must not use itself.
    busy: Box<[AtomicBool]>,
    /// The cost since the last [`Self::take_cost`].
    cost: AtomicU64,
}

/// The map that expressions read as `variables`.
struct Names<'a>(&'a Variables<'a>);

impl<'a> Variables<'a> {
    /// Creates unevaluated variables, for expressions with these values.
    pub(crate) fn new(list: &'a [Variable], slots: Slots<'a>, limits: EvaluationLimits) -> Self {
        let found = list.iter().map(|_| OnceLock::new()).collect();
        let busy = list.iter().map(|_| AtomicBool::new(false)).collect();
        let (own, names) = (OnceLock::new(), OnceLock::new());
        Self { list, limits, found, slots, own, names, busy, cost: AtomicU64::new(0) }
    }

    /// Returns the values that expressions read, `variables` among them.
    pub(crate) fn slots(&'a self) -> &'a Slots<'a> {
        let names = self.names.get_or_init(|| Names(self));
        self.own.get_or_init(|| Slots { variables: Some(Map::Lazy(names)), ..self.slots.clone() })
    }

    /// Returns the cost of the variables that were evaluated since the last call.
    pub(crate) fn take_cost(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }

    fn find(&'a self, name: &str) -> Option<Result<Value<'a>, Error>> {
        // Of several variables with one name, the last counts.
        let at = self.list.iter().rposition(|variable| *variable.name == *name)?;
        let (variable, found) = (self.list.get(at)?, self.found.get(at)?);
        if let Some(found) = found.get() {
            return Some(found.clone());
        }
        let busy = self.busy.get(at)?;
        if busy.swap(true, Ordering::Relaxed) {
            return Some(Err(Error::new(format!("composited variable \"{name}\" is made of itself"))));
        }
        let (value, cost) = variable.expression.run(self.slots(), &self.limits);
        busy.store(false, Ordering::Relaxed);
        self.cost.fetch_add(cost, Ordering::Relaxed);
        let value = value.map_err(|failure| match failure {
            Failure::Evaluation(stop @ (Error::Review(_) | Error::Interrupted)) => stop,
            Failure::Compilation(why) => Error::new(format!("composited variable \"{name}\" fails to compile: {why}")),
            failure => Error::new(format!("composited variable \"{name}\" fails to evaluate: {}", text(&failure))),
        });
        Some(found.get_or_init(|| value).clone())
    }
}

impl LazyValue for Names<'_> {
    fn get<'s>(&'s self, name: &str) -> Option<Result<Value<'s>, Error>> {
        self.0.find(name)
    }
}

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|variable| &variable.name)).finish()
    }
}
