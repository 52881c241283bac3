//! The tenant whose requests a pipeline answers.

use super::confinement::Territory;
use super::is_read;
use crate::sharer::{Sharer, Sharing};
use crate::status::Status;
use crate::tenants::Rate;
use crate::user::UserInfo;
use http::Method;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The properties of a tenant. The default is the only tenant of a process: it has no name, everything is its own, and only the limits of the
/// process bound its users.
#[derive(Default)]
pub struct Tenant {
    pub(crate) sharing: Sharing,
    pub(crate) territory: Territory,
    /// Whether members of `system:masters` need seats.
    pub(crate) counts_all: bool,
    /// The bound of the rate of writes.
    pub(crate) rate: Option<Rate>,
    /// The places of calls of webhooks.
    pub(crate) calls: Option<Arc<Semaphore>>,
    /// The prefix of callers' groups that the tenant's own API server knows, and the members of tenants do not have.
    pub(crate) group_prefix: String,
}

impl Tenant {
    /// The name in the log, in audit events and in metrics, if the tenant is one of several.
    pub(crate) fn name(&self) -> Option<&str> {
        self.sharing.name().map(|name| &**name)
    }

    /// Returns the sharer of a user's requests in quantities of the process.
    pub(super) fn sharer(&self, user: &Arc<UserInfo>) -> Sharer {
        self.sharing.of(user)
    }

    /// Counts a write against the tenant's rate.
    ///
    /// # Errors
    /// 429 if there are too many.
    pub(super) fn count_write(&self, method: &Method) -> Result<(), Status> {
        let rate = self.rate.as_ref().filter(|_| !is_read(method));
        if rate.is_none_or(Rate::take) { Ok(()) } else { Err(Status::try_again_later()) }
    }
}
