//! Metrics of webhooks: their calls and circuit breakers.

use super::{CALL, boolean, counter, histogram, registered};
use crate::admission::Operation;
use crate::metrics::Registry;
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use std::time::Duration;

/// The buckets of webhook calls, in seconds.
const WEBHOOK_LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// The highest status code that is a label. Higher codes are counted as this code, which bounds the number of labels.
const MAX_CODE: u16 = 600;

/// The error type of a webhook's rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectionError {
    /// The call failed.
    CallingWebhook,
    /// An internal error occurred.
    ApiServerInternal,
    /// The webhook refused the request.
    None,
}

impl RejectionError {
    fn as_str(self) -> &'static str {
        match self {
            Self::CallingWebhook => "calling_webhook_error",
            Self::ApiServerInternal => "apiserver_internal_error",
            Self::None => "no_error",
        }
    }
}

/// The labels of a webhook call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookCall<'a> {
    /// The webhook's name.
    pub(crate) name: &'a str,
    /// `admit` or `validating`.
    pub(crate) kind: &'a str,
    /// The operation on the object.
    pub(crate) operation: Operation,
}

/// The metrics of webhooks.
#[derive(Debug)]
pub(crate) struct WebhookMetrics {
    seconds: HistogramVec,
    rejections: IntCounterVec,
    fail_opens: IntCounterVec,
    requests: IntCounterVec,
    breakers: IntGaugeVec,
    breaker_rejections: IntCounterVec,
}

impl WebhookMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let breaker = &["endpoint", "type"];
        Ok(Self {
            seconds: registered(
                registry,
                histogram(
                    "webhook_admission_duration_seconds",
                    "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each \
                     operation and API resource and type (validate or admit).",
                    WEBHOOK_LATENCIES,
                    CALL,
                )?,
            )?,
            rejections: counter(
                registry,
                "webhook_rejection_count",
                "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type \
                 (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or \
                 apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code \
                 if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is \
                 greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality \
                 bounded.",
                &["name", "type", "operation", "error_type", "rejection_code"],
            )?,
            fail_opens: counter(
                registry,
                "webhook_fail_open_count",
                "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type \
                 (validating or admit).",
                &["name", "type"],
            )?,
            requests: counter(
                registry,
                "webhook_request_total",
                "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type \
                 (validating or admit) and operation. Additional labels specify whether the request was rejected or not and \
                 an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                &["name", "type", "operation", "code", "rejected"],
            )?,
            breakers: {
                let name = "kube_admission_proxy_webhook_circuit_breaker_open";
                let help = "Whether the circuit breaker of a webhook endpoint is open (1) or closed (0), by endpoint and type.";
                registered(registry, IntGaugeVec::new(Opts::new(name, help), breaker)?)?
            },
            breaker_rejections: {
                let name = "kube_admission_proxy_webhook_circuit_breaker_rejected_calls_total";
                let help = "Number of webhook calls that were not made because the circuit breaker of the endpoint was open, by endpoint and type.";
                registered(registry, IntCounterVec::new(Opts::new(name, help), breaker)?)?
            },
        })
    }

    /// Records a webhook call. The code is 200 for a success and 0 for an internal error.
    pub(crate) fn observe(&self, call: &WebhookCall<'_>, elapsed: Duration, rejected: bool, code: u16) {
        let (operation, rejected) = (call.operation.as_str(), boolean(rejected));
        let code = code.min(MAX_CODE).to_string();
        self.requests.with_label_values(&[call.name, call.kind, operation, &*code, rejected]).inc();
        self.seconds.with_label_values(&[call.name, call.kind, operation, rejected]).observe(elapsed.as_secs_f64());
    }

    /// Counts a webhook call that ends in a rejection.
    pub(crate) fn observe_rejection(&self, call: &WebhookCall<'_>, error: RejectionError, code: u16) {
        let code = code.min(MAX_CODE).to_string();
        let labels = [call.name, call.kind, call.operation.as_str(), error.as_str(), &*code];
        self.rejections.with_label_values(&labels).inc();
    }

    /// Counts a failed webhook call that failurePolicy Ignore admits.
    pub(crate) fn observe_fail_open(&self, name: &str, kind: &str) {
        self.fail_opens.with_label_values(&[name, kind]).inc();
    }

    /// Records whether the circuit breaker of an endpoint is open.
    pub(crate) fn set_breaker(&self, endpoint: &str, kind: &str, is_open: bool) {
        self.breakers.with_label_values(&[endpoint, kind]).set(is_open.into());
    }

    /// Counts a call that the open circuit breaker of an endpoint prevents.
    pub(crate) fn observe_breaker_rejection(&self, endpoint: &str, kind: &str) {
        self.breaker_rejections.with_label_values(&[endpoint, kind]).inc();
    }

    /// Removes the metrics of an endpoint's circuit breaker.
    pub(crate) fn forget_breaker(&self, endpoint: &str, kind: &str) {
        // Removal fails for labels that were never counted, which is harmless.
        let _ = self.breakers.remove_label_values(&[endpoint, kind]);
        let _ = self.breaker_rejections.remove_label_values(&[endpoint, kind]);
    }
}
