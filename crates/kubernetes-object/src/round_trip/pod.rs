//! Pods and pod templates. Since 1.37 their conversion changes nothing.

use crate::defaults::fields::{Fields, pointer};
use crate::defaults::pod_forms::{addresses, drop_init_container_annotations, grace_period, service_account};
use crate::release;

/// A pod.
pub(super) fn pod(object: &mut Fields) {
    if release::since(37) {
        return;
    }
    if let Some(spec) = pointer(object, "spec") {
        service_account(spec);
        grace_period(spec);
    }
    pointer(object, "status").map(addresses);
    drop_init_container_annotations(object);
}

/// Converts the `PodTemplateSpec` in `template`.
pub(super) fn template(parent: &mut Fields) {
    if release::since(37) {
        return;
    }
    if let Some(template) = pointer(parent, "template") {
        pointer(template, "spec").map(service_account);
        drop_init_container_annotations(template);
    }
}
