//! Pods and containers must not set runAsUser to 0. Later versions exempt pods with a user namespace.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let by_pod = pod.security.integer("runAsUser")? == Some(0);
    let mut bad = Vec::new();
    for container in pod.containers() {
        let container = container?;
        if container.security.integer("runAsUser")? == Some(0) {
            bad.push(container.name()?);
        }
    }
    Ok((by_pod || !bad.is_empty()).then(|| Violation {
        reason: "runAsUser=0",
        detail: format!("{} must not set runAsUser=0", texts::setters(by_pod, &bad)),
    }))
}

pub(super) fn outside_user_namespaces(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    if pod.has_user_namespace()? { Ok(None) } else { check(pod) }
}
