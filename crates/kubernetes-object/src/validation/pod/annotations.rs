//! Annotations that stand for fields of a pod.

use super::super::node::{Causes, Node};
use super::super::volume_source::local_path;
use super::{each_container, scheduling};
use crate::go_text::go_quote;
use serde_json::Value;

pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// `ValidatePodSpecificAnnotations`
pub(super) fn check(annotations: &Node<'_>, spec: &Node<'_>, out: &mut Causes) {
    let mirror = annotations.key(MIRROR);
    if mirror.is_given() && spec.at("nodeName").is_empty() {
        out.text(&mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    let tolerations = annotations.key(TOLERATIONS);
    if !tolerations.is_empty()
        && let Ok(list) = serde_json::from_str::<Value>(tolerations.text())
    {
        scheduling::tolerations(&annotations.at(TOLERATIONS).with(&list), out);
    }
    let cost = annotations.key(DELETION_COST);
    if let Some(text) = cost.optional_text() {
        let is_led = text.starts_with('+') || (text.len() > 1 && text.starts_with('0'));
        if text.parse::<i32>().is_err() || is_led {
            out.text(&cost, "must be a 32bit integer");
        }
    }
    for (key, value) in annotations.entries() {
        let is_seccomp = key == SECCOMP || key.starts_with(SECCOMP_CONTAINER);
        let is_known = matches!(value.text(), "runtime/default" | "docker/default" | "unconfined");
        if is_seccomp && !is_known {
            let node = value.named(annotations, key.to_owned());
            match value.text().strip_prefix("localhost/") {
                Some(path) => local_path(&node.with(&Value::from(path)), out),
                None => out.text(&node, "must be a valid seccomp profile"),
            }
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR) {
            app_armor(name, &value, spec, out);
        }
    }
}

/// `ValidateAppArmorPodAnnotations`
fn app_armor(container: &str, profile: &Node<'_>, spec: &Node<'_>, out: &mut Causes) {
    let mut is_found = false;
    each_container(spec, |each| is_found |= each.at("name").text() == container);
    if !is_found {
        out.invalid(profile, go_quote(container), "container not found");
    }
    let text = profile.text();
    if !matches!(text, "" | "runtime/default" | "unconfined") && !text.starts_with("localhost/") {
        out.text(profile, &format!("invalid AppArmor profile name: {}", go_quote(text)));
    }
}

/// `ValidatePodSpecificAnnotationUpdates`
pub(super) fn check_update(pod: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let path = ["metadata", "annotations"];
    let (new, old) = (pod.under(&path), old.under(&path));
    for (key, value) in old.entries() {
        if new.key(key).value() == value.value() {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            out.forbidden(&new.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            out.forbidden(&new.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new.entries().filter(|(key, _)| !old.key(key).is_given()) {
        if key.starts_with(APP_ARMOR) {
            out.forbidden(&new.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            out.forbidden(&new.key(key), "may not add mirror pod annotation");
        }
    }
    check(&new, &pod.at("spec"), out);
}

/// The errors of annotations that differ from fields (`validateSeccompAnnotationsAndFields`,
/// `validateAppArmorAnnotationsAndFieldsMatchOnCreate`). The object has the metadata and the spec of a pod.
pub(super) fn match_fields(object: &Node<'_>, spec: &Node<'_>, out: &mut Causes) {
    let annotations = object.under(&["metadata", "annotations"]);
    let seccomp = |profile: &Node<'_>, key: String, out: &mut Causes| {
        if profile.is_given() {
            matches(profile, profile, &annotations.key(&key), "seccomp", &["runtime/default", "docker/default"], out);
        }
    };
    let profile = spec.under(&["securityContext", "seccompProfile"]);
    seccomp(&profile, SECCOMP.to_owned(), out);
    each_container(spec, |container| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.at("name").text());
        seccomp(&container.under(&["securityContext", "seccompProfile"]), key, out);
    });
    if spec.under(&["os", "name"]).text() == "windows" {
        return;
    }
    let of_pod = spec.under(&["securityContext", "appArmorProfile"]);
    each_container(spec, |container| {
        let own = container.under(&["securityContext", "appArmorProfile"]);
        let profile = if own.is_given() { &own } else { &of_pod };
        let key = format!("{APP_ARMOR}{}", container.at("name").text());
        if profile.is_given() {
            matches(profile, &own, &annotations.key(&key), "apparmor", &["runtime/default"], out);
        }
    });
}

fn matches(
    profile: &Node<'_>,
    path: &Node<'_>,
    annotation: &Node<'_>,
    what: &str,
    defaults: &[&str],
    out: &mut Causes,
) {
    let Some(text) = annotation.optional_text() else { return };
    let wrong_type = format!("{what} type in annotation and field must match");
    match profile.at("type").text() {
        "Unconfined" if text != "unconfined" => out.forbidden(&path.at("type"), &wrong_type),
        "RuntimeDefault" if !defaults.contains(&text) => out.forbidden(&path.at("type"), &wrong_type),
        "Localhost" => match text.strip_prefix("localhost/") {
            None => out.forbidden(&path.at("type"), &wrong_type),
            Some(local) if profile.at("localhostProfile").optional_text() != Some(local) => {
                let why = format!("{what} profile in annotation and field must match");
                out.forbidden(&path.at("localhostProfile"), &why);
            }
            Some(_) => {}
        },
        _ => {}
    }
}
