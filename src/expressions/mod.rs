//! Expressions of policies and of webhooks' `matchConditions`: compiled, and evaluated with the values of a request.

pub mod expression;
pub mod variables;
pub mod request;
pub mod reviews;
mod conditions;

pub use conditions::{Conditions, Inputs, Verdict};
pub use expression::{Compiler, Declarations};
