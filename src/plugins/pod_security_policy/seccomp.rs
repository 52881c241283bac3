//! The rule for seccomp profiles, which are annotations of the policy.
//!
//! Kubernetes 1.19 to 1.26 copy a new pod's annotation into the field `seccompProfile`, and the field into the annotation. Later
//! releases ignore the annotations: a profile that is only an annotation has no effect. The plugin therefore fills the fields
//! itself. A pod with the field alone is checked by its field.

use super::pod::{Container, Pod};
use super::report::Report;
use crate::admission::Phase;
use crate::object::Object;
use crate::plugins::rules::pod::CONTAINER_LISTS;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const DEFAULT_PROFILE: &str = "seccomp.security.alpha.kubernetes.io/defaultProfileName";
const ALLOWED_PROFILES: &str = "seccomp.security.alpha.kubernetes.io/allowedProfileNames";
/// Two names of the same profile.
const RUNTIME_DEFAULT: [&str; 2] = ["runtime/default", "docker/default"];
const UNCONFINED: &str = "unconfined";
const LOCALHOST: &str = "localhost/";

/// The field `seccompProfile`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SeccompProfile<'a> {
    #[serde(borrow)]
    r#type: Option<&'a str>,
    localhost_profile: Option<&'a str>,
}

impl SeccompProfile<'_> {
    /// The profile as an annotation has it (`SeccompAnnotationForField`); empty if the field is invalid.
    fn as_annotation(self) -> String {
        match (self.r#type, self.localhost_profile) {
            (Some("Unconfined"), _) => UNCONFINED.to_owned(),
            (Some("RuntimeDefault"), _) => RUNTIME_DEFAULT[0].to_owned(),
            (Some("Localhost"), Some(profile)) => format!("{LOCALHOST}{profile}"),
            _ => String::new(),
        }
    }
}

/// The rule for seccomp profiles.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeccompRule {
    default: Option<Arc<str>>,
    allowed: Vec<String>,
    allows_any: bool,
    /// The annotation with the allowed profiles, for refusals.
    text: String,
}

impl SeccompRule {
    pub(super) fn new(annotations: &BTreeMap<String, String>) -> Self {
        let text = annotations.get(ALLOWED_PROFILES);
        let mut allowed: Vec<String> = text.into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect();
        let count = allowed.len();
        allowed.retain(|profile| profile != "*");
        let allows_any = allowed.len() < count;
        if allowed.iter().any(|profile| RUNTIME_DEFAULT.contains(&&**profile)) {
            allowed.extend(RUNTIME_DEFAULT.map(str::to_owned));
        }
        let default = annotations.get(DEFAULT_PROFILE).filter(|profile| !profile.is_empty());
        Self {
            default: default.map(|profile| profile.as_str().into()),
            allowed,
            allows_any,
            text: text.cloned().unwrap_or_default(),
        }
    }

    /// The annotation that the pod gets; `None` if it keeps its own (`Generate`).
    ///
    /// In the validating phase, a missing annotation beside the field is no change: only the old API servers copied the field
    /// of every pod into the annotation.
    pub(super) fn default(&self, pod: &Pod<'_>, phase: Phase) -> Option<Arc<str>> {
        if pod.annotation(POD_ANNOTATION).is_some() {
            return None;
        }
        match (pod.security.seccomp_profile, phase) {
            (Some(_), Phase::Validate) => None,
            (Some(profile), Phase::Admit) => {
                Some(profile.as_annotation()).filter(|text| !text.is_empty()).map(Arc::from)
            }
            (None, _) => self.default.clone(),
        }
    }

    /// Checks the profile of a pod. `default` is the annotation that the pod gets.
    pub(super) fn check_pod(&self, pod: &Pod<'_>, default: Option<&str>, report: &mut Report) {
        let of_field;
        let profile = match pod.annotation(POD_ANNOTATION).or(default) {
            Some(annotation) => annotation,
            None => {
                of_field = pod.security.seccomp_profile.map(SeccompProfile::as_annotation).unwrap_or_default();
                &of_field
            }
        };
        if let Err(why) = self.check(profile) {
            report.forbidden(format_args!("pod.metadata.annotations[{POD_ANNOTATION}]"), self.detail(profile, why));
        }
    }

