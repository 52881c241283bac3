//! Values without a field in autoscaling/v1 are in annotations, as text. kube-apiserver decodes the annotations into the internal version
//! and writes them anew on the way back, as Go writes its structs
//! (`Convert_v1_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler` and back).

mod layout;

use super::InternalValues;
use crate::defaults::autoscaling::CPU_PERCENTAGE;
use crate::defaults::fields::{Fields, annotate, embedded, is_nil, pointer, take_annotation, text};
use layout::{BEHAVIOR, METRIC, METRIC_STATUS, Struct, condition};
use serde_json::{Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIORS: &str = "autoscaling.alpha.kubernetes.io/behavior";
const TARGET_PERCENTAGE: &str = "targetCPUUtilizationPercentage";
const TOLERANCES: [&str; 2] =
    ["autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance"];

/// Rewrites the annotations of v1; removes those of v2, which has fields for their values.
pub(super) fn make(version: &str, object: &mut Fields, kept: &InternalValues) {
    match version {
        "v1" => rewrite(object, &kept.autoscaler),
        "v2" => take_all(object),
        _ => {}
    }
}

/// Removes the annotations (`DropRoundTripHorizontalPodAutoscalerAnnotations`).
pub(crate) fn take_all(object: &mut Fields) {
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIORS].iter().chain(&TOLERANCES) {
        take_annotation(object, name);
    }
}

/// The values in the annotations: lists of autoscaling/v1's types, and the internal version's behavior.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Annotated {
    /// The metrics, except for the CPU utilization.
    pub(crate) metrics: Option<Vec<Value>>,
    /// The current values of the metrics.
    pub(crate) statuses: Option<Vec<Value>>,
    /// The scaling behavior; `None` if it is empty.
    pub(crate) behavior: Option<Value>,
    /// `status.conditions`
    pub(crate) conditions: Option<Vec<Value>>,
}

impl Annotated {
    /// Reads and removes the annotations. Ignores annotations that Go cannot decode, without an error.
    pub(crate) fn take(object: &mut Fields) -> Self {
        let taken = Self {
            metrics: taken(object, METRICS).and_then(|text| list(&text, METRIC)),
            statuses: taken(object, CURRENT_METRICS).and_then(|text| list(&text, METRIC_STATUS)),
            behavior: taken(object, BEHAVIORS).and_then(|text| behavior(&text)),
            conditions: taken(object, CONDITIONS).and_then(|text| list(&text, condition())),
        };
        take_all(object);
        taken
    }

    /// Writes annotations for values that are not empty, as Go does.
    pub(crate) fn put(&self, object: &mut Fields) {
        for (name, items, of) in [
            (METRICS, &self.metrics, METRIC),
            (CURRENT_METRICS, &self.statuses, METRIC_STATUS),
            (CONDITIONS, &self.conditions, condition()),
        ] {
            if let Some(items) = items.as_ref().filter(|items| !items.is_empty()) {
                annotate(object, name, written(items, of));
            }
        }
        if let Some(behavior) = &self.behavior {
            annotate(object, BEHAVIORS, BEHAVIOR.written(behavior));
        }
    }
}

/// The annotated values in the internal version of a v1 object; the CPU target is the last metric.
pub(super) fn kept(mut object: Fields) -> Annotated {
    let mut kept = Annotated::take(&mut object);
    let percentage = pointer(&mut object, "spec").and_then(|spec| spec.remove(TARGET_PERCENTAGE));
    kept.metrics.get_or_insert_default().extend(percentage.map(cpu_metric));
    kept
}

