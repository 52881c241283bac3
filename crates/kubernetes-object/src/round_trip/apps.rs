//! The apps group.

use super::{InternalValues, RoundTripError, pod};
use crate::defaults::fields::{Fields, annotate, each, if_nil, pointer, take_annotation};
use crate::go_text::go_quote;
use std::num::IntErrorKind;

const ROLLBACK: &str = "deprecated.deployment.rollback.to";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn make(kind: &str, object: &mut Fields, kept: &InternalValues) -> Result<(), RoundTripError> {
    match kind {
        "Deployment" => rollback(object)?,
        "DaemonSet" => generation(object, kept)?,
        _ => {}
    }
    let Some(spec) = pointer(object, "spec") else { return Ok(()) };
    match kind {
        "Deployment" => numbers(spec, "strategy", &["maxUnavailable", "maxSurge"]),
        "DaemonSet" => numbers(spec, "updateStrategy", &["maxUnavailable", "maxSurge"]),
        "StatefulSet" => {
            numbers(spec, "updateStrategy", &["partition"]);
            for claim in each(spec, "volumeClaimTemplates") {
                claim.insert("apiVersion".to_owned(), "v1".into());
                claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
            }
        }
        "ReplicaSet" => {}
        _ => return Ok(()),
    }
    pod::template(spec);
    Ok(())
}

/// Sets missing numbers to zero, since the internal version has no pointers here, also for strategies other than `RollingUpdate`
/// (`Convert_Pointer_int32_To_int32`).
fn numbers(spec: &mut Fields, strategy: &str, names: &[&str]) {
    if let Some(update) = pointer(spec, strategy).and_then(|strategy| pointer(strategy, "rollingUpdate")) {
        names.iter().for_each(|name| if_nil(update, name, 0));
    }
}

/// Rewrites the revision, which is a number in the internal version (`Convert_v1_Deployment_To_apps_Deployment`).
fn rollback(object: &mut Fields) -> Result<(), RoundTripError> {
    let revision = annotation(object, ROLLBACK).filter(|revision| !revision.is_empty());
    let number = revision.map(|revision| {
        number(revision)
            .map_err(|why| RoundTripError(format!("failed to parse annotation[{ROLLBACK}]={revision} as int64: {why}")))
    });
    let number = number.transpose()?;
    take_annotation(object, ROLLBACK);
    if let Some(number) = number {
        annotate(object, ROLLBACK, number.to_string());
    }
    Ok(())
}

/// Writes the generation annotation: the internal version has a number, which it keeps if the annotation is missing
/// (`Convert_v1_DaemonSet_To_apps_DaemonSet`), and always writes (`Convert_apps_DaemonSet_To_v1_DaemonSet`).
fn generation(object: &mut Fields, kept: &InternalValues) -> Result<(), RoundTripError> {
    let said = annotation(object, TEMPLATE_GENERATION).map(number).transpose()?;
    let generation = said.or(kept.template_generation).unwrap_or_default();
    annotate(object, TEMPLATE_GENERATION, generation.to_string());
    Ok(())
}

/// The generation in the annotation.
pub(super) fn template_generation(object: &Fields) -> Option<i64> {
    number(annotation(object, TEMPLATE_GENERATION)?).ok()
}

fn annotation<'a>(object: &'a Fields, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// `strconv.ParseInt`.
fn number(text: &str) -> Result<i64, RoundTripError> {
    text.parse::<i64>().map_err(|error| {
        let is_large = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
        let why = if is_large { "value out of range" } else { "invalid syntax" };
        RoundTripError(format!("strconv.ParseInt: parsing {}: {why}", go_quote(text)))
    })
}
