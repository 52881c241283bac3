//! A PodSecurityPolicy: the object as it is written, and its rules as pods are checked against them.

use super::app_armor::AppArmorRule;
use super::capabilities::CapabilityRule;
use super::groups::GroupRule;
use super::se_linux::{SeLinuxOptions, SeLinuxRule};
use super::seccomp::SeccompRule;
use super::users::UserRule;
use super::volumes::VolumeRule;
use crate::cluster::{Need, Projection, RemovedKind};
use crate::removed::{Api, POD_SECURITY_POLICIES};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A policy with its rules.
#[derive(Debug, PartialEq)]
pub(crate) struct PodSecurityPolicy {
    pub(super) name: Arc<str>,
    /// The rules; the error of a policy that cannot be applied (`CreateStrategies`).
    pub(super) rules: Result<Rules, UnusableRule>,
}

/// The reason why a policy cannot be applied.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum UnusableRule {
    /// The rule of the field is unknown.
    #[error("spec.{field}: unrecognized strategy type {rule:?}")]
    Unknown { field: &'static str, rule: String },
    /// The rule for groups lacks ranges.
    #[error("spec.{field}: ranges must be supplied for {rule}")]
    NoRanges { field: &'static str, rule: String },
    /// The rule for users lacks ranges.
    #[error("spec.runAsUser: MustRunAs requires at least one range")]
    NoUserRanges,
    /// The rule for SELinux options lacks options.
    #[error("spec.seLinux: MustRunAs requires seLinuxOptions")]
    NoSeLinuxOptions,
}

impl UnusableRule {
    /// The rule of the field is unknown.
    pub(super) fn unknown(field: &'static str, rule: &str) -> Self {
        Self::Unknown { field, rule: rule.to_owned() }
    }
}

/// The rules of a policy.
#[derive(Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) privileged: bool,
    pub(super) host_network: bool,
    pub(super) host_pid: bool,
    pub(super) host_ipc: bool,
    pub(super) read_only_root_filesystem: bool,
    pub(super) default_allow_privilege_escalation: Option<bool>,
    pub(super) allow_privilege_escalation: bool,
    pub(super) host_ports: Vec<HostPortRange>,
    pub(super) allowed_proc_mount_types: Vec<String>,
    pub(super) allowed_unsafe_sysctls: Vec<String>,
    pub(super) forbidden_sysctls: Vec<String>,
    pub(super) runtime_class: Option<RuntimeClassRule>,
    pub(super) capabilities: CapabilityRule,
    pub(super) volumes: VolumeRule,
    pub(super) run_as_user: UserRule,
    pub(super) run_as_group: GroupRule,
    pub(super) supplemental_groups: GroupRule,
    pub(super) fs_group: GroupRule,
    pub(super) se_linux: SeLinuxRule,
    pub(super) seccomp: SeccompRule,
    pub(super) app_armor: AppArmorRule,
}

/// The object as the API server or a file has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WrittenPolicy {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// `policyv1beta1.PodSecurityPolicySpec`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    privileged: Option<bool>,
    default_add_capabilities: Option<Vec<String>>,
    required_drop_capabilities: Option<Vec<String>>,
    allowed_capabilities: Option<Vec<String>>,
    volumes: Option<Vec<String>>,
    host_network: Option<bool>,
    host_ports: Option<Vec<HostPortRange>>,
    #[serde(rename = "hostPID")]
    host_pid: Option<bool>,
    #[serde(rename = "hostIPC")]
    host_ipc: Option<bool>,
    se_linux: Option<SeLinuxStrategy>,
    run_as_user: Option<StrategyOptions>,
    run_as_group: Option<StrategyOptions>,
    supplemental_groups: Option<StrategyOptions>,
    fs_group: Option<StrategyOptions>,
    read_only_root_filesystem: Option<bool>,
    default_allow_privilege_escalation: Option<bool>,
    allow_privilege_escalation: Option<bool>,
    allowed_host_paths: Option<Vec<AllowedHostPath>>,
    allowed_flex_volumes: Option<Vec<AllowedFlexVolume>>,
    #[serde(rename = "allowedCSIDrivers")]
    allowed_csi_drivers: Option<Vec<AllowedCsiDriver>>,
    allowed_unsafe_sysctls: Option<Vec<String>>,
    forbidden_sysctls: Option<Vec<String>>,
    allowed_proc_mount_types: Option<Vec<String>>,
    runtime_class: Option<RuntimeClassRule>,
}

