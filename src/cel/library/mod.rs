//! The functions of Kubernetes' environment, a file a library.

pub mod comprehensions;
pub mod optional;
pub mod standard;

use super::function::Function;

/// Every library that `environment.MustBaseEnvSet` of 1.36 has on.
pub const ALL: &[&[Function]] = &[standard::FUNCTIONS, optional::FUNCTIONS, comprehensions::FUNCTIONS];
