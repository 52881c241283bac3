//! Every container must disable privilege escalation, such as by a set-user-ID file.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut bad = Vec::new();
    for container in pod.containers() {
        let container = container?;
        if container.security.boolean("allowPrivilegeEscalation")? != Some(false) {
            bad.push(container.name()?);
        }
    }
    Ok((!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", texts::containers(&bad)),
    }))
}

pub(super) fn outside_windows(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    if pod.is_for_windows()? { Ok(None) } else { check(pod) }
}
