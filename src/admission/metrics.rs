//! Metrics of admission. `apiserver_admission_*` have kube-apiserver's names, labels and buckets; `kube_admission_proxy_*` are
//! the proxy's own.

mod conditions;
pub(crate) mod conversions;
pub(crate) mod manifests;
mod passes;
mod quantiles;
mod summary;
mod webhooks;

use super::{Operation, shadow};
use crate::metrics::Registry;
pub(crate) use conditions::{ConditionMetrics, MatchConditions};
use passes::Controllers;
pub(crate) use passes::Pass;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use summary::{Summary, SummaryVec};
pub(crate) use webhooks::{RejectionError, WebhookCall, WebhookMetrics};

/// The buckets of steps and plugins, in seconds.
const LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
/// The labels of a call of a plugin or of a webhook.
const CALL: &[&str] = &["name", "type", "operation", "rejected"];

/// The admission metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    step: HistogramVec,
    step_summary: SummaryVec<3>,
    controller: Controllers,
    webhooks: WebhookMetrics,
    conditions: ConditionMetrics,
    manifests: manifests::Metrics,
    conversions: conversions::Metrics,
    shadows: shadow::Metrics,
}

/// The metrics of a whole phase with one outcome.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    histogram: Histogram,
    summary: Arc<Summary>,
}

impl Step {
    /// Records the phase's latency.
    pub(crate) fn observe(&self, elapsed: Duration) {
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
                    CALL,
                )?),
            )?,
            webhooks: WebhookMetrics::new(registry)?,
            conditions: ConditionMetrics::new(registry)?,
            manifests: manifests::Metrics::new(registry)?,
            conversions: conversions::Metrics::new(registry)?,
            shadows: shadow::Metrics::new(registry)?,
        })
    }

    /// The registry in which plugins register their own metrics.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The metrics of webhooks.
    pub(crate) fn webhooks(&self) -> &WebhookMetrics {
        &self.webhooks
    }

    /// The metrics of match conditions.
    pub(crate) fn conditions(&self) -> &ConditionMetrics {
        &self.conditions
    }

    /// The metrics of manifests that are read from files.
    pub fn manifests(&self) -> &manifests::Metrics {
        &self.manifests
    }

    /// The metrics of conversions by webhooks.
    pub(crate) fn conversions(&self) -> &conversions::Metrics {
        &self.conversions
    }

    /// The metrics of shadow mode.
    pub(crate) fn shadows(&self) -> &shadow::Metrics {
        &self.shadows
    }

    /// The metrics of a whole phase (`admit` or `validate`) with the given outcome.
    pub(crate) fn step(&self, step: &'static str, operation: Operation, rejected: bool) -> Step {
        let labels = [step, operation.as_str(), boolean(rejected)];
        Step { histogram: self.step.with_label_values(&labels), summary: self.step_summary.with(labels) }
    }

    /// The latency histogram of a plugin in a phase with the given outcome.
    pub(crate) fn controller(&self, name: &str, step: &str, operation: Operation, rejected: bool) -> Histogram {
        self.controller.seconds(&[name, step, operation.as_str(), boolean(rejected)])
    }

    /// Counts a pass over the plugins. `left_out` returns the plugins that handle the operation, but not the resource.
    pub(crate) fn passed(&self, pass: Pass, left_out: impl FnOnce() -> Vec<&'static str>) {
        self.controller.passed(pass, left_out);
    }
}

/// The metrics of the common outcome (not rejected), by operation. A lookup by labels takes longer than the measured code, so
/// the metric of each operation is cached at its first observation.
#[derive(Debug)]
pub(crate) struct Accepted<T>([OnceLock<T>; 4]);

impl<T> Default for Accepted<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; 4])
    }
}

impl<T> Accepted<T> {
    /// The metric of an operation. `find` looks up the metric at the first observation.
    pub(crate) fn of(&self, operation: Operation, find: impl FnOnce() -> T) -> &T {
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
        metrics.webhooks().observe(&call, Duration::from_secs(11), false, 200);
        metrics.webhooks().observe_rejection(&call, RejectionError::None, 700);
        metrics.webhooks().observe_fail_open("w.lab.dev", "admit");
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
