//! `apiserver_impersonation_*`: kube-apiserver's names, labels and buckets.

use crate::metrics::Registry;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, exponential_buckets};
use std::time::Duration;

/// The metrics of decisions of one kind, allowed or denied.
#[derive(Clone, Debug)]
struct Decisions {
    total: IntCounterVec,
    seconds: HistogramVec,
}

impl Decisions {
    fn new(name: &str, total: &str, seconds: &str) -> prometheus::Result<Self> {
        let labels = &["mode", "decision"];
        let name = |end: &str| format!("apiserver_impersonation_{name}_{end}");
        let buckets = exponential_buckets(0.001, 2.0, 15)?;
        Ok(Self {
            total: IntCounterVec::new(Opts::new(name("total"), total), labels)?,
            seconds: HistogramVec::new(HistogramOpts::new(name("duration_seconds"), seconds).buckets(buckets), labels)?,
        })
    }

    fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.total.clone()))?;
        registry.register(Box::new(self.seconds.clone()))
    }

    fn record(&self, mode: &str, is_allowed: bool, elapsed: Duration) {
        let labels = [mode, if is_allowed { "allowed" } else { "denied" }];
        self.total.with_label_values(&labels).inc();
        self.seconds.with_label_values(&labels).observe(elapsed.as_secs_f64());
    }
}

/// The metrics of impersonation.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    attempts: Decisions,
    checks: Decisions,
}

impl Metrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If the registry has the metrics already.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let attempts = Decisions::new(
            "attempts",
            "[ALPHA] Total number of impersonation attempts split by mode and decision.",
            "[ALPHA] Latency of impersonation attempts in seconds split by mode and decision.",
        )?;
        let checks = Decisions::new(
            "authorization_attempts",
            "[ALPHA] Total number of authorization checks made by the impersonation handler split by mode and decision.",
            "[ALPHA] Latency of authorization checks made by the impersonation handler in seconds split by mode and decision.",
        )?;
        attempts.register(registry)?;
        checks.register(registry)?;
        Ok(Self { attempts, checks })
    }

    /// Records an attempt at impersonation; the mode is empty if no mode allowed it.
    pub(super) fn attempted(&self, mode: &str, is_allowed: bool, elapsed: Duration) {
        self.attempts.record(mode, is_allowed, elapsed);
    }

    /// Records one check of the authorizer.
    pub(super) fn checked(&self, mode: &str, is_allowed: bool, elapsed: Duration) {
        self.checks.record(mode, is_allowed, elapsed);
    }
}
