//! Neither the field nor the older annotation may disable AppArmor.

use super::{Violation, texts};
use crate::go_text::go_quote;
use crate::plugins::pod_security::pod::{Container, Fields, Pod};
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const UNCONFINED: &str = "Unconfined";

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut values = BTreeSet::new();
    let pod_type = forbidden_type(pod.security)?;
    values.extend(pod_type);
    let mut bad = Vec::new();
    for container in pod.containers() {
        let container = container?;
        let forbidden = match forbidden_type(container.security)? {
            None if is_unconfined_by_annotation(pod, &container)? => Some(UNCONFINED),
            forbidden => forbidden,
        };
        if let Some(forbidden) = forbidden {
            bad.push(container.name()?);
            values.insert(forbidden);
        }
    }
    let annotations = forbidden_annotations(pod)?;
    if pod_type.is_none() && bad.is_empty() && annotations.is_empty() {
        return Ok(None);
    }
    let mut setters = Vec::new();
    if pod_type.is_some() || !bad.is_empty() {
        setters.push(texts::setters(pod_type.is_some(), &bad));
    }
    if !annotations.is_empty() {
        setters.push(texts::pluralize("annotation", "annotations", annotations.len()).to_owned());
    }
    let count = values.len() + annotations.len();
    let values = values.into_iter().chain(annotations.iter().map(String::as_str));
    Ok(Some(Violation {
        reason: texts::pluralize("forbidden AppArmor profile", "forbidden AppArmor profiles", count),
        detail: format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            texts::join_quoted(values)
        ),
    }))
}

/// The type of the profile, if the profile does not confine.
fn forbidden_type<'a>(security: Fields<'a>) -> Result<Option<&'a str>, WrongType> {
    let Some(profile) = security.pointer("appArmorProfile")? else { return Ok(None) };
    let kind = profile.text("type")?;
    Ok((!matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind))
}

/// Whether the API server sets an unconfined profile on a new pod's container because of an annotation
/// (`applyAppArmorVersionSkew`). The API server does so if the container has no profile and the pod's profile differs.
fn is_unconfined_by_annotation(pod: &Pod<'_>, container: &Container<'_>) -> Result<bool, WrongType> {
    if !pod.is_new || container.security.has("appArmorProfile") {
        return Ok(false);
    }
    // The prefix is compared without building the container's key, because almost no pod has such annotations.
    let name = container.name()?;
    for entry in pod.annotations.entries() {
        let (key, value) = entry?;
        if value == "unconfined" && key.strip_prefix(ANNOTATION_PREFIX) == Some(name) {
            let pod_type = pod.security.object("appArmorProfile")?.text("type")?;
            return Ok(pod_type != UNCONFINED && !pod.is_for_windows()?);
        }
    }
    Ok(false)
}

/// The annotations that set an unconfined profile, as `key="value"`, sorted.
fn forbidden_annotations(pod: &Pod<'_>) -> Result<Vec<String>, WrongType> {
    let mut forbidden = Vec::new();
    for entry in pod.annotations.entries() {
        let (key, value) = entry?;
        let is_allowed = value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
        if key.starts_with(ANNOTATION_PREFIX) && !is_allowed {
            forbidden.push(format!("{key}={}", go_quote(value)));
        }
    }
    forbidden.sort();
    Ok(forbidden)
}
