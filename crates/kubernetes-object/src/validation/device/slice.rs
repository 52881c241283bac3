//! ResourceSlices.

use super::super::formats::{label_text, subdomain, subdomain_text};
use super::super::metadata;
use super::super::node::{Causes, Node, internal, is_equal};
use super::super::selector::node_selector;
use super::super::volume_source::csi_driver;
use super::{binding_parameters, list, map, pool_name, qualified_name, set, taint};
use crate::go_text::go_quote;
use crate::quantity::Quantity;
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// `ResourceSliceMaxDevices`
const MAX_DEVICES: usize = 128;
/// `ResourceSliceMaxDevicesWithAdvancedFeatures`
const MAX_ADVANCED_DEVICES: usize = 64;
/// `ResourceSliceMaxCounterSets`
const MAX_COUNTER_SETS: usize = 8;
/// `ResourceSliceMaxCountersPerCounterSet`, `ResourceSliceMaxCountersPerDeviceCounterConsumption`
const MAX_COUNTERS: usize = 32;
/// `ResourceSliceMaxDeviceCounterConsumptionsPerDevice`
const MAX_CONSUMPTIONS: usize = 2;
/// `ResourceSliceMaxAttributesAndCapacitiesPerDevice`
const MAX_ATTRIBUTES: usize = 32;
/// `DeviceTaintsMaxLength`
const MAX_TAINTS: usize = 16;
/// `DeviceAttributeMaxValueLength`
const MAX_VALUE_BYTES: usize = 64;
/// `attributeAndCapacityMaxKeyLength`
const MAX_KEY_BYTES: usize = 63 + 1 + 32;
const MAX_LABEL_BYTES: usize = 63;
/// `CapacityRequestPolicyDiscreteMaxOptions`
const MAX_OPTIONS: usize = 10;

static SEMVER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (number, before) = (r"(0|[1-9][0-9]*)", r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)");
    let build = "[0-9a-zA-Z-]+";
    Regex::new(&format!(r"^{number}\.{number}\.{number}(-{before}(\.{before})*)?(\+{build}(\.{build})*)?$")).ok()
});

/// `ValidateResourceSlice`, `ValidateResourceSliceUpdate`
pub(in super::super) fn slice(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, false, subdomain, out),
    }
    let (spec, old) = (object.at("spec"), old.map(|old| old.at("spec")));
    csi_driver(&spec.at("driver"), out);
    let pool = spec.at("pool");
    pool_name(&pool.at("name"), out);
    if pool.at("resourceSliceCount").int() <= 0 {
        out.int(&pool.at("resourceSliceCount"), "must be greater than zero");
    }
    if pool.at("generation").int() < 0 {
        out.int(&pool.at("generation"), "must be greater than or equal to zero");
    }
    if let Some(old) = &old {
        out.immutable_text(&pool.at("name"), &old.under(&["pool", "name"]));
        out.immutable_text(&spec.at("driver"), &old.at("driver"));
        out.immutable(&spec.at("nodeName"), &old.at("nodeName"));
    }
    place(&spec, out);
    let (devices, counters) = (spec.at("devices"), spec.at("sharedCounters"));
    if counters.is_given() && devices.is_given() {
        out.invalid(&spec, "\"\"", "only one of `sharedCounters` or `devices` is allowed");
    }
    let is_advanced = |device: &Node<'_>| !device.at("taints").is_empty() || !device.at("consumesCounters").is_empty();
    let most = if devices.items().any(|device| is_advanced(&device)) { MAX_ADVANCED_DEVICES } else { MAX_DEVICES };
    let is_by_device = spec.at("perDeviceNodeSelection").is_true();
    let mut old_devices: HashMap<&str, Node<'_>> = HashMap::new();
    for device in old.iter().flat_map(|old| old.at("devices").items()) {
        // The first one of a name counts.
        old_devices.entry(device.at("name").text()).or_insert(device);
    }
    set(
        &devices,
        most,
        |device| device.at("name").text(),
        out,
        |device, out| {
            let old = old_devices.get(device.at("name").text());
            self::device(device, old, is_by_device, out);
        },
    );
    set(
        &counters,
        MAX_COUNTER_SETS,
        |set| set.at("name").text(),
        out,
        |set, out| {
            let name = set.at("name");
            if out.require(&name) {
                label_text(&name, out);
            }
            self::counters(&set.at("counters"), out);
        },
    );
}

