//! What the command line says of policies; kube-apiserver has nothing of the kind.

use super::shadow::Shadows;
use crate::config::PolicyParameters;

/// What the command line says of policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyOptions {
    /// Whether those from files may have parameters.
    pub in_files: PolicyParameters,
    /// The policies and bindings that decide nothing.
    pub shadows: Shadows,
}
