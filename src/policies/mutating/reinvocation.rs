//! The state that the first pass of the mutating phase leaves for the second (`policyReinvokeContext`).

use crate::cluster::Parameter;
use crate::object::Object;
use std::collections::HashSet;

/// A policy, a binding and a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(String, String, Option<(String, String)>);

impl Key {
    /// Creates the key of one call.
    pub(super) fn new(policy: &str, binding: &str, parameter: Option<&Parameter>) -> Self {
        let parameter = parameter.map(|parameter| {
            let (namespace, name) = parameter.identity();
            (namespace.to_owned(), name.to_owned())
        });
        Self(policy.to_owned(), binding.to_owned(), parameter)
    }
}

/// The calls of the first pass, and those that the second must repeat.
#[derive(Debug, Default)]
pub(super) struct PolicyReinvocation {
    /// Reinvocable policies that were called since the object last changed.
    asked: HashSet<Key>,
    /// Policies to call in the second pass.
    again: HashSet<Key>,
    /// The object after the first pass; kept only if `asked` is not empty.
    last: Option<Object>,
}

impl PolicyReinvocation {
    /// Records a call of a reinvocable policy.
    pub(super) fn add(&mut self, key: Key) {
        self.asked.insert(key);
    }

    /// Records a change of the object: the policies called before it are called again.
    pub(super) fn require(&mut self) {
        self.again.extend(self.asked.drain());
    }

    /// Whether a policy is to be called in the second pass.
    pub(super) fn is_required(&self, key: &Key) -> bool {
        self.again.contains(key)
    }

    /// Keeps the object at the end of a pass.
    pub(super) fn remember(&mut self, object: Option<&Object>) {
        self.last = if self.asked.is_empty() { None } else { object.cloned() };
    }

    /// Whether the object changed since the end of the last pass.
    pub(super) fn is_changed(&self, object: Option<&Object>) -> bool {
        !self.asked.is_empty() && self.last.as_ref() != object
    }
}
