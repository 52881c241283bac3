//! Message types with their fields.

use super::escape::is_reserved;
use super::types::Type;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The message types of an environment.
pub trait Messages: fmt::Debug + Send + Sync {
    /// Whether a message has this name.
    fn has(&self, name: &str) -> bool;
    /// The type of a message's field; `None` if the message has no such field.
    fn field(&self, name: &str, field: &str) -> Option<Type>;
}

/// Message types with their fields. Empty by default.
#[derive(Clone, Debug, Default)]
pub struct Table(HashMap<Arc<str>, BTreeMap<Arc<str>, Type>>);

impl Table {
    /// Adds a type with its fields.
    pub fn with(mut self, name: &str, fields: impl IntoIterator<Item = (&'static str, Type)>) -> Self {
        self.0.insert(name.into(), fields.into_iter().map(|(field, of)| (field.into(), of)).collect());
        self
    }

    /// Adds a type without fields, unless a type of this name exists.
    pub fn add_type(&mut self, name: &str) {
        self.0.entry(name.into()).or_default();
    }

    /// Adds a field to a type, and creates the type if it does not exist.
    pub fn add(&mut self, name: &str, field: &str, of: Type) {
        self.0.entry(name.into()).or_default().insert(field.into(), of);
    }
}

impl Messages for Table {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A reserved word may stand for its escaped name (`recognizeKeywordAsFieldName`).
    fn field(&self, name: &str, field: &str) -> Option<Type> {
        let fields = self.0.get(name)?;
        let escaped = || is_reserved(field).then(|| fields.get(&*format!("__{field}__"))).flatten();
        fields.get(field).or_else(escaped).cloned()
    }
}
