//! `apiserver_admission_*`: kube-apiserver's names, labels and buckets. What it does not have is `kube_admission_proxy_*`.
//!
//! The `_summary` of the steps is left out: a dashboard that needs quantiles has the histogram.

use super::{Operation, shadow};
use crate::{conversion, manifests};
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use std::sync::OnceLock;
use std::time::Duration;

/// The buckets of what happens in the process.
const LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
/// The buckets of webhook calls.
const WEBHOOK_LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// The buckets of match conditions.
const CONDITION_LATENCIES: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
/// Codes above it are counted as it, so that their number stays bounded.
const MAX_CODE: u16 = 600;

/// Why a webhook's call ended in a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionError {
    /// The webhook could not be asked.
    CallingWebhook,
    /// Something else went wrong.
    ApiServerInternal,
    /// The webhook said no.
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

/// Which webhook was called, and for what.
#[derive(Clone, Copy, Debug)]
pub struct WebhookCall<'a> {
    /// The webhook's name.
    pub name: &'a str,
    /// `admit` or `validating`.
    pub kind: &'a str,
    /// What was done to the object.
    pub operation: Operation,
}

/// Whose match conditions were evaluated, and for what.
#[derive(Clone, Copy, Debug)]
pub struct MatchConditions<'a> {
    /// The webhook's or policy's name.
    pub name: &'a str,
    /// `webhook` or `policy`.
    pub kind: &'a str,
    /// `admit`, `validating` or `validate`.
    pub step: &'a str,
    /// What was done to the object.
    pub operation: Operation,
}

/// The admission metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    step: HistogramVec,
    controller: HistogramVec,
    webhook: HistogramVec,
    webhook_rejections: IntCounterVec,
    webhook_fail_opens: IntCounterVec,
    webhook_requests: IntCounterVec,
    webhook_breakers: IntGaugeVec,
    webhook_breaker_rejections: IntCounterVec,
    condition_errors: IntCounterVec,
    condition_exclusions: IntCounterVec,
    condition_seconds: HistogramVec,
    manifests: manifests::Metrics,
    conversions: conversion::Metrics,
    shadows: shadow::Metrics,
}

fn histogram(
    registry: &Registry,
    name: &str,
    help: &str,
    buckets: &[f64],
    labels: &[&str],
) -> prometheus::Result<HistogramVec> {
    let options = HistogramOpts::new(format!("apiserver_admission_{name}"), help).buckets(buckets.to_vec());
    let histogram = HistogramVec::new(options, labels)?;
    registry.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}

