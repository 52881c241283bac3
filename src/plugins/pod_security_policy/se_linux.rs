//! The rule for SELinux options: `seLinux`.

use super::policy::{SeLinuxStrategy, UnusableRule};
use super::report::{Quoted, Report};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The SELinux options of a policy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct SeLinuxOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
}

/// The SELinux options of a pod or of a container.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct SeLinux<'a> {
    #[serde(borrow)]
    level: Option<&'a str>,
    role: Option<&'a str>,
    r#type: Option<&'a str>,
    user: Option<&'a str>,
}

/// The rule for SELinux options (`SELinuxStrategy`).
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SeLinuxRule {
    Any,
    Must(Arc<SeLinuxOptions>),
}

impl SeLinuxRule {
    /// # Errors
    /// If the rule is unknown or lacks options.
    pub(super) fn new(strategy: SeLinuxStrategy) -> Result<Self, UnusableRule> {
        match strategy.rule.as_deref().unwrap_or_default() {
            "RunAsAny" => Ok(Self::Any),
            "MustRunAs" => {
                let options = strategy.se_linux_options.ok_or(UnusableRule::NoSeLinuxOptions)?;
                Ok(Self::Must(Arc::new(options)))
            }
            rule => Err(UnusableRule::unknown("seLinux", rule)),
        }
    }

    /// The options that a pod without options gets.
    pub(super) fn default(&self) -> Option<&Arc<SeLinuxOptions>> {
        match self {
            Self::Must(options) => Some(options),
            Self::Any => None,
        }
    }

    /// Checks the options of a pod or of a container. Options that are missing are those of the policy.
    pub(super) fn check(&self, path: impl fmt::Display, options: Option<SeLinux<'_>>, report: &mut Report) {
        let (Self::Must(required), Some(options)) = (self, options) else { return };
        for (field, required, actual) in [
            ("level", &required.level, options.level),
            ("role", &required.role, options.role),
            ("type", &required.r#type, options.r#type),
            ("user", &required.user, options.user),
        ] {
            let (required, actual) = (required.as_deref().unwrap_or_default(), actual.unwrap_or_default());
            if required != actual && !(field == "level" && are_equal_levels(required, actual)) {
                let detail = format_args!("must be {required}");
                report.invalid(format_args!("{path}.{field}"), Quoted(actual), detail);
            }
        }
    }
}

/// Whether two levels differ at most in the order of their categories.
fn are_equal_levels(one: &str, other: &str) -> bool {
    let (Some((sensitivity, categories)), Some((other_sensitivity, other_categories))) =
        (one.split_once(':'), other.split_once(':'))
    else {
        return false;
    };
    let sorted = |categories: &str| {
        let mut sorted: Vec<_> = categories.split(',').map(str::to_owned).collect();
        sorted.sort_unstable();
        sorted
    };
    sensitivity == other_sensitivity && sorted(categories) == sorted(other_categories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_categories_does_not_matter() {
        for (one, other, want) in [
            ("s0:c6,c0", "s0:c0,c6", true),
            ("s0:c6,c0", "s0:c6,c0", true),
            ("s0:c6,c0", "s1:c6,c0", false),
            ("s0:c6,c0", "s0:c6", false),
            ("s0:c6,c0", "s0", false),
            ("s0:c0,c0", "s0:c0", false),
            ("s0:c1:c2", "s0:c1:c2", true),
        ] {
            assert_eq!(are_equal_levels(one, other), want, "{one} {other}");
        }
    }
}
