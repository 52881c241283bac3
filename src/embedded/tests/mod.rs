//! Tests of the embedded API server over its in-memory transport.

mod client;
mod objects;
mod owners;
mod lists;
mod watches;
mod deletion;
mod subresources;
mod forms;
mod every_change;
mod socket;
mod initializers;
mod rbac;
mod removed;
mod definitions;
