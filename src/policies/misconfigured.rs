//! The faults of policies and bindings that a request meets.

use super::policy::{ParameterKind, UnusableKind};
use crate::cluster::UnreadParameter;
use crate::conversion::ConversionError;
use crate::object::selector::InvalidSelector;
use crate::status::Status;

/// The fault of a policy or a binding, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
pub(super) enum Misconfigured {
    /// The policy has no `matchConstraints`.
    #[error("policy contained no match constraints, a required field")]
    NoMatchConstraints,
    /// The match constraints, or the match resources of a binding, cannot be evaluated.
    #[error("{}", .0.message)]
    Unmatchable(Status),
    /// The kind of the parameters cannot be used.
    #[error(transparent)]
    ParameterKind(#[from] UnusableKind),
    /// The scope of the kind of the parameters is not known.
    #[error("paramKind kind `{0}` not known")]
    UnknownParameters(ParameterKind),
    /// The cache of the parameters has no whole list yet.
    #[error("paramKind kind `{0}` not yet synced to use for admission")]
    UnsyncedParameters(ParameterKind),
    /// The parameters are in the namespace of the request, which has none.
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    NoNamespace,
    /// The binding names a namespace, and the parameters are in none.
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    NamespaceGiven,
    /// The binding selects the parameters in both ways.
    #[error("paramRef.name and paramRef.selector are mutually exclusive")]
    NameAndSelector,
    /// The binding does not select the parameters.
    #[error("one of name or selector must be provided")]
    NeitherNameNorSelector,
    /// The selector of the parameters is invalid.
    #[error(transparent)]
    Selector(InvalidSelector),
    /// The binding requires parameters, and none exist.
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NoParameters,
    /// The parameter could not be read from the API server.
    #[error(transparent)]
    UnreadParameter(UnreadParameter),
    /// The request's objects cannot be converted for a mutating policy.
    #[error(transparent)]
    MutatingVersion(ConversionError),
    /// The request's objects cannot be converted for a validating policy.
    #[error("failed to convert object version: {0}")]
    ValidatingVersion(ConversionError),
}
