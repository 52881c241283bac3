//! `/proc` must be masked as by default. Later baseline versions exempt pods with a user namespace.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut bad = Vec::new();
    let mut forbidden = BTreeSet::new();
    for container in pod.containers() {
        let container = container?;
        let kind = container.security.text("procMount")?;
        if container.security.has("procMount") && kind != "Default" {
            bad.push(container.name()?);
            forbidden.insert(kind);
        }
    }
    Ok((!bad.is_empty()).then(|| {
        let (containers, kinds) = (texts::containers(&bad), texts::join_quoted(&forbidden));
        Violation {
            reason: "procMount",
            detail: format!("{containers} must not set securityContext.procMount to {kinds}"),
        }
    }))
}

pub(super) fn outside_user_namespaces(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    if pod.has_user_namespace()? { Ok(None) } else { check(pod) }
}
