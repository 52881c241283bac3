//! The parts of webhook configurations that the cluster cache keeps.

use crate::admission::shadow;
use crate::cluster::{CONFIGURATION, Need, Projection, slim_with};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use std::collections::BTreeMap;

impl Projection for MutatingWebhookConfiguration {
    const NEED: Need = Need::MUTATING_WEBHOOKS;
    const FIELDS: &'static [&'static str] = CONFIGURATION;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::HOOKS);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }

    fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.labels.as_ref()
    }
}

impl Projection for ValidatingWebhookConfiguration {
    const NEED: Need = Need::VALIDATING_WEBHOOKS;
    const FIELDS: &'static [&'static str] = CONFIGURATION;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::HOOKS);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }

    fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.labels.as_ref()
    }
}
