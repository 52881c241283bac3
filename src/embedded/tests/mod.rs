//! Tests of the embedded API server over its in-memory transport.

mod client;
mod objects;
mod owners;
mod lists;
mod watches;
mod deletion;
mod controllers;
mod options;
mod tokens;
mod subresources;
mod forms;
mod every_change;
mod lock;
mod capacity;
mod expiry;
mod disk;
mod kept;
mod initializers;
mod rbac;
mod removed;
mod definitions;
mod registrations;
