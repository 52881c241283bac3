//! ResourceClaims and ResourceClaimTemplates.

use super::super::formats::{canonical_ip, label_text, parse_cidr, parse_ip, subdomain, subdomain_text};
use super::super::metadata;
use super::super::node::{Causes, IMMUTABLE, Node, internal, is_equal};
use super::super::selector::node_selector;
use super::super::volume_source::csi_driver;
use super::{
    MAX_ITEMS, binding_parameters, conditions, configuration, fully_qualified_name, list, pool_name, raw, selectors,
    set, toleration,
};
use crate::go_text::go_quote;
use crate::go_text::json;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// `ResourceClaimReservedForMaxSize`
const MAX_CONSUMERS: usize = 256;
/// `FirstAvailableDeviceRequestMaxSize`
const MAX_ALTERNATIVES: usize = 8;
/// The internal type of a ResourceClaimSpec.
const SPEC: &str = "Devices:devices{Requests:requests[Name:name Exactly:exactly?{DeviceClassName:deviceClassName \
    Selectors:selectors[CEL:cel?{Expression:expression}] AllocationMode:allocationMode Count:count# \
    AdminAccess:adminAccess? Tolerations:tolerations[Key:key Operator:operator Value:value Effect:effect \
    TolerationSeconds:tolerationSeconds?] Capacity:capacity?{Requests:requests?}} \
    FirstAvailable:firstAvailable[Name:name DeviceClassName:deviceClassName \
    Selectors:selectors[CEL:cel?{Expression:expression}] AllocationMode:allocationMode Count:count# \
    Tolerations:tolerations[Key:key Operator:operator Value:value Effect:effect \
    TolerationSeconds:tolerationSeconds?] Capacity:capacity?{Requests:requests?}]] \
    Constraints:constraints[Requests:requests? MatchAttribute:matchAttribute? DistinctAttribute:distinctAttribute?] \
    Config:config[Requests:requests? Opaque:opaque?{Driver:driver Parameters:parameters?}]}";

/// `ValidateResourceClaim`, its update and the update of its status.
pub(in super::super) fn claim(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    match old {
        Some(old) if subresource == "status" => {
            metadata::check_update(object, old, out);
            status(object, &object.at("status"), &old.at("status"), out);
        }
        Some(old) => {
            metadata::check(object, true, subdomain, out);
            metadata::check_update(object, old, out);
            out.immutable_as(&object.at("spec"), &old.at("spec"), SPEC);
        }
        None => {
            metadata::check(object, true, subdomain, out);
            devices(&object.under(&["spec", "devices"]), out);
        }
    }
}

/// `ValidateResourceClaimTemplate`, `ValidateResourceClaimTemplateUpdate`
pub(in super::super) fn template(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    metadata::check(object, true, subdomain, out);
    let spec = object.at("spec");
    metadata::template(&spec.at("metadata"), out);
    devices(&spec.under(&["spec", "devices"]), out);
    let Some(old) = old else { return };
    metadata::check_update(object, old, out);
    if !is_equal(spec.value(), old.at("spec").value()) {
        out.invalid(&spec, shown_template(&spec), IMMUTABLE);
    }
}

/// The JSON of the internal type of a ResourceClaimTemplateSpec.
fn shown_template(spec: &Node<'_>) -> String {
    let metadata = ["labels", "annotations"].into_iter().filter_map(|field| {
        let value = spec.under(&["metadata", field]);
        (!value.is_empty()).then(|| format!("{}:{},", go_quote(field), json::text(value.value())))
    });
    format!("{{{}\"Spec\":{}}}", metadata.collect::<String>(), internal(&spec.at("spec"), SPEC))
}

/// The names of requests, and of the alternatives of each (`requestNames`).
struct RequestNames<'v>(BTreeMap<&'v str, BTreeSet<&'v str>>);

impl<'v> RequestNames<'v> {
    fn of(devices: &Node<'v>) -> Self {
        let alternatives =
            |request: &Node<'v>| request.at("firstAvailable").items().map(|other| other.at("name").text()).collect();
        Self(
            devices.at("requests").items().map(|request| (request.at("name").text(), alternatives(&request))).collect(),
        )
    }

    /// `validateRequestNameRef`
    fn check(&self, name: &Node<'_>, out: &mut Causes) {
        const WHY: &str =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let segments: Vec<&str> = name.text().split('/').collect();
        if segments.len() > 2 {
            return out.text(name, WHY);
        }
        for segment in &segments {
            label_text(&name.with(&serde_json::Value::from(*segment)), out);
        }
        let is_known = match segments[..] {
            [request] => self.0.contains_key(request),
            [request, alternative] => self.0.get(request).is_some_and(|known| known.contains(alternative)),
            _ => false,
        };
        if !is_known {
            out.text(name, WHY);
        }
    }

