#![doc = include_str!("../README.md")]
#![deny(clippy::missing_errors_doc)]

mod ast;
mod check;
pub mod environment;
pub mod estimate;
mod eval;
mod function;
pub mod library;
pub mod messages;
mod parse;
mod plan;
pub mod re2;
pub mod rules;
pub mod schema;
mod source;
pub mod typecheck;
mod types;
pub mod value;
mod well_known;
pub mod work;

#[cfg(test)]
mod conformance;

pub use environment::Environment;
pub use eval::{Limits, Outcome};
pub use plan::Program;
pub use types::Type;
pub use value::{Error, Value};
