//! Expressions of policies and of webhooks' `matchConditions`: compiled, and evaluated with the values of a request.

pub(crate) mod expression;
pub(crate) mod variables;
pub(crate) mod request;
pub(crate) mod reviews;
mod conditions;

pub(crate) use conditions::{Conditions, Inputs, Verdict};
pub(crate) use expression::{Compiler, Declarations};