/// The nodes that have the devices of a slice.
fn place(spec: &Node<'_>, out: &mut Causes) {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let (name, selector) = (spec.at("nodeName"), spec.at("nodeSelector"));
    let mut given = Vec::new();
    if name.is_given() {
        if name.is_empty() {
            out.text(&name, "must be either unset or set to a non-empty string");
        } else {
            given.push("`nodeName`");
            subdomain_text(&name, out);
        }
    }
    if selector.is_given() {
        given.push("`nodeSelector`");
        node_selector(&selector, false, out);
        let terms = selector.at("nodeSelectorTerms");
        if terms.len() != 1 {
            out.value(&terms, "must have exactly one node selector term");
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        if spec.at(field).is_true() {
            given.push(shown);
        } else if spec.at(field).is_given() {
            out.value(&spec.at(field), "must be either unset or set to true");
        }
    }
    exactly_one(spec, &given, WHY, &format!("{WHY}, but multiple fields are set"), out);
}

fn exactly_one(node: &Node<'_>, given: &[&str], none: &str, several: &str, out: &mut Causes) {
    match given {
        [] => out.required(node, none),
        [_] => {}
        given => out.invalid(node, go_quote(&format!("{{{}}}", given.join(", "))), several),
    }
}

/// `validateDevice`
fn device(device: &Node<'_>, old: Option<&Node<'_>>, is_by_device: bool, out: &mut Causes) {
    label_text(&device.at("name"), out);
    let (attributes, capacity) = (device.at("attributes"), device.at("capacity"));
    let total = attributes.len() + capacity.len();
    if total > MAX_ATTRIBUTES {
        out.invalid(
            device,
            total,
            &format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"),
        );
    }
    map(&attributes, MAX_KEY_BYTES, out, qualified_name, attribute);
    let is_shared = device.at("allowMultipleAllocations").is_true();
    map(&capacity, MAX_KEY_BYTES, out, qualified_name, |capacity, out| {
        let policy = capacity.at("requestPolicy");
        match (policy.is_given(), is_shared) {
            (false, _) => {}
            (true, true) => request_policy(&capacity.at("value"), &policy, out),
            (true, false) => out.forbidden(&policy, "allowMultipleAllocations must be true"),
        }
    });
    let taints = device.at("taints");
    if old.is_none_or(|old| !is_equal(old.at("taints").value(), taints.value())) {
        list(&taints, MAX_TAINTS, out, taint);
    }
    let consumed = device.at("consumesCounters");
    set(
        &consumed,
        MAX_CONSUMPTIONS,
        |consumed| consumed.at("counterSet").text(),
        out,
        |consumed, out| {
            let name = consumed.at("counterSet");
            if out.require(&name) {
                label_text(&name, out);
            }
            counters(&consumed.at("counters"), out);
        },
    );
    device_place(device, is_by_device, out);
    binding_parameters(device, out);
}

fn device_place(device: &Node<'_>, is_by_device: bool, out: &mut Causes) {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let [name, selector, all] = ["nodeName", "nodeSelector", "allNodes"].map(|field| device.at(field));
    if !is_by_device {
        if name.is_given() || selector.is_given() || all.is_given() {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            out.invalid(device, "null", why);
        }
        return;
    }
    let mut given = Vec::new();
    if name.is_given() {
        if name.is_empty() {
            out.text(&name, "must not be empty");
        } else {
            given.push("`nodeName`");
            subdomain_text(&name, out);
        }
    }
    if selector.is_given() {
        given.push("`nodeSelector`");
        node_selector(&selector, false, out);
    }
    if all.is_true() {
        given.push("`allNodes`");
    } else if all.is_given() {
        out.value(&all, "must be either unset or set to true");
    }
    exactly_one(device, &given, WHY, WHY, out);
}

/// The counters of a counter set or of a consumption.
fn counters(counters: &Node<'_>, out: &mut Causes) {
    if counters.len() > MAX_COUNTERS {
        out.too_many(counters, MAX_COUNTERS);
    } else if out.require(counters) {
        map(counters, MAX_LABEL_BYTES, out, label_text, |_, _| {});
    }
}

/// `validateDeviceAttribute`
fn attribute(attribute: &Node<'_>, out: &mut Causes) {
    let values = ["bool", "int", "string", "version"].map(|field| attribute.at(field));
    let [_, _, text, version] = &values;
    if text.len() > MAX_VALUE_BYTES {
        out.too_long(text, MAX_VALUE_BYTES);
    }
    if version.is_given() {
        if SEMVER.as_ref().is_some_and(|pattern| !pattern.is_match(version.text())) {
            out.text(version, "must be a string compatible with semver.org spec 2.0.0");
        }
        if version.len() > MAX_VALUE_BYTES {
            out.too_long(version, MAX_VALUE_BYTES);
        }
    }
    match values.iter().filter(|value| value.is_given()).count() {
        0 => out.invalid(attribute, "\"\"", "exactly one value must be specified"),
        1 => {}
        _ => {
            const FORM: &str = "IntValue:int? BoolValue:bool? StringValue:string? VersionValue:version? IntValues:ints? BoolValues:bools? \
                StringValues:strings? VersionValues:versions?";
            out.invalid(attribute, internal(attribute, FORM), "exactly one value must be specified");
        }
    }
}

/// `validateRequestPolicy`
fn request_policy(capacity: &Node<'_>, policy: &Node<'_>, out: &mut Causes) {
    let (values, range, default) = (policy.at("validValues"), policy.at("validRange"), policy.at("default"));
    let missing = |what: &str, out: &mut Causes| out.required(&default, &format!("required when {what} is defined"));
    match (values.is_empty(), range.is_given(), default.is_given()) {
        (false, true, _) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            out.forbidden(policy, why);
        }
        (false, false, false) => missing("validValues", out),
        (true, true, false) => missing("validRange", out),
        (false, false, true) => valid_values(&default, capacity, &values, out),
        (true, true, true) => valid_range(&default, capacity, &range, out),
        (true, false, _) => {}
    }
}

