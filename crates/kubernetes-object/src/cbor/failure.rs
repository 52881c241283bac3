//! Errors in CBOR, with the texts of Go's decoder.

use super::type_name;
use crate::go_text::go_quote;
use ciborium_ll::Header;
use std::fmt;

/// The reason why an item cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// `UnmarshalTypeError`
    Type { found: &'static str, expected: String, why: String, field: String },
    /// `UnknownFieldError`: the position in its map of a key that is no field.
    Unknown(usize),
    /// Any other failure.
    Other(String),
}

impl Failure {
    pub(crate) fn of_type(found: Header, expected: &str) -> Self {
        Self::of_type_why(found, expected, String::new())
    }

    pub(crate) fn of_type_why(found: Header, expected: &str, why: String) -> Self {
        Self::Type { found: type_name(found), expected: expected.to_owned(), why, field: String::new() }
    }

    /// `DupMapKeyError`
    pub(crate) fn duplicate(key: &str, index: usize) -> Self {
        Self::duplicate_item(&go_quote(key), index)
    }

    /// `DupMapKeyError` of a key in Go's text form.
    pub(crate) fn duplicate_item(key: &str, index: usize) -> Self {
        Self::Other(format!("cbor: found duplicate map key {key} at map element index {index}"))
    }

    /// `UnacceptableDataItemError`
    pub(super) fn unacceptable(found: &str, why: &str) -> Self {
        Self::Other(format!("cbor: data item of cbor type {found} is not accepted by protocol: {why}"))
    }

    /// Adds the struct's field to the failure. The text names the outermost field.
    pub(crate) fn in_field(self, owner: &str, name: &str) -> Self {
        match self {
            Self::Type { found, expected, why, .. } => {
                Self::Type { found, expected, why, field: format!("{owner}.{name}") }
            }
            other => other,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { found, expected, why, field } => {
                write!(text, "cbor: cannot unmarshal {found} into Go ")?;
                match field.as_str() {
                    "" => write!(text, "value")?,
                    field => write!(text, "struct field {field}")?,
                }
                write!(text, " of type {expected}")?;
                if why.is_empty() { Ok(()) } else { write!(text, " ({why})") }
            }
            Self::Unknown(index) => write!(text, "cbor: found unknown field at map element index {index}"),
            Self::Other(why) => text.write_str(why),
        }
    }
}

/// The first of several failures; decoding continues after a failure.
#[derive(Default)]
pub(crate) struct First(Option<Failure>);

impl First {
    pub(crate) fn note<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(failure) => {
                self.0.get_or_insert(failure);
                None
            }
        }
    }

    pub(crate) fn or<T>(self, value: T) -> Result<T, Failure> {
        self.0.map_or(Ok(value), Err)
    }
}
