//! Policies in shadow mode: evaluated as ever, but they refuse, change, warn of and audit nothing. What they would have decided is told.
//!
//! A mutating one is shown the object as it is when its turn comes, in the first pass only; the object that it makes is dropped.

use crate::admission::Attributes;
use crate::admission::metrics::Metrics;
use crate::admission::shadow::{Decision, Report, Shadow};
use std::time::Duration;

/// How many decisions of one phase are logged and in the audit log; all of them are counted.
const MAX_TOLD: usize = 50;

/// The shadows of one phase of one request.
pub struct Shadows<'a> {
    step: &'static str,
    metrics: &'a Metrics,
    decisions: usize,
}

/// What would have become of the request.
#[derive(Debug, PartialEq)]
pub struct Would {
    /// The decision.
    pub decision: Decision,
    /// The code of the refusal; 0 where there is none.
    pub code: u16,
    /// Why it is refused, or why there is no decision.
    pub message: String,
    /// What would have been changed.
    pub paths: Vec<String>,
}

impl Would {
    /// A decision of which there is no more to say.
    pub fn be(decision: Decision) -> Self {
        Self { decision, code: 0, message: String::new(), paths: Vec::new() }
    }

    /// The end of something that went wrong, which is ignored or not.
    pub fn fail(is_ignored: bool, code: u16, message: impl Into<String>) -> Self {
        let decision = if is_ignored { Decision::FailedOpen } else { Decision::FailedClosed };
        Self { code, message: message.into(), ..Self::be(decision) }
    }

    /// What counts of several decisions: the first refusal, then the first failure.
    pub fn worst(all: impl Iterator<Item = Self>) -> Self {
        let weight = |would: &Self| match would.decision {
            Decision::Denied => 0,
            Decision::FailedClosed => 1,
            Decision::FailedOpen => 2,
            Decision::Changed | Decision::Allowed => 3,
        };
        all.min_by_key(weight).unwrap_or_else(|| Self::be(Decision::Allowed))
    }
}

impl<'a> Shadows<'a> {
    /// Of a phase: `admit` or `validating`.
    pub fn new(step: &'static str, metrics: &'a Metrics) -> Self {
        Self { step, metrics, decisions: 0 }
    }

    /// Tells what a policy would have decided for a binding; it has none where it did not get so far.
    pub fn tell(
        &mut self,
        attributes: &Attributes,
        (policy, binding): (&str, Option<&str>),
        would: &Would,
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
