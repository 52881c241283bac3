//! The values that a policy sets in a pod that lacks them.

use super::app_armor;
use super::capabilities::CapabilitySets;
use super::pod::Place;
use super::se_linux::SeLinuxOptions;
use super::{seccomp, set_annotation};
use crate::object::Object;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The values for a pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Defaults {
    pub(super) supplemental_group: Option<i64>,
    pub(super) fs_group: Option<i64>,
    pub(super) se_linux: Option<Arc<SeLinuxOptions>>,
    /// The annotation of the pod.
    pub(super) seccomp: Option<Arc<str>>,
    pub(super) runtime_class: Option<String>,
    /// The containers that get values.
    pub(super) containers: Vec<(Place, ContainerDefaults)>,
}

/// The values for a container.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ContainerDefaults {
    pub(super) run_as_user: Option<i64>,
    pub(super) run_as_group: Option<i64>,
    pub(super) run_as_non_root: Option<bool>,
    /// The annotation of the pod for the container.
    pub(super) app_armor: Option<Arc<str>>,
    pub(super) capabilities: Option<CapabilitySets>,
    pub(super) read_only_root_filesystem: Option<bool>,
    pub(super) allow_privilege_escalation: Option<bool>,
}

impl Defaults {
    /// Whether the policy leaves the pod unchanged.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets the values. Returns `false` if something that must be an object is none.
    #[must_use]
    pub(super) fn apply(&self, pod: &mut Object) -> bool {
        let se_linux = self.se_linux.as_ref().and_then(|options| serde_json::to_value(&**options).ok());
        let runtime_class = self.runtime_class.as_deref().map(Value::from);
        let mut values = [
            (
                &["spec", "securityContext", "supplementalGroups"][..],
                self.supplemental_group.map(|group| json!([group])),
            ),
            (&["spec", "securityContext", "fsGroup"], self.fs_group.map(Value::from)),
            (&["spec", "securityContext", "seLinuxOptions"], se_linux),
            (&["spec", "runtimeClassName"], runtime_class),
        ]
        .into_iter()
        .filter_map(|(path, value)| Some((path, value?)));
        values.all(|(path, value)| pod.set(path, value))
            && self.seccomp.as_deref().is_none_or(|profile| seccomp::set_annotation(pod, profile))
            && self.containers.iter().all(|(place, defaults)| defaults.apply(*place, pod))
    }
}

impl ContainerDefaults {
    /// Whether the policy leaves the container unchanged.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn apply(&self, place: Place, pod: &mut Object) -> bool {
        let containers = pod.get_mut(&["spec", place.list]).and_then(Value::as_array_mut);
        let container =
            containers.and_then(|containers| containers.get_mut(place.index)).and_then(Value::as_object_mut);
        let Some(container) = container else { return false };
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let values = [
            ("runAsUser", self.run_as_user.map(Value::from)),
            ("runAsGroup", self.run_as_group.map(Value::from)),
            ("runAsNonRoot", self.run_as_non_root.map(Value::from)),
            ("capabilities", self.capabilities.as_ref().map(CapabilitySets::to_value)),
            ("readOnlyRootFilesystem", self.read_only_root_filesystem.map(Value::from)),
            ("allowPrivilegeEscalation", self.allow_privilege_escalation.map(Value::from)),
        ];
        let mut values = values.into_iter().filter_map(|(field, value)| Some((field, value?))).peekable();
        if values.peek().is_some() {
            let context = container.entry("securityContext").or_insert(Value::Null);
            if context.is_null() {
                *context = Value::Object(Map::new());
            }
            let Some(context) = context.as_object_mut() else { return false };
            context.extend(values.map(|(field, value)| (field.to_owned(), value)));
        }
        let annotation = || format!("{}{name}", app_armor::CONTAINER_PREFIX);
        self.app_armor.as_deref().is_none_or(|profile| set_annotation(pod, &annotation(), profile))
    }
}
