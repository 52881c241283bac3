//! Defaults of the autoscaling group: horizontal pod autoscalers in both versions.

use super::fields::{Fields, embedded, if_nil, if_zero, pointer};
use serde_json::{Value, json};

/// The target of a horizontal pod autoscaler that sets none, in percent.
pub(crate) const CPU_PERCENTAGE: i32 = 80;

pub(super) fn apply(version: &str, kind: &str, object: &mut Fields) {
    if kind != "HorizontalPodAutoscaler" {
        return;
    }
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "minReplicas", 1);
    if version == "v2" {
        if_zero(spec, "metrics", json!([cpu_metric(CPU_PERCENTAGE.into())]));
        if let Some(behavior) = pointer(spec, "behavior") {
            scaling(behavior, "scaleUp", true);
            scaling(behavior, "scaleDown", false);
        }
    }
}

/// The metric of autoscaling/v2 for a CPU utilization target.
pub(crate) fn cpu_metric(percentage: Value) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percentage });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

/// `GenerateHPAScaleUpRules`, `GenerateHPAScaleDownRules`.
fn scaling(behavior: &mut Fields, name: &str, is_up: bool) {
    let Some(rules) = embedded(behavior, name) else { return };
    if_nil(rules, "selectPolicy", "Max");
    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    if is_up {
        if_nil(rules, "stabilizationWindowSeconds", 0);
        if_nil(rules, "policies", json!([{ "type": "Pods", "value": 4, "periodSeconds": 15 }, percent]));
    } else {
        if_nil(rules, "policies", json!([percent]));
    }
}
