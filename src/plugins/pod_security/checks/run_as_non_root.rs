//! Each container, or the pod for its containers, must set runAsNonRoot. Later versions exempt pods with a user namespace.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;

const REASON: &str = "runAsNonRoot != true";

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let of_pod = pod.security.boolean("runAsNonRoot")?;
    let (mut explicit, mut implicit) = (Vec::new(), Vec::new());
    for container in pod.containers() {
        let container = container?;
        match container.security.boolean("runAsNonRoot")? {
            Some(true) => {}
            Some(false) => explicit.push(container.name()?),
            None if of_pod == Some(true) => {}
            None => implicit.push(container.name()?),
        }
    }
    if of_pod == Some(false) || !explicit.is_empty() {
        let setters = texts::setters(of_pod == Some(false), &explicit);
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Ok(Some(Violation { reason: REASON, detail }));
    }
    Ok((!implicit.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!("pod or {} must set securityContext.runAsNonRoot=true", texts::containers(&implicit)),
    }))
}

pub(super) fn outside_user_namespaces(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    if pod.has_user_namespace()? { Ok(None) } else { check(pod) }
}
