//! Jobs and CronJobs (`pkg/apis/batch/validation`).

mod cron;
mod indexes;
mod job_status;

use super::formats::{domain_prefixed_path, qualified_name, subdomain};
use super::metadata;
use super::node::{Causes, IMMUTABLE, Node, internal, is_equal};
use super::pod;
use super::selector::{is_invalid, label_selector, parsed};
use crate::go_text::go_quote;
use crate::names::is_dns_1123_label;
use serde_json::Value;
use std::collections::HashSet;

const MAX_INDEXED: i64 = 100_000;
const HIGH_PARALLELISM: i64 = 10_000;
const MAX_RULES: usize = 20;
const MISMATCH: &str = "`selector` does not match template `labels`";

/// `ValidateJob` and its updates.
pub(super) fn job(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    let spec = object.at("spec");
    if let (Some(old), "status") = (old, subresource) {
        metadata::check_update(object, old, out);
        return job_status::check(object, old, out);
    }
    let old_spec = old.map(|old| old.at("spec"));
    let allows_any_value = old_spec.as_ref().is_some_and(|old| is_invalid(&old.at("selector")));
    metadata::check(object, true, subdomain, out);
    generated_selector(object, out);
    job_spec(&spec, old_spec.as_ref(), out);
    selector(&spec, allows_any_value, out);
    let completions = spec.at("completions").int();
    if is_indexed(&spec) && completions > 0 {
        let name = object.under(&["metadata", "name"]);
        let host = format!("{}-{}", name.text(), completions - 1);
        if !is_dns_1123_label(&host) {
            out.text(&name, &format!("will not able to create pod with invalid DNS label: {host}"));
        }
    }
    let (Some(old), Some(old_spec)) = (old, old_spec) else { return };
    // kube-apiserver validates the new spec once more.
    metadata::check_update(object, old, out);
    job_spec(&spec, Some(&old_spec), out);
    selector(&spec, allows_any_value, out);
    completions_update(&spec, &old_spec, out);
    out.immutable(&spec.at("selector"), &old_spec.at("selector"));
    template_update(&spec, old, out);
    out.immutable(&spec.at("completionMode"), &old_spec.at("completionMode"));
    let policy = "Rules:rules[Action:action OnExitCodes:onExitCodes?{ContainerName:containerName? Operator:operator Values:values?} \
                  OnPodConditions:onPodConditions[Type:type Status:status]]";
    out.immutable_as(&spec.at("podFailurePolicy"), &old_spec.at("podFailurePolicy"), policy);
    out.immutable(&spec.at("backoffLimitPerIndex"), &old_spec.at("backoffLimitPerIndex"));
    out.immutable(&spec.at("managedBy"), &old_spec.at("managedBy"));
    out.immutable_as(&spec.at("successPolicy"), &old_spec.at("successPolicy"), SUCCESS_POLICY);
}

const SUCCESS_POLICY: &str = "Rules:rules[SucceededIndexes:succeededIndexes? SucceededCount:succeededCount?]";

fn is_indexed(spec: &Node<'_>) -> bool {
    spec.at("completionMode").text() == "Indexed"
}

/// `validateGeneratedSelector`
fn generated_selector(object: &Node<'_>, out: &mut Causes) {
    let spec = object.at("spec");
    if spec.at("manualSelector").is_true() || !spec.at("selector").is_given() {
        return;
    }
    let metadata = object.at("metadata");
    out.require(&metadata.at("uid"));
    let labels = spec.under(&["template", "metadata", "labels"]);
    let expected = [
        ("controller-uid", metadata.at("uid")),
        ("job-name", metadata.at("name")),
        ("batch.kubernetes.io/controller-uid", metadata.at("uid")),
        ("batch.kubernetes.io/job-name", metadata.at("name")),
    ];
    for (key, value) in &expected {
        let label = labels.key(key);
        let why = format!("must be '{}'", value.text());
        if !label.is_given() {
            out.required(&label, &why);
        } else if label.text() != value.text() {
            out.value(&labels.on(&label), &why);
        }
    }
    let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.text()))).collect();
    if parsed(&spec.at("selector")).is_some_and(|selector| !selector.matches(Some(&expected))) {
        out.value(&spec.at("selector"), "`selector` not auto-generated");
    }
}