fn counter(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
    let counter = IntCounterVec::new(Opts::new(format!("apiserver_admission_{name}"), help), labels)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

impl Metrics {
    /// Registers all of them.
    ///
    /// # Errors
    /// When one of the names is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let call = &["name", "type", "operation", "rejected"];
        let condition = &["name", "kind", "type", "operation"];
        let breaker = &["endpoint", "type"];
        Ok(Self {
            registry: registry.clone(),
            step: histogram(
                registry,
                "step_admission_duration_seconds",
                "[STABLE] How long a whole phase took, by operation and phase.",
                LATENCIES,
                &["type", "operation", "rejected"],
            )?,
            controller: histogram(
                registry,
                "controller_admission_duration_seconds",
                "[STABLE] How long a plugin took, by operation and phase.",
                LATENCIES,
                call,
            )?,
            webhook: histogram(
                registry,
                "webhook_admission_duration_seconds",
                "[STABLE] How long a webhook took, by operation and type.",
                WEBHOOK_LATENCIES,
                call,
            )?,
            webhook_rejections: counter(
                registry,
                "webhook_rejection_count",
                "[ALPHA] Rejections by webhooks, with what went wrong and the code.",
                &["name", "type", "operation", "error_type", "rejection_code"],
            )?,
            webhook_fail_opens: counter(
                registry,
                "webhook_fail_open_count",
                "[ALPHA] Failed webhook calls that were ignored.",
                &["name", "type"],
            )?,
            webhook_requests: counter(
                registry,
                "webhook_request_total",
                "[ALPHA] Webhook calls, with their code.",
                &["name", "type", "operation", "code", "rejected"],
            )?,
            webhook_breakers: {
                let name = "kube_admission_proxy_webhook_circuit_breaker_open";
                let help = "Whether a webhook endpoint's circuit breaker is open, so that it is not called: 1 or 0.";
                let gauge = IntGaugeVec::new(Opts::new(name, help), breaker)?;
                registry.register(Box::new(gauge.clone()))?;
                gauge
            },
            webhook_breaker_rejections: {
                let name = "kube_admission_proxy_webhook_circuit_breaker_rejected_calls_total";
                let help = "Webhook calls that were not made, because the endpoint's circuit breaker is open.";
                let counter = IntCounterVec::new(Opts::new(name, help), breaker)?;
                registry.register(Box::new(counter.clone()))?;
                counter
            },
            condition_errors: counter(
                registry,
                "match_condition_evaluation_errors_total",
                "[ALPHA] Match conditions that could not be evaluated.",
                condition,
            )?,
            condition_exclusions: counter(
                registry,
                "match_condition_exclusions_total",
                "[ALPHA] Requests that match conditions left out.",
                condition,
            )?,
            condition_seconds: histogram(
                registry,
                "match_condition_evaluation_seconds",
                "[ALPHA] How long match conditions took.",
                CONDITION_LATENCIES,
                condition,
            )?,
            manifests: manifests::Metrics::new(registry)?,
            conversions: conversion::Metrics::new(registry)?,
            shadows: shadow::Metrics::new(registry)?,
        })
    }

    /// Where plugins register what they count themselves.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What is counted of plugins' files.
    pub fn manifests(&self) -> &manifests::Metrics {
        &self.manifests
    }

    /// What is counted of conversions by webhooks.
    pub fn conversions(&self) -> &conversion::Metrics {
        &self.conversions
    }

    /// What is counted of hooks in shadow mode.
    pub fn shadows(&self) -> &shadow::Metrics {
        &self.shadows
    }

    /// How long a whole phase (`admit` or `validate`) takes that ends in this way.
    pub fn step(&self, step: &str, operation: Operation, rejected: bool) -> Histogram {
        self.step.with_label_values(&[step, operation.as_str(), boolean(rejected)])
    }

    /// How long a plugin takes in a phase that ends in this way.
    pub fn controller(&self, name: &str, step: &str, operation: Operation, rejected: bool) -> Histogram {
        self.controller.with_label_values(&[name, step, operation.as_str(), boolean(rejected)])
    }

    /// A webhook was called. The code is 200 if all went well, 0 for an internal error.
    pub fn observe_webhook(&self, call: &WebhookCall<'_>, elapsed: Duration, rejected: bool, code: u16) {
        let (operation, rejected) = (call.operation.as_str(), boolean(rejected));
        let code = code.min(MAX_CODE).to_string();
        self.webhook_requests.with_label_values(&[call.name, call.kind, operation, &*code, rejected]).inc();
        self.webhook.with_label_values(&[call.name, call.kind, operation, rejected]).observe(elapsed.as_secs_f64());
    }

    /// A webhook's call ended in a rejection.
    pub fn observe_webhook_rejection(&self, call: &WebhookCall<'_>, error: RejectionError, code: u16) {
        let code = code.min(MAX_CODE).to_string();
        let labels = [call.name, call.kind, call.operation.as_str(), error.as_str(), &*code];
        self.webhook_rejections.with_label_values(&labels).inc();
    }

    /// A failed call of a webhook was ignored.
    pub fn observe_webhook_fail_open(&self, name: &str, kind: &str) {
        self.webhook_fail_opens.with_label_values(&[name, kind]).inc();
    }

    /// An endpoint's circuit breaker is open or not.
    pub fn set_webhook_breaker(&self, endpoint: &str, kind: &str, is_open: bool) {
        self.webhook_breakers.with_label_values(&[endpoint, kind]).set(is_open.into());
    }

    /// An endpoint was not called, because its circuit breaker is open.
    pub fn observe_webhook_breaker_rejection(&self, endpoint: &str, kind: &str) {
        self.webhook_breaker_rejections.with_label_values(&[endpoint, kind]).inc();
    }

    /// An endpoint has no circuit breaker any more.
    pub fn forget_webhook_breaker(&self, endpoint: &str, kind: &str) {
        // What was never counted cannot be removed, and need not be.
        let _ = self.webhook_breakers.remove_label_values(&[endpoint, kind]);
        let _ = self.webhook_breaker_rejections.remove_label_values(&[endpoint, kind]);
    }

    /// Match conditions were evaluated.
    pub fn observe_match_conditions(&self, conditions: &MatchConditions<'_>, elapsed: Duration) {
        self.condition_seconds.with_label_values(&conditions.labels()).observe(elapsed.as_secs_f64());
    }

    /// Match conditions could not be evaluated.
    pub fn observe_match_condition_error(&self, conditions: &MatchConditions<'_>) {
        self.condition_errors.with_label_values(&conditions.labels()).inc();
    }

    /// Match conditions left a request out.
    pub fn observe_match_condition_exclusion(&self, conditions: &MatchConditions<'_>) {
        self.condition_exclusions.with_label_values(&conditions.labels()).inc();
    }
}

