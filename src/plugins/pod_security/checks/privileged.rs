//! Privileged containers are forbidden.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut bad = Vec::new();
    for container in pod.containers() {
        let container = container?;
        if container.security.boolean("privileged")? == Some(true) {
            bad.push(container.name()?);
        }
    }
    Ok((!bad.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", texts::containers(&bad)),
    }))
}
