//! Defaults of the resource.k8s.io group: of device requests and of devices.

use super::fields::{Fields, each, embedded, if_nil, if_zero, is_nil, is_zero, pointer, text};
use jiff::Timestamp;
use serde_json::Value;

pub(super) fn apply(version: &str, kind: &str, object: &mut Fields) {
    let is_flat = version == "v1beta1";
    match kind {
        "ResourceClaim" => {
            pointer(object, "status").map(claim_status);
            claim_spec(object, is_flat);
        }
        "ResourceClaimTemplate" => {
            if let Some(template) = pointer(object, "spec") {
                claim_spec(template, is_flat);
            }
        }
        "ResourceSlice" => {
            let Some(spec) = pointer(object, "spec") else { return };
            for device in each(spec, "devices") {
                if let Some(device) = if is_flat { pointer(device, "basic") } else { Some(device) } {
                    self::device(device);
                }
            }
        }
        "DeviceTaintRule" => {
            embedded(object, "spec").and_then(|spec| embedded(spec, "taint")).map(taint);
        }
        "ResourcePoolStatusRequest" => {
            if let Some(spec) = embedded(object, "spec") {
                if_nil(spec, "limit", 100);
            }
        }
        _ => {}
    }
}

/// Defaults of a claim's spec. In v1beta1 (`is_flat`) a request holds the fields that newer versions have in `exactly`.
fn claim_spec(claim: &mut Fields, is_flat: bool) {
    let Some(devices) = pointer(claim, "spec").and_then(|spec| pointer(spec, "devices")) else { return };
    for request in each(devices, "requests") {
        if !is_flat {
            pointer(request, "exactly").map(self::request);
        } else if is_zero(request, "deviceClassName") {
            each(request, "tolerations").for_each(toleration);
        } else {
            self::request(request);
        }
        each(request, "firstAvailable").for_each(self::request);
    }
}

fn request(request: &mut Fields) {
    if_zero(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        if_zero(request, "count", 1);
    }
    each(request, "tolerations").for_each(toleration);
}

fn claim_status(status: &mut Fields) {
    let devices = pointer(status, "allocation").and_then(|allocation| pointer(allocation, "devices"));
    for result in devices.into_iter().flat_map(|devices| each(devices, "results")) {
        each(result, "tolerations").for_each(toleration);
    }
}

fn toleration(toleration: &mut Fields) {
    if_zero(toleration, "operator", "Equal");
}

fn device(device: &mut Fields) {
    each(device, "taints").for_each(taint);
    if let Some(mappings) = pointer(device, "nodeAllocatableResourceMappings") {
        for mapping in mappings.values_mut().filter_map(Value::as_object_mut) {
            if_nil(mapping, "allocationMultiplier", "1");
        }
    }
}

/// Sets the start of a taint to the current time, in whole seconds.
fn taint(taint: &mut Fields) {
    if is_nil(taint, "timeAdded") {
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        taint.insert("timeAdded".to_owned(), now.to_string().into());
    }
}
