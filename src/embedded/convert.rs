//! Kinds that are served in more than one version, and stored in one: autoscaling/v1 and v2, and the two Events.

use super::catalog::Resource;
use super::store::Collection;
use crate::object::Object;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Fields of a core Event, and their names in `events.k8s.io` (`Convert_v1_Event_To_core_Event` and back).
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Where autoscaling/v1 keeps what only v2 can say.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Where a resource's objects are stored.
pub fn collection(resource: &Resource) -> Collection {
    // Resources' names are `'static`, those of this crate's catalog.
    match (resource.group, resource.name) {
        ("events.k8s.io", "events") => Collection { group: "", resource: "events" },
        (group, name) => Collection { group, resource: name },
    }
}

/// An object of this resource as it is stored.
pub fn stored(resource: &Resource, mut object: Object) -> Object {
    match (resource.group, resource.version, resource.name) {
        ("events.k8s.io", _, "events") => {
            rename(&mut object, |(core, events)| (events, core));
            name_version(&mut object, "v1");
        }
        ("autoscaling", "v1", "horizontalpodautoscalers") => {
            autoscaler_v2(&mut object);
            name_version(&mut object, "autoscaling/v2");
        }
        _ => {}
    }
    object
}

/// A stored object as this resource shows it.
pub fn shown<'a>(resource: &Resource, object: &'a Object) -> Cow<'a, Object> {
    match (resource.group, resource.version, resource.name) {
        ("events.k8s.io", version, "events") => {
            let mut object = object.clone();
            rename(&mut object, |names| names);
            name_version(&mut object, &crate::kind::api_version("events.k8s.io", version));
            Cow::Owned(object)
        }
        ("autoscaling", "v1", "horizontalpodautoscalers") => {
            let mut object = object.clone();
            autoscaler_v1(&mut object);
            name_version(&mut object, "autoscaling/v1");
            Cow::Owned(object)
        }
        _ => Cow::Borrowed(object),
    }
}

fn name_version(object: &mut Object, api_version: &str) {
    object.fields_mut().insert("apiVersion".into(), Value::from(api_version));
}

fn rename(object: &mut Object, direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    for (from, to) in EVENT_FIELDS.map(direction) {
        if let Some(value) = object.fields_mut().remove(from) {
            object.fields_mut().insert(to.to_owned(), value);
        }
    }
}

/// `Convert_v2_HorizontalPodAutoscaler` towards v1: the CPU's utilization becomes a field, the rest annotations.
fn autoscaler_v1(object: &mut Object) {
    let (cpu, others): (Vec<Value>, Vec<Value>) = taken_items(object, &["spec", "metrics"])
        .into_iter()
        .partition(|metric| utilization(metric, "target").is_some());
    if let Some(target) = cpu.first().and_then(|metric| utilization(metric, "target")) {
        let _ = object.set(&["spec", "targetCPUUtilizationPercentage"], target);
    }
    let (current_cpu, current): (Vec<Value>, Vec<Value>) = taken_items(object, &["status", "currentMetrics"])
        .into_iter()
        .partition(|metric| utilization(metric, "current").is_some());
    if let Some(value) = current_cpu.first().and_then(|metric| utilization(metric, "current")) {
        let _ = object.set(&["status", "currentCPUUtilizationPercentage"], value);
    }
    let conditions = taken_items(object, &["status", "conditions"]);
    for (annotation, items) in [(METRICS, others), (CURRENT_METRICS, current), (CONDITIONS, conditions)] {
        if !items.is_empty() {
            annotate(object, annotation, &Value::Array(items));
        }
    }
    if let Some(behavior) = object.remove(&["spec", "behavior"]) {
        annotate(object, BEHAVIOR, &behavior);
    }
}

/// The way back.
fn autoscaler_v2(object: &mut Object) {
    let cpu = |side: &str, value: Value| json!({"type": "Resource", "resource": {"name": "cpu", side: {"averageUtilization": value}}});
    let mut metrics = unannotated_items(object, METRICS);
    if let Some(target) = object.remove(&["spec", "targetCPUUtilizationPercentage"]).filter(|target| !target.is_null())
    {
        let mut metric = cpu("target", target);
        if let Some(target) = metric.pointer_mut("/resource/target").and_then(Value::as_object_mut) {
            target.insert("type".into(), Value::from("Utilization"));
        }
        metrics.insert(0, metric);
    }
    let mut current = unannotated_items(object, CURRENT_METRICS);
    if let Some(value) = object.remove(&["status", "currentCPUUtilizationPercentage"]).filter(|value| !value.is_null())
    {
        current.insert(0, cpu("current", value));
    }
    let conditions = unannotated_items(object, CONDITIONS);
    for (path, items) in [
        (["spec", "metrics"], metrics),
        (["status", "currentMetrics"], current),
        (["status", "conditions"], conditions),
    ] {
        if !items.is_empty() {
            let _ = object.set(&path, Value::Array(items));
        }
    }
    if let Some(behavior) = unannotated(object, BEHAVIOR) {
        let _ = object.set(&["spec", "behavior"], behavior);
    }
    if object.get(&["metadata", "annotations"]).and_then(Value::as_object).is_some_and(Map::is_empty) {
        object.remove(&["metadata", "annotations"]);
    }
}

/// The average utilization of a metric of the pods' CPU.
fn utilization(metric: &Value, side: &str) -> Option<Value> {
    let resource = metric.get("resource").filter(|resource| resource.get("name").is_some_and(|name| name == "cpu"))?;
    resource.get(side)?.get("averageUtilization").filter(|value| value.is_number()).cloned()
}

fn taken_items(object: &mut Object, path: &[&str]) -> Vec<Value> {
    match object.remove(path) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn annotate(object: &mut Object, annotation: &str, value: &Value) {
    let _ = object.set(&["metadata", "annotations", annotation], Value::from(value.to_string()));
}

fn unannotated(object: &mut Object, annotation: &str) -> Option<Value> {
    let text = object.remove(&["metadata", "annotations", annotation])?;
    serde_json::from_str(text.as_str()?).ok()
}

fn unannotated_items(object: &mut Object, annotation: &str) -> Vec<Value> {
    match unannotated(object, annotation) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog;
    use super::*;

    #[test]
    fn an_autoscaler_survives_the_way_through_v1() {
        let v1 = catalog::resource("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
        let stored_object = Object::from_value(json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"stabilizationWindowSeconds": 5}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}}]},
        }))
        .unwrap();
        let shown_object = shown(v1, &stored_object).into_owned();
        assert_eq!(shown_object.get(&["spec", "targetCPUUtilizationPercentage"]), Some(&json!(50)));
        assert_eq!(stored(v1, shown_object), stored_object);
    }

    #[test]
    fn an_event_has_other_names_in_its_own_group() {
        let events = catalog::resource("events.k8s.io", "v1", "events").unwrap();
        let core = Object::from_value(json!({
            "apiVersion": "v1", "kind": "Event", "message": "m", "involvedObject": {"name": "x"}, "reportingComponent": "c",
        }))
        .unwrap();
        let event = shown(events, &core).into_owned();
        assert_eq!(event.get(&["note"]), Some(&json!("m")));
        assert_eq!(event.get(&["regarding", "name"]), Some(&json!("x")));
        assert_eq!(event.api_version(), "events.k8s.io/v1");
        assert_eq!(stored(events, event), core);
    }
}
