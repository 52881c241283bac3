//! The command line's options for policies. kube-apiserver has no such options.

use super::shadow::ShadowNames;
use crate::config::PolicyParameters;

/// The command line's options for policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyOptions {
    /// Whether policies from files may have parameters.
    pub(crate) in_files: PolicyParameters,
    /// The policies and bindings that the command line puts into shadow mode.
    pub(crate) shadows: ShadowNames,
}
