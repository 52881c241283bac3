//! The match of requests with webhooks, policies and bindings: rules, selectors, equivalent resources, and the objects of a request in the
//! version that a hook or a policy names.

pub(crate) mod rules;
mod criteria;
mod index;
mod matcher;
mod versions;

pub(crate) use criteria::Criteria;
pub(crate) use index::{Candidates, Index};
pub(crate) use matcher::{Content, EXCLUDING_GATE, InvocationKind, Matcher, is_exempt, is_review};
pub(crate) use versions::{Versions, View};
