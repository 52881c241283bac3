//! The parts of a request: its info from method and URL, and its body.

pub(crate) mod info;
pub(crate) mod query;
pub(crate) mod body;
pub(crate) mod accept;
pub mod timeout;

pub(crate) use info::RequestInfo;
pub use info::{is_canonical, request_info};
