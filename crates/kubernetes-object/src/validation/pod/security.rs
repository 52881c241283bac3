//! Security contexts of pods and of containers.

use super::super::formats::is_sysctl;
use super::super::node::{Causes, Node, internal};
use super::super::volume_source::local_path;
use super::each_container;
use crate::names::dns_1123_subdomain_errors;
use std::collections::HashSet;

/// The highest ID of a user or a group.
const MAX_ID: i64 = i32::MAX as i64;

/// `validatePodSpecSecurityContext`
pub(super) fn pod(spec: &Node<'_>, out: &mut Causes) {
    let context = spec.at("securityContext");
    let id = |node: Node<'_>, out: &mut Causes| {
        if node.is_given() {
            out.in_range(&node, 0, MAX_ID);
        }
    };
    ["fsGroup", "runAsUser", "runAsGroup"].into_iter().for_each(|field| id(context.at(field), out));
    context.at("supplementalGroups").items().for_each(|group| id(group, out));
    if spec.at("shareProcessNamespace").is_true() && spec.at("hostPID").is_true() {
        let node = spec.at("shareProcessNamespace").named(&context, "shareProcessNamespace");
        out.invalid(&node, "true", "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    sysctls(spec, &context.at("sysctls"), out);
    out.one_of_if_given(&context.at("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp(&context.at("seccompProfile"), out);
    windows(&context.at("windowsOptions"), out);
    app_armor(&context.at("appArmorProfile"), out);
    out.one_of_if_given(&context.at("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    out.one_of_if_given(&context.at("seLinuxChangePolicy"), &["Recursive"]);
}

/// `validateSysctls`
fn sysctls(spec: &Node<'_>, list: &Node<'_>, out: &mut Causes) {
    let mut known = HashSet::new();
    for sysctl in list.items() {
        let name = sysctl.at("name");
        if out.require(&name) {
            if !is_sysctl(name.text()) {
                let why = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
                out.text(&name, why);
            } else if known.contains(name.text()) {
                out.duplicate(&name);
            }
        }
        let dotted = name.text().replace('/', ".");
        let is_ipc = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|p| dotted.starts_with(p));
        if spec.at("hostNetwork").is_true() && dotted.starts_with("net.") {
            out.text(&name, "may not be specified when 'hostNetwork' is true");
        } else if spec.at("hostIPC").is_true() && is_ipc {
            out.text(&name, "may not be specified when 'hostIPC' is true");
        }
        known.insert(name.text());
    }
}

/// `ValidateSecurityContext`
pub(super) fn container(context: &Node<'_>, has_user_namespace: bool, out: &mut Causes) {
    if !context.is_given() {
        return;
    }
    for id in ["runAsUser", "runAsGroup"].into_iter().filter_map(|field| context.at(field).given()) {
        out.in_range(&id, 0, MAX_ID);
    }
    let mount = context.at("procMount");
    if mount.is_given() {
        out.one_of(&mount, &["Default", "Unmasked"]);
        if !has_user_namespace && mount.text() == "Unmasked" {
            out.text(&mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(&context.at("seccompProfile"), out);
    if context.at("allowPrivilegeEscalation").is_false() {
        let shown = || super::container::security_context(context);
        if context.at("privileged").is_true() {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            out.invalid(context, shown(), why);
        }
        let is_admin = |name: &&str| *name == "CAP_SYS_ADMIN";
        for _ in context.under(&["capabilities", "add"]).texts().filter(is_admin) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            out.invalid(context, shown(), why);
        }
    }
    windows(&context.at("windowsOptions"), out);
    app_armor(&context.at("appArmorProfile"), out);
}

/// `validateSeccompProfileField`
fn seccomp(profile: &Node<'_>, out: &mut Causes) {
    if !profile.is_given() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    if kind.is_empty() {
        out.required(&kind, "type is required when seccompProfile is set");
    } else {
        out.one_of(&kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    match (kind.text() == "Localhost", local.is_given()) {
        (true, false) => out.required(&local, "must be set when seccomp type is Localhost"),
        (true, true) => local_path(&local, out),
        (false, true) => {
            let shown = internal(profile, "Type:type LocalhostProfile:localhostProfile?");
            out.invalid(&local, shown, "can only be set when seccomp type is Localhost");
        }
        (false, false) => {}
    }
}

/// `ValidateAppArmorProfileField`
fn app_armor(profile: &Node<'_>, out: &mut Causes) {
    const MOST_BYTES: usize = 4095;
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    if !profile.is_given() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    match kind.text() {
        "Localhost" if !local.is_given() => out.required(&local, NEEDED),
        "Localhost" => {
            if local.text().trim() != local.text() {
                out.text(&local, "must not be padded with whitespace");
            } else if local.is_empty() {
                out.required(&local, NEEDED);
            }
            if local.len() > MOST_BYTES {
                out.too_long(&local, MOST_BYTES);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_given() {
                out.text(&local, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => out.required(&kind, "type is required when appArmorProfile is set"),
        _ => drop(out.one_of(&kind, &["Localhost", "RuntimeDefault", "Unconfined"])),
    }
}

/// `validateWindowsSecurityContextOptions`
fn windows(options: &Node<'_>, out: &mut Causes) {
    const MOST_SPEC_BYTES: usize = 64 << 10;
    const MOST_DOMAIN_BYTES: usize = 256;
    const MOST_USER_BYTES: usize = 104;
    let name = options.at("gmsaCredentialSpecName");
    if name.is_given() {
        out.texts(&name, dns_1123_subdomain_errors(name.text()));
    }
    let spec = options.at("gmsaCredentialSpec");
    if spec.is_given() {
        if spec.is_empty() {
            out.text(&spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > MOST_SPEC_BYTES {
            out.text(&spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    let run_as = options.at("runAsUserName");
    let Some(text) = run_as.optional_text() else { return };
    if text.is_empty() {
        return out.text(&run_as, "runAsUserName cannot be an empty string");
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return out.text(&run_as, "runAsUserName cannot contain control characters");
    }
    if text.matches('\\').count() > 1 {
        return out.text(&run_as, "runAsUserName cannot contain more than one backslash");
    }
    let (domain, user) = text.split_once('\\').map_or((None, text), |(domain, user)| (Some(domain), user));
    if let Some(domain) = domain {
        if domain.len() >= MOST_DOMAIN_BYTES {
            out.text(&run_as, "runAsUserName's Domain length must be under 256 characters");
        }
        let is_net_bios = (1..=15).contains(&domain.chars().count())
            && !domain.starts_with('.')
            && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if !is_net_bios && !domain.split('.').all(is_label) {
            out.text(&run_as, "runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        out.text(&run_as, "runAsUserName's User cannot be empty");
    } else if user.len() > MOST_USER_BYTES {
        out.text(&run_as, "runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.bytes().all(|byte| matches!(byte, b'.' | b' ')) {
        out.text(&run_as, "runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let why = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        out.text(&run_as, why);
    }
}

/// `validateWindowsHostProcessPod`
pub(super) fn host_process(spec: &Node<'_>, out: &mut Causes) {
    let field = ["securityContext", "windowsOptions", "hostProcess"];
    let of_pod = spec.under(&field).value().as_bool();
    let (mut all, mut of_host) = (0, 0);
    each_container(spec, |container| {
        all += 1;
        let own = container.under(&field);
        let is_host = own.value().as_bool();
        if let (Some(of_pod), Some(is_host)) = (of_pod, is_host)
            && of_pod != is_host
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            out.invalid(&own, is_host, &why);
        }
        of_host += usize::from(is_host.or(of_pod) == Some(true));
    });
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        out.invalid(spec, "\"\"", why);
    }
    if !spec.at("hostNetwork").is_true() {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        out.invalid(&spec.at("hostNetwork"), "false", why);
    }
}

/// `validateHostUsers`
pub(super) fn host_users(spec: &Node<'_>, out: &mut Causes) {
    if !spec.at("hostUsers").is_false() {
        return;
    }
    const WHY: &str = "when `hostUsers` is false";
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.at(field).is_true() {
            out.forbidden(&spec.at(field).named(spec, shown), WHY);
        }
    }
    each_container(spec, |container| {
        if !container.at("volumeDevices").is_empty() {
            out.forbidden(&container.at("volumeDevices"), WHY);
        }
    });
}
