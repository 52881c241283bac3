//! Windows HostProcess pods and containers are forbidden.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::{Fields, Pod};
use crate::plugins::rules::pod::WrongType;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let by_pod = is_host_process(pod.security)?;
    let mut bad = Vec::new();
    for container in pod.containers() {
        let container = container?;
        if is_host_process(container.security)? {
            bad.push(container.name()?);
        }
    }
    Ok((by_pod || !bad.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            texts::setters(by_pod, &bad)
        ),
    }))
}

fn is_host_process(security: Fields<'_>) -> Result<bool, WrongType> {
    Ok(security.object("windowsOptions")?.boolean("hostProcess")? == Some(true))
}
