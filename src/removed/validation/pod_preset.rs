//! Validates PodPresets as Kubernetes 1.19 does (`ValidatePodPreset`), with the rules of pods for the parts of containers.

mod environment;
mod selector;
mod volumes;

use super::{Causes, given, items, names, paths, text};
use crate::object::Object;
use serde_json::Value;
use std::collections::HashSet;

pub(super) fn validate(object: &Object, causes: &mut Causes) {
    super::name(object, names::subdomain_errors, causes);
    spec(object, causes);
}

/// Validates the spec twice (`podPresetStrategy.ValidateUpdate`). An update keeps the stored spec (`PrepareForUpdate`).
pub(super) fn validate_update(object: &Object, causes: &mut Causes) {
    validate(object, causes);
    spec(object, causes);
}

/// `ValidatePodPresetSpec`
fn spec(object: &Object, causes: &mut Causes) {
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    selector::check(spec, "spec.selector", causes);
    // An empty list counts: Go compares with nil.
    let is_list = |field: &&str| spec.get(*field).is_some_and(Value::is_array);
    if !["env", "envFrom", "volumeMounts", "volumes"].iter().any(is_list) {
        causes.required("spec.volumes.env.envFrom.volumeMounts", "must specify at least one");
    }
    let volumes = volumes::check(items(spec, "volumes"), "spec.volumes", causes);
    environment::variables(items(spec, "env"), "spec.env", causes);
    environment::sources(items(spec, "envFrom"), "spec.envFrom", causes);
    mounts(items(spec, "volumeMounts"), &volumes, causes);
}

/// Validates mounts of these volumes (`ValidateVolumeMounts`). Some of kube-apiserver's paths have no index.
fn mounts(mounts: &[Value], volumes: &HashSet<&str>, causes: &mut Causes) {
    const FIELD: &str = "spec.volumeMounts";
    let mut paths = HashSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let at = |field: &str| format!("{FIELD}[{index}].{field}");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            causes.required(at("name"), "");
        }
        if !volumes.contains(name) {
            causes.not_found(at("name"), name);
        }
        if path.is_empty() {
            causes.required(at("mountPath"), "");
        }
        if !paths.insert(path) {
            causes.invalid(at("mountPath"), path, "must be unique");
        }
        let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        paths::descending(sub_path, &format!("{FIELD}.subPath"), causes);
        if !expression.is_empty() && !sub_path.is_empty() {
            causes.invalid(at("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive");
        }
        paths::descending(expression, &format!("{FIELD}.subPathExpr"), causes);
        if let Some(propagation) = given(mount, "mountPropagation") {
            let supported = ["Bidirectional", "HostToContainer", "None"];
            causes.one_of(format!("{FIELD}.mountPropagation"), propagation, &supported);
        }
    }
}

#[cfg(test)]
mod tests;
