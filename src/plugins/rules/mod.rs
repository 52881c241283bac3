//! Rules about parts of pods that several plugins share.

pub mod pod;
pub mod resources;
pub mod toleration;
