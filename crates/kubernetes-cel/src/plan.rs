//! The resolved tree: variables by slot, calls by function. What cel-go's planner makes with `OptOptimize`: constants are folded,
//! selects are chains of qualifiers on a variable, and each node has the number under which its cost is reckoned.

mod nodes;
mod optimize;
mod planner;

pub(super) use nodes::{Call, Dispatch, Fold, Node, Path, Qualifier, QualifierKind, Search, Source};
pub(super) use optimize::tenth as traversal;

use super::check::Checked;
use super::function::Function;
use super::types::Type;
use super::value::Error;
use std::sync::Arc;

/// A compiled expression. Immutable; serves any number of evaluations at once.
#[derive(Debug)]
pub struct Program {
    /// Type of what it comes to.
    pub output: Type,
    pub(super) root: Node,
    /// How many comprehension variables there are.
    pub(super) locals: usize,
    /// How many numbered nodes there are.
    pub(super) nodes: usize,
    pub(super) depth: usize,
}

impl Program {
    /// How deep its expressions are in one another.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Resolves a checked tree.
    ///
    /// # Errors
    /// When a constant part of the expression fails: `NewProgram` of cel-go.
    pub fn new(
        checked: &Checked,
        variables: &[(Arc<str>, Type)],
        libraries: &[&'static [Function]],
    ) -> Result<Self, Error> {
        planner::plan(checked, variables, libraries)
    }
}
