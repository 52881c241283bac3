//! Kinds that create or affect pods: those of `apps` and `batch`, replication controllers, pod templates, disruption budgets.

use super::view::View;
use super::{duration, selectors};
use serde_json::{Value, json};

pub(super) fn cells(name: &str, object: View<'_>) -> Option<Vec<Value>> {
    Some(match name {
        "deployments" => deployment(object),
        "replicasets" => replica_set(object),
        "statefulsets" => stateful_set(object),
        "daemonsets" => daemon_set(object),
        "controllerrevisions" => controller_revision(object),
        "jobs" => job(object),
        "cronjobs" => cron_job(object),
        _ => return None,
    })
}

/// `spec.replicas` after defaulting.
fn desired_replicas(object: View<'_>) -> i64 {
    object.optional_number("/spec/replicas").unwrap_or(1)
}

/// The cells "Containers" and "Images" (`layoutContainerCells`).
fn containers(object: View<'_>, pointer: &str) -> [Value; 2] {
    ["/name", "/image"].map(|field| {
        let texts: Vec<&str> = object.items(pointer).map(|container| container.text(field)).collect();
        json!(texts.join(","))
    })
}

fn deployment(object: View<'_>) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template/spec/containers");
    let selector = selectors::selector_text(object.part("/spec/selector"));
    vec![
        object.name(),
        json!(format!("{}/{}", object.number("/status/readyReplicas"), desired_replicas(object))),
        json!(object.number("/status/updatedReplicas")),
        json!(object.number("/status/availableReplicas")),
        object.age(),
        names,
        images,
        json!(selector.unwrap_or_else(|| "<invalid>".to_owned())),
    ]
}

fn replica_set(object: View<'_>) -> Vec<Value> {
    replicas(object, selectors::formatted(object.part("/spec/selector")))
}

pub(super) fn replication_controller(object: View<'_>) -> Vec<Value> {
    replicas(object, selectors::labels(object.map("/spec/selector")))
}

fn replicas(object: View<'_>, selector: String) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template/spec/containers");
    vec![
        object.name(),
        json!(desired_replicas(object)),
        json!(object.number("/status/replicas")),
        json!(object.number("/status/readyReplicas")),
        object.age(),
        names,
        images,
        json!(selector),
    ]
}

fn stateful_set(object: View<'_>) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template/spec/containers");
    let ready = format!("{}/{}", object.number("/status/readyReplicas"), desired_replicas(object));
    vec![object.name(), json!(ready), object.age(), names, images]
}

fn daemon_set(object: View<'_>) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template/spec/containers");
    vec![
        object.name(),
        json!(object.number("/status/desiredNumberScheduled")),
        json!(object.number("/status/currentNumberScheduled")),
        json!(object.number("/status/numberReady")),
        json!(object.number("/status/updatedNumberScheduled")),
        json!(object.number("/status/numberAvailable")),
        json!(selectors::labels(object.map("/spec/template/spec/nodeSelector"))),
        object.age(),
        names,
        images,
        json!(selectors::formatted(object.part("/spec/selector"))),
    ]
}

fn controller_revision(object: View<'_>) -> Vec<Value> {
    let owner = object.items("/metadata/ownerReferences").find(|owner| owner.flag("/controller"));
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let (group, _) = crate::kind::split_api_version(owner.text("/apiVersion"));
            let kind = crate::status::group_resource(group, owner.text("/kind")).to_lowercase();
            format!("{kind}/{}", owner.text("/name"))
        },
    );
    vec![object.name(), json!(controller), json!(object.number("/revision")), object.age()]
}

fn job(object: View<'_>) -> Vec<Value> {
    let succeeded = object.number("/status/succeeded");
    let completions = match (object.optional_number("/spec/completions"), object.number("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let took = object.span("/status/startTime", "/status/completionTime").map(duration::human);
    let [names, images] = containers(object, "/spec/template/spec/containers");
    vec![
        object.name(),
        json!(job_status(object)),
        json!(completions),
        json!(took.unwrap_or_default()),
        object.age(),
        names,
        images,
        json!(selectors::formatted(object.part("/spec/selector"))),
    ]
}

fn job_status(job: View<'_>) -> &'static str {
    let is = |kind| job.is_true("/status/conditions", kind);
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if job.is_terminating() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn cron_job(object: View<'_>) -> Vec<Value> {
    let suspend = match object.at("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = if object.has("/status/lastScheduleTime") {
        object.since("/status/lastScheduleTime")
    } else {
        "<none>".to_owned()
    };
    let [names, images] = containers(object, "/spec/jobTemplate/spec/template/spec/containers");
    vec![
        object.name(),
        json!(object.text("/spec/schedule")),
        json!(object.at("/spec/timeZone").and_then(Value::as_str).unwrap_or("<none>")),
        json!(suspend),
        json!(object.count("/status/active")),
        json!(last),
        object.age(),
        names,
        images,
        json!(selectors::formatted(object.part("/spec/jobTemplate/spec/selector"))),
    ]
}

pub(super) fn pod_template(object: View<'_>) -> Vec<Value> {
    let [names, images] = containers(object, "/template/spec/containers");
    vec![object.name(), names, images, json!(selectors::labels(object.map("/template/metadata/labels")))]
}

pub(super) fn pod_disruption_budget(object: View<'_>) -> Vec<Value> {
    let number_or_percent = |pointer| match object.at(pointer) {
        None => "N/A".to_owned(),
        Some(Value::String(percent)) => percent.clone(),
        Some(number) => number.to_string(),
    };
    vec![
        object.name(),
        json!(number_or_percent("/spec/minAvailable")),
        json!(number_or_percent("/spec/maxUnavailable")),
        json!(object.number("/status/disruptionsAllowed")),
        object.age(),
    ]
}
