//! What the command line says of policies; kube-apiserver has nothing of the kind.

use crate::admission::shadow::Shadows;
pub use crate::manifests::policies::Parameters;

/// What the command line says of policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether those from files may have parameters.
    pub in_files: Parameters,
    /// The policies and bindings that decide nothing.
    pub shadows: Shadows,
}
