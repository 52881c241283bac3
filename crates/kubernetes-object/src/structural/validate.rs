//! Validates custom resources by their schema as kube-apiserver does: the same errors, and for updates only those of changed parts. The rules
//! of a schema (`x-kubernetes-validations`) are not evaluated here.
//!
//! kube-apiserver lists the errors of an object's fields in random order. Here they are in the order of the fields.

mod node;
mod allowed;
mod number;
mod format;
mod correlate;
mod walk;
mod lists;
mod embedded;
mod scale;
mod resource;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use format::{Url, is_supported_of};
pub use resource::{Facts, validate, validate_status_update, validate_update, without_rules};
pub use scale::Scale;

use crate::Object;
use crate::status::Cause;
use crate::structural::CompileSchemaError;
use correlate::Correlated;
use node::{Compiler, Id, Node, Purpose};
use serde_json::Value;
use std::sync::Arc;
use walk::Walk;

/// Whether a text matches a pattern.
pub type PatternMatcher = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Go's error for a pattern that does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPattern(
    /// The text of the error.
    pub String,
);

/// Compiles a pattern in the syntax of Go's `regexp`, or returns Go's error.
pub type Compile<'a> = dyn Fn(&str) -> Result<PatternMatcher, InvalidPattern> + 'a;

/// A compiled schema.
#[derive(Debug)]
pub struct Validator {
    nodes: Vec<Node>,
    root: Id,
}

impl Validator {
    /// Compiles an `openAPIV3Schema`. A pattern that does not compile matches no text.
    ///
    /// # Errors
    /// If the schema is too large or too deep.
    pub fn compile(schema: &Value, patterns: &Compile<'_>) -> Result<Self, CompileSchemaError> {
        Self::compile_for(Purpose::Resources, schema, patterns)
    }

    /// Compiles a schema to check default values.
    pub(crate) fn compile_for_defaults(schema: &Value, patterns: &Compile<'_>) -> Result<Self, CompileSchemaError> {
        Self::compile_for(Purpose::Defaults, schema, patterns)
    }

    fn compile_for(purpose: Purpose, schema: &Value, patterns: &Compile<'_>) -> Result<Self, CompileSchemaError> {
        let mut compiler = Compiler::new(patterns, purpose);
        let root = compiler.schema(schema, 0)?;
        Ok(Self { nodes: compiler.nodes, root })
    }

    /// The errors of a value at a path (`ValidateCustomResource`).
    pub fn causes(&self, value: &Value, path: &str) -> Vec<Cause> {
        Walk::new(&self.nodes).value(self.root, value, None).into_causes(path)
    }

    /// The errors of the types and the metadata of resources within a value at a path.
    pub(crate) fn embedded_causes_of(&self, value: &Value, is_resource: bool, path: &str) -> Vec<Cause> {
        embedded::check(&self.nodes, self.root, value, is_resource, path)
    }

    fn object_causes(&self, object: &Object) -> Vec<Cause> {
        self.causes(object.as_value(), "")
    }

    fn update_causes(&self, object: &Object, old: &Object) -> Vec<Cause> {
        let (new, old) = (object.as_value(), old.as_value());
        let correlated = Correlated { new, old, id: self.root };
        Walk::new(&self.nodes).value(self.root, new, Some(correlated)).into_causes("")
    }

    fn status_causes(&self, object: &Object, old: &Object) -> Vec<Cause> {
        let root = usize::try_from(self.root).ok().and_then(|id| self.nodes.get(id));
        let Some(id) = root.and_then(|root| root.property("status")) else { return Vec::new() };
        let Some(new) = object.fields().get("status") else { return Vec::new() };
        let correlated = old.fields().get("status").map(|old| Correlated { new, old, id });
        Walk::new(&self.nodes).value(id, new, correlated).into_causes("status")
    }

    fn embedded_causes(&self, object: &Object) -> Vec<Cause> {
        self.embedded_causes_of(object.as_value(), false, "")
    }

    fn list_causes(&self, object: &Object) -> Vec<Cause> {
        lists::check(&self.nodes, self.root, object.fields())
    }
}
