//! The review of a pod by one policy: the values that the policy sets (`MutatePod`), and the violations of the pod with these
//! values (`ValidatePod`). The pod itself stays unchanged.

use super::containers::review_container;
use super::defaults::Defaults;
use super::pod::Pod;
use super::policy::Rules;
use super::report::{Quoted, Report};
use crate::admission::Phase;

/// The sysctls that every policy allows (`SafeSysctlAllowlist`).
const SAFE_SYSCTLS: [&str; 5] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
];

/// Returns the values that the policy sets, and reports the violations in the order of kube-apiserver. If the report is complete
/// before the end, the values are incomplete.
pub(super) fn review(rules: &Rules, pod: &Pod<'_>, phase: Phase, report: &mut Report) -> Defaults {
    let mut defaults = pod_defaults(rules, pod, phase);
    check_pod(rules, pod, &defaults, report);
    for container in &pod.containers {
        if report.is_complete() {
            break;
        }
        let seccomp = defaults.seccomp.as_deref();
        let of_container = review_container(rules, pod, container, seccomp, report);
        if !of_container.is_empty() {
            defaults.containers.push((container.place, of_container));
        }
    }
    defaults
}

fn pod_defaults(rules: &Rules, pod: &Pod<'_>, phase: Phase) -> Defaults {
    fn unless_set<T, V>(own: Option<&V>, default: impl FnOnce() -> Option<T>) -> Option<T> {
        if own.is_some() { None } else { default() }
    }
    let security = &pod.security;
    let runtime_class = || rules.runtime_class.as_ref()?.default_runtime_class_name.clone();
    Defaults {
        supplemental_group: unless_set(security.supplemental_groups.as_ref(), || rules.supplemental_groups.default()),
        fs_group: unless_set(security.fs_group.as_ref(), || rules.fs_group.default()),
        se_linux: unless_set(security.se_linux_options.as_ref(), || rules.se_linux.default().cloned()),
        seccomp: rules.seccomp.default(pod, phase),
        runtime_class: unless_set(pod.spec.runtime_class_name.as_ref(), runtime_class),
        containers: Vec::new(),
    }
}

fn check_pod(rules: &Rules, pod: &Pod<'_>, defaults: &Defaults, report: &mut Report) {
    let security = &pod.security;
    let fs_group = security.fs_group.or(defaults.fs_group);
    rules.fs_group.check("spec.securityContext.fsGroup", fs_group.as_slice(), report);
    // Go's nil satisfies a rule without a default, as an empty list does.
    let groups = match &security.supplemental_groups {
        Some(groups) => groups.as_slice(),
        None => defaults.supplemental_group.as_slice(),
    };
    rules.supplemental_groups.check("spec.securityContext.supplementalGroups", groups, report);
    rules.seccomp.check_pod(pod, defaults.seccomp.as_deref(), report);
    rules.se_linux.check("spec.securityContext.seLinuxOptions", security.se_linux_options, report);
    for (field, what, is_allowed, is_used) in [
        ("hostNetwork", "network", rules.host_network, pod.spec.host_network),
        ("hostPID", "PID", rules.host_pid, pod.spec.host_pid),
        ("hostIPC", "IPC", rules.host_ipc, pod.spec.host_ipc),
    ] {
        if !is_allowed && is_used == Some(true) {
            let detail = format_args!("Host {what} is not allowed to be used");
            report.invalid(format_args!("spec.securityContext.{field}"), true, detail);
        }
    }
    check_sysctls(rules, pod, report);
    rules.volumes.check(pod, report);
    check_runtime_class(rules, pod, defaults, report);
}

fn check_sysctls(rules: &Rules, pod: &Pod<'_>, report: &mut Report) {
    for (index, sysctl) in pod.security.sysctls.iter().flatten().enumerate() {
        let name = sysctl.name;
        let path = format_args!("pod.spec.securityContext.sysctls[{index}]");
        if is_among(&rules.forbidden_sysctls, name) {
            report.forbidden(path, format_args!("sysctl {} is not allowed", Quoted(name)));
        } else if !SAFE_SYSCTLS.contains(&name) && !is_among(&rules.allowed_unsafe_sysctls, name) {
            report.forbidden(path, format_args!("unsafe sysctl {} is not allowed", Quoted(name)));
        }
    }
}

/// Whether a pattern, which may end in `*`, matches the name.
fn is_among(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    })
}

fn check_runtime_class(rules: &Rules, pod: &Pod<'_>, defaults: &Defaults, report: &mut Report) {
    let Some(rule) = &rules.runtime_class else { return };
    let Some(name) = pod.spec.runtime_class_name.or(defaults.runtime_class.as_deref()) else { return };
    let mut allowed = rule.allowed_runtime_class_names.iter().flatten();
    if !allowed.any(|allowed| allowed == "*" || allowed == name) {
        report.invalid_value("spec.runtimeClassName", Quoted(name));
    }
}
