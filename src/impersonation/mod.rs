//! Impersonation: an authorized user acts as another user (`impersonation.WithConstrainedImpersonation`, on in 1.36).

mod headers;
mod metrics;
mod modes;
mod names;

use crate::answers::{Key, Secret};
use crate::authz::{AccessAttributes, Authorizer};
use crate::config::Limits;
use crate::request::RequestInfo;
use crate::status::Status;
use crate::upstream::ClientCredentials;
use crate::user::{ADMITTED_EXTRA, UserInfo};
use http::HeaderMap;
pub(crate) use metrics::Metrics;
use modes::{Checks, MODES, Mode};
use std::sync::Arc;
use std::time::Instant;

/// The number of requestors whose last mode is cached (`newModeIndexCache`).
const REMEMBERED_REQUESTORS: u64 = 10_000;

/// The decider on impersonation.
pub struct Impersonation {
    max_checks: usize,
    /// The modes in the order of their checks.
    modes: &'static [Mode],
    metrics: Option<Metrics>,
    /// The mode that last allowed each requestor to impersonate: this mode is checked first, and its rejection is the one that is returned.
    last_modes: moka::sync::Cache<Key, usize>,
    secret: Secret,
}

/// An allowed impersonation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impersonated {
    /// The user as which the request runs. The caller of `apply` keeps the requestor.
    pub(crate) user: Arc<UserInfo>,
    /// The verb that allowed the impersonation, for the audit event; empty for the legacy verb `impersonate`.
    pub(crate) constraint: String,
    /// The credentials for the upstream from now on; only with passthrough.
    pub(crate) credentials: Option<ClientCredentials>,
}

impl Default for Impersonation {
    fn default() -> Self {
        Self::new(Limits::default().impersonation_checks)
    }
}

impl Impersonation {
    /// Creates the decider; one request may cause `max_checks` checks. Records no metrics.
    pub(crate) fn new(max_checks: usize) -> Self {
        let last_modes = moka::sync::Cache::new(REMEMBERED_REQUESTORS);
        Self { max_checks, modes: &MODES, metrics: None, last_modes, secret: Secret::new() }
    }

    /// Enables the constrained modes (feature gate ConstrainedImpersonation), or leaves only the verb `impersonate`.
    #[must_use]
    pub(crate) fn with_gate(self, is_constrained: bool) -> Self {
        Self { modes: if is_constrained { &MODES } else { &[Mode::Legacy] }, ..self }
    }

    /// Records metrics here.
    #[must_use]
    pub(crate) fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Returns the user that the request impersonates, if any and allowed. Removes all `Impersonate-*` headers.
    ///
    /// # Errors
    /// 400 for invalid headers, 403 if the requestor may not impersonate the user, or the user has the mark of admitted requests.
    pub(crate) async fn apply(
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
        if wanted.has_admitted_mark() {
            let why = format!(
                "the extra {ADMITTED_EXTRA} marks requests that the admission proxy has admitted, and cannot be impersonated"
            );
            return Err(Status::forbidden("authentication.k8s.io", "userextras", "", &why));
        }
        let attributes = AccessAttributes::from(info);
        let mut checks = Checks::new(authorizer, requestor, credentials, self.max_checks, self.metrics.as_ref());
        let started = Instant::now();
        let found = Box::pin(self.first_that_allows(&mut checks, &wanted, &attributes)).await;
        let mode = found.as_ref().map_or("", |(_, mode)| mode.label());
        if let Some(metrics) = &self.metrics {
            metrics.attempted(mode, found.is_ok(), started.elapsed());
        }
        let (user, mode) = found?;
        let constraint = mode.constraint();
        tracing::debug!(requestor = requestor.username, user = user.username, "impersonation");
        let impersonation = headers::meaningful(taken);
        let credentials = credentials.map(|own| ClientCredentials { impersonation, ..own.clone() });
        Ok(Some(Impersonated { user: Arc::new(user), constraint, credentials }))
    }

    /// Checks the modes until one allows the user (`impersonationModesTracker.getImpersonatedUser`).
    async fn first_that_allows(
        &self,
        checks: &mut Checks<'_>,
        wanted: &UserInfo,
        attributes: &AccessAttributes,
    ) -> Result<(UserInfo, Mode), Status> {
        let key = self.secret.hash(&[checks.requestor().username.as_bytes()]);
        let last = self.last_modes.get(&key);
        let others = (0..self.modes.len()).filter(|index| Some(*index) != last);
        let mut first_refusal = None;
        for index in last.into_iter().chain(others) {
            let Some(mode) = self.modes.get(index) else { continue };
            match Box::pin(mode.check(checks, wanted, attributes)).await {
                Ok(Some(user)) => {
                    self.last_modes.insert(key, index);
                    return Ok((user, *mode));
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
