//! The chain: which plugins run, in which order, in which phase.

/// The enabled plugins in kube-apiserver's order.
pub struct Chain {}
