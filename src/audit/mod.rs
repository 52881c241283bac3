//! Audit: `audit.k8s.io/v1` events of requests and responses, according to the audit policy.
//!
//! Without a policy, and for requests that the policy omits, no event is created and no data is kept.

mod written;
mod event;
mod encoded;
mod metrics;
mod queue;
mod file;
mod log;
mod webhook;
mod origin;
mod policy;
mod validation;

pub(crate) use encoded::Encoded;
pub(crate) use event::{EventInProgress, Request};
pub(crate) use file::ensure as ensure_file;
pub(crate) use log::Log;
pub(crate) use metrics::Metrics;
pub(crate) use origin::{AUDIT_ID, audit_id, source_ips};
pub(crate) use policy::{AuditDecision, Level, Policy, Stage};
pub(crate) use queue::Queued;
pub(crate) use webhook::Webhook;
pub(crate) use written::{Acknowledgement, Written};

use crate::server::Reloading;
use crate::user::UserInfo;
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;

/// The annotation with the authorizer's decision: `allow` or `forbid`.
pub(crate) const DECISION_ANNOTATION: &str = "authorization.k8s.io/decision";
/// The annotation with the authorizer's reason.
pub(crate) const REASON_ANNOTATION: &str = "authorization.k8s.io/reason";

/// A destination of events.
#[async_trait]
pub(crate) trait Sink: Send + Sync + 'static {
    /// Takes an event without blocking. Returns the acknowledgement for which the request waits, if it waits for one. A backend in which
    /// requests wait takes every event of a request that has got room.
    fn write(&self, event: &Encoded<'_>, has_room: bool) -> Option<Acknowledgement>;

    /// Whether there is room for the events of a further request.
    fn has_room(&self) -> bool {
        true
    }

    /// Waits for that room.
    async fn room(&self) {}
}

/// Auditing of all requests, or no auditing.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Parts>>);

pub(crate) struct Parts {
    policy: Reloading<Policy>,
    sinks: Vec<Arc<dyn Sink>>,
    metrics: Metrics,
    /// Whether events have the annotations of the proxy's own.
    has_own_annotations: bool,
    clock: fn() -> Timestamp,
    object_bytes: usize,
}

/// The maximum bytes of an object in an event. A larger object is replaced by a note.
pub(crate) const OBJECT_BYTES: usize = 10 << 20;

impl Audit {
    /// No auditing, which is also the effect of a log path without a policy.
    pub fn off() -> Self {
        Self(None)
    }

    /// Auditing with the policy into the sinks, in this order. Events have the annotations of the proxy's own if `has_own_annotations`.
    pub(crate) fn new(
        policy: Reloading<Policy>,
        sinks: Vec<Arc<dyn Sink>>,
        metrics: Metrics,
        has_own_annotations: bool,
    ) -> Self {
        let (clock, object_bytes) = (Timestamp::now, OBJECT_BYTES);
        Self(Some(Arc::new(Parts { policy, sinks, metrics, has_own_annotations, clock, object_bytes })))
    }

    #[cfg(test)]
    fn with(
        policy: Policy,
        sink: Arc<dyn Sink>,
        metrics: Metrics,
        clock: fn() -> Timestamp,
        object_bytes: usize,
    ) -> Self {
        Self(Some(Arc::new(Parts {
            policy: Reloading::fixed(policy),
            sinks: vec![sink],
            metrics,
            has_own_annotations: true,
            clock,
            object_bytes,
        })))
    }

    /// Whether any request is audited.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the event of an authenticated request, whose first stage is that of [`EventInProgress::received`]. `None` if the policy omits
    /// the request.
    pub(crate) fn begin(&self, request: &Request<'_>, user: &UserInfo) -> Option<EventInProgress> {
        self.decide(request, Some(user))
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
pub(crate) mod testing;
#[cfg(test)]
mod tests;
