//! A namespace's policy from its labels: a level and a version for each of the three modes.

use crate::go_text::go_quote;
use crate::status::{Cause, invalid};
use std::fmt;

/// The level of a policy, from the most permissive to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// Parses a level (`api.ParseLevel`).
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The version of a policy: `latest`, or the minor version after `v1.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Minor(u64),
    Latest,
}

impl Version {
    /// Parses a version (`api.ParseVersion`).
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "must be \"latest\" or \"v1.x\"";
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let minor = text.strip_prefix("v1.").ok_or(WRONG)?;
        let is_canonical = minor == "0" || !minor.starts_with('0');
        if !is_canonical || !minor.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(WRONG);
        }
        // The maximum is that of Go's int, 63 bits.
        minor.parse::<i64>().ok().and_then(|minor| u64::try_from(minor).ok()).map(Self::Minor).ok_or(WRONG)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

/// A level and a version: `restricted:v1.30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl LevelVersion {
    /// The default without labels and configuration.
    pub(super) const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };

    fn is_equivalent(&self, other: &Self) -> bool {
        self == other || (self.level == Level::Privileged && other.level == Level::Privileged)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.as_str(), self.version)
    }
}

/// The policy of each mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// The default without labels and configuration.
    pub(super) const PRIVILEGED: Self =
        Self { enforce: LevelVersion::PRIVILEGED, audit: LevelVersion::PRIVILEGED, warn: LevelVersion::PRIVILEGED };

    /// Whether every mode has the level privileged.
    pub(super) fn is_fully_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }

    /// Whether both policies have the same effect.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.enforce.is_equivalent(&other.enforce)
            && self.audit.is_equivalent(&other.audit)
            && self.warn.is_equivalent(&other.warn)
    }
}

/// The labels of one mode, for the level and for the version.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModeLabels {
    /// The mode's name.
    pub(super) mode: &'static str,
    pub(super) level: &'static str,
    pub(super) version: &'static str,
}

pub(super) const ENFORCE: ModeLabels = ModeLabels {
    mode: "enforce",
    level: "pod-security.kubernetes.io/enforce",
    version: "pod-security.kubernetes.io/enforce-version",
};
pub(super) const AUDIT: ModeLabels = ModeLabels {
    mode: "audit",
    level: "pod-security.kubernetes.io/audit",
    version: "pod-security.kubernetes.io/audit-version",
};
pub(super) const WARN: ModeLabels = ModeLabels {
    mode: "warn",
    level: "pod-security.kubernetes.io/warn",
    version: "pod-security.kubernetes.io/warn-version",
};

/// A label whose value is not a valid level or version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelFault {
    label: &'static str,
    value: String,
    why: &'static str,
}

impl LabelFault {
    fn field(&self) -> String {
        format!("metadata.labels[{}]", self.label)
    }

    fn body(&self) -> String {
        format!("Invalid value: {}: {}", go_quote(&self.value), self.why)
    }

    /// The fault as a cause of a Status.
    pub(super) fn cause(&self) -> Cause {
        Cause { reason: "FieldValueInvalid".into(), message: self.body(), field: self.field() }
    }
}

/// The faults in one text, in the form of a Go aggregate.
pub(super) fn aggregate(faults: &[LabelFault]) -> String {
    invalid::aggregate(faults.iter().map(|fault| format!("{}: {}", fault.field(), fault.body()))).unwrap_or_default()
}

/// The policy in the labels, and the invalid labels (`api.PolicyToEvaluate`). An invalid level counts as `restricted` for
/// enforce, and as `privileged` for audit and warn. An invalid version counts as `latest`.
pub(super) fn policy_of<'a>(label: impl Fn(&str) -> Option<&'a str>, defaults: &Policy) -> (Policy, Vec<LabelFault>) {
    let mut faults = Vec::new();
    let mut policy = *defaults;
    let mut level = |name, fallback| {
        let text = label(name)?;
        Some(Level::parse(text).map_err(|why| {
            faults.push(LabelFault { label: name, value: text.to_owned(), why });
            fallback
        }))
    };
    let enforce_level = level(ENFORCE.level, Level::Restricted);
    let audit_level = level(AUDIT.level, Level::Privileged);
    let warn_level = level(WARN.level, Level::Privileged);
    let mut version = |name| {
        let text = label(name)?;
        Some(Version::parse(text).unwrap_or_else(|why| {
            faults.push(LabelFault { label: name, value: text.to_owned(), why });
            Version::Latest
        }))
    };
    let enforce_version = version(ENFORCE.version);
    let audit_version = version(AUDIT.version);
    let warn_version = version(WARN.version);
    for (mode, level, version) in [
        (&mut policy.enforce, enforce_level, enforce_version),
        (&mut policy.audit, audit_level, audit_version),
        (&mut policy.warn, warn_level, warn_version),
    ] {
        mode.level = level.map_or(mode.level, |level| level.unwrap_or_else(|fallback| fallback));
        mode.version = version.unwrap_or(mode.version);
    }
    // A higher enforce level also raises the default warn level.
    if warn_level.is_none() && matches!(enforce_level, Some(Ok(level)) if level > policy.warn.level) {
        policy.warn.level = policy.enforce.level;
        if warn_version.is_none() {
            policy.warn.version = policy.enforce.version;
        }
    }
    faults.sort_by_key(|fault| position(fault.label));
    (policy, faults)
}

