//! `apiserver_audit_*`: kube-apiserver's names and labels.

use crate::metrics::Registry;
use prometheus::{IntCounter, IntCounterVec, Opts};

/// The audit metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Events that were made.
    pub events: IntCounter,
    /// Events that did not reach the log.
    pub errors: IntCounterVec,
    /// Requests by their level.
    pub levels: IntCounterVec,
    /// Requests that were refused because they could not be logged: always 0, for the log never holds a request up.
    pub rejected: IntCounter,
}

impl Metrics {
    /// Makes and registers them.
    ///
    /// # Errors
    /// When the registry has them already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            events: IntCounter::new(
                "apiserver_audit_event_total",
                "[ALPHA] Counter of audit events generated and sent to the audit backend.",
            )?,
            errors: IntCounterVec::new(
                Opts::new(
                    "apiserver_audit_error_total",
                    "[ALPHA] Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.",
                ),
                &["plugin"],
            )?,
            levels: IntCounterVec::new(
                Opts::new(
                    "apiserver_audit_level_total",
                    "[ALPHA] Counter of policy levels for audit events (1 per request).",
                ),
                &["level"],
            )?,
            rejected: IntCounter::new(
                "apiserver_audit_requests_rejected_total",
                "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend.",
            )?,
        };
        registry.register(Box::new(metrics.events.clone()))?;
        registry.register(Box::new(metrics.errors.clone()))?;
        registry.register(Box::new(metrics.levels.clone()))?;
        registry.register(Box::new(metrics.rejected.clone()))?;
        Ok(metrics)
    }

    /// Counts events that the log lost.
    pub(super) fn lost(&self, events: usize) {
        self.errors.with_label_values(&["log"]).inc_by(events as u64);
    }
}
