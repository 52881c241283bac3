//! Horizontal pod autoscalers of both versions: the cell "Targets" lists the metrics (`formatHPAMetrics`).

use super::quantity;
use super::view::View;
use serde_json::{Value, json};

/// The number of metrics in the cell.
const MAX_METRICS: usize = 2;

pub(super) fn horizontal_pod_autoscaler(object: View<'_>) -> Vec<Value> {
    let reference =
        format!("{}/{}", object.text("/spec/scaleTargetRef/kind"), object.text("/spec/scaleTargetRef/name"));
    let min = object.optional_number("/spec/minReplicas").map_or_else(|| "<unset>".to_owned(), |min| min.to_string());
    vec![
        object.name(),
        json!(reference),
        json!(targets(object)),
        json!(min),
        json!(object.number("/spec/maxReplicas")),
        json!(object.number("/status/currentReplicas")),
        object.age(),
    ]
}

fn targets(object: View<'_>) -> String {
    let mut statuses = object.items("/status/currentMetrics");
    let mut shown: Vec<String> = object.items("/spec/metrics").map(|metric| target(metric, statuses.next())).collect();
    // Version v1 has its only metric as a field.
    if let Some(percent) = object.optional_number("/spec/targetCPUUtilizationPercentage") {
        let current = object.optional_number("/status/currentCPUUtilizationPercentage");
        shown.push(format!("cpu: {}/{percent}%", percent_or(current, "<unknown>")));
    }
    let more = shown.len().saturating_sub(MAX_METRICS);
    match (shown.len(), more) {
        (0, _) => "<none>".to_owned(),
        (_, 0) => shown.join(", "),
        _ => format!("{} + {more} more...", shown.get(..MAX_METRICS).unwrap_or_default().join(", ")),
    }
}

fn target(metric: View<'_>, status: Option<View<'_>>) -> String {
    match metric.text("/type") {
        "External" => value(metric.part("/external"), status.map(|status| status.part("/external"))),
        "Object" => value(metric.part("/object"), status.map(|status| status.part("/object"))),
        "Pods" => {
            let current = current(status, "/pods", "/pods/current/averageValue");
            format!("{current}/{}", quantity::shown(metric.at("/pods/target/averageValue")))
        }
        "Resource" => resource(metric.part("/resource"), status.map(|status| status.part("/resource"))),
        "ContainerResource" => {
            resource(metric.part("/containerResource"), status.map(|status| status.part("/containerResource")))
        }
        _ => "<unknown type>".to_owned(),
    }
}

/// Formats a metric with a value, or with an average value.
fn value(metric: View<'_>, status: Option<View<'_>>) -> String {
    match metric.at("/target/averageValue") {
        Some(average) => {
            let current = current(status, "/current/averageValue", "/current/averageValue");
            format!("{current}/{} (avg)", quantity::shown(Some(average)))
        }
        None => format!("{}/{}", current(status, "", "/current/value"), quantity::shown(metric.at("/target/value"))),
    }
}

fn resource(metric: View<'_>, status: Option<View<'_>>) -> String {
    let name = metric.text("/name");
    match metric.at("/target/averageValue") {
        Some(average) => {
            let current = current(status, "", "/current/averageValue");
            format!("{name}: {current}/{}", quantity::shown(Some(average)))
        }
        None => {
            let current = status.and_then(|status| status.optional_number("/current/averageUtilization"));
            let target = metric.optional_number("/target/averageUtilization");
            format!("{name}: {}/{}", percent_or(current, "<unknown>"), percent_or(target, "<auto>"))
        }
    }
}

/// The current value; `<unknown>` unless the status has the field `needs`.
fn current(status: Option<View<'_>>, needs: &str, pointer: &str) -> String {
    match status.filter(|status| status.has(needs)) {
        Some(status) => quantity::shown(status.at(pointer)),
        None => "<unknown>".to_owned(),
    }
}

fn percent_or(percent: Option<i64>, otherwise: &str) -> String {
    percent.map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
}
