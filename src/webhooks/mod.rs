//! Admission webhooks: which hooks a request concerns, how they are called, and what becomes of their answers.
//!
//! The two plugins in `plugins/` are thin: they hand a request to [`Mutating`] or [`Validating`]. Configurations are compiled
//! once per change (`hook.rs`), so that a request pays only for the hooks that name its resource. A hook that names only an
//! equivalent of it is shown the objects in that version, and its patch is taken back from there: `conversion/`.

pub mod config;
pub(crate) mod rules;
pub(crate) mod index;
mod hook;
pub(crate) mod derived;
pub(crate) mod criteria;
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
    pub use super::client::{
        Answer, CallFailure, Client, Clients, Endpoint, GenericWebhook, Kubeconfig, is_forbidden, response,
    };
}

pub use mutating::Mutating;
pub use validating::Validating;
