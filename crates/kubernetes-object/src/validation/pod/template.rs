//! Templates of pods, and their selectors.

use super::super::formats::subdomain;
use super::super::metadata::{self, labels};
use super::super::node::{Causes, Node};
use super::{Scope, annotations, spec};
use crate::selector::LabelSelector;

/// `ValidatePodTemplateSpec`. `old` is the template that an update replaces.
pub(in super::super) fn template(template: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let metadata = template.at("metadata");
    labels(&metadata.at("labels").named(template, "labels"), out);
    let own = metadata.at("annotations").named(template, "annotations");
    metadata::annotations(&own, out);
    let spec = template.at("spec");
    annotations::check(&own, &spec, out);
    let old = old.map(|old| old.at("spec").value());
    spec::check(&spec, Scope { is_pod: false, pod_name: None, old }, out);
    annotations::match_fields(template, &spec, out);
    if !spec.at("ephemeralContainers").is_empty() {
        out.forbidden(&spec.at("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// The errors of a template whose pods a controller keeps running (`ValidatePodTemplateSpecForReplicaSet`, …).
pub(in super::super) fn template_for(
    controller: &str,
    node: &Node<'_>,
    selector: &LabelSelector,
    old: Option<&Node<'_>>,
    out: &mut Causes,
) {
    if !node.is_given() {
        return out.required(node, "");
    }
    matches(node, selector, out);
    template(node, old, out);
    let spec = node.at("spec");
    out.one_of(&spec.at("restartPolicy"), &["Always"]);
    if spec.at("activeDeadlineSeconds").is_given() {
        let why = format!("activeDeadlineSeconds in {controller} is not Supported");
        out.forbidden(&spec.at("activeDeadlineSeconds"), &why);
    }
}

/// The error of a template whose labels do not match.
fn matches(node: &Node<'_>, selector: &LabelSelector, out: &mut Causes) {
    let labels = node.under(&["metadata", "labels"]);
    if !selector.is_empty() && !selector.matches(labels.value().as_object()) {
        out.value(&labels, "`selector` does not match template `labels`");
    }
}

/// `ValidatePodTemplate`
pub(in super::super) fn object(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, true, subdomain, out),
    }
    let old = old.map(|old| old.at("template"));
    template(&object.at("template"), old.as_ref(), out);
}