    /// The list of references of a constraint or of a configuration.
    fn check_all(&self, names: &Node<'_>, out: &mut Causes) {
        set(names, MAX_ITEMS, Node::text, out, |name, out| self.check(name, out));
    }
}

/// `validateDeviceClaim`
fn devices(devices: &Node<'_>, out: &mut Causes) {
    let names = RequestNames::of(devices);
    set(&devices.at("requests"), MAX_ITEMS, |request| request.at("name").text(), out, request);
    list(&devices.at("constraints"), MAX_ITEMS, out, |constraint, out| {
        names.check_all(&constraint.at("requests"), out);
        match (constraint.at("matchAttribute").given(), constraint.at("distinctAttribute").given()) {
            (Some(name), _) | (None, Some(name)) => fully_qualified_name(&name, out),
            (None, None) => {
                let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                out.required(constraint, why);
            }
        }
    });
    list(&devices.at("config"), MAX_ITEMS, out, |config, out| {
        names.check_all(&config.at("requests"), out);
        configuration(config, false, out);
    });
}

/// `validateDeviceRequest`
fn request(request: &Node<'_>, out: &mut Causes) {
    label_text(&request.at("name"), out);
    let (exactly, alternatives) = (request.at("exactly"), request.at("firstAvailable"));
    match (exactly.is_given(), !alternatives.is_empty()) {
        (false, false) => out.required(request, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            out.invalid(request, "null", why);
        }
        (true, false) => device(&exactly, out),
        (false, true) => set(
            &alternatives,
            MAX_ALTERNATIVES,
            |other| other.at("name").text(),
            out,
            |other, out| {
                label_text(&other.at("name"), out);
                device(other, out);
            },
        ),
    }
}

/// `validateExactDeviceRequest`
fn device(request: &Node<'_>, out: &mut Causes) {
    let class = request.at("deviceClassName");
    if out.require(&class) {
        subdomain_text(&class, out);
    }
    selectors(&request.at("selectors"), out);
    let (mode, count) = (request.at("allocationMode"), request.at("count"));
    match mode.text() {
        "All" if count.int() != 0 => out.int(&count, "must not be specified when allocationMode is 'All'"),
        "All" => {}
        "ExactCount" => out.positive(&count),
        _ => drop(out.one_of(&mode, &["All", "ExactCount"])),
    }
    request.at("tolerations").items().for_each(|item| toleration(&item, out));
}

/// Returns the identity of a device in a claim (`SharedDeviceID`).
fn device_id<'v>(device: &Node<'v>) -> [&'v str; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| device.at(field).text())
}

/// `validateResourceClaimStatusUpdate`
fn status(object: &Node<'_>, status: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (allocation, reserved) = (status.at("allocation"), status.at("reservedFor"));
    set(
        &reserved,
        MAX_CONSUMERS,
        |consumer| consumer.at("uid").text(),
        out,
        |consumer, out| {
            for field in ["resource", "name", "uid"] {
                out.require(&consumer.at(field));
            }
        },
    );
    let results = allocation.under(&["devices", "results"]);
    let allocated: HashSet<[&str; 4]> = results.items().map(|result| device_id(&result)).collect();
    let mut known = HashSet::new();
    status.at("devices").items().for_each(|device| device_status(&device, &allocated, out));
    for device in status.at("devices").items() {
        if !known.insert(device_id(&device)) {
            out.duplicate_of(&device, shown_id(&device));
        }
    }
    if !reserved.is_empty() {
        let is_deleting = object.under(&["metadata", "deletionTimestamp"]).is_given();
        let is_old =
            |consumer: &Node<'_>| old.at("reservedFor").items().any(|other| is_equal(other.value(), consumer.value()));
        if !allocation.is_given() {
            out.forbidden(&reserved, "may not be specified when `allocated` is not set");
        } else if is_deleting && !reserved.items().all(|consumer| is_old(&consumer)) {
            let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            out.forbidden(&reserved, why);
        }
    }
    if !allocation.is_given() {
        return;
    }
    if old.at("allocation").is_given() {
        return out.immutable_as(&allocation, &old.at("allocation"), ALLOCATION);
    }
    let names = RequestNames::of(&object.under(&["spec", "devices"]));
    list(&results, MAX_ITEMS, out, |result, out| {
        names.check(&result.at("request"), out);
        csi_driver(&result.at("driver"), out);
        pool_name(&result.at("pool"), out);
        label_text(&result.at("device"), out);
        binding_parameters(result, out);
        share_id(&result.at("shareID"), out);
    });
    list(&allocation.under(&["devices", "config"]), 2 * MAX_ITEMS, out, |config, out| {
        out.required_one_of(&config.at("source"), &["FromClaim", "FromClass"]);
        names.check_all(&config.at("requests"), out);
        configuration(config, false, out);
    });
    if let Some(selector) = allocation.at("nodeSelector").given() {
        node_selector(&selector, false, out);
    }
}

