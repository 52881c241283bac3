//! Pods: the values that the server sets in new pods, and the fields that a write of a subresource changes (`pkg/registry/core/pod`).

use super::context::Context;
use super::delete_options::{MAX_GRACE_SECONDS, Options};
use super::disabled::DisabledFields;
use super::fields::{self, copy};
use super::strategy::{Grace, Strategy};
use super::{metadata, owners};
use crate::embedded::api::catalog::ServedResource;
use crate::object::validation::{default_pod_resources, keep_pod_resources};
use crate::object::{Object, validation};
use crate::status::Status;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};

/// `DeprecatedAppArmorAnnotationKeyPrefix`
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// `core.DeprecatedAppArmorAnnotationValueLocalhostPrefix`
const LOCAL_PROFILE: &str = "localhost/";
/// `maxLocalhostProfileLength`
const MAX_LOCAL_PROFILE: usize = 4095;
/// Containers that an annotation of AppArmor may name, and whose resources count.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// The grace period of a pod without `terminationGracePeriodSeconds`, in seconds.
const DEFAULT_GRACE_SECONDS: i64 = 30;

pub(super) struct Pods;

impl Strategy for Pods {
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[
            DisabledFields {
                gate: "ImageVolumeWithDigest",
                paths: &[
                    &["status", "containerStatuses", "*", "volumeMounts", "*", "volumeStatus"],
                    &["status", "initContainerStatuses", "*", "volumeMounts", "*", "volumeStatus"],
                    &["status", "ephemeralContainerStatuses", "*", "volumeMounts", "*", "volumeStatus"],
                ],
            },
            DisabledFields {
                gate: "DRANodeAllocatableResources",
                paths: &[&["status", "nodeAllocatableResourceClaimStatuses"]],
            },
            DisabledFields { gate: "CSIVolumeHealth", paths: &[&["status", "volumeHealth"]] },
        ]
    }

    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        Some(&["spec"])
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        if has_resources_by_strategy(context) {
            default_pod_resources(object);
        }
        prepare(object).into_iter().for_each(|warning| context.warnings.warn(warning));
        Ok(())
    }

    fn part(&self, context: &Context<'_>, object: Object, current: &Object) -> Object {
        match context.subresource {
            "ephemeralcontainers" => fields::only(&["spec", "ephemeralContainers"], &object, current),
            "resize" => resized(object, current),
            _ => fields::part(context, object, current),
        }
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Object, current: &Object) -> Result<bool, Status> {
        if context.subresource == "status" {
            keep_in_status(object, current);
        } else if has_resources_by_strategy(context) {
            keep_pod_resources(object, current);
            if context.subresource == "resize" {
                default_pod_resources(object);
            }
        }
        Ok(false)
    }

    fn is_free_until_initialized(&self) -> bool {
        true
    }

    fn begin_deletion(&self, object: &mut Object, options: &Options) -> Grace {
        grace_of(object, options)
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn unset(&self, field: &str) -> &'static str {
        match field {
            "spec.hostNetwork" => "false",
            "spec.restartPolicy" => "Always",
            "spec.schedulerName" => "default-scheduler",
            _ => "",
        }
    }
}

/// Whether the strategy sets the resources of a pod as a whole, as since 1.37; before, decoding does.
fn has_resources_by_strategy(context: &Context<'_>) -> bool {
    context.settings.gates.is_on("PodLevelResourcesFixDefaulting")
}

/// Sets fields of a new pod (`podStrategy.PrepareForCreate`). Returns the warnings of fields that others replace.
fn prepare(pod: &mut Object) -> Vec<String> {
    let class = validation::quality_of_service(pod);
    let _ = pod.set(&["status"], json!({"phase": "Pending", "qosClass": class}));
    if !pod.items(&["spec", "schedulingGates"]).is_empty() {
        let why = ["SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"];
        set_condition(pod, "PodScheduled", "False", why);
    }
    merge_label_keys(pod);
    apply_annotated_profiles(pod)
}

/// Restores fields that a write of the status leaves out (`podStatusStrategy.PrepareForUpdate`).
fn keep_in_status(pod: &mut Object, current: &Object) {
    if pod.str(&["status", "qosClass"]).is_empty() && !current.str(&["status", "qosClass"]).is_empty() {
        let _ = pod.set(&["status", "qosClass"], Value::from(current.str(&["status", "qosClass"])));
    }
    let generation = |value: Option<&Value>| value.and_then(Value::as_i64).filter(|generation| *generation != 0);
    const OBSERVED: [&str; 2] = ["status", "observedGeneration"];
    if let (None, Some(old)) = (generation(pod.get(&OBSERVED)), generation(current.get(&OBSERVED))) {
        let _ = pod.set(&OBSERVED, Value::from(old));
    }
    let mut known: HashMap<&Value, VecDeque<Option<i64>>> = HashMap::new();
    for condition in current.items(&["status", "conditions"]) {
        if let Some(kind) = condition.get("type") {
            known.entry(kind).or_default().push_back(generation(condition.get("observedGeneration")));
        }
    }
    let conditions = pod.get_mut(&["status", "conditions"]).and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        let old = condition.get("type").and_then(|kind| known.get_mut(kind)?.pop_front()).flatten();
        if let (None, Some(old)) = (generation(condition.get("observedGeneration")), old) {
            condition.insert("observedGeneration".to_owned(), Value::from(old));
        }
    }
}