/// The histograms of what nearly always happens, by operation: looking them up by their labels takes longer than what is
/// measured. Each is there from its first observation on.
#[derive(Debug, Default)]
pub struct Accepted([OnceLock<Histogram>; 4]);

impl Accepted {
    /// Observes in the histogram of the operation, which `find` knows.
    pub fn observe(&self, operation: Operation, elapsed: Duration, find: impl FnOnce() -> Histogram) {
        let [create, update, delete, connect] = &self.0;
        let kept = match operation {
            Operation::Create => create,
            Operation::Update => update,
            Operation::Delete => delete,
            Operation::Connect => connect,
        };
        kept.get_or_init(find).observe(elapsed.as_secs_f64());
    }
}

impl<'a> MatchConditions<'a> {
    fn labels(&self) -> [&'a str; 4] {
        [self.name, self.kind, self.step, self.operation.as_str()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::TextEncoder;

    #[test]
    fn names_and_labels_are_kube_apiservers() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let call = WebhookCall { name: "w.lab.dev", kind: "validating", operation: Operation::Create };
        metrics.step("admit", Operation::Delete, true).observe(0.006);
        metrics.controller("AlwaysDeny", "validate", Operation::Update, true).observe(0.0);
        metrics.observe_webhook(&call, Duration::from_secs(11), false, 200);
        metrics.observe_webhook_rejection(&call, RejectionError::None, 700);
        metrics.observe_webhook_fail_open("w.lab.dev", "admit");
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            r#"apiserver_admission_step_admission_duration_seconds_bucket{operation="DELETE",rejected="true",type="admit",le="0.005"} 0"#,
            r#"apiserver_admission_step_admission_duration_seconds_bucket{operation="DELETE",rejected="true",type="admit",le="0.025"} 1"#,
            r#"apiserver_admission_controller_admission_duration_seconds_count{name="AlwaysDeny",operation="UPDATE",rejected="true",type="validate"} 1"#,
            r#"apiserver_admission_webhook_admission_duration_seconds_bucket{name="w.lab.dev",operation="CREATE",rejected="false",type="validating",le="25"} 1"#,
            r#"apiserver_admission_webhook_request_total{code="200",name="w.lab.dev",operation="CREATE",rejected="false",type="validating"} 1"#,
            r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="w.lab.dev",operation="CREATE",rejection_code="600",type="validating"} 1"#,
            r#"apiserver_admission_webhook_fail_open_count{name="w.lab.dev",type="admit"} 1"#,
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
        assert!(Metrics::new(&registry).is_err());
    }
}
