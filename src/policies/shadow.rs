//! Policies in shadow mode: they are evaluated, but do not reject, change, warn or audit. Their decisions are reported.
//!
//! A mutating policy gets the object as it is at the policy's turn, in the first pass only; the object that it makes is dropped.

use crate::admission::Attributes;
use crate::admission::metrics::Metrics;
use crate::admission::shadow::{Report, Shadow, ShadowVerdict};
use std::time::Duration;

/// The number of decisions of one phase that are logged and audited; all decisions are counted.
const MAX_TOLD: usize = 50;

/// The policies in shadow mode of one phase of one request.
pub(super) struct ShadowDecisions<'a> {
    step: &'static str,
    metrics: &'a Metrics,
    decisions: usize,
}

/// The decision that a policy in shadow mode would have made.
#[derive(Debug, PartialEq)]
pub(crate) struct ShadowDecision {
    pub(crate) decision: ShadowVerdict,
    /// The code of the rejection; 0 without one.
    pub(crate) code: u16,
    /// The reason of the rejection, or of the failure.
    pub(crate) message: String,
    /// The paths that would have been changed.
    pub(crate) paths: Vec<String>,
}

impl ShadowDecision {
    /// Creates a decision without further details.
    pub(crate) fn be(decision: ShadowVerdict) -> Self {
        Self { decision, code: 0, message: String::new(), paths: Vec::new() }
    }

    /// Creates the decision of a failure that the failurePolicy ignores or not.
    pub(crate) fn fail(is_ignored: bool, code: u16, message: impl Into<String>) -> Self {
        let decision = if is_ignored { ShadowVerdict::FailedOpen } else { ShadowVerdict::FailedClosed };
        Self { code, message: message.into(), ..Self::be(decision) }
    }

    /// Returns the decision that counts among several: the first rejection, then the first failure.
    pub(crate) fn worst(all: impl Iterator<Item = Self>) -> Self {
        let weight = |would: &Self| match would.decision {
            ShadowVerdict::Denied => 0,
            ShadowVerdict::FailedClosed => 1,
            ShadowVerdict::FailedOpen => 2,
            ShadowVerdict::Changed | ShadowVerdict::Allowed => 3,
        };
        all.min_by_key(weight).unwrap_or_else(|| Self::be(ShadowVerdict::Allowed))
    }
}

impl<'a> ShadowDecisions<'a> {
    /// Creates the state of a phase: `admit` or `validating`.
    pub(super) fn new(step: &'static str, metrics: &'a Metrics) -> Self {
        Self { step, metrics, decisions: 0 }
    }

    /// Reports the decision of a policy for a binding; `None` if the policy failed before its bindings.
    pub(super) fn report(
        &mut self,
        attributes: &Attributes,
        policy: &str,
        binding: Option<&str>,
        would: &ShadowDecision,
        elapsed: Duration,
    ) {
        let (configuration, name) = (binding.unwrap_or_default().to_owned(), policy.to_owned());
        let shadow = Shadow { configuration, name, kind: "policy", step: self.step, index: self.decisions };
        let report = Report::new(shadow, would.decision, elapsed).because(would.code, &would.message);
        let report = report.changing(would.paths.iter().map(String::as_str), 0);
        if self.decisions < MAX_TOLD {
            report.publish(attributes, self.metrics.shadows());
        } else {
            report.count(attributes, self.metrics.shadows());
        }
        self.decisions += 1;
    }
}
