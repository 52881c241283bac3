//! The rule for AppArmor profiles, which are annotations of the policy.
//!
//! Kubernetes 1.30 and later have a field `appArmorProfile`, which Kubernetes 1.24 does not know. The API server copies the
//! annotation of a new pod's container into the field, so that a default is set as the annotation alone: earlier API servers
//! know no field. A container without the annotation is checked by its field or by the field of its pod. It gets no default,
//! because the API server refuses an annotation that differs from the field.

use super::pod::{Container, Pod};
use super::report::{Quoted, Report};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const CONTAINER_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const DEFAULT_PROFILE: &str = "apparmor.security.beta.kubernetes.io/defaultProfileName";
const ALLOWED_PROFILES: &str = "apparmor.security.beta.kubernetes.io/allowedProfileNames";

/// The field `appArmorProfile`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AppArmorProfile<'a> {
    #[serde(borrow)]
    r#type: Option<&'a str>,
    localhost_profile: Option<&'a str>,
}

impl AppArmorProfile<'_> {
    /// The profile as an annotation has it; empty if the field is invalid.
    fn as_annotation(self) -> String {
        match (self.r#type, self.localhost_profile) {
            (Some("Unconfined"), _) => "unconfined".to_owned(),
            (Some("RuntimeDefault"), _) => "runtime/default".to_owned(),
            (Some("Localhost"), Some(profile)) => format!("localhost/{profile}"),
            _ => String::new(),
        }
    }
}

/// The rule for AppArmor profiles.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AppArmorRule {
    default: Option<Arc<str>>,
    /// The annotation with the allowed profiles; `None` if all are allowed.
    allowed: Option<String>,
}

impl AppArmorRule {
    pub(super) fn new(annotations: &BTreeMap<String, String>) -> Self {
        let default = annotations.get(DEFAULT_PROFILE).filter(|profile| !profile.is_empty());
        Self {
            default: default.map(|profile| profile.as_str().into()),
            allowed: annotations.get(ALLOWED_PROFILES).cloned(),
        }
    }

    /// The annotation that the container gets; `None` if it keeps its own profile.
    pub(super) fn default<'a>(&self, pod: &Pod<'a>, container: &Container<'a>) -> Option<Arc<str>> {
        let default = self.default.as_ref()?;
        let has_own = of_annotation(pod, container).is_some() || of_fields(pod, container).is_some();
        (!has_own).then(|| default.clone())
    }

    /// Checks the profile of a container. `default` is the annotation that the container gets.
    pub(super) fn check<'a>(
        &self,
        pod: &Pod<'a>,
        container: &Container<'a>,
        default: Option<&str>,
        report: &mut Report,
    ) {
        let Some(allowed) = &self.allowed else { return };
        let of_field;
        let profile = match of_annotation(pod, container).or(default) {
            Some(annotation) => annotation,
            None => {
                of_field = of_fields(pod, container).map(AppArmorProfile::as_annotation).unwrap_or_default();
                &of_field
            }
        };
        let path = format_args!("pod.metadata.annotations[{CONTAINER_PREFIX}{}]", container.name);
        if profile.is_empty() {
            report.forbidden(path, "AppArmor profile must be set");
        } else if !allowed.split(',').any(|allowed| allowed == profile) {
            let detail = format_args!("{profile} is not an allowed profile. Allowed values: {}", Quoted(allowed));
            report.forbidden(path, detail);
        }
    }
}

fn of_annotation<'a>(pod: &Pod<'a>, container: &Container<'_>) -> Option<&'a str> {
    pod.annotation_of(CONTAINER_PREFIX, container).filter(|profile| !profile.is_empty())
}

fn of_fields<'a>(pod: &Pod<'a>, container: &Container<'a>) -> Option<AppArmorProfile<'a>> {
    container.security.app_armor_profile.or(pod.security.app_armor_profile)
}
