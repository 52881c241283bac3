//! The owners of an object's fields in `metadata.managedFields`.

use super::answer_object::{self, MANAGED_FIELDS};
use super::gateway::Answer;
use crate::object::Object;
use crate::object::managed_fields::owned_as;
use serde_json::Value;

/// The owners of an object's fields, without the changes that admission made.
#[derive(Clone)]
pub(super) struct Owners {
    entries: Value,
    /// The only version whose entries are known; `None` if all entries are known.
    version: Option<String>,
}

impl Owners {
    /// Returns the owners of the outcome of an apply; `None` if the API server records no owners.
    pub(super) fn of_applied(outcome: &Object) -> Option<Self> {
        let is_recorded = !outcome.items(&MANAGED_FIELDS).is_empty();
        let entries = outcome.get(&MANAGED_FIELDS).filter(|_| is_recorded).cloned()?;
        Some(Self { entries, version: None })
    }

    /// Returns the owners that a plugin has set.
    pub(super) fn of_plugin(entries: Value) -> Self {
        Self { entries, version: None }
    }

    /// Returns owners of which only the entries of a version are known.
    pub(super) fn of_version(entries: Value, version: String) -> Self {
        Self { entries, version: Some(version) }
    }

    /// Returns the entries that are to replace the recorded ones; `None` if nothing differs.
    pub(super) fn instead_of(&self, recorded: &Object) -> Option<Value> {
        if recorded.items(&MANAGED_FIELDS).is_empty() {
            return None;
        }
        match &self.version {
            None => Some(self.entries.clone()),
            Some(version) => owned_as(recorded.get(&MANAGED_FIELDS)?, &self.entries, version),
        }
    }

    /// Sets the owners in an object that is only shown.
    pub(super) fn show(&self, object: &mut Object) {
        match self.instead_of(object) {
            Some(owners) if owners.as_array().is_some_and(Vec::is_empty) => drop(object.remove(&MANAGED_FIELDS)),
            Some(owners) => drop::<bool>(object.set(&MANAGED_FIELDS, owners)),
            None => {}
        }
    }

    /// Returns the answer to a dry run with these owners. An answer without an object stays unchanged.
    pub(super) fn shown_in(&self, answer: Answer) -> Answer {
        let with_owners = || {
            let object = answer_object::metadata(&answer).filter(|_| answer.status.is_success())?;
            answer_object::with_owners(&answer, object.resource_version(), &self.instead_of(&object)?)
        };
        with_owners().unwrap_or(answer)
    }
}
