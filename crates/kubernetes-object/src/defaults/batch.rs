//! Defaults of the batch group.

use super::core::adopt_labels;
use super::fields::{Fields, each, embedded, if_nil, if_zero, is_nil, pointer};
use super::pod::template;
use serde_json::{Map, Value};

pub(super) fn apply(kind: &str, object: &mut Fields) {
    match kind {
        "Job" => job(object),
        "CronJob" => cron_job(object),
        _ => {}
    }
}

fn job(object: &mut Fields) {
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let Some(spec) = embedded(object, "spec") else { return };
    if is_nil(spec, "parallelism") {
        if is_nil(spec, "completions") {
            spec.insert("completions".to_owned(), 1.into());
        }
        spec.insert("parallelism".to_owned(), 1.into());
    }
    let is_per_index = !is_nil(spec, "backoffLimitPerIndex");
    if_nil(spec, "backoffLimit", if is_per_index { i32::MAX } else { 6 });
    if_nil(spec, "completionMode", "NonIndexed");
    if_nil(spec, "suspend", false);
    let has_policy = !is_nil(spec, "podFailurePolicy");
    if_nil(spec, "podReplacementPolicy", if has_policy { "Failed" } else { "TerminatingOrFailed" });
    if_nil(spec, "manualSelector", false);
    within_job(spec);
    if let Some(labels @ Value::Object(_)) = labels {
        adopt_labels(object, labels);
    }
}

/// Whether `SetDefaults_Job` sets the job's labels to its template's map, which it does for a job without labels; Go does not copy the map.
pub(super) fn shares_labels(job: &Value) -> bool {
    let labels = |pointer: &str| job.pointer(pointer).and_then(Value::as_object);
    labels("/metadata/labels").is_none_or(Map::is_empty)
        && labels("/spec/template/metadata/labels").is_some_and(|labels| !labels.is_empty())
}

fn cron_job(object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_zero(spec, "concurrencyPolicy", "Allow");
    if_nil(spec, "suspend", false);
    if_nil(spec, "successfulJobsHistoryLimit", 3);
    if_nil(spec, "failedJobsHistoryLimit", 1);
    // A created job gets the rest of its defaults itself.
    embedded(spec, "jobTemplate").and_then(|template| embedded(template, "spec")).map(within_job);
}

fn within_job(spec: &mut Fields) {
    if let Some(policy) = pointer(spec, "podFailurePolicy") {
        for rule in each(policy, "rules") {
            each(rule, "onPodConditions").for_each(|pattern| if_zero(pattern, "status", "True"));
        }
    }
    template(spec, "template");
}
