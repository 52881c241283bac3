//! A plugin's refusal.

use super::Attributes;
use crate::status::Status;

/// A plugin's refusal. Only the chain turns it into a [`Status`].
#[derive(Debug)]
pub(crate) enum Denial {
    /// `admission.NewForbidden(attributes, error)`: 403 with the request's resource and name around the text.
    Forbidden(String),
    /// The given Status, unchanged.
    Status(Box<Status>),
    /// A Go error that is not a Status: 500 without a reason.
    Plain(String),
}

impl Denial {
    /// A 403 around the text `why`.
    pub(crate) fn forbidden(why: impl std::fmt::Display) -> Self {
        Self::Forbidden(why.to_string())
    }

    /// The Status that the client receives.
    pub(crate) fn into_status(self, attributes: &Attributes) -> Status {
        match self {
            Self::Forbidden(why) => {
                let resource = &attributes.resource;
                Status::forbidden(&resource.group, &resource.resource, attributes.name_for_errors(), &why)
            }
            Self::Status(status) => *status,
            Self::Plain(message) => Status::plain(message),
        }
    }
}

impl From<Status> for Denial {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
