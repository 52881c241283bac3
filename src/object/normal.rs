//! An object as kube-apiserver's decoders leave it.

use super::Object;

/// A decoded object: pruned, with defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normal {
    /// The object.
    pub object: Object,
    /// What strict decoding says of fields that the kind does not have: `unknown field "spec.foo"`.
    pub unknown: Vec<String>,
}
