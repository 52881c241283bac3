//! Host ports are forbidden.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut bad = Vec::new();
    // The ports are sorted as text: "443" comes before "80".
    let mut forbidden = BTreeSet::new();
    for container in pod.containers() {
        let container = container?;
        let mut is_bad = false;
        for port in container.fields.objects("ports")? {
            let host_port = port?.integer("hostPort")?.unwrap_or(0);
            if host_port != 0 {
                is_bad = true;
                forbidden.insert(host_port.to_string());
            }
        }
        if is_bad {
            bad.push(container.name()?);
        }
    }
    Ok((!bad.is_empty()).then(|| {
        let ports = forbidden.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let verb = texts::pluralize("uses", "use", bad.len());
        let what = texts::pluralize("hostPort", "hostPorts", forbidden.len());
        Violation { reason: "hostPort", detail: format!("{} {verb} {what} {ports}", texts::containers(&bad)) }
    }))
}
