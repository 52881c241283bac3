//! Impersonation: a user who may asks as somebody else (`impersonation.WithConstrainedImpersonation`, on in 1.36).

mod headers;
mod modes;
mod names;

pub(crate) use names::is_subdomain;

use super::UserInfo;
use super::answers::{Key, Secret};
use crate::authz::{Attributes, Authorizer};
use crate::request::RequestInfo;
use crate::status::Status;
use crate::upstream::ClientCredentials;
use http::HeaderMap;
use modes::{Checks, MODES};
use std::sync::Arc;

/// Checks that one request may cause unless configured otherwise.
pub const DEFAULT_MAX_CHECKS: usize = 256;
/// Requestors of whom it is remembered how they may impersonate (`newModeIndexCache`).
const REMEMBERED_REQUESTORS: u64 = 10_000;

/// Decides on impersonation.
pub struct Impersonation {
    max_checks: usize,
    /// Which mode last let a requestor impersonate: it is tried first, and its refusal is the one that is told.
    last_modes: moka::sync::Cache<Key, usize>,
    secret: Secret,
}

/// An impersonation that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonated {
    /// Whom the request counts as from. The requestor stays with whoever asked.
    pub user: Arc<UserInfo>,
    /// The verb that allowed it, for the audit event; empty for the old `impersonate`.
    pub constraint: String,
    /// What passes upstream from now on; only with passthrough.
    pub credentials: Option<ClientCredentials>,
}

impl Default for Impersonation {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_CHECKS)
    }
}

impl Impersonation {
    /// A decider that lets one request cause so many checks.
    pub fn new(max_checks: usize) -> Self {
        Self { max_checks, last_modes: moka::sync::Cache::new(REMEMBERED_REQUESTORS), secret: Secret::new() }
    }

    /// Whom the request wants to be from, if it says so and may. All `Impersonate-*` headers are gone afterwards.
    ///
    /// # Errors
    /// 400 for headers that make no sense, 403 when the requestor may not.
    pub async fn apply(
        &self,
        headers: &mut HeaderMap,
        requestor: &UserInfo,
        info: &RequestInfo,
        authorizer: &Authorizer,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Option<Impersonated>, Status> {
        let taken = headers::take(headers);
        let Some(wanted) = headers::wanted_user(&taken).map_err(Status::bad_request)? else {
            return Ok(None);
        };
        let attributes = Attributes::from(info);
        let mut checks = Checks::new(authorizer, requestor, credentials, self.max_checks);
        let (user, constraint) = Box::pin(self.first_that_allows(&mut checks, &wanted, &attributes)).await?;
        tracing::debug!(requestor = requestor.username, user = user.username, "impersonation");
        let impersonation = headers::meaningful(taken);
        let credentials = credentials.map(|own| ClientCredentials { impersonation, ..own.clone() });
        Ok(Some(Impersonated { user: Arc::new(user), constraint, credentials }))
    }

    /// `impersonationModesTracker.getImpersonatedUser`.
    async fn first_that_allows(
        &self,
        checks: &mut Checks<'_>,
        wanted: &UserInfo,
        attributes: &Attributes,
    ) -> Result<(UserInfo, String), Status> {
        let key = self.secret.hash(&[checks.requestor().username.as_bytes()]);
        let last = self.last_modes.get(&key);
        let others = (0..MODES.len()).filter(|index| Some(*index) != last);
        let mut first_refusal = None;
        for index in last.into_iter().chain(others) {
            let Some(mode) = MODES.get(index) else { continue };
            match Box::pin(mode.check(checks, wanted, attributes)).await {
                Ok(Some(user)) => {
                    self.last_modes.insert(key, index);
                    return Ok((user, mode.constraint()));
                }
                Ok(None) => {}
                Err(refusal) => {
                    first_refusal.get_or_insert(refusal);
                }
            }
        }
        Err(first_refusal.unwrap_or_else(|| Status::plain("all impersonation modes failed")))
    }
}

#[cfg(test)]
mod tests;
