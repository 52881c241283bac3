//! Checks the items of a LimitRange against a pod or a claim, and words the violations.

use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::{ResourceList, aggregate, resource_list};
use k8s_openapi::api::core::v1::LimitRangeItem;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use serde_json::Value;
use std::collections::BTreeMap;

/// The largest value that is compared in thousandths (`resource.MaxMilliValue`).
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

/// The violations of a pod (`PodValidateLimitFunc`).
pub(super) fn of_pod(pod: &Object, items: &[LimitRangeItem]) -> Vec<String> {
    let mut violations = Vec::new();
    for item in items {
        match &*item.type_ {
            "Container" => {
                let containers =
                    ["containers", "initContainers"].into_iter().flat_map(|list| pod.items(&["spec", list]));
                for container in containers {
                    Constraint { item, requests: of(container, "requests"), limits: of(container, "limits") }
                        .check(&mut violations);
                }
            }
            "Pod" => Constraint { item, requests: total(pod, "requests"), limits: total(pod, "limits") }
                .check(&mut violations),
            _ => {}
        }
    }
    violations
}

/// The violations of a claim (`PersistentVolumeClaimValidateLimitFunc`).
pub(super) fn of_claim(claim: &Object, items: &[LimitRangeItem]) -> Vec<String> {
    let mut violations = Vec::new();
    let requests = resource_list(claim.get(&["spec", "resources", "requests"]));
    for item in items.iter().filter(|item| item.type_ == "PersistentVolumeClaim") {
        let constraint = Constraint { item, requests: requests.clone(), limits: ResourceList::new() };
        violations.extend(quantities(&item.min).filter_map(|(name, least)| constraint.minimum(name, least)));
        violations.extend(quantities(&item.max).filter_map(|(name, most)| constraint.maximum_request(name, most)));
    }
    violations
}

fn of(container: &Value, field: &str) -> ResourceList {
    resource_list(container.get("resources").and_then(|resources| resources.get(field)))
}

/// The requests or limits of a whole pod. Pod-level resources take precedence over the sum of the containers.
fn total(pod: &Object, field: &str) -> ResourceList {
    let mut total = aggregate(pod, |container| of(container, field));
    let own = resource_list(pod.get(&["spec", "resources", field]));
    total.extend(own.into_iter().filter(|(name, _)| ["cpu", "memory"].contains(&&**name)));
    total
}

fn quantities(list: &Option<BTreeMap<String, Text>>) -> impl Iterator<Item = (&str, Quantity)> {
    list.iter().flatten().filter_map(|(name, text)| Some((name.as_str(), Quantity::parse(&text.0).ok()?)))
}

/// An item, and the resources that it limits.
struct Constraint<'a> {
    item: &'a LimitRangeItem,
    requests: ResourceList,
    limits: ResourceList,
}

impl Constraint<'_> {
    fn check(&self, violations: &mut Vec<String>) {
        violations.extend(quantities(&self.item.min).filter_map(|(name, least)| self.minimum(name, least)));
        violations.extend(quantities(&self.item.max).filter_map(|(name, most)| self.maximum(name, most)));
        let ratios = quantities(&self.item.max_limit_request_ratio);
        violations.extend(ratios.filter_map(|(name, ratio)| self.ratio(name, ratio)));
    }

    fn minimum(&self, name: &str, least: Quantity) -> Option<String> {
        let text = format!("minimum {name} usage per {} is {least}", self.item.type_);
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [request_value, limit_value, enforced] = comparable(request, limit, least);
        match (request, limit) {
            (None, _) => Some(format!("{text}.  No request is specified")),
            (Some(request), _) if request_value < enforced => Some(format!("{text}, but request is {request}")),
            (_, Some(limit)) if limit_value < enforced => Some(format!("{text}, but limit is {limit}")),
            _ => None,
        }
    }

    fn maximum(&self, name: &str, most: Quantity) -> Option<String> {
        let text = format!("maximum {name} usage per {} is {most}", self.item.type_);
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [request_value, limit_value, enforced] = comparable(request, limit, most);
        match (request, limit) {
            (_, None) => Some(format!("{text}.  No limit is specified")),
            (_, Some(limit)) if limit_value > enforced => Some(format!("{text}, but limit is {limit}")),
            (Some(request), _) if request_value > enforced => Some(format!("{text}, but request is {request}")),
            _ => None,
        }
    }

    fn maximum_request(&self, name: &str, most: Quantity) -> Option<String> {
        let text = format!("maximum {name} usage per {} is {most}", self.item.type_);
        let request = self.requests.get(name);
        let [value, _, enforced] = comparable(request, None, most);
        match request {
            None => Some(format!("{text}.  No request is specified")),
            Some(request) if value > enforced => Some(format!("{text}, but request is {request}")),
            _ => None,
        }
    }

    fn ratio(&self, name: &str, most: Quantity) -> Option<String> {
        let text = format!("{name} max limit to request ratio per {} is {most}", self.item.type_);
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [request_value, limit_value, _] = comparable(request, limit, most);
        if request_value == 0 {
            return Some(format!("{text}, but no request is specified or request is 0"));
        }
        if limit_value == 0 {
            return Some(format!("{text}, but no limit is specified or limit is 0"));
        }
        let ratio = limit_value as f64 / request_value as f64;
        let exceeds = match most.value() <= MAX_MILLI_VALUE {
            true => ratio * 1000.0 > most.milli_value() as f64,
            false => ratio > most.value() as f64,
        };
        exceeds.then(|| format!("{text}, but provided ratio is {ratio:.6}"))
    }
}

/// The request, the limit and the enforced value in one unit: thousandths if all three values fit (`requestLimitEnforcedValues`).
fn comparable(request: Option<&Quantity>, limit: Option<&Quantity>, enforced: Quantity) -> [i64; 3] {
    let all = [request.copied().unwrap_or(Quantity::ZERO), limit.copied().unwrap_or(Quantity::ZERO), enforced];
    match all.iter().all(|quantity| quantity.value() <= MAX_MILLI_VALUE) {
        true => all.map(Quantity::milli_value),
        false => all.map(Quantity::value),
    }
}
