//! The resolved tree: variables by slot, calls by function. Follows cel-go's planner with `OptOptimize`: constants are folded, selects are
//! chains of qualifiers on a variable, and each node has the number under which its cost is counted.

mod nodes;
mod optimize;
mod planner;

pub(super) use nodes::{Call, Dispatch, Fold, Node, Path, Qualifier, QualifierKind, Source};
pub(super) use optimize::tenth as traversal;

use super::check::Checked;
use super::environment::Environment;
use super::types::Type;
use super::value::Error;

/// A compiled expression. Immutable; any number of evaluations can share a program.
#[derive(Debug)]
pub struct Program {
    /// The type of the result.
    pub output: Type,
    pub(super) root: Node,
    /// The number of comprehension variables.
    pub(super) locals: usize,
    /// The number of numbered nodes.
    pub(super) nodes: usize,
    pub(super) depth: usize,
}

impl Program {
    /// The number of levels of nested expressions.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Resolves a tree that this environment checked.
    ///
    /// # Errors
    /// If a constant part of the expression fails (`NewProgram` of cel-go).
    pub fn new(checked: &Checked, environment: &Environment) -> Result<Self, Error> {
        planner::plan(checked, environment)
    }
}
