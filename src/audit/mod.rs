//! Audit: `audit.k8s.io/v1` events of requests and responses, according to the audit policy.
//!
//! Without a policy, and for requests that the policy omits, no event is created and no data is kept.

mod event;
pub(crate) mod log;
mod metrics;
mod origin;
mod policy;
mod validation;

pub(crate) use event::{EventInProgress, Request};
pub(crate) use log::{Log, Queued};
pub(crate) use metrics::Metrics;
pub(crate) use origin::{AUDIT_ID, audit_id, source_ips};
pub(crate) use policy::{AuditDecision, Level, Policy, Stage};

use crate::server::Reloading;
use crate::user::UserInfo;
use jiff::Timestamp;
use std::sync::Arc;

/// The annotation with the authorizer's decision: `allow` or `forbid`.
pub(crate) const DECISION_ANNOTATION: &str = "authorization.k8s.io/decision";
/// The annotation with the authorizer's reason.
pub(crate) const REASON_ANNOTATION: &str = "authorization.k8s.io/reason";

/// A destination of events, one line each. A sink must not block.
pub(crate) trait Sink: Send + Sync + 'static {
    /// Writes a line, which includes its line end.
    fn write(&self, line: String);
}

/// Auditing of all requests, or no auditing.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Parts>>);

pub(crate) struct Parts {
    policy: Reloading<Policy>,
    sink: Arc<dyn Sink>,
    metrics: Metrics,
    clock: fn() -> Timestamp,
    object_bytes: usize,
}

/// The maximum bytes of an object in an event. A larger object is replaced by a note (`--audit-log-truncate-max-event-size`'s default).
pub(crate) const OBJECT_BYTES: usize = 10 << 20;

impl Audit {
    /// No auditing, which is also the effect of a log path without a policy.
    pub fn off() -> Self {
        Self(None)
    }

    /// Auditing with the policy into the sink.
    pub(crate) fn new(policy: Reloading<Policy>, sink: Arc<dyn Sink>, metrics: Metrics) -> Self {
        Self(Some(Arc::new(Parts { policy, sink, metrics, clock: Timestamp::now, object_bytes: OBJECT_BYTES })))
    }

    #[cfg(test)]
    fn with(
        policy: Policy,
        sink: Arc<dyn Sink>,
        metrics: Metrics,
        clock: fn() -> Timestamp,
        object_bytes: usize,
    ) -> Self {
        Self(Some(Arc::new(Parts { policy: Reloading::fixed(policy), sink, metrics, clock, object_bytes })))
    }

    /// Whether any request is audited.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the event of an authenticated request, and writes the event's first stage. `None` if the policy omits the request.
    pub(crate) fn begin(&self, request: &Request<'_>, user: &UserInfo) -> Option<EventInProgress> {
        let mut event = self.decide(request, Some(user))?;
        event.received();
        Some(event)
    }

    /// Begins the event of a request that failed to authenticate (`WithFailedAuthenticationAudit`). Such an event has
    /// ResponseStarted as its only stage.
    pub(crate) fn begin_unauthenticated(&self, request: &Request<'_>) -> Option<EventInProgress> {
        self.decide(request, None)
    }

    fn decide(&self, request: &Request<'_>, user: Option<&UserInfo>) -> Option<EventInProgress> {
        let parts = self.0.as_ref()?;
        let decision = parts.policy.load().evaluate(request.info, user);
        parts.metrics.levels.with_label_values(&[decision.level.as_str()]).inc();
        (decision.level != Level::None).then(|| EventInProgress::new(parts.clone(), decision, request, user))
    }
}

#[cfg(test)]
mod tests;
