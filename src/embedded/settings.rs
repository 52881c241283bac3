//! The settings of a server.

use super::identity::tokens::Tokens;
use crate::cel::Release;
use crate::config::{Addresses, Apis, Controllers, FeatureGates};
use crate::metrics::Registry;
use crate::object::Object;
use crate::removed::Api;
use crate::server::health::Checks;
use crate::status::Cause;
use std::net::SocketAddr;
use std::sync::Weak;
use std::time::Duration;

/// Validates an object of one of some kinds, with expressions of a release: the errors.
pub(crate) type Validate = fn(&Object, Release) -> Vec<Cause>;
/// Returns the warnings of a write; the bool says whether the write creates the object.
pub(crate) type Warnings = fn(&Object, bool, &FeatureGates) -> Vec<String>;

/// The health and metrics of the process. They refer to parts that refer to the server, so the server does not own them.
pub(crate) struct Vitals {
    pub(crate) checks: Checks,
    pub(crate) registry: Registry,
}

/// The settings of a [`Server`](super::Server).
pub(crate) struct Settings {
    /// The APIs that Kubernetes removed and that the server serves nevertheless.
    pub(crate) removed: Vec<&'static Api>,
    /// Whether RBAC authorizes requests. Without it, every user may do everything.
    pub(crate) rbac: bool,
    /// Whether objects with `metadata.initializers` are hidden, and their creates wait.
    pub(crate) initializers: bool,
    /// The controllers that run; the garbage collector only with [`run_controllers`](super::run_controllers).
    pub(crate) controllers: Controllers,
    /// The addresses of Services.
    pub(crate) addresses: Addresses,
    /// The address and the port at which clients reach the server, for the Service `default/kubernetes`; without them there is no such
    /// Service.
    pub(crate) advertised: Option<SocketAddr>,
    /// The APIs that are not served.
    pub(crate) apis: Apis,
    /// Whether containers may be privileged.
    pub(crate) allow_privileged: bool,
    /// The feature gates, which fields depend on.
    pub(crate) gates: FeatureGates,
    /// The keys of service account tokens.
    pub(crate) tokens: Tokens,
    /// The certificates of the ConfigMap `kube-root-ca.crt`, as PEM; without them no namespace has the ConfigMap.
    pub(crate) root_ca: Option<String>,
    /// The rules of webhook configurations, policies and bindings, and of expressions that select devices. They need a compiler from a higher
    /// layer.
    pub(crate) registration: Validate,
    /// The warnings of a valid webhook configuration, policy or binding, for its create or its update.
    pub(crate) registration_warnings: Warnings,
    /// The time to live of Events; 0 for no end.
    pub(crate) event_ttl: Duration,
    /// The health and metrics of the process. Without them the server is always healthy.
    pub(crate) health: Option<Weak<Vitals>>,
}

impl Settings {
    /// The errors of an object by the rules of registrations.
    pub(crate) fn registration_causes(&self, object: &Object) -> Vec<Cause> {
        (self.registration)(object, self.gates.expressions())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            removed: Vec::new(),
            rbac: false,
            initializers: false,
            controllers: Controllers::ALL,
            addresses: Addresses::default(),
            advertised: None,
            apis: Apis::default(),
            allow_privileged: true,
            gates: FeatureGates::default(),
            tokens: Tokens::default(),
            root_ca: None,
            registration: |_, _| Vec::new(),
            registration_warnings: |_, _, _| Vec::new(),
            event_ttl: crate::config::EVENT_TTL,
            health: None,
        }
    }
}
