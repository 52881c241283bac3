//! The defaults of built-in kinds that feature gates decide about.

use super::FeatureGates;
use crate::object::defaults::Defaulting;

impl FeatureGates {
    /// The defaults with these gates.
    pub(crate) fn defaulting(&self) -> Defaulting {
        Defaulting {
            pod_resources: !self.is_on("PodLevelResourcesFixDefaulting"),
            volume_limits: self.is_on("VolumeLimitScaling"),
            unavailable_of_stateful_sets: self.is_on("MaxUnavailableStatefulSet"),
            preemption_of_groups: self.is_on("PodGroupPreemptionPolicy"),
            protocol_of_probes: self.is_on("H2CContainerProbe"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_flags_the_defaults_are_those_of_the_release() {
        assert_eq!(FeatureGates::default().defaulting(), Defaulting::default());
        let later = FeatureGates::of_release(37, "H2CContainerProbe=true");
        let expected = Defaulting {
            pod_resources: false,
            volume_limits: true,
            unavailable_of_stateful_sets: true,
            preemption_of_groups: false,
            protocol_of_probes: true,
        };
        assert_eq!(later.defaulting(), expected);
    }
}
