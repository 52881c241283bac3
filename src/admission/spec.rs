//! A plugin's facts as data, so that the chain skips a plugin without calling it.

use super::metrics::Metrics;
use super::options::PolicyOptions;
use super::shadow::ShadowNames;
use super::{Attributes, Operation, Plugin};
use crate::cluster::Cluster;
use crate::cluster::discovery::Discovery;
use crate::config::{BuildError, DefaultTolerations, FeatureGates, Limits, PluginConfiguration};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// A set of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operations(u8);

impl Operations {
    /// The empty set.
    pub(crate) const NONE: Self = Self(0);
    /// CREATE.
    pub(crate) const CREATE: Self = Self(1);
    /// UPDATE.
    pub(crate) const UPDATE: Self = Self(2);
    /// DELETE.
    pub(crate) const DELETE: Self = Self(4);
    /// CONNECT.
    pub(crate) const CONNECT: Self = Self(8);
    /// All four operations.
    pub(crate) const ALL: Self = Self(15);
    /// An UPDATE of an object that has not been initialized ([`Attributes::updates_uninitialized`]).
    pub(crate) const INITIALIZATION: Self = Self(16);

    /// The union of both sets.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the two sets have an operation in common.
    pub(crate) const fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the operation is in the set.
    pub(crate) const fn contain(self, operation: Operation) -> bool {
        let bit = match operation {
            Operation::Create => Self::CREATE,
            Operation::Update => Self::UPDATE,
            Operation::Delete => Self::DELETE,
            Operation::Connect => Self::CONNECT,
        };
        self.0 & bit.0 != 0
    }
}

/// The phases that a plugin implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phases {
    /// Only the mutating phase (Admit).
    Mutating,
    /// Only the validating phase (Validate).
    Validating,
    /// Both phases.
    Both,
}

impl Phases {
    /// Whether the mutating phase (Admit) is among the phases.
    pub(crate) const fn mutate(self) -> bool {
        matches!(self, Self::Mutating | Self::Both)
    }

    /// Whether the validating phase (Validate) is among the phases.
    pub(crate) const fn validate(self) -> bool {
        matches!(self, Self::Validating | Self::Both)
    }
}

/// The resources that a plugin handles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resources {
    /// All resources, with their subresources.
    All,
    /// All resources in namespaces, with their subresources, and namespaces.
    Namespaced,
    /// The listed resources, as group, resource and subresource. The subresource `*` stands for the resource and all its
    /// subresources.
    Only(&'static [(&'static str, &'static str, &'static str)]),
}

impl Resources {
    /// Whether the request's resource is in the set.
    pub(crate) fn contain(self, attributes: &Attributes) -> bool {
        let resource = &attributes.resource;
        match self {
            Self::All => true,
            Self::Namespaced => !attributes.namespace.is_empty() || resource.resource == "namespaces",
            Self::Only(list) => list.iter().any(|(of_group, of_resource, of_subresource)| {
                (*of_group, *of_resource) == (&*resource.group, &*resource.resource)
                    && ["*", &*attributes.subresource].contains(of_subresource)
            }),
        }
    }
}

