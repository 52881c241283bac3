//! The versions of a kind: an entry of `metadata.managedFields` names the fields of the version in which its manager wrote.

use super::Change;
use crate::merge::Node;
use serde_json::Value;
use std::fmt::Display;
use thiserror::Error;

/// Conversion of objects between the versions of one kind (`merge.Converter`).
pub trait VersionConverter {
    /// Converts an object from one version to another, which may be the same.
    fn convert(&self, object: &Value, from: &str, to: &str) -> InVersion<'_>;
}

/// An object in another version.
#[derive(Debug)]
pub enum InVersion<'s> {
    /// The object, and the schema of its fields.
    Known(Value, Node<'s>),
    /// The API server has no such version: entries of this version are removed (`IsMissingVersionError`).
    Missing,
    /// The object does not fit the schema of this version, for this reason.
    Unfit(Unfit),
    /// The object in this version is unknown here: entries of this version stay unchanged.
    Unknown,
}

/// An object that does not fit the schema of a version, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unfit(String);

impl Unfit {
    /// Constructs the error.
    pub fn new(why: impl Display) -> Self {
        Self(why.to_string())
    }

    /// Adds what failed to the reason.
    pub(super) fn during(&self, what: impl Display) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

/// The version of the write alone: all other versions are unknown.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion;

impl VersionConverter for OneVersion {
    fn convert(&self, _object: &Value, _from: &str, _to: &str) -> InVersion<'_> {
        InVersion::Unknown
    }
}

impl Change<'_> {
    /// Converts an object to a version, which may be that of the write.
    pub(super) fn convert<'v>(
        &'v self,
        versions: &'v dyn VersionConverter,
        value: &Value,
        from: &str,
        to: &str,
    ) -> InVersion<'v> {
        let is_own = self.kind.api_version() == to;
        if is_own && from == to {
            return InVersion::Known(value.clone(), self.schema);
        }
        match versions.convert(value, from, to) {
            InVersion::Known(value, _) if is_own => InVersion::Known(value, self.schema),
            other => other,
        }
    }
}
