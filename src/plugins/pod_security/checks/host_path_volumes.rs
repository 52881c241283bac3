//! Volumes of the type hostPath are forbidden.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::Pod;
use crate::plugins::rules::pod::WrongType;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut bad = Vec::new();
    for volume in pod.spec.objects("volumes")? {
        let volume = volume?;
        if volume.has("hostPath") {
            bad.push(volume.text("name")?);
        }
    }
    Ok((!bad.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: format!("{} {}", texts::pluralize("volume", "volumes", bad.len()), texts::join_quoted(&bad)),
    }))
}
