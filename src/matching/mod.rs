//! The match of requests with webhooks, policies and bindings: rules, selectors, equivalent resources, and the objects of a request in the
//! version that a hook or a policy names.

pub mod rules;
mod criteria;
mod index;
mod matcher;
mod versions;

pub use criteria::Criteria;
pub use index::{Candidates, Index};
pub use matcher::{Content, InvocationKind, Matcher, is_exempt};
pub use versions::{Versions, View};
