//! The status of a Job (`ValidateJobStatusUpdate`).

use super::super::node::{Causes, Node};
use super::{indexes, is_indexed};
use std::collections::HashSet;

fn has(object: &Node<'_>, kind: &str) -> bool {
    object
        .under(&["status", "conditions"])
        .items()
        .any(|condition| condition.at("type").text() == kind && condition.at("status").text() == "True")
}

pub(super) fn check(object: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (spec, status, old_status) = (object.at("spec"), object.at("status"), old.at("status"));
    ["active", "succeeded", "failed", "ready", "terminating"]
        .into_iter()
        .for_each(|field| out.non_negative(&status.at(field)));
    let uncounted = status.at("uncountedTerminatedPods");
    let mut known = HashSet::new();
    for uid in ["succeeded", "failed"].into_iter().flat_map(|field| uncounted.at(field).items()) {
        if uid.is_empty() {
            out.text(&uid, "must not be empty");
        } else if !known.insert(uid.text()) {
            out.duplicate(&uid);
        }
    }
    let is_changed = |field: &'static str| status.at(field).value() != old_status.at(field).value();
    let conditions = status.at("conditions");
    conditions_agree(object, old, &conditions, out);
    let is_finished = has(object, "Complete") || has(object, "Failed");
    let was_finished = has(old, "Complete") || has(old, "Failed");
    times(object, &old_status, is_finished && !was_finished, out);
    if is_finished && !was_finished {
        if status.at("active").int() > 0 {
            out.int(&status.at("active"), "active>0 is invalid for finished job");
        }
        if status.at("terminating").int() > 0 {
            out.int(&status.at("terminating"), "terminating>0 is invalid for finished job");
        }
    }
    let completions = spec.at("completions").optional_int();
    let (completed, failed) = (status.at("completedIndexes"), status.at("failedIndexes"));
    if let Some(completions) = completions {
        if is_changed("completedIndexes")
            && let Err(why) = indexes::count(completed.text(), completions)
        {
            out.text(&completed, &format!("error parsing completedIndexes: {why}"));
        }
        if is_changed("failedIndexes")
            && spec.at("backoffLimitPerIndex").is_given()
            && let Err(why) = indexes::count(failed.text(), completions)
        {
            out.text(&failed, &format!("error parsing failedIndexes: {why}"));
        }
    }
    if is_changed("completedIndexes") && !completed.is_empty() && !is_indexed(&spec) {
        out.text(&completed, "cannot set non-empty completedIndexes when non-indexed completion mode");
    }
    if is_changed("failedIndexes") && failed.is_given() && !spec.at("backoffLimitPerIndex").is_given() {
        out.text(&failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if (is_changed("ready") || is_changed("active")) && status.at("ready").int() > status.at("active").int() {
        out.int(&status.at("ready"), "cannot set more ready pods than active");
    }
    for field in ["failed", "succeeded"] {
        if status.at(field).int() < old_status.at(field).int() {
            out.int(&status.at(field), &format!("cannot decrease the {field} counter"));
        }
    }
}

fn conditions_agree(object: &Node<'_>, old: &Node<'_>, conditions: &Node<'_>, out: &mut Causes) {
    let is = |kind: &str| has(object, kind);
    for (one, other, text) in [
        ("Complete", "Failed", "cannot set Complete=True and Failed=true conditions"),
        ("Complete", "FailureTarget", "cannot set Complete=True and FailureTarget=true conditions"),
        ("SuccessCriteriaMet", "Failed", "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        ("SuccessCriteriaMet", "FailureTarget", "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
    ] {
        if is(one) && is(other) {
            out.without_value(conditions, text);
        }
    }
    if is("Failed") && !has(old, "Failed") && !is("FailureTarget") {
        out.without_value(conditions, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if is("Complete") && !has(old, "Complete") && !is("SuccessCriteriaMet") {
        let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        out.without_value(conditions, why);
    }
    for kind in ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"] {
        if has(old, kind) && !is(kind) {
            let terminal = if kind == "SuccessCriteriaMet" { "" } else { "terminal " };
            out.without_value(conditions, &format!("cannot disable the {terminal}{kind}=True condition"));
        }
    }
}

fn times(object: &Node<'_>, old: &Node<'_>, is_newly_finished: bool, out: &mut Causes) {
    let status = object.at("status");
    let (start, end) = (status.at("startTime"), status.at("completionTime"));
    let is_complete = has(object, "Complete");
    let is_end_changed = end.value() != old.at("completionTime").value();
    if end.is_given() && is_end_changed && !is_complete {
        out.value(&end, "cannot set completionTime when there is no Complete=True condition");
    }
    if is_newly_finished && is_complete && !end.is_given() {
        out.required(&end, "completionTime is required for Complete jobs");
    }
    let is_before = start.is_given() && end.is_given() && end.text() < start.text();
    if is_before && (is_end_changed || start.value() != old.at("startTime").value()) {
        out.value(&end, "must be equal to or after `startTime`");
    }
    if is_newly_finished && !start.is_given() {
        out.required(&start, "startTime is required for finished job");
    }
    let before = old.at("startTime");
    let is_suspended = object.under(&["spec", "suspend"]).is_true();
    if before.is_given() && before.value() != start.value() && !is_suspended {
        out.value(&start, "field is immutable for unsuspended job once set");
    }
    if end.is_given() && old.at("completionTime").is_given() && is_end_changed {
        out.value(&end, "field is immutable");
    }
}
