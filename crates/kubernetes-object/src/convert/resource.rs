//! Fields that resource.k8s.io/v1beta1 has at other paths than v1beta2 and v1: a v1beta1 request holds the fields of `exactly` itself, and
//! a v1beta1 device holds all fields except its name in `basic`.

use crate::defaults::fields::{Fields, each, is_zero, pointer};
use serde_json::Value;

/// The fields of a v1beta1 request that newer versions have in `exactly` (`hasAnyMainRequestFieldsSet`).
const OF_ONE: [&str; 8] = [
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
];

/// A change of a request or of a device.
type Change = fn(&mut Fields);

pub(super) fn convert(object: &mut Fields, kind: &str, from: &str, to: &str) {
    let (was_flat, is_flat) = (from == "v1beta1", to == "v1beta1");
    if was_flat == is_flat {
        return;
    }
    let (of_request, of_device): (Change, Change) =
        if is_flat { (flatten_request, fold_device) } else { (fold_request, flatten_device) };
    let Some(spec) = pointer(object, "spec") else { return };
    match kind {
        "ResourceClaim" => requests(spec, of_request),
        "ResourceClaimTemplate" => {
            if let Some(spec) = pointer(spec, "spec") {
                requests(spec, of_request);
            }
        }
        "ResourceSlice" => each(spec, "devices").for_each(of_device),
        _ => {}
    }
}

fn requests(claim: &mut Fields, change: fn(&mut Fields)) {
    if let Some(devices) = pointer(claim, "devices") {
        each(devices, "requests").for_each(change);
    }
}

fn fold_request(request: &mut Fields) {
    let is_set = |name: &&str| match *name {
        // A pointer to a zero value is set too, and an empty list is not nil.
        "adminAccess" | "capacity" | "derivedAttributes" => request.contains_key(*name),
        _ => !is_zero(request, name),
    };
    let is_of_one = OF_ONE.iter().any(is_set);
    let taken: Fields = OF_ONE.iter().filter_map(|name| request.remove_entry(*name)).collect();
    if is_of_one {
        request.insert("exactly".into(), Value::Object(taken));
    }
}

fn flatten_request(request: &mut Fields) {
    if let Some(Value::Object(exactly)) = request.remove("exactly") {
        request.extend(exactly);
    }
}

fn fold_device(device: &mut Fields) {
    let name = device.remove_entry("name");
    let basic = std::mem::take(device);
    device.extend(name);
    device.insert("basic".into(), Value::Object(basic));
}

fn flatten_device(device: &mut Fields) {
    if let Some(Value::Object(basic)) = device.remove("basic") {
        device.extend(basic);
    }
}