/// How a plugin works in the webhook front end, which only sees the reviews of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEndSupport {
    /// As in the proxy.
    Full,
    /// With this difference.
    Part(&'static str),
    /// As in the proxy, but only for these resources, which [`Resources::Only`] would list.
    Of(&'static [(&'static str, &'static str, &'static str)]),
    /// The front end leaves the plugin out, for this reason.
    LeftOut(&'static str),
    /// The front end does not start with the plugin, for this reason.
    Refused(&'static str),
}

impl FrontEndSupport {
    /// Whether the front end runs the plugin.
    pub(crate) const fn runs(self) -> bool {
        matches!(self, Self::Full | Self::Part(_) | Self::Of(_))
    }
}

/// The arguments of a plugin's constructor.
pub struct PluginEnvironment<'a> {
    /// The cluster's state.
    pub cluster: Arc<Cluster>,
    /// The plugin's own configuration from the AdmissionConfiguration file.
    pub(crate) configuration: Option<&'a PluginConfiguration>,
    /// The bounds of the whole process.
    pub limits: &'a Limits,
    /// The admission metrics, and the registry for a plugin's own metrics.
    pub metrics: Arc<Metrics>,
    /// The state of the feature gates.
    pub feature_gates: &'a FeatureGates,
    /// The default tolerationSeconds of pods for nodes that are not ready or unreachable.
    pub(crate) default_tolerations: DefaultTolerations,
    /// The webhooks that the command line puts into shadow mode.
    pub(crate) shadow_webhooks: &'a ShadowNames,
    /// The command line's options for policies.
    pub(crate) policies: &'a PolicyOptions,
    /// The resources that the upstream API server serves.
    pub discovery: Arc<Discovery>,
}

impl PluginEnvironment<'static> {
    /// An environment with the defaults of all options.
    pub fn with_defaults(cluster: Arc<Cluster>, discovery: Arc<Discovery>, metrics: Arc<Metrics>) -> Self {
        static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);
        static GATES: LazyLock<FeatureGates> = LazyLock::new(FeatureGates::default);
        static SHADOWS: LazyLock<ShadowNames> = LazyLock::new(ShadowNames::default);
        static POLICIES: LazyLock<PolicyOptions> = LazyLock::new(PolicyOptions::default);
        Self {
            cluster,
            configuration: None,
            limits: &LIMITS,
            metrics,
            feature_gates: &GATES,
            default_tolerations: DefaultTolerations::default(),
            shadow_webhooks: &SHADOWS,
            policies: &POLICIES,
            discovery,
        }
    }
}

/// The history of a plugin that Kubernetes removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    /// The first release with the plugin: `1.6`.
    pub(crate) since: &'static str,
    /// The last release with the plugin: `1.19`.
    pub(crate) until: &'static str,
    /// The successor of the plugin, as the end of "its successor is …".
    pub(crate) successor: &'static str,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { since, until, successor } = self;
        write!(f, "In Kubernetes {since} to {until}; its successor is {successor}.")
    }
}

/// A plugin's facts and constructor.
pub struct Spec {
    /// The plugin's name in flags, files and metrics.
    pub name: &'static str,
    /// Whether kube-apiserver enables the plugin by default.
    pub default_on: bool,
    /// The phases that the plugin implements.
    pub(crate) phases: Phases,
    /// The operations that the plugin handles (`Handles`).
    pub(crate) operations: Operations,
    /// The resources that the plugin handles.
    pub(crate) resources: Resources,
    /// The cluster state that the plugin reads.
    pub needs: &'static [crate::cluster::Need],
    /// The kind of the plugin's configuration, if the plugin has any.
    pub configuration: Option<&'static str>,
    /// The history of a plugin that Kubernetes removed; `None` for a plugin of the current release.
    pub(crate) removed: Option<Removed>,
    /// How the plugin works in the webhook front end.
    pub(crate) front_end: FrontEndSupport,
    /// A description of the plugin, in one line.
    pub(crate) about: &'static str,
    /// The plugin's constructor.
    pub(crate) build: fn(&PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError>,
}

impl Spec {
    /// The resources that the plugin handles in the webhook front end.
    pub(crate) const fn reviewed(&self) -> Resources {
        match self.front_end {
            FrontEndSupport::Of(list) => Resources::Only(list),
            _ => self.resources,
        }
    }

    /// Whether the plugin handles the request's operation and resource.
    pub(crate) fn handles(&self, attributes: &Attributes) -> bool {
        let operations = self.operations;
        let handles_operation = operations.contain(attributes.operation)
            || operations.meet(Operations::INITIALIZATION) && attributes.updates_uninitialized();
        handles_operation && self.resources.contain(attributes)
    }
}
