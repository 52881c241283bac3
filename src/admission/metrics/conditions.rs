//! Metrics of match conditions.

use super::{counter, histogram, registered};
use crate::admission::Operation;
use crate::metrics::Registry;
use prometheus::{HistogramVec, IntCounterVec};
use std::time::Duration;

/// The buckets of match conditions, in seconds.
const CONDITION_LATENCIES: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// The labels of an evaluation of match conditions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchConditions<'a> {
    /// The name of the webhook or policy.
    pub(crate) name: &'a str,
    /// `webhook` or `policy`.
    pub(crate) kind: &'a str,
    /// `admit`, `validating` or `validate`.
    pub(crate) step: &'a str,
    /// The operation on the object.
    pub(crate) operation: Operation,
}

impl<'a> MatchConditions<'a> {
    fn labels(&self) -> [&'a str; 4] {
        [self.name, self.kind, self.step, self.operation.as_str()]
    }
}

/// The metrics of match conditions.
#[derive(Debug)]
pub(crate) struct ConditionMetrics {
    errors: IntCounterVec,
    exclusions: IntCounterVec,
    seconds: HistogramVec,
}

impl ConditionMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let condition = &["name", "kind", "type", "operation"];
        Ok(Self {
            errors: counter(
                registry,
                "match_condition_evaluation_errors_total",
                "[ALPHA] Admission match condition evaluation errors count, identified by name of resource containing the match \
                 condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission \
                 type (validate or admit).",
                condition,
            )?,
            exclusions: counter(
                registry,
                "match_condition_exclusions_total",
                "[ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing the \
                 match condition and broken out for each kind containing matchConditions (webhook or policy), operation and \
                 admission type (validate or admit).",
                condition,
            )?,
            seconds: registered(
                registry,
                histogram(
                    "match_condition_evaluation_seconds",
                    "[ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each \
                     kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
                    CONDITION_LATENCIES,
                    condition,
                )?,
            )?,
        })
    }

    /// Records the latency of an evaluation of match conditions.
    pub(crate) fn observe(&self, conditions: &MatchConditions<'_>, elapsed: Duration) {
        self.seconds.with_label_values(&conditions.labels()).observe(elapsed.as_secs_f64());
    }

    /// Counts an evaluation of match conditions that fails.
    pub(crate) fn observe_error(&self, conditions: &MatchConditions<'_>) {
        self.errors.with_label_values(&conditions.labels()).inc();
    }

    /// Counts a request that match conditions exclude.
    pub(crate) fn observe_exclusion(&self, conditions: &MatchConditions<'_>) {
        self.exclusions.with_label_values(&conditions.labels()).inc();
    }
}