/// A rule for users or groups, with its ranges.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StrategyOptions {
    pub(super) rule: Option<String>,
    pub(super) ranges: Option<Vec<IdRange>>,
}

/// IDs from `min` to `max`, both included.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct IdRange {
    pub(super) min: i64,
    pub(super) max: i64,
}

/// Ports from `min` to `max`, both included.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct HostPortRange {
    pub(super) min: i32,
    pub(super) max: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SeLinuxStrategy {
    pub(super) rule: Option<String>,
    pub(super) se_linux_options: Option<SeLinuxOptions>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AllowedHostPath {
    pub(super) path_prefix: Option<String>,
    pub(super) read_only: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AllowedFlexVolume {
    driver: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AllowedCsiDriver {
    name: Option<String>,
}

/// The runtime classes that pods may have, and the class of pods without one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RuntimeClassRule {
    pub(super) allowed_runtime_class_names: Option<Vec<String>>,
    pub(super) default_runtime_class_name: Option<String>,
}

impl Projection for PodSecurityPolicy {
    const NEED: Need = Need::removed::<Self>("PodSecurityPolicies");
    const FIELDS: &'static [&'static str] = &["metadata.name", "metadata.annotations", "spec"];
    type Object = WrittenPolicy;

    fn project(object: WrittenPolicy) -> (String, Self) {
        let WrittenPolicy { metadata, spec } = object;
        let rules = Rules::new(spec, &metadata.annotations.unwrap_or_default());
        let policy = Self { name: metadata.name.as_str().into(), rules };
        (metadata.name, policy)
    }
}

impl RemovedKind for PodSecurityPolicy {
    const API: &'static Api = &POD_SECURITY_POLICIES;
}

impl Rules {
    /// # Errors
    /// If a strategy is unknown or lacks its values.
    fn new(spec: Spec, annotations: &BTreeMap<String, String>) -> Result<Self, UnusableRule> {
        let drivers = spec.allowed_flex_volumes.unwrap_or_default().into_iter().map(|flex| flex.driver);
        let csi_drivers = spec.allowed_csi_drivers.unwrap_or_default().into_iter().map(|driver| driver.name);
        let groups = |field, options: Option<_>| GroupRule::new(field, options.unwrap_or_default());
        Ok(Self {
            privileged: spec.privileged.unwrap_or_default(),
            host_network: spec.host_network.unwrap_or_default(),
            host_pid: spec.host_pid.unwrap_or_default(),
            host_ipc: spec.host_ipc.unwrap_or_default(),
            read_only_root_filesystem: spec.read_only_root_filesystem.unwrap_or_default(),
            default_allow_privilege_escalation: spec.default_allow_privilege_escalation,
            // `SetDefaults_PodSecurityPolicySpec`. Nothing sets defaults in a policy that the old API does not serve.
            allow_privilege_escalation: spec.allow_privilege_escalation.unwrap_or(true),
            host_ports: spec.host_ports.unwrap_or_default(),
            allowed_proc_mount_types: match spec.allowed_proc_mount_types.unwrap_or_default() {
                none if none.is_empty() => vec!["Default".to_owned()],
                types => types,
            },
            allowed_unsafe_sysctls: spec.allowed_unsafe_sysctls.unwrap_or_default(),
            forbidden_sysctls: spec.forbidden_sysctls.unwrap_or_default(),
            runtime_class: spec.runtime_class,
            capabilities: CapabilityRule::new(
                spec.default_add_capabilities.unwrap_or_default(),
                spec.required_drop_capabilities.unwrap_or_default(),
                spec.allowed_capabilities.unwrap_or_default(),
            ),
            volumes: VolumeRule {
                types: spec.volumes.unwrap_or_default(),
                host_paths: spec.allowed_host_paths.unwrap_or_default(),
                flex_drivers: drivers.map(Option::unwrap_or_default).collect(),
                csi_drivers: csi_drivers.map(Option::unwrap_or_default).collect(),
            },
            run_as_user: UserRule::new(spec.run_as_user.unwrap_or_default())?,
            run_as_group: match spec.run_as_group {
                Some(options) => GroupRule::new("runAsGroup", options)?,
                None => GroupRule::Any,
            },
            se_linux: SeLinuxRule::new(spec.se_linux.unwrap_or_default())?,
            fs_group: groups("fsGroup", spec.fs_group)?,
            supplemental_groups: groups("supplementalGroups", spec.supplemental_groups)?,
            seccomp: SeccompRule::new(annotations),
            app_armor: AppArmorRule::new(annotations),
        })
    }
}
