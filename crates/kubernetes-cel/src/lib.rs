#![doc = include_str!("../README.md")]

pub mod ast;
pub mod check;
pub mod environment;
pub mod estimate;
pub mod eval;
pub mod function;
pub mod library;
pub mod messages;
pub mod parse;
pub mod plan;
pub mod re2;
pub mod rules;
pub mod schema;
pub mod source;
pub mod typecheck;
pub mod types;
pub mod value;
pub mod well_known;
pub mod work;

#[cfg(test)]
mod conformance;

pub use environment::Environment;
pub use eval::{Limits, Outcome};
pub use plan::Program;
pub use types::Type;
pub use value::{Error, Value};
