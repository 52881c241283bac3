//! The type checker: what each node's type is and which overloads a call may come to.

use super::ast::{Ast, Id};
use super::environment::{CompileError, Environment};
use super::types::Type;
use std::collections::HashMap;

/// What the checker found.
#[derive(Debug)]
pub struct Checked {
    /// The tree.
    pub ast: Ast,
    /// The type of each node.
    pub types: HashMap<Id, Type>,
    /// What names and calls refer to.
    pub references: HashMap<Id, Reference>,
}

/// What a node refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// A variable's slot.
    Variable(usize),
    /// A type by its name (`int`, `google.protobuf.Duration`).
    Type(Type),
    /// Ids of the overloads that may be meant.
    Overloads(Vec<&'static str>),
}

/// Checks a tree.
///
/// # Errors
/// When a name, an overload or a type does not fit, or an AST validator of Kubernetes finds something.
pub fn check(_ast: Ast, _environment: &Environment) -> Result<Checked, CompileError> {
    unimplemented!()
}
