//! kube-apiserver's metrics of conversion webhooks for custom resources (`conversion.ConversionWebhookMetrics`, `converterMetric`).

use crate::metrics::Registry;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, exponential_buckets};
use std::time::Duration;

/// The buckets of call latencies in seconds.
const LATENCIES: &[f64] = &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// The reason why a call did not convert the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call failed, or the answer is not a review.
    Call,
    /// The review reports a failure, or does not match the request.
    MalformedResponse,
    /// The review contains a wrong number of objects.
    PartialResponse,
    /// The review's object is not the requested object.
    InvalidConvertedObject,
}

impl Failure {
    fn as_str(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Self::PartialResponse => "conversion_webhook_partial_response_failure",
            Self::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// The metrics of conversion webhooks.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    requests: IntCounterVec,
    latencies: HistogramVec,
    conversions: HistogramVec,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let labels = ["result", "failure_type"];
        let help = "Counter for conversion webhook requests with success/failure and failure error type";
        let requests = IntCounterVec::new(Opts::new("apiserver_conversion_webhook_request_total", help), &labels)?;
        let latencies =
            HistogramOpts::new("apiserver_conversion_webhook_duration_seconds", "Conversion webhook request latency");
        let latencies = HistogramVec::new(latencies.buckets(LATENCIES.to_vec()), &labels)?;
        let conversions = HistogramOpts::new(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "CRD webhook conversion duration in seconds",
        );
        let conversions = conversions.buckets(exponential_buckets(0.001, 2.0, 15)?);
        let conversions = HistogramVec::new(conversions, &["crd_name", "from_version", "to_version", "succeeded"])?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(latencies.clone()))?;
        registry.register(Box::new(conversions.clone()))?;
        Ok(Self { requests, latencies, conversions })
    }

    /// Records a call to a webhook.
    pub(crate) fn observe_call(&self, elapsed: Duration, failure: Option<Failure>) {
        let result = if failure.is_some() { "failure" } else { "success" };
        let labels = [result, failure.map(Failure::as_str).unwrap_or_default()];
        self.requests.with_label_values(&labels).inc();
        self.latencies.with_label_values(&labels).observe(elapsed.as_secs_f64());
    }

    /// Records a conversion of an object of the definition, between two versions.
    pub(crate) fn observe_conversion(
        &self,
        definition: &str,
        [from, to]: [&str; 2],
        elapsed: Duration,
        succeeded: bool,
    ) {
        let succeeded = if succeeded { "true" } else { "false" };
        let labels = [definition, from, to, succeeded];
        self.conversions.with_label_values(&labels).observe(elapsed.as_secs_f64());
    }
}
