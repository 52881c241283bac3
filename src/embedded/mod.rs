//! To be written.

pub mod catalog;
pub mod document;
pub mod discovery;
pub mod openapi;
pub mod table;