fn quantity_text(node: &Node<'_>) -> String {
    go_quote(&node.quantity_text())
}

/// `validateRequestPolicyValidValues`
fn valid_values(default: &Node<'_>, capacity: &Node<'_>, values: &Node<'_>, out: &mut Causes) {
    let all: Vec<Node<'_>> = values.items().collect();
    for pair in all.windows(2) {
        if let [one, next] = pair
            && one.quantity() > next.quantity()
        {
            out.invalid(next, quantity_text(next), "values must be sorted in ascending order");
        }
    }
    let is_checked = list(values, MAX_OPTIONS, out, |value, out| {
        if value.quantity() > capacity.quantity() {
            let why = format!("option is larger than capacity value: {}", capacity.quantity_text());
            out.invalid(value, quantity_text(value), &why);
        }
    });
    let mut known = HashSet::new();
    for value in all.iter().filter(|_| is_checked) {
        let number = value.quantity().value();
        if !known.insert(number) {
            out.duplicate_of(value, go_quote(&number.to_string()));
        }
    }
    if !is_checked || !all.iter().any(|value| value.quantity() == default.quantity()) {
        out.invalid(values, quantity_text(default), "default value is not valid according to the requestPolicy");
    }
}

/// `validateRequestPolicyRange`
fn valid_range(default: &Node<'_>, capacity: &Node<'_>, range: &Node<'_>, out: &mut Causes) {
    let [least, most, step] = ["min", "max", "step"].map(|field| range.at(field));
    if !least.is_given() {
        return out.required(&least, "required when validRange is defined");
    }
    let number = |node: &Node<'_>| -> Quantity { node.quantity() };
    let mut check = |is_wrong: bool, at: &Node<'_>, shown: &Node<'_>, why: &str, than: &str| {
        if is_wrong {
            out.invalid(at, quantity_text(shown), &format!("{why}: {than}"));
        }
    };
    let (capacity_text, least_text) = (capacity.quantity_text(), least.quantity_text());
    check(number(&least) > number(capacity), &least, &least, "min is larger than capacity value", &capacity_text);
    check(number(default) < number(&least), &least, default, "default is less than min", &least_text);
    if most.is_given() {
        let most_text = most.quantity_text();
        check(number(&least) > number(&most), &most, &least, "min is larger than max", &most_text);
        check(number(&most) > number(capacity), &most, &most, "max is larger than capacity value", &capacity_text);
        check(number(default) > number(&most), &most, default, "default is more than max", &most_text);
    }
    if !step.is_given() {
        return;
    }
    let added = number(&least).plus(number(&step));
    if added > number(capacity) {
        let why = format!("one step {added} is larger than capacity value: {capacity_text}");
        out.invalid(&step, quantity_text(&step), &why);
    }
    for value in [Some(default), most.is_given().then_some(&most)].into_iter().flatten() {
        let distance = value.quantity().value().saturating_sub(least.quantity().value());
        if distance.checked_rem(step.quantity().value()).is_some_and(|rest| rest != 0) {
            let why = format!(
                "value is not a multiple of a given step ({}) from ({})",
                step.quantity_text(),
                least.quantity_text()
            );
            out.invalid(&step, quantity_text(value), &why);
        }
    }
}
