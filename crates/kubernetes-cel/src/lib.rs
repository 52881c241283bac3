#![doc = include_str!("../README.md")]
#![deny(clippy::indexing_slicing, clippy::missing_errors_doc)]

mod error;
mod release;
pub mod work;
pub mod re2;
mod types;
mod escape;
mod message_types;
pub mod schema;
pub mod value;
mod function;
pub mod library;
mod declarations;
mod well_known;
pub mod messages;
mod source;
pub mod environment;
mod ast;
mod parse;
mod check;
mod plan;
mod eval;
pub mod estimate;
mod compile;
pub mod rules;
pub mod typecheck;

#[cfg(test)]
mod vectors;
#[cfg(test)]
mod conformance;

pub use environment::Environment;
pub use eval::{EvaluationLimits, Outcome};
pub use plan::Program;
pub use release::Release;
pub use types::Type;
pub use value::{Error, Value};
