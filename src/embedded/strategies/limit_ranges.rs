//! LimitRanges (`pkg/registry/core/limitrange`).

use super::strategy::Strategy;

pub(super) struct LimitRanges;

impl Strategy for LimitRanges {
    /// `limitrangeStrategy.PrepareForCreate`
    fn default_name(&self) -> Option<String> {
        Some(uuid::Uuid::new_v4().to_string())
    }
}
