//! The metrics of reviews.

use crate::admission::Phase;
use crate::metrics::Registry;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use std::time::Duration;

/// The buckets of durations, in seconds.
const LATENCIES: &[f64] = &[0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

/// The metrics of the front end.
#[derive(Clone, Debug)]
pub struct FrontEndMetrics {
    reviews: IntCounterVec,
    seconds: HistogramVec,
}

impl FrontEndMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If the registry has the metrics already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new(
            "kube_admission_proxy_reviews_total",
            "Number of requests to the webhook front end, by path, HTTP status code and decision (true, false, or empty without one).",
        );
        let reviews = IntCounterVec::new(opts, &["path", "code", "allowed"])?;
        let opts = HistogramOpts::new(
            "kube_admission_proxy_review_duration_seconds",
            "Duration of requests to the webhook front end in seconds, plugins included, by path.",
        );
        let seconds = HistogramVec::new(opts.buckets(LATENCIES.to_vec()), &["path"])?;
        registry.register(Box::new(reviews.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(Self { reviews, seconds })
    }

    /// Records an answer.
    pub(super) fn answered(&self, phase: Option<Phase>, code: u16, allowed: Option<bool>, elapsed: Duration) {
        let path = match phase {
            Some(Phase::Admit) => "/mutate",
            Some(Phase::Validate) => "/validate",
            None => "other",
        };
        let allowed = allowed.map_or("", |allowed| if allowed { "true" } else { "false" });
        self.reviews.with_label_values(&[path, &code.to_string(), allowed]).inc();
        self.seconds.with_label_values(&[path]).observe(elapsed.as_secs_f64());
    }
}
