//! Seccomp must not be disabled, by annotation up to 1.18 and by field since. The restricted policy requires a profile for
//! every container.

use super::{Violation, texts};
use crate::go_text::go_quote;
use crate::plugins::pod_security::pod::{Fields, Pod};
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

const REASON: &str = "seccompProfile";
const POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

pub(super) fn annotations(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut forbidden = BTreeSet::new();
    for entry in pod.annotations.entries() {
        let (key, value) = entry?;
        let is_allowed = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
        if !is_allowed && is_annotation_of(pod, key)? {
            forbidden.insert(format!("{key}={}", go_quote(value)));
        }
    }
    Ok((!forbidden.is_empty()).then(|| {
        let word = texts::pluralize("annotation", "annotations", forbidden.len());
        let list = forbidden.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        Violation { reason: REASON, detail: format!("forbidden {word} {list}") }
    }))
}

/// Whether the annotation applies to the pod, or to an existing container of the pod.
fn is_annotation_of(pod: &Pod<'_>, key: &str) -> Result<bool, WrongType> {
    let Some(name) = key.strip_prefix(CONTAINER_PREFIX) else { return Ok(key == POD_ANNOTATION) };
    for container in pod.containers() {
        if container?.name()? == name {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn baseline(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    Ok(Profiles::read(pod, false)?.explicit_violation())
}

pub(super) fn restricted(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let profiles = Profiles::read(pod, true)?;
    if let Some(violation) = profiles.explicit_violation() {
        return Ok(Some(violation));
    }
    let missing = profiles.missing;
    Ok((!missing.is_empty()).then(|| {
        let containers = texts::containers(&missing);
        let what = "securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
        Violation { reason: REASON, detail: format!("pod or {containers} must set {what}") }
    }))
}

pub(super) fn restricted_outside_windows(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    if pod.is_for_windows()? { Ok(None) } else { restricted(pod) }
}

/// The profiles of a pod and its containers.
struct Profiles<'a> {
    /// Whether the pod sets a forbidden profile.
    by_pod: bool,
    /// The containers with a forbidden profile.
    bad: Vec<&'a str>,
    /// The forbidden types.
    values: BTreeSet<&'a str>,
    /// The containers without a required profile, if the pod sets none for them.
    missing: Vec<&'a str>,
}

impl<'a> Profiles<'a> {
    fn read(pod: &Pod<'a>, is_required: bool) -> Result<Self, WrongType> {
        let of_pod = profile(pod.security)?;
        let mut profiles = Self {
            by_pod: of_pod.is_some_and(|kind| !is_allowed(kind)),
            bad: Vec::new(),
            values: of_pod.into_iter().filter(|kind| !is_allowed(kind)).collect(),
            missing: Vec::new(),
        };
        let may_be_missing = !is_required || of_pod.is_some_and(is_allowed);
        for container in pod.containers() {
            let container = container?;
            match profile(container.security)? {
                Some(kind) if is_allowed(kind) => {}
                Some(kind) => {
                    profiles.bad.push(container.name()?);
                    profiles.values.insert(kind);
                }
                None if may_be_missing => {}
                None => profiles.missing.push(container.name()?),
            }
        }
        Ok(profiles)
    }

    fn explicit_violation(&self) -> Option<Violation> {
        (self.by_pod || !self.bad.is_empty()).then(|| {
            let (setters, values) = (texts::setters(self.by_pod, &self.bad), texts::join_quoted(&self.values));
            Violation {
                reason: REASON,
                detail: format!("{setters} must not set securityContext.seccompProfile.type to {values}"),
            }
        })
    }
}

/// The type of the profile, if a profile is set.
fn profile<'a>(security: Fields<'a>) -> Result<Option<&'a str>, WrongType> {
    security.pointer("seccompProfile")?.map(|profile| profile.text("type")).transpose()
}

fn is_allowed(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}
