//! The resolved tree: variables by slot, calls by function.

use super::types::Type;

/// A compiled expression. Immutable; serves any number of evaluations at once.
#[derive(Debug)]
pub struct Program {
    /// Type of what it comes to.
    pub output: Type,
}
