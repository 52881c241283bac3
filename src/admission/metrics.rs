//! Metrics of admission. `apiserver_admission_*` have kube-apiserver's names, labels and buckets; `kube_admission_proxy_*` are
//! the proxy's own.

mod passes;
mod quantiles;
mod summary;

use super::{Operation, shadow};
use crate::metrics::Registry;
use crate::{conversion, manifests};
use passes::Controllers;
pub use passes::Pass;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use summary::{Summary, SummaryVec};

/// The buckets of steps and plugins, in seconds.
const LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
/// The buckets of webhook calls, in seconds.
const WEBHOOK_LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// The buckets of match conditions, in seconds.
const CONDITION_LATENCIES: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
/// The highest status code that is a label. Higher codes are counted as this code, which bounds the number of labels.
const MAX_CODE: u16 = 600;

/// The error type of a webhook's rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionError {
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
pub struct WebhookCall<'a> {
    /// The webhook's name.
    pub name: &'a str,
    /// `admit` or `validating`.
    pub kind: &'a str,
    /// The operation on the object.
    pub operation: Operation,
}

/// The labels of an evaluation of match conditions.
#[derive(Clone, Copy, Debug)]
pub struct MatchConditions<'a> {
    /// The name of the webhook or policy.
    pub name: &'a str,
    /// `webhook` or `policy`.
    pub kind: &'a str,
    /// `admit`, `validating` or `validate`.
    pub step: &'a str,
    /// The operation on the object.
    pub operation: Operation,
}

/// The admission metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    step: HistogramVec,
    step_summary: SummaryVec<3>,
    controller: Controllers,
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

/// The metrics of a whole phase with one outcome.
#[derive(Clone, Debug)]
pub struct Step {
    histogram: Histogram,
    summary: Arc<Summary>,
}

impl Step {
    /// Records the phase's latency.
    pub fn observe(&self, elapsed: Duration) {
        self.histogram.observe(elapsed.as_secs_f64());
        self.summary.observe(elapsed.as_secs_f64());
    }
}

fn histogram(name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> prometheus::Result<HistogramVec> {
    let options = HistogramOpts::new(format!("apiserver_admission_{name}"), help).buckets(buckets.to_vec());
    HistogramVec::new(options, labels)
}

/// Registers `metrics` and returns it.
fn registered<C: Collector + Clone + 'static>(registry: &Registry, metrics: C) -> prometheus::Result<C> {
    registry.register(Box::new(metrics.clone()))?;
    Ok(metrics)
}

fn counter(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
    registered(registry, IntCounterVec::new(Opts::new(format!("apiserver_admission_{name}"), help), labels)?)
}

fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let step = ["type", "operation", "rejected"];
        let call = &["name", "type", "operation", "rejected"];
        let condition = &["name", "kind", "type", "operation"];
        let breaker = &["endpoint", "type"];
        Ok(Self {
            registry: registry.clone(),
            step: registered(
                registry,
                histogram(
                    "step_admission_duration_seconds",
                    "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and \
                     step type (validate or admit).",
                    LATENCIES,
                    &step,
                )?,
            )?,
            step_summary: registered(
                registry,
                SummaryVec::new(
                    "apiserver_admission_step_admission_duration_seconds_summary",
                    "[ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and \
                     step type (validate or admit).",
                    step,
                )?,
            )?,
            controller: registered(
                registry,
                Controllers::new(histogram(
                    "controller_admission_duration_seconds",
                    "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each \
                     operation and API resource and type (validate or admit).",
                    LATENCIES,
                    call,
                )?),
            )?,
            webhook: registered(
                registry,
                histogram(
                    "webhook_admission_duration_seconds",
                    "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each \
                     operation and API resource and type (validate or admit).",
                    WEBHOOK_LATENCIES,
                    call,
                )?,
            )?,
            webhook_rejections: counter(
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
            webhook_fail_opens: counter(
                registry,
                "webhook_fail_open_count",
                "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type \
                 (validating or admit).",
                &["name", "type"],
            )?,
            webhook_requests: counter(
                registry,
                "webhook_request_total",
                "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type \
                 (validating or admit) and operation. Additional labels specify whether the request was rejected or not and \
                 an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                &["name", "type", "operation", "code", "rejected"],
            )?,
            webhook_breakers: {
                let name = "kube_admission_proxy_webhook_circuit_breaker_open";
                let help = "Whether the circuit breaker of a webhook endpoint is open (1) or closed (0), by endpoint and type.";
                registered(registry, IntGaugeVec::new(Opts::new(name, help), breaker)?)?
            },
            webhook_breaker_rejections: {
                let name = "kube_admission_proxy_webhook_circuit_breaker_rejected_calls_total";
                let help = "Number of webhook calls that were not made because the circuit breaker of the endpoint was open, by endpoint and type.";
                registered(registry, IntCounterVec::new(Opts::new(name, help), breaker)?)?
            },
            condition_errors: counter(
                registry,
                "match_condition_evaluation_errors_total",
                "[ALPHA] Admission match condition evaluation errors count, identified by name of resource containing the match \
                 condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission \
                 type (validate or admit).",
                condition,
            )?,
            condition_exclusions: counter(
                registry,
                "match_condition_exclusions_total",
                "[ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing the \
                 match condition and broken out for each kind containing matchConditions (webhook or policy), operation and \
                 admission type (validate or admit).",
                condition,
            )?,
            condition_seconds: registered(
                registry,
                histogram(
                    "match_condition_evaluation_seconds",
                    "[ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each \
                     kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
                    CONDITION_LATENCIES,
                    condition,
                )?,
            )?,
            manifests: manifests::Metrics::new(registry)?,
            conversions: conversion::Metrics::new(registry)?,
            shadows: shadow::Metrics::new(registry)?,
        })
    }

    /// The registry in which plugins register their own metrics.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The metrics of manifests that are read from files.
    pub fn manifests(&self) -> &manifests::Metrics {
        &self.manifests
    }

    /// The metrics of conversions by webhooks.
    pub fn conversions(&self) -> &conversion::Metrics {
        &self.conversions
    }

    /// The metrics of shadow mode.
    pub fn shadows(&self) -> &shadow::Metrics {
        &self.shadows
    }

    /// The metrics of a whole phase (`admit` or `validate`) with the given outcome.
    pub fn step(&self, step: &'static str, operation: Operation, rejected: bool) -> Step {
        let labels = [step, operation.as_str(), boolean(rejected)];
        Step { histogram: self.step.with_label_values(&labels), summary: self.step_summary.with(labels) }
    }

    /// The latency histogram of a plugin in a phase with the given outcome.
    pub fn controller(&self, name: &str, step: &str, operation: Operation, rejected: bool) -> Histogram {
        self.controller.seconds(&[name, step, operation.as_str(), boolean(rejected)])
    }

    /// Counts a pass over the plugins. `left_out` returns the plugins that handle the operation, but not the resource.
    pub fn passed(&self, pass: Pass, left_out: impl FnOnce() -> Vec<&'static str>) {
        self.controller.passed(pass, left_out);
    }

    /// Records a webhook call. The code is 200 for a success and 0 for an internal error.
    pub fn observe_webhook(&self, call: &WebhookCall<'_>, elapsed: Duration, rejected: bool, code: u16) {
        let (operation, rejected) = (call.operation.as_str(), boolean(rejected));
        let code = code.min(MAX_CODE).to_string();
        self.webhook_requests.with_label_values(&[call.name, call.kind, operation, &*code, rejected]).inc();
        self.webhook.with_label_values(&[call.name, call.kind, operation, rejected]).observe(elapsed.as_secs_f64());
    }

    /// Counts a webhook call that ends in a rejection.
    pub fn observe_webhook_rejection(&self, call: &WebhookCall<'_>, error: RejectionError, code: u16) {
        let code = code.min(MAX_CODE).to_string();
        let labels = [call.name, call.kind, call.operation.as_str(), error.as_str(), &*code];
        self.webhook_rejections.with_label_values(&labels).inc();
    }

    /// Counts a failed webhook call that failurePolicy Ignore admits.
    pub fn observe_webhook_fail_open(&self, name: &str, kind: &str) {
        self.webhook_fail_opens.with_label_values(&[name, kind]).inc();
    }

    /// Records whether the circuit breaker of an endpoint is open.
    pub fn set_webhook_breaker(&self, endpoint: &str, kind: &str, is_open: bool) {
        self.webhook_breakers.with_label_values(&[endpoint, kind]).set(is_open.into());
    }

    /// Counts a call that the open circuit breaker of an endpoint prevents.
    pub fn observe_webhook_breaker_rejection(&self, endpoint: &str, kind: &str) {
        self.webhook_breaker_rejections.with_label_values(&[endpoint, kind]).inc();
    }

    /// Removes the metrics of an endpoint's circuit breaker.
    pub fn forget_webhook_breaker(&self, endpoint: &str, kind: &str) {
        // Removal fails for labels that were never counted, which is harmless.
        let _ = self.webhook_breakers.remove_label_values(&[endpoint, kind]);
        let _ = self.webhook_breaker_rejections.remove_label_values(&[endpoint, kind]);
    }

    /// Records the latency of an evaluation of match conditions.
    pub fn observe_match_conditions(&self, conditions: &MatchConditions<'_>, elapsed: Duration) {
        self.condition_seconds.with_label_values(&conditions.labels()).observe(elapsed.as_secs_f64());
    }

    /// Counts an evaluation of match conditions that fails.
    pub fn observe_match_condition_error(&self, conditions: &MatchConditions<'_>) {
        self.condition_errors.with_label_values(&conditions.labels()).inc();
    }

    /// Counts a request that match conditions exclude.
    pub fn observe_match_condition_exclusion(&self, conditions: &MatchConditions<'_>) {
        self.condition_exclusions.with_label_values(&conditions.labels()).inc();
    }
}

/// The metrics of the common outcome (not rejected), by operation. A lookup by labels takes longer than the measured code, so
/// the metric of each operation is cached at its first observation.
#[derive(Debug)]
pub struct Accepted<T>([OnceLock<T>; 4]);

impl<T> Default for Accepted<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; 4])
    }
}

impl<T> Accepted<T> {
    /// The metric of an operation. `find` looks up the metric at the first observation.
    pub fn of(&self, operation: Operation, find: impl FnOnce() -> T) -> &T {
        let [create, update, delete, connect] = &self.0;
        let kept = match operation {
            Operation::Create => create,
            Operation::Update => update,
            Operation::Delete => delete,
            Operation::Connect => connect,
        };
        kept.get_or_init(find)
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
        metrics.step("admit", Operation::Delete, true).observe(Duration::from_millis(6));
        metrics.controller("AlwaysDeny", "validate", Operation::Update, true).observe(0.0);
        metrics.observe_webhook(&call, Duration::from_secs(11), false, 200);
        metrics.observe_webhook_rejection(&call, RejectionError::None, 700);
        metrics.observe_webhook_fail_open("w.lab.dev", "admit");
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            r#"apiserver_admission_step_admission_duration_seconds_bucket{operation="DELETE",rejected="true",type="admit",le="0.005"} 0"#,
            r#"apiserver_admission_step_admission_duration_seconds_bucket{operation="DELETE",rejected="true",type="admit",le="0.025"} 1"#,
            r#"apiserver_admission_step_admission_duration_seconds_summary_count{operation="DELETE",rejected="true",type="admit"} 1"#,
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