    /// Checks the profile of a container: its field, its annotation, else the profile of the pod.
    pub(super) fn check_container(
        &self,
        pod: &Pod<'_>,
        container: &Container<'_>,
        default: Option<&str>,
        report: &mut Report,
    ) {
        if self.allows_any {
            return;
        }
        let of_field;
        let of_annotation = || pod.annotation_of(CONTAINER_PREFIX, container);
        let of_pod = || pod.annotation(POD_ANNOTATION).or(default).unwrap_or_default();
        let profile = match (container.security.seccomp_profile, of_annotation()) {
            (None, Some(annotation)) => annotation,
            (own, _) => match own.or(pod.security.seccomp_profile) {
                Some(field) => {
                    of_field = field.as_annotation();
                    &of_field
                }
                None => of_pod(),
            },
        };
        if let Err(why) = self.check(profile) {
            let path = format_args!("pod.metadata.annotations[{CONTAINER_PREFIX}{}]", container.name);
            report.forbidden(path, self.detail(profile, why));
        }
    }

    fn check(&self, profile: &str) -> Result<(), Forbidden> {
        match () {
            () if self.allows_any => Ok(()),
            () if self.allowed.is_empty() && profile.is_empty() => Ok(()),
            () if self.allowed.is_empty() => Err(Forbidden::Any),
            () if self.allowed.iter().any(|allowed| allowed == profile) => Ok(()),
            () => Err(Forbidden::This),
        }
    }

    fn detail(&self, profile: &str, why: Forbidden) -> impl std::fmt::Display {
        match why {
            Forbidden::Any => "seccomp may not be set".to_owned(),
            Forbidden::This => {
                format!("{profile} is not an allowed seccomp profile. Valid values are {}", self.text)
            }
        }
    }
}

/// The profiles that a policy forbids.
#[derive(Clone, Copy)]
enum Forbidden {
    Any,
    This,
}

/// Sets the annotation of the pod.
#[must_use]
pub(super) fn set_annotation(pod: &mut Object, profile: &str) -> bool {
    super::set_annotation(pod, POD_ANNOTATION, profile)
}

/// Sets the missing fields of the pod and of its containers from the annotations, as an old API server does after admission
/// (`applySeccompVersionSkew`). Returns `false` if something that must be an object is none.
#[must_use]
pub(super) fn fill_fields(pod: &mut Object) -> bool {
    // The API server refuses the field in a pod for Windows.
    if pod.str(&["spec", "os", "name"]) == "windows" {
        return true;
    }
    let is_of_seccomp = |key: &String| key == POD_ANNOTATION || key.starts_with(CONTAINER_PREFIX);
    let annotations = pod.annotations().into_iter().flatten().filter(|(key, _)| is_of_seccomp(key));
    let profiles: Vec<(String, Value)> =
        annotations.filter_map(|(key, value)| Some((key.clone(), field_of(value.as_str()?)?))).collect();
    profiles.into_iter().all(|(key, profile)| match key.strip_prefix(CONTAINER_PREFIX) {
        None => pod.get_mut(&["spec"]).is_none_or(|spec| fill(spec, profile)),
        Some(name) => CONTAINER_LISTS.into_iter().all(|list| {
            let containers = pod.get_mut(&["spec", list]).and_then(Value::as_array_mut);
            let of_name = |container: &&mut Value| container.get("name").and_then(Value::as_str) == Some(name);
            containers.into_iter().flatten().filter(of_name).all(|container| fill(container, profile.clone()))
        }),
    })
}

/// Sets the field in the security context of a pod's spec or of a container, unless it is set.
fn fill(holder: &mut Value, profile: Value) -> bool {
    let Some(holder) = holder.as_object_mut() else { return false };
    let context = holder.entry("securityContext").or_insert(Value::Null);
    if context.is_null() {
        *context = Value::Object(Map::new());
    }
    let Some(context) = context.as_object_mut() else { return false };
    let field = context.entry("seccompProfile").or_insert(Value::Null);
    if field.is_null() {
        *field = profile;
    }
    true
}

/// The field of an annotation's profile (`SeccompFieldForAnnotation`); `None` if the annotation is invalid.
fn field_of(annotation: &str) -> Option<Value> {
    match annotation {
        UNCONFINED => Some(json!({"type": "Unconfined"})),
        profile if RUNTIME_DEFAULT.contains(&profile) => Some(json!({"type": "RuntimeDefault"})),
        profile => {
            let profile = profile.strip_prefix(LOCALHOST).filter(|profile| !profile.is_empty())?;
            Some(json!({"type": "Localhost", "localhostProfile": profile}))
        }
    }
}
