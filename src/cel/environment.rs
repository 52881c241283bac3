//! What an expression may use: variables, functions, types.

use super::ast::Ast;
use super::function::Function;
use super::plan::Program;
use super::types::Type;
use std::fmt;
use std::sync::Arc;

/// Declares the variables, functions and message types of expressions.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: Vec<(Arc<str>, Type)>,
    libraries: Vec<&'static [Function]>,
    messages: Arc<dyn Messages>,
}

/// The message types of an environment.
pub trait Messages: fmt::Debug + Send + Sync {
    /// Whether there is a message of this name.
    fn has(&self, name: &str) -> bool;
    /// The type of a message's field; `None` if there is none.
    fn field(&self, name: &str, field: &str) -> Option<Type>;
}

/// Why a source is no program, in cel-go's words: all lines, with the places.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

impl Environment {
    /// Kubernetes 1.36's libraries, no variables, these messages.
    pub fn new(messages: Arc<dyn Messages>) -> Self {
        Self { variables: Vec::new(), libraries: super::library::ALL.to_vec(), messages }
    }

    /// With one more variable. Its slot is the number of those before it.
    pub fn variable(mut self, name: &str, r#type: Type) -> Self {
        self.variables.push((name.into(), r#type));
        self
    }

    /// With one more library.
    pub fn library(mut self, functions: &'static [Function]) -> Self {
        self.libraries.push(functions);
        self
    }

    /// Parses, checks and plans.
    ///
    /// # Errors
    /// When the source is no expression or has a type error.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        let _ast: Ast = super::parse::parse(source)?;
        unimplemented!("check and plan")
    }
}
