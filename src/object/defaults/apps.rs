//! Defaults of the apps group.

use super::core::persistent_volume_claim;
use super::fields::{Fields, annotate, each, embedded, if_nil, if_zero, is_zero, pointer, take_annotation, text};
use super::pod::template;
use crate::object::decode::go_quote;
use serde_json::Value;
use std::num::IntErrorKind;

pub(super) fn apply(kind: &str, object: &mut Fields) {
    match kind {
        "Deployment" => deployment(object),
        "DaemonSet" => daemon_set(object),
        "StatefulSet" => stateful_set(object),
        "ReplicaSet" => {
            if let Some(spec) = embedded(object, "spec") {
                if_nil(spec, "replicas", 1);
                template(spec, "template");
            }
        }
        _ => {}
    }
}

fn deployment(object: &mut Fields) {
    rollback_annotation(object);
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "replicas", 1);
    if_nil(spec, "revisionHistoryLimit", 10);
    if_nil(spec, "progressDeadlineSeconds", 600);
    rolling_update(spec, "strategy", "25%", "25%");
    template(spec, "template");
}

fn daemon_set(object: &mut Fields) {
    template_generation_annotation(object);
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "revisionHistoryLimit", 10);
    rolling_update(spec, "updateStrategy", 1, 0);
    template(spec, "template");
}

fn rolling_update(spec: &mut Fields, strategy: &str, unavailable: impl Into<Value>, surge: impl Into<Value>) {
    let Some(strategy) = embedded(spec, strategy) else { return };
    if_zero(strategy, "type", "RollingUpdate");
    let is_rolling = text(strategy, "type") == "RollingUpdate";
    let update = if is_rolling { embedded(strategy, "rollingUpdate") } else { pointer(strategy, "rollingUpdate") };
    if let Some(update) = update {
        // The internal version always has a number, so that of another strategy it is zero.
        if_nil(update, "maxUnavailable", if is_rolling { unavailable.into() } else { Value::from(0) });
        if_nil(update, "maxSurge", if is_rolling { surge.into() } else { Value::from(0) });
    }
}

fn stateful_set(object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_zero(spec, "podManagementPolicy", "OrderedReady");
    if_nil(spec, "replicas", 1);
    if_nil(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = embedded(spec, "updateStrategy") {
        if is_zero(strategy, "type") {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
            embedded(strategy, "rollingUpdate");
        }
        if let Some(update) = pointer(strategy, "rollingUpdate") {
            // Of another strategy too: the internal version always has a number (`Convert_Pointer_int32_To_int32`).
            if_nil(update, "partition", 0);
        }
    }
    if let Some(policy) = embedded(spec, "persistentVolumeClaimRetentionPolicy") {
        if_zero(policy, "whenDeleted", "Retain");
        if_zero(policy, "whenScaled", "Retain");
    }
    template(spec, "template");
    for claim in each(spec, "volumeClaimTemplates") {
        persistent_volume_claim(claim);
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    }
}

const ROLLBACK: &str = "deprecated.deployment.rollback.to";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The revision is a number in the internal version (`Convert_v1_Deployment_To_apps_Deployment`).
fn rollback_annotation(object: &mut Fields) {
    if let Some(Value::String(revision)) = take_annotation(object, ROLLBACK)
        && !revision.is_empty()
    {
        annotate(object, ROLLBACK, number(revision));
    }
}

/// The generation is a number in the internal version, and written always (`Convert_apps_DaemonSet_To_v1_DaemonSet`).
fn template_generation_annotation(object: &mut Fields) {
    let generation = match take_annotation(object, TEMPLATE_GENERATION) {
        Some(Value::String(generation)) => number(generation),
        _ => "0".to_owned(),
    };
    annotate(object, TEMPLATE_GENERATION, generation);
}

/// As Go writes a number that it has read. What is none stays: [`refusal`] is about it.
fn number(text: String) -> String {
    text.parse::<i64>().map_or(text, |number| number.to_string())
}

/// An annotation that is no number, though it has to be one.
pub(super) fn refusal(kind: &str, value: &Value) -> Option<String> {
    let annotation = |name: &str| value.get("metadata")?.get("annotations")?.get(name)?.as_str();
    match kind {
        "Deployment" => {
            let revision = annotation(ROLLBACK).filter(|revision| !revision.is_empty())?;
            let why = not_a_number(revision)?;
            Some(format!("failed to parse annotation[{ROLLBACK}]={revision} as int64: {why}"))
        }
        "DaemonSet" => not_a_number(annotation(TEMPLATE_GENERATION)?),
        _ => None,
    }
}

/// What `strconv.ParseInt` says.
fn not_a_number(text: &str) -> Option<String> {
    let error = text.parse::<i64>().err()?;
    let is_large = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
    let why = if is_large { "value out of range" } else { "invalid syntax" };
    Some(format!("strconv.ParseInt: parsing {}: {why}", go_quote(text)))
}
