//! What the two passes of the mutating phase tell each other (`policyReinvokeContext`).

use crate::cluster::Parameter;
use crate::object::Object;
use std::collections::HashSet;

/// A policy, a binding and a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String, String, Option<(String, String)>);

impl Key {
    /// Of these.
    pub fn new(policy: &str, binding: &str, parameter: Option<&Parameter>) -> Self {
        let parameter = parameter.map(|parameter| {
            let (namespace, name) = parameter.identity();
            (namespace.to_owned(), name.to_owned())
        });
        Self(policy.to_owned(), binding.to_owned(), parameter)
    }
}

/// What was asked and may have to be asked again.
#[derive(Debug, Default)]
pub struct Reinvocation {
    /// Reinvocable policies that were asked since the object last changed.
    asked: HashSet<Key>,
    /// Policies to ask in the second pass.
    again: HashSet<Key>,
    /// The object after the first pass; kept only while a policy waits for it to change.
    last: Option<Object>,
}

impl Reinvocation {
    /// A reinvocable policy was asked.
    pub fn add(&mut self, key: Key) {
        self.asked.insert(key);
    }

    /// The object changed.
    pub fn require(&mut self) {
        self.again.extend(self.asked.drain());
    }

    /// Whether a policy is to be asked in the second pass.
    pub fn is_required(&self, key: &Key) -> bool {
        self.again.contains(key)
    }

    /// The object at the end of a pass.
    pub fn remember(&mut self, object: Option<&Object>) {
        self.last = if self.asked.is_empty() { None } else { object.cloned() };
    }

    /// Whether the object changed since.
    pub fn is_changed(&self, object: Option<&Object>) -> bool {
        !self.asked.is_empty() && self.last.as_ref() != object
    }
}