/// The position of a label in the list of faults.
fn position(label: &str) -> usize {
    let order = [ENFORCE, AUDIT, WARN];
    order.iter().flat_map(|mode| [mode.level, mode.version]).position(|name| name == label).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(labels: &[(&str, &'static str)]) -> (String, String) {
        parse_with(labels, &Policy::PRIVILEGED)
    }

    /// The three modes in one line, and the faults.
    fn parse_with(labels: &[(&str, &'static str)], defaults: &Policy) -> (String, String) {
        let label = |name: &str| {
            let name = name.strip_prefix("pod-security.kubernetes.io/").expect("a label of this plugin");
            labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value)
        };
        let (policy, faults) = policy_of(label, defaults);
        let text = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (text, if faults.is_empty() { String::new() } else { aggregate(&faults) })
    }

    #[test]
    fn versions_are_latest_or_of_the_first_major_version() {
        for (text, version) in [
            ("latest", Some(Version::Latest)),
            ("v1.0", Some(Version::Minor(0))),
            ("v1.36", Some(Version::Minor(36))),
            ("v1.9223372036854775807", Some(Version::Minor(i64::MAX as u64))),
            ("v1.9223372036854775808", None),
            ("v1.01", None),
            ("v1.00", None),
            ("v1.", None),
            ("v1.+1", None),
            ("v1.-1", None),
            ("v2.0", None),
            ("1.36", None),
            ("v1", None),
            ("v1.1.0", None),
            ("v1.1\n", None),
            ("Latest", None),
            ("", None),
        ] {
            assert_eq!(Version::parse(text).ok(), version, "{text:?}");
            if let Some(version) = version {
                assert_eq!(version.to_string(), text);
            }
        }
    }

    #[test]
    fn a_missing_label_means_the_default() {
        let none = ("privileged:latest privileged:latest privileged:latest".to_owned(), String::new());
        assert_eq!(parse(&[]), none);
        let defaults = Policy {
            enforce: LevelVersion { level: Level::Baseline, version: Version::Minor(20) },
            audit: LevelVersion { level: Level::Restricted, version: Version::Minor(21) },
            warn: LevelVersion { level: Level::Restricted, version: Version::Minor(22) },
        };
        assert_eq!(parse_with(&[], &defaults).0, "baseline:v1.20 restricted:v1.21 restricted:v1.22");
        assert_eq!(
            parse_with(&[("enforce", "privileged"), ("audit-version", "latest")], &defaults).0,
            "privileged:v1.20 restricted:latest restricted:v1.22"
        );
    }

    #[test]
    fn a_stricter_enforce_label_raises_the_warnings_that_no_label_sets() {
        for (labels, modes) in [
            (&[("enforce", "baseline")][..], "baseline:latest privileged:latest baseline:latest"),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.20")],
                "restricted:v1.20 privileged:latest restricted:v1.20",
            ),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.20"), ("warn-version", "v1.21")],
                "restricted:v1.20 privileged:latest restricted:v1.21",
            ),
            (&[("enforce", "restricted"), ("warn", "baseline")], "restricted:latest privileged:latest baseline:latest"),
            (&[("enforce-version", "v1.20")], "privileged:v1.20 privileged:latest privileged:latest"),
        ] {
            assert_eq!(parse(labels), (modes.to_owned(), String::new()), "{labels:?}");
        }
        let defaults = Policy {
            enforce: LevelVersion { level: Level::Restricted, version: Version::Latest },
            ..Policy::PRIVILEGED
        };
        assert_eq!(
            parse_with(&[("audit", "baseline")], &defaults).0,
            "restricted:latest baseline:latest privileged:latest"
        );
    }

    #[test]
    fn a_wrong_label_is_strict_where_it_refuses_and_lax_where_it_does_not() {
        let (modes, faults) = parse(&[("enforce", "x"), ("audit", "y"), ("warn", "")]);
        assert_eq!(modes, "restricted:latest privileged:latest privileged:latest");
        let fault = |label: &str, value: &str| {
            format!(
                "metadata.labels[pod-security.kubernetes.io/{label}]: Invalid value: \"{value}\": must be one of \
                 privileged, baseline, restricted"
            )
        };
        assert_eq!(faults, format!("[{}, {}, {}]", fault("enforce", "x"), fault("audit", "y"), fault("warn", "")));
        let (modes, faults) = parse(&[("enforce", "baseline"), ("enforce-version", "1.2"), ("warn-version", "v1.2")]);
        assert_eq!(modes, "baseline:latest privileged:latest baseline:v1.2");
        assert_eq!(
            faults,
            "metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \"1.2\": must be \"latest\" \
             or \"v1.x\""
        );
    }

    #[test]
    fn faults_come_mode_by_mode() {
        let (_, faults) = parse(&[("warn", "a"), ("enforce-version", "b"), ("enforce", "c"), ("audit-version", "d")]);
        let places: Vec<usize> =
            ["enforce]", "enforce-version]", "audit-version]", "warn]"].iter().filter_map(|p| faults.find(p)).collect();
        assert!(places.len() == 4 && places.is_sorted(), "{faults}");
    }
}
