#![doc = include_str!("../README.md")]
#![deny(clippy::indexing_slicing)]
#![deny(clippy::missing_errors_doc)]

pub mod kind;
pub mod release;
pub mod names;
pub mod go_text;
pub mod status;
pub mod decode;
pub mod merge;
pub mod managed_fields;
pub mod defaults;
pub mod round_trip;
pub mod convert;
pub mod patch;
pub mod protobuf;
pub mod cbor;
pub mod quantity;
pub mod selector;
pub mod schema;
pub mod kinds;
mod name;
pub mod typed;
pub mod normal;
pub mod object_meta;
pub mod structural;
pub mod custom_resource_definition;
pub mod validation;
pub mod version;
mod memory;
mod unwritten;
mod object;
#[cfg(test)]
mod recorded_tests;

pub use memory::decoded_bytes;
pub use name::{InvalidName, check_path_segment, generate_name};
pub use object::{Object, discard_nulls};
pub use unwritten::{Step, Unwritten};
