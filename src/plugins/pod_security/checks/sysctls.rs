//! Only sysctls that affect nothing outside the pod may be set.

use super::Violation;
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;

/// The safe sysctls. Later versions add some.
const SAFE: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    // Since 1.27.
    "net.ipv4.ip_local_reserved_ports",
    // Since 1.29.
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    // Since 1.32.
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    // Since 1.37.
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

pub(super) fn since_1_0(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    check(pod, &SAFE[..5])
}

pub(super) fn since_1_27(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    check(pod, &SAFE[..6])
}

pub(super) fn since_1_29(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    check(pod, &SAFE[..10])
}

pub(super) fn since_1_32(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    check(pod, &SAFE[..12])
}

pub(super) fn since_1_37(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    check(pod, &SAFE)
}

fn check(pod: &Pod<'_>, allowed: &[&str]) -> Result<Option<Violation>, WrongType> {
    let mut forbidden = Vec::new();
    for sysctl in pod.security.objects("sysctls")? {
        let name = sysctl?.text("name")?;
        if !allowed.contains(&name) {
            forbidden.push(name);
        }
    }
    Ok((!forbidden.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: forbidden.join(", ") }))
}
