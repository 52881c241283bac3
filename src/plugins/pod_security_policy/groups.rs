//! Ranges of IDs, and the rules for groups: `runAsGroup`, `supplementalGroups`, `fsGroup`.

use super::policy::{IdRange, StrategyOptions, UnusableRule};
use super::report::Report;
use std::fmt;

/// Ranges of IDs; never empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranges {
    first: IdRange,
    further: Vec<IdRange>,
}

impl Ranges {
    /// `None` if there are no ranges.
    pub(super) fn new(ranges: Vec<IdRange>) -> Option<Self> {
        let mut ranges = ranges.into_iter();
        Some(Self { first: ranges.next()?, further: ranges.collect() })
    }

    /// The ID that a pod without an ID gets.
    pub(super) fn first_id(&self) -> i64 {
        self.first.min
    }

    pub(super) fn contain(&self, id: i64) -> bool {
        self.all().any(|range| range.min <= id && id <= range.max)
    }

    fn all(&self) -> impl Iterator<Item = &IdRange> {
        std::iter::once(&self.first).chain(&self.further)
    }
}

impl fmt::Display for Ranges {
    /// The ranges as Go prints a slice of structs: `[{1 5} {8 9}]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, IdRange { min, max }) in self.all().enumerate() {
            let before = if index == 0 { "[" } else { " " };
            write!(f, "{before}{{{min} {max}}}")?;
        }
        f.write_str("]")
    }
}

/// The rule for groups (`GroupStrategy`).
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GroupRule {
    Any,
    May(Ranges),
    Must(Ranges),
}

impl GroupRule {
    /// # Errors
    /// If the rule is unknown or lacks ranges. `field` is the field of the policy.
    pub(super) fn new(field: &'static str, options: StrategyOptions) -> Result<Self, UnusableRule> {
        let rule = options.rule.as_deref().unwrap_or_default();
        let ranges = || {
            let ranges = Ranges::new(options.ranges.unwrap_or_default());
            ranges.ok_or_else(|| UnusableRule::NoRanges { field, rule: rule.to_owned() })
        };
        match rule {
            "RunAsAny" => Ok(Self::Any),
            "MayRunAs" => ranges().map(Self::May),
            "MustRunAs" => ranges().map(Self::Must),
            _ => Err(UnusableRule::unknown(field, rule)),
        }
    }

    /// The group that a pod without a group gets.
    pub(super) fn default(&self) -> Option<i64> {
        match self {
            Self::Must(ranges) => Some(ranges.first_id()),
            Self::Any | Self::May(_) => None,
        }
    }

    /// Checks the groups of a pod or of a container.
    pub(super) fn check(&self, path: impl fmt::Display + Copy, groups: &[i64], report: &mut Report) {
        let ranges = match self {
            Self::Any => return,
            Self::May(ranges) => ranges,
            Self::Must(ranges) => {
                if groups.is_empty() {
                    report.invalid(path, Groups(groups), "unable to validate empty groups against required ranges");
                }
                ranges
            }
        };
        for group in groups.iter().filter(|group| !ranges.contain(**group)) {
            let detail = format_args!("group {group} must be in the ranges: {ranges}");
            report.invalid(path, Groups(groups), detail);
            if report.is_complete() {
                return;
            }
        }
    }
}

/// Groups as Go prints a slice with its type: `[]int64{1, 2}`.
struct Groups<'a>(&'a [i64]);

impl fmt::Display for Groups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[]int64{")?;
        for (index, group) in self.0.iter().enumerate() {
            let before = if index == 0 { "" } else { ", " };
            write!(f, "{before}{group}")?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(rule: &str, ranges: &[(i64, i64)]) -> StrategyOptions {
        let ranges = ranges.iter().map(|&(min, max)| IdRange { min, max }).collect();
        StrategyOptions { rule: Some(rule.to_owned()), ranges: Some(ranges) }
    }

    fn checked(rule: &str, groups: &[i64]) -> String {
        let rule = GroupRule::new("fsGroup", options(rule, &[(5, 10), (20, 20)])).unwrap();
        let mut report = Report::full();
        rule.check("g", groups, &mut report);
        report.into_text()
    }

    #[test]
    fn groups_must_be_in_a_range() {
        let detail = "must be in the ranges: [{5 10} {20 20}]";
        let empty = "g: Invalid value: []int64{}: unable to validate empty groups against required ranges";
        for (rule, groups, want) in [
            ("RunAsAny", vec![], String::new()),
            ("RunAsAny", vec![1], String::new()),
            ("MayRunAs", vec![], String::new()),
            ("MayRunAs", vec![5, 10, 20], String::new()),
            ("MayRunAs", vec![1], format!("g: Invalid value: []int64{{1}}: group 1 {detail}")),
            ("MustRunAs", vec![], empty.to_owned()),
            ("MustRunAs", vec![7], String::new()),
            ("MustRunAs", vec![7, 1], format!("g: Invalid value: []int64{{7, 1}}: group 1 {detail}")),
            (
                "MustRunAs",
                vec![4, 21],
                format!(
                    "g: Invalid value: []int64{{4, 21}}: group 4 {detail} g: Invalid value: []int64{{4, 21}}: group 21 {detail}"
                ),
            ),
        ] {
            assert_eq!(checked(rule, &groups), want, "{rule} {groups:?}");
        }
    }

    #[test]
    fn only_a_required_group_is_a_default() {
        for (rule, want) in [("RunAsAny", None), ("MayRunAs", None), ("MustRunAs", Some(5))] {
            assert_eq!(GroupRule::new("fsGroup", options(rule, &[(5, 10)])).unwrap().default(), want, "{rule}");
        }
    }

    #[test]
    fn a_rule_without_ranges_is_refused() {
        for rule in ["MayRunAs", "MustRunAs"] {
            let why = GroupRule::new("fsGroup", options(rule, &[])).unwrap_err();
            assert_eq!(why.to_string(), format!("spec.fsGroup: ranges must be supplied for {rule}"));
        }
        let why = GroupRule::new("fsGroup", options("MustRunAsNonRoot", &[(1, 1)])).unwrap_err();
        assert_eq!(why.to_string(), "spec.fsGroup: unrecognized strategy type \"MustRunAsNonRoot\"");
    }
}
