//! The table of all checks, and the selection of checks by level and version.

mod allow_privilege_escalation;
mod app_armor_profile;
mod capabilities;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes_and_host_lifecycle;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_profile;
mod sysctls;
mod texts;
mod windows_host_process;
#[cfg(test)]
mod tests;

use super::pod::Pod;
use super::policy::{Level, LevelVersion, Version};
use crate::plugins::rules::pod::WrongType;
use std::sync::LazyLock;

/// The violation of a check by a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The short form.
    reason: &'static str,
    /// The containers or the pod, and the fields that violate the check.
    detail: String,
}

type CheckPod = fn(&Pod<'_>) -> Result<Option<Violation>, WrongType>;

/// A check in all versions.
struct Check {
    id: &'static str,
    level: Level,
    /// The functions of the check, each with the minor version from which on it applies, ascending.
    versions: &'static [(usize, CheckPod)],
    /// The id of the baseline check that this check replaces.
    overrides: &'static str,
}

impl Check {
    /// The function that applies in the minor version.
    fn at(&self, minor: usize) -> Option<CheckPod> {
        self.versions.iter().rev().find(|(since, _)| *since <= minor).map(|(_, check)| *check)
    }
}

const fn baseline(id: &'static str, versions: &'static [(usize, CheckPod)]) -> Check {
    Check { id, level: Level::Baseline, versions, overrides: "" }
}

const fn restricted(id: &'static str, versions: &'static [(usize, CheckPod)], overrides: &'static str) -> Check {
    Check { id, level: Level::Restricted, versions, overrides }
}

/// All checks, in the order of messages: the baseline checks, then the restricted checks, each sorted by id.
static CHECKS: &[Check] = &[
    baseline("appArmorProfile", &[(0, app_armor_profile::check)]),
    baseline("capabilities_baseline", &[(0, capabilities::baseline)]),
    baseline("hostNamespaces", &[(0, host_namespaces::check)]),
    baseline("hostPathVolumes", &[(0, host_path_volumes::check)]),
    baseline("hostPorts", &[(0, host_ports::check)]),
    baseline("hostProbesAndHostLifecycle", &[(34, host_probes_and_host_lifecycle::check)]),
    baseline("privileged", &[(0, privileged::check)]),
    baseline("procMount", &[(0, proc_mount::check), (35, proc_mount::outside_user_namespaces)]),
    baseline("seLinuxOptions", &[(0, se_linux_options::since_1_0), (31, se_linux_options::since_1_31)]),
    baseline("seccompProfile_baseline", &[(0, seccomp_profile::annotations), (19, seccomp_profile::baseline)]),
    baseline(
        "sysctls",
        &[
            (0, sysctls::since_1_0),
            (27, sysctls::since_1_27),
            (29, sysctls::since_1_29),
            (32, sysctls::since_1_32),
            (37, sysctls::since_1_37),
        ],
    ),
    baseline("windowsHostProcess", &[(0, windows_host_process::check)]),
    restricted(
        "allowPrivilegeEscalation",
        &[(8, allow_privilege_escalation::check), (25, allow_privilege_escalation::outside_windows)],
        "",
    ),
    restricted(
        "capabilities_restricted",
        &[(22, capabilities::restricted), (25, capabilities::restricted_outside_windows)],
        "capabilities_baseline",
    ),
    restricted("procMount_restricted", &[(35, proc_mount::check)], "procMount"),
    restricted("restrictedVolumes", &[(0, restricted_volumes::check)], "hostPathVolumes"),
    restricted("runAsNonRoot", &[(0, run_as_non_root::check), (35, run_as_non_root::outside_user_namespaces)], ""),
    restricted("runAsUser", &[(23, run_as_user::check), (35, run_as_user::outside_user_namespaces)], ""),
    restricted(
        "seccompProfile_restricted",
        &[(19, seccomp_profile::restricted), (25, seccomp_profile::restricted_outside_windows)],
        "seccompProfile_baseline",
    ),
];

/// The last minor version that changed a check. Later versions have the same checks.
const LAST_MINOR: usize = 37;

/// The checks of both levels by minor version, which every tenant's plugin has in common.
static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let all = |level| (0..=LAST_MINOR).map(|minor| checks_of(level, minor)).collect();
    Tables { baseline: all(Level::Baseline), restricted: all(Level::Restricted) }
});

struct Tables {
    baseline: Vec<Vec<CheckPod>>,
    restricted: Vec<Vec<CheckPod>>,
}

/// The checks of a release (`checkRegistry`).
#[derive(Clone, Copy)]
pub(super) struct Evaluator {
    /// The minor version that `latest` and later versions stand for.
    latest: usize,
}

impl Evaluator {
    /// The checks of the release with this minor version.
    pub(super) fn of(minor: u16) -> Self {
        Self { latest: usize::from(minor).min(LAST_MINOR) }
    }

    /// Returns the pod's violations of the policy (`checkRegistry.EvaluatePod`).
    ///
    /// # Errors
    /// If a field that a check reads has a wrong type.
    pub(super) fn evaluate(self, policy: LevelVersion, pod: &Pod<'_>) -> Result<Violations, WrongType> {
        let minor = match policy.version {
            Version::Latest => self.latest,
            Version::Minor(minor) => usize::try_from(minor).unwrap_or(self.latest).min(self.latest),
        };
        let checks = match policy.level {
            Level::Privileged => return Ok(Violations::default()),
            Level::Baseline => TABLES.baseline.get(minor),
            Level::Restricted => TABLES.restricted.get(minor),
        };
        let mut violations = Vec::new();
        for check in checks.into_iter().flatten() {
            violations.extend(check(pod)?);
        }
        Ok(Violations(violations))
    }
}

fn checks_of(level: Level, minor: usize) -> Vec<CheckPod> {
    let included = || CHECKS.iter().filter(|check| check.level <= level).filter_map(|c| Some((c, c.at(minor)?)));
    let is_overridden = |id: &str| included().any(|(check, _)| check.overrides == id);
    included().filter(|(check, _)| !is_overridden(check.id)).map(|(_, check)| check).collect()
}

/// A pod's violations of a policy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The short form: `host namespaces, hostPort`.
    pub(super) fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
    }

    /// The form with details: `host namespaces (hostPID=true), hostPort (…)`.
    pub(super) fn details(&self) -> String {
        let texts: Vec<String> =
            self.0.iter().map(|Violation { reason, detail }| format!("{reason} ({detail})")).collect();
        texts.join(", ")
    }
}
