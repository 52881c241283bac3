//! `apiserver_audit_*`, with kube-apiserver's names and labels.

use crate::metrics::Registry;
use prometheus::{IntCounter, IntCounterVec, Opts};

/// The audit metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// The number of events.
    pub events: IntCounter,
    /// The number of events that did not reach a backend, by the part of the backend that lost them.
    pub(crate) errors: IntCounterVec,
    /// The number of requests by audit level.
    pub(crate) levels: IntCounterVec,
    /// The number of requests that were refused because their arrival could not be written.
    pub(crate) rejected: IntCounter,
}

impl Metrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
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

    /// Counts and logs events that did not reach a backend (`audit.HandlePluginError`).
    pub(super) fn lost(&self, plugin: &str, events: usize, error: &dyn std::fmt::Display) {
        self.errors.with_label_values(&[plugin]).inc_by(events as u64);
        tracing::error!(plugin, events, %error, "audit events could not be written");
    }
}
