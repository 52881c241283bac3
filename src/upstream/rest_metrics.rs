//! client-go's metrics of the proxy's own requests (`component-base/metrics/prometheus/restclient`).

use crate::metrics::Registry;
use http::{Request, Response};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use std::time::{Duration, Instant};

const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The metrics of the requests to all API servers, which clones share.
#[derive(Clone, Debug)]
pub(crate) struct RestMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
}

impl RestMetrics {
    /// Returns the metrics of the process.
    ///
    /// # Errors
    /// If another metric of these names is registered.
    pub(crate) fn of(registry: &Registry) -> prometheus::Result<Self> {
        registry.once("rest_client", |registry| {
            let requests = Opts::new(
                "rest_client_requests_total",
                "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
            );
            let seconds = HistogramOpts::new(
                "rest_client_request_duration_seconds",
                "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
            );
            let metrics = Self {
                requests: IntCounterVec::new(requests, &["code", "method", "host"])?,
                seconds: HistogramVec::new(seconds.buckets(SECONDS.to_vec()), &["verb", "host"])?,
            };
            registry.register(Box::new(metrics.requests.clone()))?;
            registry.register(Box::new(metrics.seconds.clone()))?;
            Ok(metrics)
        })
    }

    /// Measures a request that is about to be sent.
    pub(super) fn begin<B>(&self, request: &Request<B>) -> Asked {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        Asked { metrics: self.clone(), method: request.method().to_string(), host, start: Instant::now() }
    }

    fn add(&self, method: &str, host: &str, code: &str, time: Duration) {
        self.requests.with_label_values(&[code, method, host]).inc();
        self.seconds.with_label_values(&[method, host]).observe(time.as_secs_f64());
    }
}

/// A request that was sent.
pub(super) struct Asked {
    metrics: RestMetrics,
    method: String,
    host: String,
    start: Instant,
}

impl Asked {
    /// Records the head of the answer, or that there is none.
    pub(super) fn answered<B, E>(&self, answer: &Result<Response<B>, E>) {
        let code = answer.as_ref().map(Response::status);
        let code = code.as_ref().map_or("<error>", |status| status.as_str());
        self.metrics.add(&self.method, &self.host, code, self.start.elapsed());
    }
}
