//! kube-apiserver's metrics of authentication (`endpoints/filters/metrics.go`, `x509.go`).

use super::{Authenticated, Unauthorized};
use crate::metrics::Registry;
use crate::server::Refusals;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, exponential_buckets};
use std::time::Duration;

/// The buckets of the time until a certificate expires, in seconds: from half an hour to a year.
const EXPIRATIONS: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

/// The metrics of authentication, and the log of refused certificates.
#[derive(Clone, Debug)]
pub struct Metrics {
    attempts: IntCounterVec,
    users: IntCounterVec,
    seconds: HistogramVec,
    expirations: Histogram,
    pub(super) refusals: Refusals,
}

impl Metrics {
    /// Returns the metrics of the process, which all authenticators share.
    ///
    /// # Errors
    /// If another metric of these names is registered.
    pub fn of(registry: &Registry) -> prometheus::Result<Self> {
        // Not inside: the registry is locked while it makes shared metrics.
        let refusals = Refusals::of(registry)?;
        registry.once("authentication", |registry| {
            let metrics = Self::new(refusals)?;
            registry.register(Box::new(metrics.attempts.clone()))?;
            registry.register(Box::new(metrics.users.clone()))?;
            registry.register(Box::new(metrics.seconds.clone()))?;
            registry.register(Box::new(metrics.expirations.clone()))?;
            Ok(metrics)
        })
    }

    fn new(refusals: Refusals) -> prometheus::Result<Self> {
        let attempts = Opts::new("authentication_attempts", "[ALPHA] Counter of authenticated attempts.");
        let users = Opts::new(
            "authenticated_user_requests",
            "[ALPHA] Counter of authenticated requests broken out by username.",
        );
        let seconds = HistogramOpts::new(
            "authentication_duration_seconds",
            "[ALPHA] Authentication duration in seconds broken out by result.",
        );
        let expirations = HistogramOpts::new(
            "apiserver_client_certificate_expiration_seconds",
            "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
        );
        Ok(Self {
            attempts: IntCounterVec::new(attempts, &["result"])?,
            users: IntCounterVec::new(users, &["username"])?,
            seconds: HistogramVec::new(seconds.buckets(exponential_buckets(0.001, 2.0, 15)?), &["result"])?,
            expirations: Histogram::with_opts(expirations.buckets(EXPIRATIONS.to_vec()))?,
            refusals,
        })
    }

    /// Records the result for a request.
    pub(super) fn authenticated(&self, result: &Result<Authenticated, Unauthorized>, elapsed: Duration) {
        let label = match result {
            Ok(authenticated) => {
                self.users.with_label_values(&[compressed(&authenticated.user.username)]).inc();
                "success"
            }
            Err(unauthorized) if unauthorized.reasons.is_empty() => "failure",
            Err(_) => "error",
        };
        self.attempts.with_label_values(&[label]).inc();
        self.seconds.with_label_values(&[label]).observe(elapsed.as_secs_f64());
    }

    /// Records the time in seconds until a presented certificate expires; below 0 if it has.
    pub(super) fn certificate(&self, remaining: i64) {
        self.expirations.observe(remaining as f64);
    }
}

/// The few names by which users are counted (`compressUsername`).
fn compressed(username: &str) -> &str {
    match username {
        "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => username,
        _ if username.contains('@') => "email_id",
        _ => "other",
    }
}
