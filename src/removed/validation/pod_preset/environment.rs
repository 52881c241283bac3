//! Validates environment variables and their sources (`core/validation` of Kubernetes 1.19).

use crate::names::mask_trailing_dash;
use crate::object::quantity::{self, Quantity};
use crate::removed::validation::{Causes, names, structure, text};
use serde_json::Value;

/// The fields of a pod that a variable may have as its value, in order.
const POD_FIELDS: [&str; 8] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.podIP",
    "status.podIPs",
];

/// The fields of a pod that have a label (`ConvertDownwardAPIFieldLabel`), apart from `spec.host`.
const LABELLED_FIELDS: [&str; 13] = [
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
    "status.podIP",
    "status.podIPs",
];

/// The resources of a container that a variable or a file may have as its value, in order.
const CONTAINER_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// `ValidateEnv`
pub(super) fn variables(variables: &[Value], field: &str, causes: &mut Causes) {
    for (index, variable) in variables.iter().enumerate() {
        let path = format!("{field}[{index}].name");
        match text(variable, "name") {
            "" => causes.required(path, ""),
            name => causes.invalid_each(&path, name, names::variable_errors(name)),
        }
        if let Some(source) = structure(variable, "valueFrom") {
            value_from(source, text(variable, "value"), &format!("{field}[{index}].valueFrom"), causes);
        }
    }
}

/// `validateEnvVarValueFrom`
fn value_from(from: &Value, value: &str, field: &str, causes: &mut Causes) {
    let mut count = 0;
    for name in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"] {
        let Some(source) = structure(from, name) else { continue };
        let field = format!("{field}.{name}");
        count += 1;
        match name {
            "fieldRef" => pod_field(source, &POD_FIELDS, &field, causes),
            "resourceFieldRef" => container_resource(source, false, &field, causes),
            _ => key_of_object(source, &field, causes),
        }
    }
    let why = match (count, value) {
        (0, _) => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        (1, "") => return,
        (_, "") => "may not have more than one field specified at a time",
        _ => "may not be specified when `value` is not empty",
    };
    causes.invalid(field, "", why);
}

/// Validates the reference to a field of the pod (`validateObjectFieldSelector`).
pub(super) fn pod_field(selector: &Value, supported: &[&str], field: &str, causes: &mut Causes) {
    let (version, label) = (text(selector, "apiVersion"), text(selector, "fieldPath"));
    for (name, value) in [("apiVersion", version), ("fieldPath", label)] {
        if value.is_empty() {
            return causes.required(format!("{field}.{name}"), "");
        }
    }
    let subscripted = subscript(label);
    let problem = match subscripted {
        _ if version != "v1" => format!("unsupported pod version: {version}"),
        Some(("metadata.annotations" | "metadata.labels", _)) => String::new(),
        Some(_) => format!("field label does not support subscript: {label}"),
        None if label == "spec.host" || LABELLED_FIELDS.contains(&label) => String::new(),
        None => format!("field label not supported: {label}"),
    };
    let path = format!("{field}.fieldPath");
    if !problem.is_empty() {
        return causes.invalid(path, label, &format!("error converting fieldPath: {problem}"));
    }
    match subscripted {
        Some(("metadata.annotations", key)) => {
            causes.invalid_each(field, key, names::qualified_name_errors(&key.to_lowercase()));
        }
        Some((_, key)) => causes.invalid_each(field, key, names::qualified_name_errors(key)),
        None => causes.one_of(path, if label == "spec.host" { "spec.nodeName" } else { label }, supported),
    }
}

/// Splits `metadata.labels['KEY']` (`SplitMaybeSubscriptedPath`).
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// Validates the reference to a resource of a container, which a volume names (`validateContainerResourceFieldSelector`).
pub(super) fn container_resource(selector: &Value, is_in_volume: bool, field: &str, causes: &mut Causes) {
    let resource = text(selector, "resource");
    if is_in_volume && text(selector, "containerName").is_empty() {
        causes.required(format!("{field}.containerName"), "");
    } else if resource.is_empty() {
        causes.required(format!("{field}.resource"), "");
    } else {
        causes.one_of(format!("{field}.resource"), resource, &CONTAINER_RESOURCES);
    }
    divisor(selector.get("divisor"), resource, &format!("{field}.divisor"), causes);
}

/// `validateContainerResourceDivisor`
fn divisor(divisor: Option<&Value>, resource: &str, field: &str, causes: &mut Causes) {
    const CPU: [&str; 2] = ["1m", "1"];
    const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    if Quantity::of(divisor).is_zero() {
        return;
    }
    let written =
        divisor.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default();
    let divisor = quantity::canonical(&written).unwrap_or_default();
    let is_one_of = |supported: &[&str]| supported.contains(&divisor.as_str());
    let (supported, what) = match resource {
        "limits.cpu" | "requests.cpu" if !is_one_of(&CPU) => ("1m and 1".to_owned(), "cpu"),
        "limits.memory" | "requests.memory" if !is_one_of(&BYTES) => (BYTES.join(", "), "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" if !is_one_of(&BYTES) => {
            (BYTES.join(", "), "local ephemeral storage")
        }
        _ => return,
    };
    causes.invalid(
        field,
        resource,
        &format!("only divisor's values {supported} are supported with the {what} resource"),
    );
}

/// `validateConfigMapKeySelector`, `validateSecretKeySelector`
fn key_of_object(selector: &Value, field: &str, causes: &mut Causes) {
    let (name, key) = (text(selector, "name"), text(selector, "key"));
    causes.invalid_each(&format!("{field}.name"), name, names::subdomain_errors(name.as_bytes()));
    match key {
        "" => causes.required(format!("{field}.key"), ""),
        key => causes.invalid_each(&format!("{field}.key"), key, names::key_errors(key)),
    }
}

/// `ValidateEnvFrom`. The names of the objects may end in a dash, as prefixes of generated names do.
pub(super) fn sources(sources: &[Value], field: &str, causes: &mut Causes) {
    for (index, source) in sources.iter().enumerate() {
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            causes.invalid_each(&format!("{field}[{index}].prefix"), prefix, names::variable_errors(prefix));
        }
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            let Some(object) = structure(source, name) else { continue };
            let path = format!("{field}[{index}].{name}.name");
            count += 1;
            match text(object, "name") {
                "" => causes.required(path, ""),
                name => causes.invalid_each(&path, name, names::subdomain_errors(&mask_trailing_dash(name))),
            }
        }
        match count {
            0 => causes.invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => causes.invalid(field, "", "may not have more than one field specified at a time"),
        }
    }
}