/// Replaces the annotations, and fields of equal meaning, by those that Go writes. The internal version keeps a value that neither an
/// annotation nor a field sets.
fn rewrite(object: &mut Fields, kept: &Annotated) {
    let mut annotated = Annotated::take(object);
    let metrics = annotated.metrics.take();
    annotated.metrics = pointer(object, "spec").map(|spec| other_metrics(spec, metrics, &kept.metrics));
    annotated.statuses = Some(current_metrics(object, annotated.statuses.take(), &kept.statuses));
    annotated.behavior = annotated.behavior.or_else(|| kept.behavior.clone());
    annotated.conditions = annotated.conditions.or_else(|| kept.conditions.clone());
    annotated.put(object);
}

/// The metrics other than the CPU target, which has a field of its own. Removes that field from the spec.
fn other_metrics(spec: &mut Fields, annotated: Option<Vec<Value>>, kept: &Option<Vec<Value>>) -> Vec<Value> {
    let percentage = spec.remove(TARGET_PERCENTAGE).filter(Value::is_number);
    let own = percentage.map_or_else(|| kept.clone().unwrap_or_default(), |percentage| vec![cpu_metric(percentage)]);
    let mut metrics = match annotated {
        // Go expects at most one metric from the field: it makes room for all and copies the first.
        Some(mut metrics) => {
            let count = metrics.len() + own.len();
            metrics.extend(own.into_iter().take(1));
            metrics.resize(count, json!({}));
            metrics
        }
        None => own,
    };
    if metrics.is_empty() {
        metrics.push(cpu_metric(CPU_PERCENTAGE.into()));
    }
    if let Some(first) = metrics.iter().find_map(|metric| cpu(metric, "targetAverageUtilization")).cloned() {
        spec.insert(TARGET_PERCENTAGE.to_owned(), first);
    }
    metrics.retain(|metric| cpu(metric, "targetAverageUtilization").is_none());
    metrics
}

fn cpu_metric(percentage: Value) -> Value {
    json!({ "type": "Resource", "resource": { "name": "cpu", "targetAverageUtilization": percentage } })
}

/// The `target` or `current` field of a CPU metric.
fn cpu<'a>(metric: &'a Value, name: &str) -> Option<&'a Value> {
    let metric = metric.as_object().filter(|metric| text(metric, "type") == "Resource")?;
    let resource = metric.get("resource")?.as_object().filter(|resource| text(resource, "name") == "cpu")?;
    resource.get(name).filter(|value| !value.is_null())
}

fn current_metrics(object: &mut Fields, annotated: Option<Vec<Value>>, kept: &Option<Vec<Value>>) -> Vec<Value> {
    let field = "currentCPUUtilizationPercentage";
    let percentage = pointer(object, "status").and_then(|status| status.remove(field)).filter(Value::is_number);
    let of_cpu = |percentage| {
        let resource = json!({ "name": "cpu", "currentAverageUtilization": percentage });
        vec![json!({ "type": "Resource", "resource": resource })]
    };
    let metrics = annotated.or_else(|| percentage.map(of_cpu)).or_else(|| kept.clone()).unwrap_or_default();
    let last = metrics.iter().rev().find_map(|metric| cpu(metric, "currentAverageUtilization")).cloned();
    if let Some(last) = last
        && let Some(status) = embedded(object, "status")
    {
        status.insert(field.to_owned(), last);
    }
    metrics
}

fn taken(object: &mut Fields, name: &str) -> Option<String> {
    match take_annotation(object, name)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn list(text: &str, of: &Struct) -> Option<Vec<Value>> {
    match serde_json::from_str(text).ok()? {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(|item| of.read(item)).collect(),
        _ => None,
    }
}

fn behavior(text: &str) -> Option<Value> {
    let behavior = BEHAVIOR.read(&serde_json::from_str(text).ok()?)?;
    let is_empty = behavior.as_object().is_none_or(|fields| is_nil(fields, "ScaleUp") && is_nil(fields, "ScaleDown"));
    (!is_empty).then_some(behavior)
}

fn written(items: &[Value], of: &Struct) -> String {
    let items: Vec<String> = items.iter().map(|item| of.written(item)).collect();
    format!("[{}]", items.join(","))
}
