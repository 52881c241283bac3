//! Admission webhooks: which hooks a request concerns, how they are called, and what becomes of their answers.
//!
//! The two plugins in `plugins/` are thin: they hand a request to [`Mutating`] or [`Validating`]. Configurations are compiled
//! once per change (`hook.rs`), so that a request pays only for the hooks that name its resource. Conversion between versions of
//! a resource is not done here: a hook that would match only through an equivalent version refuses the request (`rules.rs`).

pub mod config;
pub(crate) mod rules;
pub(crate) mod index;
mod hook;
pub(crate) mod derived;
pub(crate) mod matching;
mod review;
mod client;
mod answer;
mod call;
pub(crate) mod patch;
mod mutating;
mod validating;
#[cfg(test)]
pub(crate) mod tests;

/// What a plugin needs to ask a backend of its own.
pub mod backend {
    pub use super::client::{CallFailure, GenericWebhook, is_forbidden};
}

pub use mutating::Mutating;
pub use validating::Validating;
