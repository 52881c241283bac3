//! To be written.

pub mod catalog;
mod document;
pub mod discovery;
pub mod openapi;
pub mod table;
