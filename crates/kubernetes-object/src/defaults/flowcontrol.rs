//! Defaults of the flowcontrol.apiserver.k8s.io group.

use super::fields::{Fields, embedded, if_nil, if_zero, pointer};

pub(super) fn apply(kind: &str, object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    match kind {
        "FlowSchema" => if_zero(spec, "matchingPrecedence", 1000),
        "PriorityLevelConfiguration" => priority_level(spec),
        _ => {}
    }
}

fn priority_level(spec: &mut Fields) {
    if let Some(limited) = pointer(spec, "limited") {
        if_nil(limited, "nominalConcurrencyShares", 30);
        if_nil(limited, "lendablePercent", 0);
        if let Some(queuing) = pointer(limited, "limitResponse").and_then(|response| pointer(response, "queuing")) {
            if_zero(queuing, "handSize", 8);
            if_zero(queuing, "queues", 64);
            if_zero(queuing, "queueLengthLimit", 50);
        }
    }
    if let Some(exempt) = pointer(spec, "exempt") {
        if_nil(exempt, "nominalConcurrencyShares", 0);
        if_nil(exempt, "lendablePercent", 0);
    }
}
