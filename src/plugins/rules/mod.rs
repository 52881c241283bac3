//! Rules that several plugins share.

pub(super) mod classes;
pub(super) mod namespaces;
pub(super) mod node_selector;
pub(super) mod pod;
pub(super) mod resources;
pub(super) mod toleration;
