//! Pods must not share the host's network, PID or IPC namespace.

use super::Violation;
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut shared = Vec::new();
    for (field, text) in [("hostNetwork", "hostNetwork=true"), ("hostPID", "hostPID=true"), ("hostIPC", "hostIPC=true")]
    {
        if pod.spec.boolean(field)? == Some(true) {
            shared.push(text);
        }
    }
    Ok((!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") }))
}
