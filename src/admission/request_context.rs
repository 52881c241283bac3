//! The caller and the bounds of a request, which its phases and attempts share.

use super::{Budget, CallerAuthorizer, Warnings};
use crate::user::UserInfo;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The caller and the bounds of a request. Clones share the budget, the places of calls and the warnings.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The caller, after impersonation.
    pub user: Arc<UserInfo>,
    /// True if the caller is known to have the permission for the request. If false, the API server behind decides, and plugins
    /// must not have side effects.
    pub(crate) is_authorized: bool,
    /// Answers whether the caller may do something besides this request.
    pub(crate) authorizer: CallerAuthorizer,
    /// The instant at which the whole request times out.
    pub deadline: Instant,
    /// The part of the request's time that the chain may use.
    pub(crate) budget: Budget,
    /// The places of calls of webhooks; `None` without a bound.
    pub calls: Option<Arc<Semaphore>>,
    /// Warnings for the client.
    pub(crate) warnings: Arc<Warnings>,
}

impl RequestContext {
    /// The context of a caller who is allowed the request and nothing besides. `deadline` is its only time limit.
    pub fn new(user: Arc<UserInfo>, deadline: Instant) -> Self {
        Self {
            user,
            is_authorized: true,
            authorizer: CallerAuthorizer::default(),
            deadline,
            budget: Budget::default(),
            calls: None,
            warnings: Arc::default(),
        }
    }

    /// The instant at which the proxy stops waiting for a webhook, whatever the webhook's own timeout.
    pub(crate) fn call_deadline(&self) -> Instant {
        self.budget.end().map_or(self.deadline, |end| end.min(self.deadline))
    }
}
