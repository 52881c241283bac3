//! Probes and lifecycle hooks must not name a host, because the kubelet could reach addresses that the pod cannot.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::{Fields, Pod};
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut bad = BTreeSet::new();
    let mut forbidden = BTreeSet::new();
    for container in pod.containers() {
        let container = container?;
        let lifecycle = container.fields.object("lifecycle")?;
        let mut is_bad = false;
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            is_bad |= names_hosts(container.fields.object(probe)?, &mut forbidden)?;
        }
        for hook in ["postStart", "preStop"] {
            is_bad |= names_hosts(lifecycle.object(hook)?, &mut forbidden)?;
        }
        if is_bad {
            bad.insert(container.name()?);
        }
    }
    Ok((!bad.is_empty()).then(|| {
        let names: Vec<&str> = bad.into_iter().collect();
        let verb = texts::pluralize("uses", "use", names.len());
        let what = texts::pluralize("probe or lifecycle host", "probe or lifecycle hosts", forbidden.len());
        let (containers, hosts) = (texts::containers(&names), texts::join_quoted(&forbidden));
        Violation { reason: "probe or lifecycle host", detail: format!("{containers} {verb} {what} {hosts}") }
    }))
}

/// Adds the hosts in a probe or hook. Returns whether there are any.
fn names_hosts<'a>(action: Fields<'a>, forbidden: &mut BTreeSet<&'a str>) -> Result<bool, WrongType> {
    let mut found = false;
    for way in ["httpGet", "tcpSocket"] {
        let host = action.object(way)?.text("host")?;
        if !host.is_empty() {
            found = true;
            forbidden.insert(host);
        }
    }
    Ok(found)
}
