//! The review of one container by one policy (`mutateContainer`, `validateContainer`).

use super::defaults::ContainerDefaults;
use super::pod::{Container, Place, Pod};
use super::policy::{HostPortRange, Rules};
use super::report::{Quoted, Report};
use super::users::UserRule;
use std::fmt;

/// Returns the values that the policy sets, and reports the violations. `seccomp` is the annotation that the pod gets.
pub(super) fn review_container<'a>(
    rules: &Rules,
    pod: &Pod<'a>,
    container: &Container<'a>,
    seccomp: Option<&str>,
    report: &mut Report,
) -> ContainerDefaults {
    let defaults = container_defaults(rules, pod, container);
    let (own, of_pod) = (&container.security, &pod.security);
    let path = &Context(container.place);
    let user = own.run_as_user.or(of_pod.run_as_user).or(defaults.run_as_user);
    let non_root = own.run_as_non_root.or(of_pod.run_as_non_root).or(defaults.run_as_non_root);
    rules.run_as_user.check(path, non_root, user, report);
    let group = own.run_as_group.or(of_pod.run_as_group).or(defaults.run_as_group);
    rules.run_as_group.check(path, group.as_slice(), report);
    let se_linux = own.se_linux_options.or(of_pod.se_linux_options);
    rules.se_linux.check(format_args!("{path}.seLinuxOptions"), se_linux, report);
    rules.app_armor.check(pod, container, defaults.app_armor.as_deref(), report);
    rules.seccomp.check_container(pod, container, seccomp, report);
    if !rules.privileged && own.privileged == Some(true) {
        report.invalid(format_args!("{path}.privileged"), true, "Privileged containers are not allowed");
    }
    let proc_mount = own.proc_mount.unwrap_or("Default");
    if !rules.allowed_proc_mount_types.iter().any(|allowed| allowed == proc_mount) {
        report.invalid(format_args!("{path}.procMount"), Quoted(proc_mount), "ProcMountType is not allowed");
    }
    let capabilities = (own.capabilities.as_ref(), defaults.capabilities.as_ref());
    rules.capabilities.check(format_args!("{path}.capabilities"), capabilities.0, capabilities.1, report);
    check_host_ports(rules, container, report);
    if rules.read_only_root_filesystem && own.read_only_root_filesystem == Some(false) {
        let path = format_args!("{path}.readOnlyRootFilesystem");
        report.invalid(path, false, "ReadOnlyRootFilesystem must be set to true");
    }
    let escalation = own.allow_privilege_escalation.or(defaults.allow_privilege_escalation);
    if !rules.allow_privilege_escalation && escalation == Some(true) {
        let path = format_args!("{path}.allowPrivilegeEscalation");
        report.invalid(path, true, "Allowing privilege escalation for containers is not allowed");
    }
    defaults
}

fn container_defaults<'a>(rules: &Rules, pod: &Pod<'a>, container: &Container<'a>) -> ContainerDefaults {
    let (own, of_pod) = (&container.security, &pod.security);
    let has_user = own.run_as_user.or(of_pod.run_as_user).is_some();
    let has_group = own.run_as_group.or(of_pod.run_as_group).is_some();
    let has_non_root = own.run_as_non_root.or(of_pod.run_as_non_root).is_some();
    let must_be_non_root = rules.run_as_user == UserRule::NonRoot && !has_user && !has_non_root;
    let is_writable = rules.read_only_root_filesystem && own.read_only_root_filesystem.is_none();
    let escalation = rules.default_allow_privilege_escalation;
    let escalation = escalation.or((!rules.allow_privilege_escalation).then_some(false));
    ContainerDefaults {
        run_as_user: rules.run_as_user.default().filter(|_| !has_user),
        run_as_group: rules.run_as_group.default().filter(|_| !has_group),
        run_as_non_root: must_be_non_root.then_some(true),
        app_armor: rules.app_armor.default(pod, container),
        capabilities: rules.capabilities.default(own.capabilities.as_ref()),
        read_only_root_filesystem: is_writable.then_some(true),
        allow_privilege_escalation: escalation.filter(|_| own.allow_privilege_escalation.is_none()),
    }
}

/// The path of a container's security context.
struct Context(Place);

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.securityContext", self.0)
    }
}

/// `hasInvalidHostPort`
fn check_host_ports(rules: &Rules, container: &Container<'_>, report: &mut Report) {
    for port in container.ports.iter().filter_map(|port| port.host_port) {
        let is_allowed = |range: &HostPortRange| range.min <= port && port <= range.max;
        if port > 0 && !rules.host_ports.iter().any(is_allowed) {
            let allowed = Ports(&rules.host_ports);
            let detail = format_args!("Host port {port} is not allowed to be used. Allowed ports: [{allowed}]");
            report.invalid(format_args!("{}.hostPort", container.place), port, detail);
        }
    }
}

/// Ranges of ports as in `8080-8090,9000`.
struct Ports<'a>(&'a [HostPortRange]);

impl fmt::Display for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, HostPortRange { min, max }) in self.0.iter().enumerate() {
            let before = if index == 0 { "" } else { "," };
            match min == max {
                true => write!(f, "{before}{min}")?,
                false => write!(f, "{before}{min}-{max}")?,
            }
        }
        Ok(())
    }
}
