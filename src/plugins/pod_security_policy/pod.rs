//! The fields of a pod that policies check. They are decoded once for all policies, and borrow the pod.

use super::app_armor::AppArmorProfile;
use super::capabilities::Capabilities;
use super::se_linux::SeLinux;
use super::seccomp::SeccompProfile;
use super::volumes::Volume;
use crate::object::Object;
use crate::plugins::rules::pod::CONTAINER_LISTS;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

const GROUPS: [&str; 3] = ["spec", "securityContext", "supplementalGroups"];

/// A pod.
#[derive(Debug)]
pub(super) struct Pod<'a> {
    annotations: Option<&'a Map<String, Value>>,
    pub(super) spec: Spec<'a>,
    pub(super) security: PodSecurityContext<'a>,
    pub(super) volumes: Vec<Volume<'a>>,
    /// Init containers, containers, ephemeral containers (`VisitContainersWithPath`).
    pub(super) containers: Vec<Container<'a>>,
    /// The mounts that are not read-only, by the name of the volume.
    writable_mounts: OnceLock<WritableMounts<'a>>,
}

type WritableMounts<'a> = HashMap<&'a str, Vec<(Place, usize)>>;

/// A container with its place in the pod.
#[derive(Debug)]
pub(super) struct Container<'a> {
    pub(super) place: Place,
    pub(super) name: &'a str,
    pub(super) security: SecurityContext<'a>,
    pub(super) ports: Vec<Port>,
    mounts: Vec<Mount<'a>>,
}

/// The place of a container; printed as its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) list: &'static str,
    pub(super) index: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.{}[{}]", self.list, self.index)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    pub(super) host_network: Option<bool>,
    #[serde(rename = "hostPID")]
    pub(super) host_pid: Option<bool>,
    #[serde(rename = "hostIPC")]
    pub(super) host_ipc: Option<bool>,
    #[serde(borrow)]
    pub(super) runtime_class_name: Option<&'a str>,
    service_account_name: Option<&'a str>,
    security_context: Option<PodSecurityContext<'a>>,
    init_containers: Option<Vec<WrittenContainer<'a>>>,
    containers: Option<Vec<WrittenContainer<'a>>>,
    ephemeral_containers: Option<Vec<WrittenContainer<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSecurityContext<'a> {
    pub(super) run_as_user: Option<i64>,
    pub(super) run_as_group: Option<i64>,
    pub(super) run_as_non_root: Option<bool>,
    pub(super) fs_group: Option<i64>,
    pub(super) supplemental_groups: Option<Vec<i64>>,
    #[serde(borrow)]
    pub(super) se_linux_options: Option<SeLinux<'a>>,
    pub(super) seccomp_profile: Option<SeccompProfile<'a>>,
    pub(super) app_armor_profile: Option<AppArmorProfile<'a>>,
    pub(super) sysctls: Option<Vec<Sysctl<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sysctl<'a> {
    pub(super) name: &'a str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenContainer<'a> {
    name: &'a str,
    security_context: Option<SecurityContext<'a>>,
    ports: Option<Vec<Port>>,
    #[serde(borrow)]
    volume_mounts: Option<Vec<Mount<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SecurityContext<'a> {
    pub(super) privileged: Option<bool>,
    pub(super) run_as_user: Option<i64>,
    pub(super) run_as_group: Option<i64>,
    pub(super) run_as_non_root: Option<bool>,
    pub(super) read_only_root_filesystem: Option<bool>,
    pub(super) allow_privilege_escalation: Option<bool>,
    #[serde(borrow)]
    pub(super) proc_mount: Option<&'a str>,
    pub(super) capabilities: Option<Capabilities<'a>>,
    pub(super) se_linux_options: Option<SeLinux<'a>>,
    pub(super) seccomp_profile: Option<SeccompProfile<'a>>,
    pub(super) app_armor_profile: Option<AppArmorProfile<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Port {
    pub(super) host_port: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Mount<'a> {
    name: &'a str,
    read_only: Option<bool>,
}

/// The reason why a pod cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undecodable {
    /// The request has no object.
    #[error("it is missing")]
    Missing,
    /// A field of the spec has another type.
    #[error("spec: {0}")]
    Spec(serde_json::Error),
    /// The volumes are no list of objects.
    #[error("spec.volumes: must be a list of objects")]
    Volumes,
}

impl<'a> Pod<'a> {
    /// # Errors
    /// If a field has another type than it must have.
    pub(super) fn read(object: &'a Object) -> Result<Self, Undecodable> {
        let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
        let spec = Option::<Spec<'_>>::deserialize(spec).map_err(Undecodable::Spec)?;
        let mut spec = spec.unwrap_or_default();
        let mut security = spec.security_context.take().unwrap_or_default();
        if security.supplemental_groups.is_none() && object.is_empty_but_not_nil(&GROUPS) {
            security.supplemental_groups = Some(Vec::new());
        }
        let lists = [spec.init_containers.take(), spec.containers.take(), spec.ephemeral_containers.take()];
        let containers = CONTAINER_LISTS.into_iter().zip(lists).flat_map(|(list, containers)| {
            let containers = containers.unwrap_or_default().into_iter().enumerate();
            containers.map(move |(index, written)| Container::new(Place { list, index }, written))
        });
        Ok(Self {
            annotations: object.annotations(),
            security,
            volumes: Volume::all(object)?,
            containers: containers.collect(),
            spec,
            writable_mounts: OnceLock::new(),
        })
    }

    /// The value of an annotation, unless it is empty.
    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations?.get(key)?.as_str().filter(|value| !value.is_empty())
    }

    /// The value of the annotation for a container, which may be empty.
    pub(super) fn annotation_of(&self, prefix: &str, container: &Container<'_>) -> Option<&'a str> {
        let is_of = |key: &&String| key.strip_prefix(prefix) == Some(container.name);
        // Building the key costs more than reading the few keys that pods have; a pod with many keys needs the key.
        let value = match self.annotations? {
            few if few.len() <= 16 => few.iter().find(|(key, _)| is_of(key)).map(|(_, value)| value),
            many => many.get(&format!("{prefix}{}", container.name)),
        };
        value?.as_str()
    }

    /// The name of the service account; empty if the pod has none.
    pub(super) fn service_account(&self) -> &'a str {
        self.spec.service_account_name.unwrap_or_default()
    }

    /// The mounts of the volume that are not read-only: the containers, and the indexes of the mounts.
    pub(super) fn writable_mounts(&self, volume: &str) -> &[(Place, usize)] {
        let all = self.writable_mounts.get_or_init(|| {
            let mut found = WritableMounts::new();
            for container in &self.containers {
                for (index, mount) in container.mounts.iter().enumerate() {
                    if !mount.read_only.unwrap_or_default() {
                        found.entry(mount.name).or_default().push((container.place, index));
                    }
                }
            }
            found
        });
        all.get(volume).map_or(&[], Vec::as_slice)
    }
}

impl<'a> Container<'a> {
    fn new(place: Place, written: WrittenContainer<'a>) -> Self {
        Self {
            place,
            name: written.name,
            security: written.security_context.unwrap_or_default(),
            ports: written.ports.unwrap_or_default(),
            mounts: written.volume_mounts.unwrap_or_default(),
        }
    }
}
