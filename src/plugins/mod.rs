//! To be written.

pub mod mutating_admission_webhook;
pub mod validating_admission_webhook;
