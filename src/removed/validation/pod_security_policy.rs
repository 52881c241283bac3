//! Validates PodSecurityPolicies as Kubernetes 1.24 does (`ValidatePodSecurityPolicy`).

mod sysctls;

use super::causes::{Causes, go_slice};
use super::{given, integer, items, names, paths, structure, text, texts};
use crate::go_text::go_quote;
use crate::names::dns_1123_subdomain_errors;
use crate::object::Object;
use serde_json::Value;

/// The volume types of `GetAllFSTypesAsSet`, and `*`, in order.
const VOLUMES: [&str; 30] = [
    "*",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephFS",
    "cinder",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "iscsi",
    "nfs",
    "persistentVolumeClaim",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "secret",
    "storageos",
    "vsphereVolume",
];

pub(super) fn validate(object: &Object, causes: &mut Causes) {
    super::name(object, subdomain_errors, causes);
    annotations(object, causes);
    spec(object, causes);
}

/// `ValidatePodSecurityPolicyUpdate`
pub(super) fn validate_update(object: &Object, causes: &mut Causes) {
    annotations(object, causes);
    spec(object, causes);
}

fn subdomain_errors(text: &[u8]) -> Vec<String> {
    dns_1123_subdomain_errors(text)
}

/// `ValidatePodSecurityPolicySpecificAnnotations`
fn annotations(object: &Object, causes: &mut Causes) {
    const APP_ARMOR_DEFAULT: &str = "apparmor.security.beta.kubernetes.io/defaultProfileName";
    const APP_ARMOR_ALLOWED: &str = "apparmor.security.beta.kubernetes.io/allowedProfileNames";
    const SECCOMP_DEFAULT: &str = "seccomp.security.alpha.kubernetes.io/defaultProfileName";
    const SECCOMP_ALLOWED: &str = "seccomp.security.alpha.kubernetes.io/allowedProfileNames";
    let value = |key: &str| object.str(&["metadata", "annotations", key]);
    for key in [APP_ARMOR_DEFAULT, APP_ARMOR_ALLOWED] {
        let value = value(key);
        let profiles = if key == APP_ARMOR_ALLOWED { value.split(',').collect() } else { vec![value] };
        for profile in profiles.into_iter().filter(|profile| !is_app_armor_profile(profile)) {
            let why = format!("invalid AppArmor profile name: {}", go_quote(profile));
            causes.invalid(format!("metadata.annotations[{key}]"), value, &why);
        }
    }
    if !value(SECCOMP_DEFAULT).is_empty() {
        seccomp_profile(value(SECCOMP_DEFAULT), SECCOMP_DEFAULT, causes);
    }
    if !value(SECCOMP_ALLOWED).is_empty() {
        for profile in value(SECCOMP_ALLOWED).split(',').filter(|profile| *profile != "*") {
            seccomp_profile(profile, SECCOMP_ALLOWED, causes);
        }
    }
}

/// `ValidateAppArmorProfileFormat`. An empty text is valid.
fn is_app_armor_profile(profile: &str) -> bool {
    matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/")
}

/// `ValidateSeccompProfile`
fn seccomp_profile(profile: &str, key: &str, causes: &mut Causes) {
    let field = format!("metadata.annotations[{key}]");
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) => paths::descending(path, &field, causes),
        None => causes.invalid(field, profile, "must be a valid seccomp profile"),
    }
}

/// `ValidatePodSecurityPolicySpec`
fn spec(object: &Object, causes: &mut Causes) {
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    strategy(spec, "runAsUser", &["MustRunAs", "MustRunAsNonRoot", "RunAsAny"], causes);
    run_as_group(spec, causes);
    let rule = structure(spec, "seLinux").map_or("", |options| text(options, "rule"));
    causes.one_of("spec.seLinux.rule", rule, &["MustRunAs", "RunAsAny"]);
    strategy(spec, "supplementalGroups", &["MayRunAs", "MustRunAs", "RunAsAny"], causes);
    strategy(spec, "fsGroup", &["MayRunAs", "MustRunAs", "RunAsAny"], causes);
    for volume in texts(spec, "volumes") {
        causes.one_of("spec.volumes", volume, &VOLUMES);
    }
    capabilities(spec, causes);
    let is_true = |field: &str| spec.get(field).and_then(Value::as_bool).unwrap_or_default();
    if is_true("defaultAllowPrivilegeEscalation") && !is_true("allowPrivilegeEscalation") {
        let why =
            "Cannot set DefaultAllowPrivilegeEscalation to true without also setting AllowPrivilegeEscalation to true";
        causes.invalid_value("spec.defaultAllowPrivilegeEscalation", true, why);
    }
    for (index, mount) in texts(spec, "allowedProcMountTypes").into_iter().enumerate() {
        causes.one_of(format!("spec.allowedProcMountTypes[{index}]"), mount, &["Default", "Unmasked"]);
    }
    host_paths(spec, causes);
    drivers(spec, causes);
    sysctls::check(spec, causes);
    if let Some(runtime_class) = structure(spec, "runtimeClass") {
        self::runtime_class(runtime_class, causes);
    }
}

/// `validatePSPRunAsUser`, `validatePSPSupplementalGroup`, `validatePSPFSGroup`
fn strategy(spec: &Value, name: &str, rules: &[&str], causes: &mut Causes) {
    let options = structure(spec, name).unwrap_or(&Value::Null);
    causes.one_of(format!("spec.{name}.rule"), text(options, "rule"), rules);
    ranges(options, &format!("spec.{name}.ranges"), causes);
}

