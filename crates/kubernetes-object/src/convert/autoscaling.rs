//! Horizontal pod autoscalers: autoscaling/v1 holds in annotations the values that it has no fields for
//! (`Convert_v1_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler` and back).
//!
//! The object is in the normal form of its version. The normal form of v1 has a value that the client may not have given: the current
//! average of a CPU metric whose status has only the utilization.

use crate::defaults::autoscaling::{CPU_PERCENTAGE, cpu_metric};
use crate::defaults::fields::{Fields, embedded, pointer, text};
use crate::round_trip::autoscaling::{Annotated, take_all};
use serde_json::{Map, Value, json};

const TARGET_PERCENTAGE: &str = "targetCPUUtilizationPercentage";
const CURRENT_PERCENTAGE: &str = "currentCPUUtilizationPercentage";

/// The path of a value in a metric's source, in autoscaling/v1 and in v2.
struct Place {
    v1: &'static str,
    v2: &'static [&'static str],
    /// Whether v1 always writes the value: a quantity that is no pointer.
    is_always: bool,
}

const fn place(v1: &'static str, v2: &'static [&'static str]) -> Place {
    Place { v1, v2, is_always: false }
}

const fn always(v1: &'static str, v2: &'static [&'static str]) -> Place {
    Place { v1, v2, is_always: true }
}

type Sources = [(&'static str, &'static [Place]); 5];

const METRIC_NAME: Place = place("metricName", &["metric", "name"]);
const SELECTOR: Place = place("selector", &["metric", "selector"]);
const EXTERNAL_SELECTOR: Place = place("metricSelector", &["metric", "selector"]);
const DESCRIBED: Place = place("target", &["describedObject"]);
const NAME: Place = place("name", &["name"]);
const CONTAINER: Place = place("container", &["container"]);
const UTILIZATION: Place = place("targetAverageUtilization", &["target", "averageUtilization"]);
const AVERAGE: Place = place("targetAverageValue", &["target", "averageValue"]);
const CURRENT_UTILIZATION: Place = place("currentAverageUtilization", &["current", "averageUtilization"]);
const CURRENT_AVERAGE: Place = always("currentAverageValue", &["current", "averageValue"]);
const CURRENT_VALUE: Place = always("currentValue", &["current", "value"]);

const TARGETS: Sources = [
    ("resource", &[NAME, UTILIZATION, AVERAGE]),
    ("containerResource", &[NAME, CONTAINER, UTILIZATION, AVERAGE]),
    ("pods", &[METRIC_NAME, SELECTOR, always("targetAverageValue", &["target", "averageValue"])]),
    (
        "object",
        &[
            DESCRIBED,
            METRIC_NAME,
            SELECTOR,
            always("targetValue", &["target", "value"]),
            place("averageValue", &["target", "averageValue"]),
        ],
    ),
    ("external", &[METRIC_NAME, EXTERNAL_SELECTOR, place("targetValue", &["target", "value"]), AVERAGE]),
];

const STATUSES: Sources = [
    ("resource", &[NAME, CURRENT_UTILIZATION, CURRENT_AVERAGE]),
    ("containerResource", &[NAME, CONTAINER, CURRENT_UTILIZATION, CURRENT_AVERAGE]),
    ("pods", &[METRIC_NAME, SELECTOR, CURRENT_AVERAGE]),
    ("object", &[DESCRIBED, METRIC_NAME, SELECTOR, CURRENT_VALUE, place("averageValue", &["current", "averageValue"])]),
    (
        "external",
        &[METRIC_NAME, EXTERNAL_SELECTOR, CURRENT_VALUE, place("currentAverageValue", &["current", "averageValue"])],
    ),
];

pub(super) fn convert(object: &mut Fields, from: &str, to: &str) {
    match (from, to) {
        ("v1", "v2") => to_v2(object),
        ("v2", "v1") => to_v1(object),
        _ => {}
    }
}

fn to_v2(object: &mut Fields) {
    let annotated = Annotated::take(object);
    if let Some(spec) = embedded(object, "spec") {
        let mut metrics: Vec<Value> = annotated.metrics.iter().flatten().map(target_in_v2).collect();
        metrics.extend(spec.remove(TARGET_PERCENTAGE).filter(Value::is_number).map(cpu_metric));
        if metrics.is_empty() {
            metrics.push(cpu_metric(CPU_PERCENTAGE.into()));
        }
        spec.insert("metrics".into(), metrics.into());
        if let Some(behavior) = &annotated.behavior {
            spec.insert("behavior".into(), renamed(behavior, char::to_ascii_lowercase));
        }
    }
    if let Some(status) = embedded(object, "status") {
        let percentage = status.remove(CURRENT_PERCENTAGE).filter(Value::is_number);
        let statuses = match annotated.statuses {
            Some(statuses) => Some(statuses.iter().map(|status| in_v2(status, &STATUSES)).collect()),
            None => percentage.map(|percentage| {
                let current = json!({ "averageUtilization": percentage });
                json!([{ "type": "Resource", "resource": { "name": "cpu", "current": current } }])
            }),
        };
        status.extend(statuses.map(|statuses: Value| ("currentMetrics".to_owned(), statuses)));
        status.extend(annotated.conditions.map(|conditions| ("conditions".to_owned(), conditions.into())));
    }
}

fn to_v1(object: &mut Fields) {
    take_all(object);
    let mut annotated = Annotated::default();
    if let Some(spec) = pointer(object, "spec") {
        let (of_cpu, others): (Vec<Value>, Vec<Value>) =
            list(spec.remove("metrics")).into_iter().partition(|metric| cpu(metric, "target").is_some());
        if let Some(percentage) = of_cpu.first().and_then(|metric| cpu(metric, "target")) {
            spec.insert(TARGET_PERCENTAGE.into(), percentage.clone());
        }
        annotated.metrics = Some(others.iter().map(|metric| in_v1(metric, &TARGETS)).collect());
        annotated.behavior = spec.remove("behavior").map(|behavior| renamed(&behavior, char::to_ascii_uppercase));
    }
    if let Some(status) = pointer(object, "status") {
        let statuses = list(status.remove("currentMetrics"));
        if let Some(percentage) = statuses.iter().rev().find_map(|status| cpu(status, "current")) {
            status.insert(CURRENT_PERCENTAGE.into(), percentage.clone());
        }
        annotated.statuses = Some(statuses.iter().map(|status| in_v1(status, &STATUSES)).collect());
        annotated.conditions = Some(list(status.remove("conditions")));
    }
    annotated.put(object);
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// The average CPU utilization in the `target` or `current` value of a v2 metric.
fn cpu<'a>(metric: &'a Value, value: &str) -> Option<&'a Value> {
    let metric = metric.as_object().filter(|metric| text(metric, "type") == "Resource")?;
    let resource = metric.get("resource")?.as_object().filter(|resource| text(resource, "name") == "cpu")?;
    resource.get(value)?.get("averageUtilization").filter(|value| !value.is_null())
}

fn in_v1(metric: &Value, sources: &Sources) -> Value {
    let mut found = type_of(metric);
    for (name, places) in sources {
        let Some(source) = metric.get(*name).filter(|source| source.is_object()) else { continue };
        let value = |place: &Place| {
            let value = place.v2.iter().try_fold(source, |value, field| value.get(*field))?;
            Some((place.v1.to_owned(), value.clone())).filter(|(_, value)| !value.is_null())
        };
        found.insert((*name).to_owned(), Value::Object(places.iter().filter_map(value).collect()));
    }
    Value::Object(found)
}

fn in_v2(metric: &Value, sources: &Sources) -> Value {
    let mut found = type_of(metric);
    for (name, places) in sources {
        let Some(source) = metric.get(*name).filter(|source| source.is_object()) else { continue };
        let mut converted = Fields::new();
        for place in *places {
            let value = source.get(place.v1).filter(|value| !value.is_null());
            let zero = || place.is_always.then(|| "0".into());
            let (Some(value), Some((last, parents))) = (value.cloned().or_else(zero), place.v2.split_last()) else {
                continue;
            };
            let within = parents.iter().try_fold(&mut converted, |fields, field| embedded(fields, field));
            if let Some(within) = within {
                within.insert((*last).to_owned(), value);
            }
        }
        found.insert((*name).to_owned(), Value::Object(converted));
    }
    Value::Object(found)
}

/// Converts a metric's target to v2, where the target's `type` names the value that counts.
fn target_in_v2(metric: &Value) -> Value {
    let mut metric = in_v2(metric, &TARGETS);
    let sources = metric.as_object_mut().into_iter().flatten();
    for (name, source) in sources {
        let Some(source) = source.as_object_mut() else { continue };
        let Some(target) = embedded(source, "target") else { continue };
        let has = |name: &str| target.contains_key(name);
        let of = match name.as_str() {
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            "object" if !has("averageValue") => "Value",
            "external" if has("value") => "Value",
            _ => "AverageValue",
        };
        if name == "object" && of == "AverageValue" && text(target, "value") == "0" {
            target.remove("value");
        }
        target.insert("type".into(), of.into());
    }
    metric
}

fn type_of(metric: &Value) -> Fields {
    metric.get("type").map(|of| ("type".to_owned(), of.clone())).into_iter().collect()
}

/// Changes the first letter of all fields' names: the internal version's fields have no JSON names.
fn renamed(value: &Value, first: fn(&char) -> char) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = |(name, value): (&String, &Value)| {
                let mut letters = name.chars();
                let name = letters.next().iter().map(first).chain(letters).collect::<String>();
                (name, renamed(value, first))
            };
            Value::Object(fields.iter().map(renamed).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| renamed(item, first)).collect(),
        other => other.clone(),
    }
}
