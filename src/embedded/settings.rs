//! The parts of the server's configuration that transactions of the store read.

use crate::config::{Addresses, Controllers, FeatureGates};
use crate::object::Object;
use crate::status::Cause;
use std::net::SocketAddr;
use std::time::Duration;

/// Validates an object of one of some kinds: the errors.
pub(crate) type Validate = fn(&Object) -> Vec<Cause>;

/// The configuration on which transactions depend.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The controllers that run.
    pub controllers: Controllers,
    /// The addresses of Services.
    pub addresses: Addresses,
    /// The address and the port of the Service `default/kubernetes`.
    pub advertised: Option<SocketAddr>,
    /// Whether containers may be privileged.
    pub allow_privileged: bool,
    pub gates: FeatureGates,
    /// The certificates of the ConfigMap `kube-root-ca.crt`, as PEM; without them no namespace has the ConfigMap.
    pub root_ca: Option<String>,
    /// The rules of webhook configurations, policies and bindings, and of expressions that select devices.
    pub registration: Validate,
    /// The time to live of Events; 0 for no end.
    pub event_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controllers: Controllers::ALL,
            addresses: Addresses::default(),
            advertised: None,
            allow_privileged: true,
            gates: FeatureGates::default(),
            root_ca: None,
            registration: |_| Vec::new(),
            event_ttl: crate::config::EVENT_TTL,
        }
    }
}
