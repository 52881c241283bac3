//! The variables, functions and types that an expression may use.

pub use super::message_types::{Messages, Table};
pub use super::source::CompileError;

use super::declarations::{self, Declaration, Functions};
use super::function::Function;
use super::library;
use super::release::Release;
use super::types::Type;
use super::well_known;
use std::sync::Arc;

/// The first words of an error in a constant part of an expression, for which the API has a separate kind of error.
pub const NOT_INSTANTIATED: &str = "program instantiation failed";

/// Declares the variables, functions and message types of expressions.
#[derive(Clone, Debug)]
pub struct Environment {
    release: Release,
    variables: Vec<(Arc<str>, Type)>,
    libraries: Vec<&'static [Function]>,
    functions: Arc<Functions>,
    messages: Arc<dyn Messages>,
}

/// The referent of a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Name {
    /// A variable: its slot and type.
    Variable(usize, Type),
    /// A type.
    Type(Type),
    /// A number of an enumeration.
    Constant(i64),
}

impl Environment {
    /// An environment with Kubernetes 1.36's libraries and these messages, without variables.
    pub fn new(messages: Arc<dyn Messages>) -> Self {
        Self::of(Release::default(), messages)
    }

    /// An environment with a release's libraries and rules, and these messages, without variables.
    pub fn of(release: Release, messages: Arc<dyn Messages>) -> Self {
        let (functions, libraries) = (declarations::of(release), library::of(release).to_vec());
        Self { release, variables: Vec::new(), libraries, functions, messages }
    }

    /// The release whose rules the environment follows.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Adds a variable. Its slot is the number of variables before it.
    pub fn variable(mut self, name: &str, r#type: Type) -> Self {
        self.variables.push((name.into(), r#type));
        self
    }

    /// Adds a library.
    pub fn library(mut self, functions: &'static [Function]) -> Self {
        self.libraries.push(functions);
        declarations::declare(Arc::make_mut(&mut self.functions), functions);
        self
    }

    /// Replaces the messages.
    pub fn with_messages(mut self, messages: Arc<dyn Messages>) -> Self {
        self.messages = messages;
        self
    }

    /// The libraries, in the order of their addition.
    pub fn libraries(&self) -> &[&'static [Function]] {
        &self.libraries
    }

    /// The variables with their types, in the order of their slots.
    pub(crate) fn variables(&self) -> &[(Arc<str>, Type)] {
        &self.variables
    }

    /// Whether a message has this name.
    pub fn has_message(&self, name: &str) -> bool {
        self.messages.has(name) || well_known::of_name(name).is_some()
    }

    /// The type of a message's field; `None` if the message has no such field.
    pub fn field(&self, message: &str, field: &str) -> Option<Type> {
        self.messages.field(message, field).or_else(|| well_known::field(message, field))
    }

    /// The overloads of a function.
    pub fn function(&self, name: &str) -> Option<&[Declaration]> {
        self.functions.get(name).map(Vec::as_slice)
    }

    /// The referent of a full name: a variable, else a type, else a number of an enumeration.
    pub fn name(&self, name: &str) -> Option<Name> {
        let mut variables = (0..).zip(&self.variables);
        if let Some((slot, (_, of))) = variables.find(|(_, (declared, _))| **declared == *name) {
            return Some(Name::Variable(slot, of.clone()));
        }
        self.type_or_constant(name)
    }

    /// The referent of a full name that is no variable.
    pub fn type_or_constant(&self, name: &str) -> Option<Name> {
        let found = match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "string" => Type::String,
            "null_type" => Type::Null,
            "list" if self.release.since(37) => Type::list(Type::Dyn),
            "map" if self.release.since(37) => Type::map(Type::Dyn, Type::Dyn),
            "optional_type" if self.release.since(37) => Type::optional(Type::Dyn),
            "list" => Type::list(Type::Parameter("A".into())),
            "map" => Type::map(Type::Parameter("A".into()), Type::Parameter("B".into())),
            "type" => Type::of_types(),
            "net.IP" | "net.CIDR" | "optional_type" => Type::opaque(name),
            "google.protobuf.NullValue.NULL_VALUE" => return Some(Name::Constant(0)),
            _ if self.messages.has(name) => Type::object(name),
            _ => well_known::of_name(name)?,
        };
        Some(Name::Type(found))
    }
}
