//! A plugin's facts as data, so that the chain skips it without asking it.

use super::options::PolicyOptions;
use super::{Attributes, Operation, Plugin};
use crate::cluster::Cluster;
use crate::cluster::discovery::Discovery;
use crate::config::{BuildError, DefaultTolerations, FeatureGates};
use std::sync::Arc;

/// A set of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations(u8);

impl Operations {
    /// None.
    pub const NONE: Self = Self(0);
    /// CREATE.
    pub const CREATE: Self = Self(1);
    /// UPDATE.
    pub const UPDATE: Self = Self(2);
    /// DELETE.
    pub const DELETE: Self = Self(4);
    /// CONNECT.
    pub const CONNECT: Self = Self(8);
    /// All four.
    pub const ALL: Self = Self(15);

    /// Both sets.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether an operation is in both sets.
    pub const fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the operation is in the set.
    pub const fn contain(self, operation: Operation) -> bool {
        let bit = match operation {
            Operation::Create => Self::CREATE,
            Operation::Update => Self::UPDATE,
            Operation::Delete => Self::DELETE,
            Operation::Connect => Self::CONNECT,
        };
        self.0 & bit.0 != 0
    }
}

/// The phases that a plugin takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// Admit.
    Mutating,
    /// Validate.
    Validating,
    /// Admit and Validate.
    Both,
}

impl Phases {
    /// Whether it has an Admit.
    pub const fn mutate(self) -> bool {
        matches!(self, Self::Mutating | Self::Both)
    }

    /// Whether it has a Validate.
    pub const fn validate(self) -> bool {
        matches!(self, Self::Validating | Self::Both)
    }
}

/// The resources that a plugin looks at.
#[derive(Clone, Copy, Debug)]
pub enum Resources {
    /// Any, subresources too.
    All,
    /// These, as group, resource and subresource.
    Only(&'static [(&'static str, &'static str, &'static str)]),
}

impl Resources {
    /// Whether the request's resource is among them.
    pub fn contain(self, attributes: &Attributes) -> bool {
        self.have(&attributes.resource.group, &attributes.resource.resource, &attributes.subresource)
    }

    /// Whether this resource is among them.
    pub fn have(self, group: &str, resource: &str, subresource: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(list) => list.contains(&(group, resource, subresource)),
        }
    }
}

/// What a plugin's constructor gets.
pub struct Environment<'a> {
    /// The cluster's state.
    pub cluster: Arc<Cluster>,
    /// The plugin's own configuration from the AdmissionConfiguration file.
    pub configuration: Option<&'a crate::config::PluginConfiguration>,
    /// Every bound.
    pub limits: &'a crate::config::Limits,
    /// Where metrics are registered.
    pub metrics: Arc<super::metrics::Metrics>,
    /// Which feature gates are on.
    pub feature_gates: &'a FeatureGates,
    /// How long pods stay on nodes that are not well, by default.
    pub default_tolerations: DefaultTolerations,
    /// The webhooks that decide nothing.
    pub shadow_webhooks: &'a super::shadow::Shadows,
    /// What the command line says of policies.
    pub policies: &'a PolicyOptions,
    /// What resources there are.
    pub discovery: Arc<Discovery>,
}

/// A plugin's facts and its constructor.
pub struct Spec {
    /// Its name in flags, files and metrics.
    pub name: &'static str,
    /// Whether kube-apiserver has it on by default.
    pub default_on: bool,
    /// Its phases.
    pub phases: Phases,
    /// The operations that it handles (`Handles`).
    pub operations: Operations,
    /// The resources that it looks at.
    pub resources: Resources,
    /// What cluster state it reads.
    pub needs: &'static [crate::cluster::Need],
    /// The kind of its configuration, if it has one.
    pub configuration: Option<&'static str>,
    /// What it does, in a line.
    pub about: &'static str,
    /// Makes it.
    pub build: fn(&Environment<'_>) -> Result<Box<dyn Plugin>, BuildError>,
}

impl Spec {
    /// Whether the plugin has anything to do with the request.
    pub fn handles(&self, attributes: &Attributes) -> bool {
        self.operations.contain(attributes.operation) && self.resources.contain(attributes)
    }
}
