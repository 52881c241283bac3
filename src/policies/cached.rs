//! The parts of policies that the cluster cache keeps.

use crate::admission::shadow;
use crate::cluster::{CONFIGURATION, Need, Projection, slim_with};
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, ValidatingAdmissionPolicy};
use std::collections::BTreeMap;

impl Projection for ValidatingAdmissionPolicy {
    const NEED: Need = Need::VALIDATING_POLICIES;
    const MAY_BE_REFUSED: bool = true;
    const FIELDS: &'static [&'static str] = CONFIGURATION;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::POLICY);
        object.status = None;
        (object.metadata.name.clone().unwrap_or_default(), object)
    }

    fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.labels.as_ref()
    }
}

impl Projection for MutatingAdmissionPolicy {
    const NEED: Need = Need::MUTATING_POLICIES;
    const MAY_BE_REFUSED: bool = true;
    const FIELDS: &'static [&'static str] = CONFIGURATION;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::POLICY);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }

    fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.labels.as_ref()
    }
}
