//! The reasons why an expression has no value, and the access checks that it may need first.

use std::borrow::Cow;
use std::fmt;

/// An access check that an expression needs before it can be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// The namespace and name of the service account of the check; `None` for the user of the request.
    pub service_account: Option<(String, String)>,
    /// The access to check.
    pub access: Access,
}

/// The access of an access check: `authorizer.AttributesRecord` without the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// Whether the access is to a resource, rather than to a path.
    pub is_resource_request: bool,
    /// The verb: `get`, `create`, …; for a path an HTTP method in lower case.
    pub verb: String,
    /// The namespace; empty for all namespaces and for resources without one.
    pub namespace: String,
    /// The API group.
    pub api_group: String,
    /// The API version.
    pub api_version: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The name of the object; empty for all objects.
    pub name: String,
    /// The path of an access that is not to a resource.
    pub path: String,
    /// The text of a field selector; a text that cannot be parsed selects all objects.
    pub field_selector: String,
    /// The text of a label selector; a text that cannot be parsed selects all objects.
    pub label_selector: String,
}

/// The answer to an access check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// Whether the access is allowed.
    pub allowed: bool,
    /// The reason, for a person.
    pub reason: String,
}

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// An error with cel-go's text. `||`, `&&`, `all` and `exists` can absorb it.
    Message(Cow<'static, str>),
    /// No overload takes these values. A caller that knows the function's name writes the text.
    NoSuchOverload,
    /// The cost limit is exceeded. Ends the evaluation.
    CostLimit,
    /// The deadline has passed. Ends the evaluation.
    Interrupted,
    /// An access review is needed, after which the expression is evaluated again. Ends the evaluation.
    Review(Box<Review>),
}

impl Error {
    /// `MaybeNoSuchOverloadErr` of cel-go: an operator has an operand of the wrong type.
    pub const OVERLOAD: Self = Self::Message(Cow::Borrowed("no such overload"));

    /// An error with cel-go's text.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Message(message.into())
    }

    /// Whether `||` and similar operators can absorb the error.
    pub fn is_absorbable(&self) -> bool {
        matches!(self, Self::Message(_) | Self::NoSuchOverload)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message(message) => message,
            Self::NoSuchOverload => "no such overload",
            Self::CostLimit => "operation cancelled: actual cost limit exceeded",
            Self::Interrupted => "operation interrupted",
            Self::Review(_) => "an access review is needed",
        })
    }
}

impl std::error::Error for Error {}