fn selector(spec: &Node<'_>, allows_any_value: bool, out: &mut Causes) {
    let node = spec.at("selector");
    if node.is_given() {
        label_selector(&node, allows_any_value, out);
    } else {
        out.required(&node, "");
    }
    let labels = spec.under(&["template", "metadata", "labels"]);
    if parsed(&node).is_some_and(|selector| !selector.matches(labels.value().as_object())) {
        out.value(&labels, MISMATCH);
    }
}

/// `validateJobSpec`
fn job_spec(spec: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    for field in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        out.non_negative(&spec.at(field));
    }
    let (per_index, most_failed) = (spec.at("backoffLimitPerIndex"), spec.at("maxFailedIndexes"));
    out.non_negative(&per_index);
    if most_failed.is_given() {
        out.non_negative(&most_failed);
        if !per_index.is_given() {
            out.required(&per_index, "when maxFailedIndexes is specified");
        }
    }
    let manager = spec.at("managedBy");
    if manager.is_given() {
        domain_prefixed_path(&manager, out);
        if manager.len() > 63 {
            out.too_long(&manager, 63);
        }
    }
    completion_mode(spec, out);
    if let Some(policy) = spec.at("podFailurePolicy").given() {
        failure_policy(&policy, spec, out);
    }
    if let Some(policy) = spec.at("successPolicy").given() {
        if is_indexed(spec) {
            success_policy(&policy, spec.at("completions").int(), out);
        } else {
            out.invalid(&policy, internal(&policy, SUCCESS_POLICY), "requires indexed completion mode");
        }
    }
    let replacement = spec.at("podReplacementPolicy");
    if spec.at("podFailurePolicy").is_given() {
        out.one_of_if_given(&replacement, &["Failed"]);
    } else {
        out.one_of_if_given(&replacement, &["Failed", "TerminatingOrFailed"]);
    }
    let template = spec.at("template");
    let old = old.map(|old| old.at("template"));
    pod::template(&template, old.as_ref(), out);
    let restarts = template.under(&["spec", "restartPolicy"]);
    match restarts.text() {
        "Always" | "" => out.required(&restarts, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.at("podFailurePolicy").is_given() => {
            out.text(&restarts, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => drop(out.one_of(&restarts, &["OnFailure", "Never"])),
    }
}

fn completion_mode(spec: &Node<'_>, out: &mut Causes) {
    let [mode, completions, parallelism, most_failed, per_index] =
        ["completionMode", "completions", "parallelism", "maxFailedIndexes", "backoffLimitPerIndex"]
            .map(|field| spec.at(field));
    out.one_of_if_given(&mode, &["NonIndexed", "Indexed"]);
    if matches!(mode.optional_text(), None | Some("NonIndexed")) {
        for field in [per_index, most_failed].iter().filter(|field| field.is_given()) {
            out.int(field, "requires indexed completion mode");
        }
        return;
    }
    if !is_indexed(spec) {
        return;
    }
    if !completions.is_given() {
        out.required(&completions, "when completion mode is Indexed");
    }
    if parallelism.int() > MAX_INDEXED {
        let why = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
        out.int(&parallelism, &why);
    }
    if completions.is_given() && most_failed.int() > completions.int() {
        out.int(&most_failed, "must be less than or equal to completions");
    }
    if most_failed.int() > MAX_INDEXED {
        out.int(&most_failed, &format!("must be less than or equal to {MAX_INDEXED}"));
    }
    if completions.int() > MAX_INDEXED && per_index.is_given() {
        let why = format!(
            "must be less than or equal to {HIGH_PARALLELISM} when completions are above {MAX_INDEXED} and used with backoff limit per \
             index"
        );
        if !most_failed.is_given() {
            out.required(&most_failed, &format!("must be specified when completions is above {MAX_INDEXED}"));
        }
        for field in [parallelism, most_failed].iter().filter(|field| field.int() > HIGH_PARALLELISM) {
            out.int(field, &why);
        }
    }
}

/// The error of an empty or unsupported string, with the supported ones.
fn required_one_of(node: &Node<'_>, supported: &[&str], out: &mut Causes) {
    if node.is_empty() {
        let quoted: Vec<_> = supported.iter().map(|value| go_quote(value)).collect();
        out.required(node, &format!("valid values: [{}]", quoted.join(" ")));
    } else {
        out.one_of(node, supported);
    }
}

/// `validatePodFailurePolicy`
fn failure_policy(policy: &Node<'_>, spec: &Node<'_>, out: &mut Causes) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let rules = policy.at("rules");
    if rules.len() > MAX_RULES {
        out.too_many(&rules, MAX_RULES);
    }
    let of_pod = spec.under(&["template", "spec"]);
    let containers = of_pod.at("containers").items().chain(of_pod.at("initContainers").items());
    let names: HashSet<&str> = containers.map(|container| container.at("name").text()).collect();
    for rule in rules.items() {
        let action = rule.at("action");
        if action.text() == "FailIndex" {
            if !spec.at("backoffLimitPerIndex").is_given() {
                out.text(&action, "requires the backoffLimitPerIndex to be set");
            }
        } else {
            required_one_of(&action, &ACTIONS, out);
        }
        let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
        if codes.is_given() {
            exit_codes(&codes, &names, out);
        }
        if conditions.len() > MAX_RULES {
            out.too_many(&conditions, MAX_RULES);
        }
        for condition in conditions.items() {
            qualified_name(&condition.at("type"), out);
            required_one_of(&condition.at("status"), &["False", "True", "Unknown"], out);
        }
        match (codes.is_given(), conditions.is_empty()) {
            (true, false) => {
                out.without_value(&rule, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (false, true) => {
                out.without_value(&rule, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            _ => {}
        }
    }
}

/// `validatePodFailurePolicyRuleOnExitCodes`
fn exit_codes(codes: &Node<'_>, containers: &HashSet<&str>, out: &mut Causes) {
    let (operator, container, values) = (codes.at("operator"), codes.at("containerName"), codes.at("values"));
    required_one_of(&operator, &["In", "NotIn"], out);
    if container.is_given() && !containers.contains(container.text()) {
        out.text(&container, "must be one of the container or initContainer names in the pod template");
    }
    if values.is_empty() {
        out.value(&values, "at least one value is required");
    } else if values.len() > 255 {
        out.too_many(&values, 255);
    }
    let mut known = HashSet::new();
    for value in values.items() {
        if operator.text() == "In" && value.int() == 0 {
            out.int(&value, "must not be 0 for the In operator");
        }
        if !known.insert(value.int()) {
            out.duplicate_of(&value, value.int());
        }
    }
    let numbers: Vec<i64> = values.items().map(|value| value.int()).collect();
    if !numbers.is_sorted() {
        out.value(&values, "must be ordered");
    }
}

/// `validateSuccessPolicy`
fn success_policy(policy: &Node<'_>, completions: i64, out: &mut Causes) {
    let rules = policy.at("rules");
    if rules.is_empty() {
        out.required(&rules, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > MAX_RULES {
        out.too_many(&rules, MAX_RULES);
    }
    for rule in rules.items() {
        let (count, indexes) = (rule.at("succeededCount"), rule.at("succeededIndexes"));
        if !count.is_given() && !indexes.is_given() {
            out.required(&rule, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if indexes.is_given() {
            if indexes.len() > 64 << 10 {
                out.too_long(&indexes, 64 << 10);
            }
            match self::indexes::count(indexes.text(), completions) {
                Ok(count) => total = count,
                Err(why) => out.text(&indexes, &format!("error parsing succeededIndexes: {why}")),
            }
        }
        if count.is_given() {
            out.non_negative(&count);
            if count.int() > completions {
                let why = format!("must be less than or equal to {completions} (the number of specified completions)");
                out.int(&count, &why);
            }
            if indexes.is_given() && count.int() > total {
                let why = format!(
                    "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
                );
                out.int(&count, &why);
            }
        }
    }
}

/// `validateCompletions`
fn completions_update(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (new, before) = (spec.at("completions"), old.at("completions"));
    if !is_indexed(spec) {
        out.immutable(&new, &before);
    } else if new.value() != before.value() && new.is_given() && new.int() != spec.at("parallelism").int() {
        // kube-apiserver names the root of the path.
        out.int(&new, "can only be modified in tandem with spec.parallelism");
    }
}

/// `validatePodTemplateUpdate`: what of the template of a job that waits may change.
fn template_update(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let old_spec = old.at("spec");
    let (template, before) = (spec.at("template"), old_spec.at("template"));
    let is_suspended = old_spec.at("suspend").is_true();
    let has_started = old.under(&["status", "startTime"]).is_given();
    let mut kept = before.value().clone();
    if is_suspended && !has_started {
        for path in [
            &["spec", "affinity", "nodeAffinity"][..],
            &["spec", "nodeSelector"],
            &["spec", "tolerations"],
            &["spec", "schedulingGates"],
            &["metadata", "annotations"],
            &["metadata", "labels"],
        ] {
            copy(&mut kept, template.value(), path);
        }
    }
    if !is_equal(template.value(), &kept) {
        out.invalid(&template, internal_template(), IMMUTABLE);
    }
}

/// The place of the JSON of a template in its internal version, which the message of kube-apiserver has here.
fn internal_template() -> &'static str {
    "{}"
}

/// Sets the value at a path to that of another object.
fn copy(target: &mut Value, source: &Value, path: &[&str]) {
    let Some((field, rest)) = path.split_first() else { return };
    let from = source.get(*field);
    let Some(fields) = target.as_object_mut() else { return };
    if rest.is_empty() {
        match from {
            Some(value) => drop(fields.insert((*field).to_owned(), value.clone())),
            None => drop(fields.remove(*field)),
        }
        return;
    }
    if from.is_none() && !fields.contains_key(*field) {
        return;
    }
    let child = fields.entry(*field).or_insert_with(|| Value::Object(serde_json::Map::new()));
    copy(child, from.unwrap_or(&Value::Null), rest);
    if from.is_none() && child.as_object().is_some_and(serde_json::Map::is_empty) {
        // Affinities that only had the field may be cleared.
        fields.remove(*field);
    }
}

/// `ValidateCronJobCreate`, `ValidateCronJobUpdate`
pub(super) fn cron_job(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, true, subdomain, out),
    }
    if subresource == "status" {
        return;
    }
    let spec = object.at("spec");
    let old_spec = old.map(|old| old.at("spec"));
    cron::schedule(&spec, old_spec.as_ref(), out);
    out.non_negative(&spec.at("startingDeadlineSeconds"));
    let zone = spec.at("timeZone");
    if old_spec.as_ref().is_none_or(|old| old.at("timeZone").value() != zone.value()) {
        cron::time_zone(&zone, out);
    }
    out.required_one_of(&spec.at("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let job = spec.under(&["jobTemplate", "spec"]);
    let old_job = old_spec.map(|old| old.under(&["jobTemplate", "spec"]));
    job_spec(&job, old_job.as_ref(), out);
    if job.at("selector").is_given() {
        out.value(&job.at("selector"), "`selector` will be auto-generated");
    }
    if job.at("manualSelector").is_true() {
        out.unsupported(&job.at("manualSelector"), "true", &["nil", "false"]);
    }
    out.non_negative(&spec.at("successfulJobsHistoryLimit"));
    out.non_negative(&spec.at("failedJobsHistoryLimit"));
    let name = object.under(&["metadata", "name"]);
    if old.is_none() && name.len() > 52 {
        out.text(&name, "must be no more than 52 characters");
    }
}
