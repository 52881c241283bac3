//! The parts of a request: its info from method and URL, and its body.

pub mod info;
pub mod query;
pub mod body;
pub mod accept;
pub mod timeout;

pub use info::{RequestInfo, is_canonical, request_info};