/// The internal type of an AllocationResult.
const ALLOCATION: &str = "Devices:devices{Results:results[Request:request Driver:driver Pool:pool Device:device \
    AdminAccess:adminAccess? Tolerations:tolerations[Key:key Operator:operator Value:value Effect:effect \
    TolerationSeconds:tolerationSeconds?] BindingConditions:bindingConditions? \
    BindingFailureConditions:bindingFailureConditions? ShareID:shareID? ConsumedCapacity:consumedCapacity?] \
    Config:config[Source:source Requests:requests? Opaque:opaque?{Driver:driver Parameters:parameters?}]} \
    NodeSelector:nodeSelector?{NodeSelectorTerms:nodeSelectorTerms[MatchExpressions:matchExpressions[Key:key \
    Operator:operator Values:values?] MatchFields:matchFields[Key:key Operator:operator Values:values?]]} \
    AllocationTimestamp:allocationTimestamp?";

/// The JSON of a `SharedDeviceID`.
fn shown_id(device: &Node<'_>) -> String {
    let [driver, pool, name, share] = device_id(device).map(go_quote);
    format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{name},\"ShareID\":{share}}}")
}

/// `validateDeviceStatus`
fn device_status(device: &Node<'_>, allocated: &HashSet<[&str; 4]>, out: &mut Causes) {
    csi_driver(&device.at("driver"), out);
    pool_name(&device.at("pool"), out);
    label_text(&device.at("device"), out);
    share_id(&device.at("shareID"), out);
    if !allocated.contains(&device_id(device)) {
        out.invalid(device, shown_id(device), "must be an allocated device in the claim");
    }
    let list = device.at("conditions");
    if list.len() > 8 {
        out.too_many(&list, 8);
    }
    conditions(&list, out);
    if device.at("data").is_given() {
        raw(&device.at("data"), false, out);
    }
    let network = device.at("networkData");
    for (field, most) in [("interfaceName", 256), ("hardwareAddress", 128)] {
        if network.at(field).len() > most {
            out.too_long(&network.at(field), most);
        }
    }
    set(&network.at("ips"), 16, Node::text, out, interface_address);
}

/// `IsValidInterfaceAddress`
fn interface_address(address: &Node<'_>, out: &mut Causes) {
    let text = address.text();
    let Some((ip, length)) =
        parse_cidr(text).and(text.split_once('/')).and_then(|(ip, length)| Some((parse_ip(ip)?, length)))
    else {
        return out.text(address, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)");
    };
    let length: u32 = length.parse().unwrap_or_default();
    let shown = canonical_ip(ip);
    let length = if !shown.contains(':') && length > 32 { length.saturating_sub(96) } else { length };
    let canonical = format!("{shown}/{length}");
    if canonical != text {
        out.text(address, &format!("must be in canonical form ({})", go_quote(&canonical)));
    }
}

/// `validateUID`
fn share_id(id: &Node<'_>, out: &mut Causes) {
    let Some(text) = id.optional_text() else { return };
    if let Some(why) = uuid_error(text) {
        out.text(id, &format!("error validating uid: {why}"));
    } else if text.len() != 36 || text != text.to_lowercase() {
        out.text(
            id,
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters",
        );
    }
}

/// `uuid.Validate` of github.com/google/uuid.
fn uuid_error(text: &str) -> Option<String> {
    const FORMAT: &str = "invalid UUID format";
    let text = match text.len() {
        36 => text,
        32 => return text.bytes().any(|byte| !byte.is_ascii_hexdigit()).then(|| FORMAT.to_owned()),
        45 => match text.get(..9) {
            Some(prefix) if prefix.eq_ignore_ascii_case("urn:uuid:") => text.get(9..).unwrap_or_default(),
            prefix => return Some(format!("invalid urn prefix: {}", go_quote(prefix.unwrap_or_default()))),
        },
        38 => match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(text) => text,
            None => return Some("invalid bracketed UUID format".to_owned()),
        },
        length => return Some(format!("invalid UUID length: {length}")),
    };
    let is_right =
        |(at, byte): (usize, u8)| if [8, 13, 18, 23].contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    (!text.bytes().enumerate().all(is_right)).then(|| FORMAT.to_owned())
}