/// Applies a write of `resize`, which changes the resources of the pod and of its containers (`dropNonResizeUpdates`).
fn resized(pod: Object, current: &Object) -> Object {
    let containers = |pod: &Object, field: &str| pod.items(&["spec", field]).to_vec();
    if CONTAINERS.iter().any(|field| containers(&pod, field).len() != containers(current, field).len()) {
        // The validation refuses it.
        return pod;
    }
    let mut resized = current.clone();
    owners::set(&mut resized, pod.get(&owners::MANAGED_FIELDS).cloned());
    copy(&mut resized, &pod, &["spec", "resources"]);
    for field in CONTAINERS {
        let (new, old) = (containers(&pod, field), containers(current, field));
        let is_renamed = new.iter().zip(&old).any(|(new, old)| new.get("name") != old.get("name"));
        let merged = match is_renamed {
            true => new,
            false => new.iter().zip(old).map(|(new, old)| with_resources(old, new)).collect(),
        };
        if !merged.is_empty() {
            let _ = resized.set(&["spec", field], Value::Array(merged));
        }
    }
    resized
}

fn with_resources(mut container: Value, new: &Value) -> Value {
    for field in ["resources", "resizePolicy"] {
        let Some(fields) = container.as_object_mut() else { continue };
        match new.get(field) {
            Some(value) => drop(fields.insert(field.to_owned(), value.clone())),
            None => drop(fields.remove(field)),
        }
    }
    container
}

/// Marks a pod for graceful deletion: `rest.BeforeDelete` for pods, which their kubelet stops first.
fn grace_of(pod: &mut Object, options: &Options) -> Grace {
    let now = Timestamp::now();
    if metadata::is_deleting(pod) {
        let granted = pod.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
        if granted == 0 {
            return Grace::None;
        }
        // A grace period may only become shorter.
        let Some(seconds) = options.grace_seconds.filter(|seconds| *seconds < granted) else { return Grace::Pending };
        let ends = pod.str(&["metadata", "deletionTimestamp"]).parse().unwrap_or(now);
        let ends = ends.saturating_sub(SignedDuration::from_secs(granted.min(MAX_GRACE_SECONDS))).unwrap_or(now);
        let ends = ends.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        let (ends, seconds) = if ends < now { (now, seconds.min(1)) } else { (ends, seconds) };
        return set_grace(pod, ends, seconds);
    }
    // `podStrategy.CheckGracefulDelete`
    let own = pod.get(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    let seconds = match options.grace_seconds.or(own).unwrap_or(DEFAULT_GRACE_SECONDS) {
        _ if pod.str(&["spec", "nodeName"]).is_empty() => 0,
        _ if matches!(pod.str(&["status", "phase"]), "Failed" | "Succeeded") => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds.min(MAX_GRACE_SECONDS),
    };
    metadata::next_generation(pod);
    let ends = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    set_grace(pod, ends, seconds)
}

fn set_grace(pod: &mut Object, ends: Timestamp, seconds: i64) -> Grace {
    let _ = pod.set(&["metadata", "deletionTimestamp"], Value::from(metadata::timestamp(ends)));
    let _ = pod.set(&["metadata", "deletionGracePeriodSeconds"], Value::from(seconds));
    if seconds == 0 { Grace::Over } else { Grace::Period }
}

/// Adds or replaces a condition of a pod; an empty reason and message are left out (`podutil.UpdatePodCondition`).
pub(in crate::embedded) fn set_condition(pod: &mut Object, kind: &str, status: &str, [reason, message]: [&str; 2]) {
    let mut conditions = pod.items(&["status", "conditions"]).to_vec();
    let known = conditions.iter_mut().find(|known| known.get("type").is_some_and(|of| of == kind));
    let is_same = known.as_ref().is_some_and(|known| known.get("status").is_some_and(|of| of == status));
    let since = known.as_ref().and_then(|known| known.get("lastTransitionTime")).filter(|_| is_same).cloned();
    let since = since.unwrap_or_else(|| Value::from(metadata::now()));
    let mut condition = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
    for (field, text) in [("reason", reason), ("message", message)] {
        let fields = condition.as_object_mut().filter(|_| !text.is_empty());
        fields.into_iter().for_each(|fields| _ = fields.insert(field.to_owned(), Value::from(text)));
    }
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    let _ = pod.set(&["status", "conditions"], Value::Array(conditions));
}

/// Adds the pod's labels to selectors that name their keys (`mutatePodAffinity`, `mutateTopologySpreadConstraints`).
fn merge_label_keys(pod: &mut Object) {
    let labels = pod.labels().cloned().unwrap_or_default();
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let path = ["spec", "affinity", affinity, "requiredDuringSchedulingIgnoredDuringExecution"];
        each(pod, &path, |term| merge_keys_of(term, &labels));
        let path = ["spec", "affinity", affinity, "preferredDuringSchedulingIgnoredDuringExecution"];
        each(pod, &path, |preferred| {
            let term = preferred.get_mut("podAffinityTerm").and_then(Value::as_object_mut);
            term.into_iter().for_each(|term| merge_keys_of(term, &labels));
        });
    }
    each(pod, &["spec", "topologySpreadConstraints"], |constraint| merge_keys_of(constraint, &labels));
}

