//! Defaults of the apps group.

use super::Defaulting;
use super::core::persistent_volume_claim;
use super::fields::{Fields, each, embedded, if_nil, if_zero, is_zero, pointer, text};
use super::pod::template;
use serde_json::Value;

pub(super) fn apply(kind: &str, object: &mut Fields, defaulting: Defaulting) {
    match kind {
        "Deployment" => deployment(object),
        "DaemonSet" => daemon_set(object),
        "StatefulSet" => stateful_set(object, defaulting),
        "ReplicaSet" => {
            if let Some(spec) = embedded(object, "spec") {
                if_nil(spec, "replicas", 1);
                template(spec, "template");
            }
        }
        _ => {}
    }
}

fn deployment(object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "replicas", 1);
    if_nil(spec, "revisionHistoryLimit", 10);
    if_nil(spec, "progressDeadlineSeconds", 600);
    rolling_update(spec, "strategy", "25%", "25%");
    template(spec, "template");
}

fn daemon_set(object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "revisionHistoryLimit", 10);
    rolling_update(spec, "updateStrategy", 1, 0);
    template(spec, "template");
}

fn rolling_update(spec: &mut Fields, strategy: &str, unavailable: impl Into<Value>, surge: impl Into<Value>) {
    let Some(strategy) = embedded(spec, strategy) else { return };
    if_zero(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(update) = embedded(strategy, "rollingUpdate")
    {
        if_nil(update, "maxUnavailable", unavailable);
        if_nil(update, "maxSurge", surge);
    }
}

fn stateful_set(object: &mut Fields, defaulting: Defaulting) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_zero(spec, "podManagementPolicy", "OrderedReady");
    if_nil(spec, "replicas", 1);
    if_nil(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = embedded(spec, "updateStrategy") {
        if is_zero(strategy, "type") {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
            embedded(strategy, "rollingUpdate");
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(update) = pointer(strategy, "rollingUpdate")
        {
            if_nil(update, "partition", 0);
            if defaulting.unavailable_of_stateful_sets {
                if_nil(update, "maxUnavailable", 1);
            }
        }
    }
    if let Some(policy) = embedded(spec, "persistentVolumeClaimRetentionPolicy") {
        if_zero(policy, "whenDeleted", "Retain");
        if_zero(policy, "whenScaled", "Retain");
    }
    template(spec, "template");
    each(spec, "volumeClaimTemplates").for_each(persistent_volume_claim);
}
