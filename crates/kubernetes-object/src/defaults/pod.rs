//! Defaults of pods and of pod templates.

use super::Defaulting;
use super::fields::{Fields, each, embedded, if_nil, if_zero, is_true, pointer};
use super::pod_resources::{self, round_up};
use super::{container, pod_forms, volume};
use crate::release;

/// Defaults of a pod: `SetDefaults_Pod`, then the defaults that templates have too.
pub(super) fn pod(object: &mut Fields, defaulting: Defaulting) {
    if let Some(spec) = embedded(object, "spec") {
        if release::since(37) {
            pod_forms::grace_period(spec);
        }
        // The order matters: the pod's requests depend on the requests of its containers.
        each(spec, "containers").for_each(container::requests_from_limits);
        each(spec, "initContainers").for_each(container::requests_from_limits);
        if defaulting.pod_resources {
            pod_resources::default_of_pod(spec);
        }
        if_nil(spec, "enableServiceLinks", true);
        if is_true(spec, "hostNetwork") {
            each(spec, "containers").for_each(container::host_ports);
            each(spec, "initContainers").for_each(container::host_ports);
        }
        if defaulting.protocol_of_probes {
            for list in ["initContainers", "containers", "ephemeralContainers"] {
                each(spec, list).for_each(container::http_protocols);
            }
        }
        pod_spec(spec);
    }
    pointer(object, "status").map(pod_status);
}

/// Defaults of a field that holds a `PodTemplateSpec`.
pub(super) fn template(parent: &mut Fields, name: &str) {
    if let Some(template) = embedded(parent, name) {
        embedded(template, "spec").map(pod_spec);
    }
}

/// `SetDefaults_PodSpec` and the defaults of nested values.
fn pod_spec(spec: &mut Fields) {
    if release::since(37) {
        pod_forms::service_account(spec);
    }
    if_zero(spec, "dnsPolicy", "ClusterFirst");
    if_zero(spec, "restartPolicy", "Always");
    if_nil(spec, "securityContext", Fields::new());
    if_nil(spec, "terminationGracePeriodSeconds", 30);
    if_zero(spec, "schedulerName", "default-scheduler");
    each(spec, "volumes").for_each(volume::apply);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list).for_each(container::apply);
    }
    round_up(spec, "overhead");
    if let Some(resources) = pointer(spec, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
}

fn pod_status(status: &mut Fields) {
    if release::since(37) {
        pod_forms::addresses(status);
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        each(status, list).for_each(allocated);
    }
    allocated(status);
}

fn allocated(status: &mut Fields) {
    round_up(status, "allocatedResources");
    if let Some(resources) = pointer(status, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
}