fn each(pod: &mut Object, path: &[&str], change: impl FnMut(&mut Map<String, Value>)) {
    let items = pod.get_mut(path).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut).for_each(change);
}

/// `applyMatchLabelKeysAndMismatchLabelKeys`, `applyMatchLabelKeys`
fn merge_keys_of(term: &mut Map<String, Value>, labels: &Map<String, Value>) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for (key, value) in keys.filter_map(|key| Some((key, labels.get(key)?))) {
            added.push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
    let selector = term.get_mut("labelSelector").and_then(Value::as_object_mut).filter(|_| !added.is_empty());
    let Some(selector) = selector else { return };
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    expressions.as_array_mut().into_iter().for_each(|expressions| expressions.append(&mut added));
}

/// Sets the profiles of containers that only an annotation names (`applyAppArmorVersionSkew`). Returns the warnings of the annotations.
fn apply_annotated_profiles(pod: &mut Object) -> Vec<String> {
    let mut warnings = Vec::new();
    if pod.str(&["spec", "os", "name"]) == "windows" {
        return warnings;
    }
    let of_pod = pod.get(&["spec", "securityContext", "appArmorProfile"]).cloned();
    let annotations = pod.annotations().cloned().unwrap_or_default();
    for field in CONTAINERS.iter().rev() {
        each(pod, &["spec", field], |container| {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let key = format!("{APP_ARMOR}{name}");
            let Some(annotation) = annotations.get(&key).and_then(Value::as_str) else { return };
            let own = container.get("securityContext").and_then(|context| context.get("appArmorProfile"));
            if own.is_some_and(|own| !own.is_null()) {
                return;
            }
            let profile = profile_of(annotation);
            if profile.is_some() && profile == of_pod {
                return;
            }
            warnings.push(format!(
                "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            ));
            let Some(profile) = profile else { return };
            let context = container.entry("securityContext").or_insert_with(|| json!({}));
            if let Some(context) = context.as_object_mut() {
                context.insert("appArmorProfile".to_owned(), profile);
            }
        });
    }
    warnings
}

/// The profile that an annotation names; `None` if it is invalid (`ApparmorFieldForAnnotation`, `ValidateAppArmorProfileField`).
fn profile_of(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => {
            let name = other.strip_prefix(LOCAL_PROFILE)?;
            let is_valid = !name.is_empty() && name.trim() == name && name.len() <= MAX_LOCAL_PROFILE;
            is_valid.then(|| json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"labels": {"app": "a"}}, "spec": spec})).unwrap()
    }

    #[test]
    fn keys_of_labels_are_merged_into_selectors() {
        let spread = json!([{"matchLabelKeys": ["app", "none"], "labelSelector": {}}, {"matchLabelKeys": ["app"]}]);
        let mut pod = pod(json!({ "topologySpreadConstraints": spread }));
        prepare(&mut pod);
        let expected = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]});
        let constraints = pod.items(&["spec", "topologySpreadConstraints"]);
        assert_eq!((constraints[0].get("labelSelector"), constraints[1].get("labelSelector")), (Some(&expected), None));
    }

    #[test]
    fn conditions_keep_their_generations_in_time_that_grows_with_their_number() {
        // A comparison of each condition with each other one would not end.
        let conditions = |more: Value| -> Vec<Value> {
            let mut all: Vec<Value> = (0..200_000).map(|number| json!({"type": number.to_string()})).collect();
            all.extend([json!({"type": "A"}), more]);
            all
        };
        let with = |conditions: Vec<Value>| {
            let mut pod = pod(json!({}));
            assert!(pod.set(&["status", "conditions"], Value::Array(conditions)));
            pod
        };
        let current = with(conditions(json!({"type": "A", "observedGeneration": 3})));
        let mut changed = with(conditions(json!({"type": "A"})));
        keep_in_status(&mut changed, &current);
        let generations: Vec<_> = changed.items(&["status", "conditions"])[200_000..]
            .iter()
            .map(|condition| condition.get("observedGeneration"))
            .collect();
        assert_eq!(generations, [None, Some(&json!(3))]);
    }

    #[test]
    fn a_changed_condition_stays_in_its_place() {
        let mut pod = pod(json!({}));
        for (kind, status) in [("A", "False"), ("B", "True"), ("A", "True")] {
            set_condition(&mut pod, kind, status, ["", ""]);
        }
        let kinds: Vec<_> =
            pod.items(&["status", "conditions"]).iter().map(|known| (&known["type"], &known["status"])).collect();
        assert_eq!(kinds, [(&json!("A"), &json!("True")), (&json!("B"), &json!("True"))]);
    }
}
