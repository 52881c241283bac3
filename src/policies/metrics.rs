//! `apiserver_validating_admission_policy_*` and `apiserver_mutating_admission_policy_*`: kube-apiserver's names, labels and buckets.

use crate::metrics::Registry;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use std::time::Duration;

const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// The error of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorType {
    /// No error.
    None,
    /// The expression does not compile.
    Compile,
    /// The expression does not evaluate, or is false.
    Invalid,
    /// The expression costs too much.
    OutOfBudget,
}

impl ErrorType {
    /// Returns the type of an error message (`ErrorType`).
    pub(super) fn of(message: &str) -> Self {
        if message.starts_with("compilation") {
            Self::Compile
        } else if message.starts_with("validation failed due to running out of cost budget") {
            Self::OutOfBudget
        } else {
            Self::Invalid
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::None => "no_error",
            Self::Compile => "compile_error",
            Self::Invalid => "invalid_error",
            Self::OutOfBudget => "out_of_budget",
        }
    }
}

/// The metrics of policy checks.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    total: IntCounterVec,
    seconds: HistogramVec,
}

impl Checks {
    /// Registers the metrics of validating policies.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(super) fn validating(registry: &Registry) -> prometheus::Result<Self> {
        let labels = ["policy", "policy_binding", "error_type", "enforcement_action"];
        let total = "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and \
                     enforcement action taken.";
        let seconds = "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy \
                       and further including binding and enforcement action taken.";
        Self::register(registry, "validating", [total, seconds], &labels)
    }

    /// Registers the metrics of mutating policies.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(super) fn mutating(registry: &Registry) -> prometheus::Result<Self> {
        let total =
            "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.";
        let seconds = "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and \
                       binding.";
        Self::register(registry, "mutating", [total, seconds], &["policy", "policy_binding", "error_type"])
    }

    fn register(
        registry: &Registry,
        kind: &str,
        [of_total, of_seconds]: [&str; 2],
        labels: &[&str],
    ) -> prometheus::Result<Self> {
        let name = |end: &str| format!("apiserver_{kind}_admission_policy_check_{end}");
        let total = IntCounterVec::new(Opts::new(name("total"), of_total), labels)?;
        let options = HistogramOpts::new(name("duration_seconds"), of_seconds).buckets(BUCKETS.to_vec());
        let seconds = HistogramVec::new(options, labels)?;
        registry.register(Box::new(total.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(Self { total, seconds })
    }

    /// Records a validation that failed, or an error that was ignored (`allow`).
    pub(super) fn observe_validation(
        &self,
        policy: &str,
        binding: &str,
        error: ErrorType,
        action: &str,
        elapsed: Duration,
    ) {
        self.observe(&[policy, binding, error.as_str(), action], elapsed);
    }

    /// Records a mutation, whatever its result.
    pub(super) fn observe_mutation(&self, policy: &str, binding: &str, error: ErrorType, elapsed: Duration) {
        self.observe(&[policy, binding, error.as_str()], elapsed);
    }

    fn observe(&self, labels: &[&str], elapsed: Duration) {
        self.total.with_label_values(labels).inc();
        self.seconds.with_label_values(labels).observe(elapsed.as_secs_f64());
    }
}
