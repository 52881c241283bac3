//! The baseline policy allows only the default set of added capabilities. The restricted policy requires containers to drop all
//! capabilities, and allows them to add only the capability that binds low ports.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

/// The default capabilities of container runtimes, without `NET_RAW`.
const DEFAULT_SET: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn baseline(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let added = Added::read(pod, &DEFAULT_SET)?;
    Ok((!added.containers.is_empty()).then(|| Violation { reason: "non-default capabilities", detail: added.detail() }))
}

pub(super) fn restricted(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut missing_drop_all = Vec::new();
    for container in pod.containers() {
        let container = container?;
        let mut drops_all = false;
        for capability in container.security.object("capabilities")?.texts("drop")? {
            drops_all |= capability? == "ALL";
        }
        if !drops_all {
            missing_drop_all.push(container.name()?);
        }
    }
    let added = Added::read(pod, &["NET_BIND_SERVICE"])?;
    let mut details = Vec::new();
    if !missing_drop_all.is_empty() {
        let containers = texts::containers(&missing_drop_all);
        details.push(format!("{containers} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !added.containers.is_empty() {
        details.push(added.detail());
    }
    Ok((!details.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") }))
}

pub(super) fn restricted_outside_windows(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    if pod.is_for_windows()? { Ok(None) } else { restricted(pod) }
}

/// The added capabilities that are not allowed, and their containers.
struct Added<'a> {
    containers: Vec<&'a str>,
    capabilities: BTreeSet<&'a str>,
}

impl<'a> Added<'a> {
    fn read(pod: &Pod<'a>, allowed: &[&str]) -> Result<Self, WrongType> {
        let mut added = Self { containers: Vec::new(), capabilities: BTreeSet::new() };
        for container in pod.containers() {
            let container = container?;
            let mut is_bad = false;
            for capability in container.security.object("capabilities")?.texts("add")? {
                let capability = capability?;
                if !allowed.contains(&capability) {
                    is_bad = true;
                    added.capabilities.insert(capability);
                }
            }
            if is_bad {
                added.containers.push(container.name()?);
            }
        }
        Ok(added)
    }

    fn detail(&self) -> String {
        let (containers, capabilities) = (texts::containers(&self.containers), texts::join_quoted(&self.capabilities));
        format!("{containers} must not include {capabilities} in securityContext.capabilities.add")
    }
}
