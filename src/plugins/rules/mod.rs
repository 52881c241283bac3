//! Rules about parts of pods that several plugins share.

pub(super) mod pod;
pub(super) mod resources;
pub(super) mod toleration;