/// `validatePSPRunAsGroup`, which does not validate the ranges of `RunAsAny`.
fn run_as_group(spec: &Value, causes: &mut Causes) {
    const FIELD: &str = "spec.runAsGroup.ranges";
    let Some(options) = structure(spec, "runAsGroup") else { return };
    let ranges = items(options, "ranges");
    match text(options, "rule") {
        "RunAsAny" if ranges.is_empty() => {}
        "RunAsAny" => causes.invalid_value(FIELD, go_ranges(ranges), "Ranges must be empty"),
        "MustRunAs" | "MayRunAs" if ranges.is_empty() => {
            let is_nil = !options.get("ranges").is_some_and(Value::is_array);
            let value = if is_nil { "[]policy.IDRange(nil)" } else { "[]policy.IDRange{}" };
            causes.invalid_value(FIELD, value, "must provide at least one range");
        }
        "MustRunAs" | "MayRunAs" => self::ranges(options, FIELD, causes),
        rule => causes.one_of("spec.runAsGroup.rule", rule, &["MustRunAs", "RunAsAny", "MayRunAs"]),
    }
}

/// `validateIDRanges` of each range.
fn ranges(options: &Value, field: &str, causes: &mut Causes) {
    for (index, range) in items(options, "ranges").iter().enumerate() {
        let (min, max) = bounds(range);
        let at = |bound: &str| format!("{field}[{index}].{bound}");
        if min < 0 {
            causes.invalid_value(at("min"), min, "min cannot be negative");
        }
        if max < 0 {
            causes.invalid_value(at("max"), max, "max cannot be negative");
        }
        if min > max {
            causes.invalid_value(at("min"), min, "min cannot be greater than max");
        }
    }
}

fn bounds(range: &Value) -> (i64, i64) {
    (integer(range, "min").unwrap_or_default(), integer(range, "max").unwrap_or_default())
}

fn go_ranges(ranges: &[Value]) -> String {
    let range = |range: &Value| {
        let (min, max) = bounds(range);
        format!("policy.IDRange{{Min:{min}, Max:{max}}}")
    };
    format!("[]policy.IDRange{{{}}}", ranges.iter().map(range).collect::<Vec<_>>().join(", "))
}

/// Validates lists of capabilities against each other. The paths of these errors have no `spec`.
fn capabilities(spec: &Value, causes: &mut Causes) {
    const REQUIRED_DROP: &str = "requiredDropCapabilities";
    let (dropped, allowed) = (texts(spec, REQUIRED_DROP), texts(spec, "allowedCapabilities"));
    if !dropped.is_empty() && allowed.contains(&"*") {
        let why = "must be empty when all capabilities are allowed by a wildcard";
        causes.invalid_value(REQUIRED_DROP, go_slice("core.Capability", &dropped), why);
    }
    for field in ["defaultAddCapabilities", "allowedCapabilities"] {
        let why = format!("capability is listed in {field} and {REQUIRED_DROP}");
        for capability in texts(spec, field).into_iter().filter(|capability| dropped.contains(capability)) {
            causes.invalid(field, capability, &why);
        }
    }
}

/// `validatePSPAllowedHostPaths`, which validates nothing after a missing path.
fn host_paths(spec: &Value, causes: &mut Causes) {
    for (index, path) in items(spec, "allowedHostPaths").iter().enumerate() {
        let field = format!("spec.allowedHostPaths[{index}]");
        match text(path, "pathPrefix") {
            "" => return causes.required(field, "is required"),
            prefix => paths::without_backsteps(prefix, &field, causes),
        }
    }
}

/// `validatePSPAllowedFlexVolumes` and `validatePSPAllowedCSIDrivers`, which both repeat the field in the path.
fn drivers(spec: &Value, causes: &mut Causes) {
    for (index, volume) in items(spec, "allowedFlexVolumes").iter().enumerate() {
        if text(volume, "driver").is_empty() {
            let field = format!("spec.allowedFlexVolumes.allowedFlexVolumes[{index}].driver");
            causes.required(field, "must specify a driver");
        }
    }
    for (index, driver) in items(spec, "allowedCSIDrivers").iter().enumerate() {
        let field = format!("spec.allowedCSIDrivers.allowedCSIDriver[{index}].name");
        names::csi_driver(text(driver, "name"), &field, subdomain_errors, causes);
    }
}

/// `validateRuntimeClassStrategy`
fn runtime_class(options: &Value, causes: &mut Causes) {
    const ALLOWED: &str = "spec.runtimeClass.allowedRuntimeClassNames";
    const DEFAULT: &str = "spec.runtimeClass.defaultRuntimeClassName";
    let allowed = texts(options, "allowedRuntimeClassNames");
    for (index, name) in allowed.iter().enumerate() {
        let field = format!("{ALLOWED}[{index}]");
        if *name != "*" {
            causes.invalid_each(&field, name, dns_1123_subdomain_errors(name));
        }
        if allowed.iter().take(index).any(|other| other == name) {
            causes.duplicate(field, name);
        }
    }
    if let Some(default) = given(options, "defaultRuntimeClassName") {
        causes.invalid_each(DEFAULT, default, dns_1123_subdomain_errors(default));
        if !allowed.contains(&default) && !allowed.contains(&"*") {
            causes.required(ALLOWED, &format!("default {} must be allowed", go_quote(default)));
        }
    }
    if allowed.len() > 1 && allowed.contains(&"*") {
        let why = "if '*' is present, must not specify other RuntimeClass names";
        causes.invalid_value(ALLOWED, go_slice("string", &allowed), why);
    }
}

#[cfg(test)]
mod tests;
