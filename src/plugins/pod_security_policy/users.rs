//! The rule for the user of a container: `runAsUser`.

use super::groups::Ranges;
use super::policy::{StrategyOptions, UnusableRule};
use super::report::Report;
use std::fmt;

/// The rule for users (`RunAsUserStrategy`).
#[derive(Clone, Debug, PartialEq)]
pub(super) enum UserRule {
    Any,
    NonRoot,
    Must(Ranges),
}

impl UserRule {
    /// # Errors
    /// If the rule is unknown or lacks ranges.
    pub(super) fn new(options: StrategyOptions) -> Result<Self, UnusableRule> {
        match options.rule.as_deref().unwrap_or_default() {
            "RunAsAny" => Ok(Self::Any),
            "MustRunAsNonRoot" => Ok(Self::NonRoot),
            "MustRunAs" => {
                let ranges = Ranges::new(options.ranges.unwrap_or_default());
                ranges.map(Self::Must).ok_or(UnusableRule::NoUserRanges)
            }
            rule => Err(UnusableRule::unknown("runAsUser", rule)),
        }
    }

    /// The user that a container without a user gets.
    pub(super) fn default(&self) -> Option<i64> {
        match self {
            Self::Must(ranges) => Some(ranges.first_id()),
            Self::Any | Self::NonRoot => None,
        }
    }

    /// Checks the effective values of a container. `path` is the path of the container's security context.
    pub(super) fn check(
        &self,
        path: impl fmt::Display,
        run_as_non_root: Option<bool>,
        run_as_user: Option<i64>,
        report: &mut Report,
    ) {
        match (self, run_as_non_root, run_as_user) {
            (Self::Must(ranges), _, Some(user)) if !ranges.contain(user) => {
                let detail = format_args!("must be in the ranges: {ranges}");
                report.invalid(format_args!("{path}.runAsUser"), user, detail);
            }
            (Self::NonRoot, None, None) => report.required(format_args!("{path}.runAsNonRoot"), "must be true"),
            (Self::NonRoot, Some(false), _) => {
                report.invalid(format_args!("{path}.runAsNonRoot"), false, "must be true");
            }
            (Self::NonRoot, _, Some(0)) => {
                report.invalid(format_args!("{path}.runAsUser"), 0, "running with the root UID is forbidden");
            }
            _ => {}
        }
    }
}
