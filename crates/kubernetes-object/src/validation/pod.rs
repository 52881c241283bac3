//! Pods and templates of pods (`ValidatePodSpec`).

mod volume;
mod env;
mod probe;
mod security;
mod container;
mod scheduling;
mod spec;
mod annotations;
mod template;
mod update;
mod quality;
mod resize;
mod status;

pub(super) use quality::class;
pub(super) use scheduling::{taint_effect, tolerations};
pub(super) use template::{object, template, template_for};

use super::formats::subdomain;
use super::metadata;
use super::node::{Causes, Node};
use crate::names::qualified_name_errors;

/// The pod or the template that has a spec.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scope<'a> {
    /// True for a pod, false for a template.
    pub(super) is_pod: bool,
    /// Name of the pod; `None` for a template.
    pub(super) pod_name: Option<&'a str>,
    /// The spec that an update replaces: its errors are no errors of the new one.
    pub(super) old: Option<&'a serde_json::Value>,
}

/// `ValidatePodCreate`
pub(super) fn create(pod: &Node<'_>, out: &mut Causes) {
    check(pod, None, out);
    let spec = pod.at("spec");
    if !spec.at("ephemeralContainers").is_empty() {
        out.forbidden(&spec.at("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
        out.forbidden(&spec.at("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    annotations::match_fields(pod, &spec, out);
}

/// `ValidatePodUpdate` of the resource and of its subresources.
pub(super) fn change(pod: &Node<'_>, old: &Node<'_>, subresource: &str, out: &mut Causes) {
    metadata::check_update(pod, old, out);
    if subresource == "status" {
        annotations::check_update(pod, old, out);
        return status::check(pod, old, out);
    }
    check(pod, Some(old), out);
    match subresource {
        "ephemeralcontainers" => {
            annotations::check_update(pod, old, out);
            update::ephemeral_containers(pod, old, out);
        }
        "resize" => resize::check(pod, old, out),
        _ => {
            annotations::check_update(pod, old, out);
            update::spec(pod, old, out);
        }
    }
}

/// `validatePodMetadataAndSpec`
fn check(pod: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    metadata::check(pod, true, subdomain, out);
    annotations::check(&pod.under(&["metadata", "annotations"]), &pod.at("spec"), out);
    let spec = pod.at("spec");
    let name = pod.under(&["metadata", "name"]).text();
    let old = old.map(|old| old.at("spec").value());
    spec::check(&spec, Scope { is_pod: true, pod_name: Some(name), old }, out);
    if spec.at("serviceAccountName").is_empty() {
        for volume in spec.at("volumes").items() {
            for source in volume.under(&["projected", "sources"]).items() {
                if source.at("serviceAccountToken").is_given() {
                    let why = "must not be specified when serviceAccountName is not set";
                    out.forbidden(&source.at("serviceAccountToken"), why);
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.at(list).items().for_each(|container| trimmed_image(&container, out));
    }
}

/// `validateContainerOnlyForPod`
fn trimmed_image(container: &Node<'_>, out: &mut Causes) {
    let image = container.at("image");
    if image.text().trim() != image.text() {
        out.text(&image, "must not have leading or trailing whitespace");
    }
}

/// Calls the function with each container of a spec (`VisitContainersWithPath`).
fn each_container<'v>(spec: &Node<'v>, mut each: impl FnMut(&Node<'v>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        spec.at(list).items().for_each(|container| each(&container));
    }
}

/// The error of a mode of files (`fileModeErrorMsg`).
fn file_mode(mode: &Node<'_>, out: &mut Causes) {
    if !(0..=0o777).contains(&mode.int()) {
        out.int(mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Labels of fields that the downward API converts (`ConvertDownwardAPIFieldLabel`).
const DOWNWARD: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

/// `validateObjectFieldSelector`
fn object_field(selector: &Node<'_>, supported: &[&str], out: &mut Causes) {
    let (version, field) = (selector.at("apiVersion"), selector.at("fieldPath"));
    if !out.require(&version) || !out.require(&field) {
        return;
    }
    if version.text() != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {}", version.text());
        return out.text(&field, &why);
    }
    let subscripted = field.text().strip_suffix("']").and_then(|text| text.split_once("['"));
    let subscripted = subscripted.filter(|(path, _)| !path.is_empty());
    if let Some((path, subscript)) = subscripted {
        match path {
            "metadata.annotations" | "metadata.labels" => {
                let key = if path == "metadata.labels" { subscript.to_owned() } else { subscript.to_lowercase() };
                let errors = qualified_name_errors(&key);
                errors.iter().for_each(|why| out.invalid(selector, crate::go_text::go_quote(&key), why));
            }
            _ => {
                let why =
                    format!("error converting fieldPath: field label does not support subscript: {}", field.text());
                out.text(&field, &why);
            }
        }
        return;
    }
    if !DOWNWARD.contains(&field.text()) {
        let why = format!("error converting fieldPath: field label not supported: {}", field.text());
        return out.text(&field, &why);
    }
    out.one_of(&field, supported);
}
