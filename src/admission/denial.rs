//! A plugin's refusal.

use super::Attributes;
use crate::status::Status;

/// A plugin's refusal. Only the chain turns it into a [`Status`].
#[derive(Debug)]
pub enum Denial {
    /// `admission.NewForbidden(attributes, error)`: 403 with the request's resource and name around this text.
    Forbidden(String),
    /// This very Status.
    Status(Box<Status>),
    /// A Go error that is no Status: 500 without a reason.
    Plain(String),
}

impl Denial {
    /// A 403 around this text.
    pub fn forbidden(why: impl Into<String>) -> Self {
        Self::Forbidden(why.into())
    }

    /// What the client is told.
    pub fn into_status(self, attributes: &Attributes) -> Status {
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
