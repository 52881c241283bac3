//! Amounts of resources: amounts are rounded up to thousandths, and the requests and limits of a whole pod are partly defaulted from its
//! containers (`defaultPodRequests`, `defaultHugePagePodLimits`; `DefaultPodLevelResources` since 1.37).

use super::fields::{Fields, embedded, is_zero, pointer, text};
use crate::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// Sums of amounts by the names of their resources.
type Sums<'a> = BTreeMap<&'a str, Sum<'a>>;

#[derive(Clone, Copy)]
struct Sum<'a> {
    amount: Quantity,
    /// The text of the amount, if the sum has only one.
    text: Option<&'a str>,
}

const HUGE_PAGES: &str = "hugepages-";

/// `SetDefaults_ResourceList`: rounds the amounts of a map up to a thousandth.
pub(super) fn round_up(fields: &mut Fields, name: &str) {
    let Some(amounts) = pointer(fields, name) else { return };
    for amount in amounts.values_mut() {
        if let Value::String(text) = amount
            && may_be_finer(text)
            && let Ok(given) = Quantity::parse(text)
        {
            let rounded = given.rounded_up_to_milli();
            if rounded != given {
                *text = rounded.to_string();
            }
        }
    }
}

/// Whether an amount may be finer than a thousandth, without parsing it. Most amounts are whole numbers or thousandths.
fn may_be_finer(amount: &str) -> bool {
    amount.bytes().any(|byte| matches!(byte, b'.' | b'n' | b'u' | b'e' | b'E'))
}

/// Defaults the resources of the pod as a whole, if the spec has any.
pub(super) fn default_of_pod(spec: &mut Fields) {
    let Some(resources) = spec.get("resources").and_then(Value::as_object) else { return };
    if is_zero(resources, "limits") && is_zero(resources, "requests") {
        return;
    }
    let mut huge_pages = sum(spec, "limits", |name| name.starts_with(HUGE_PAGES));
    let requests = sum(spec, "requests", |name| matches!(name, "cpu" | "memory"));
    let Some(resources) = pointer(spec, "resources") else { return };
    if let Some(requested) = resources.get("requests").and_then(Value::as_object) {
        huge_pages.retain(|(name, _)| !requested.contains_key(name));
    }
    add(resources, "limits", huge_pages);
    let Some(limits) = resources.get("limits").and_then(Value::as_object).filter(|limits| !limits.is_empty()) else {
        return;
    };
    let limits: Vec<(String, Value)> = limits
        .iter()
        .filter(|(name, _)| is_of_pods(name))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    add(resources, "requests", requests);
    add(resources, "requests", limits);
}

/// Sets the resources of the pod as a whole that a spec leaves out, if it has any, as the strategy of pods does since 1.37
/// (`DefaultPodLevelResources`).
pub(crate) fn prepare(spec: &mut Fields) {
    let has = |spec: &Fields, list: &str, name: &str| {
        spec.get("resources").and_then(|resources| resources.get(list)?.get(name)).is_some()
    };
    let Some(resources) = spec.get("resources").and_then(Value::as_object) else { return };
    if is_zero(resources, "limits") && is_zero(resources, "requests") {
        return;
    }
    // `defaultHugePagePodLevelLimits`
    let huge_pages = |name: &str| name.starts_with(HUGE_PAGES) && !has(spec, "requests", name);
    let limits = sum(spec, "limits", huge_pages);
    add_to(spec, "limits", limits);
    // `defaultPodLevelRequests`
    let requests = sum(spec, "requests", |name| matches!(name, "cpu" | "memory"));
    add_to(spec, "requests", requests);
    let limits = of_pod(spec, "limits");
    add_to(spec, "requests", limits);
    // `defaultPodLevelLimits`: without a limit of each container, the pod has none either.
    let requests = of_pod(spec, "requests");
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let is_limited = |name: &str| {
        let mut all = lists.iter().flat_map(|list| containers(spec, list));
        all.all(|container| container.get("resources").and_then(|all| all.get("limits")?.get(name)).is_some())
    };
    let lacks_limit = |name: &str| !has(spec, "limits", name) && has(spec, "requests", name) && is_limited(name);
    let mut limits = sum(spec, "limits", lacks_limit);
    limits.retain(|(name, _)| is_of_pods(name));
    for (name, limit) in &mut limits {
        let amount = |value: &Value| Quantity::of(Some(value));
        if let Some((_, request)) = requests.iter().find(|(of, request)| of == name && amount(request) > amount(limit))
        {
            *limit = request.clone();
        }
    }
    add_to(spec, "limits", limits);
}

/// The amounts of the pod as a whole that it may have (`IsSupportedPodLevelResource`).
fn of_pod(spec: &Fields, list: &str) -> Vec<(String, Value)> {
    let list = spec.get("resources").and_then(|resources| resources.get(list)).and_then(Value::as_object);
    let supported = list.into_iter().flatten().filter(|(name, _)| is_of_pods(name));
    supported.map(|(name, amount)| (name.clone(), amount.clone())).collect()
}

fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn add_to(spec: &mut Fields, list: &str, amounts: Vec<(String, Value)>) {
    if let Some(resources) = pointer(spec, "resources") {
        add(resources, list, amounts);
    }
}

/// Adds amounts for resources that the list lacks.
fn add(resources: &mut Fields, list: &str, amounts: Vec<(String, Value)>) {
    for (name, amount) in amounts {
        if let Some(list) = embedded(resources, list) {
            list.entry(name).or_insert(amount);
        }
    }
}

/// The resources of a pod's containers (`AggregateContainerRequests`, `AggregateContainerLimits`): the sum of all containers that run
/// together, or the largest init container before them if that is more.
fn sum(spec: &Fields, list: &str, is_counted: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
    let amounts = |container| amounts(container, list).filter(|(name, _)| is_counted(name));
    let mut all = Sums::new();
    for container in containers(spec, "containers") {
        plus(&mut all, amounts(container));
    }
    let (mut beside, mut before) = (Sums::new(), Sums::new());
    for container in containers(spec, "initContainers") {
        if text(container, "restartPolicy") == "Always" {
            plus(&mut all, amounts(container));
            plus(&mut beside, amounts(container));
            at_least(&mut before, &beside);
        } else {
            let mut starting: Sums<'_> = amounts(container).collect();
            plus(&mut starting, beside.iter().map(|(name, sum)| (*name, *sum)));
            at_least(&mut before, &starting);
        }
    }
    at_least(&mut all, &before);
    let written = |sum: Sum<'_>| sum.text.map_or_else(|| sum.amount.to_string(), str::to_owned);
    all.into_iter().map(|(name, sum)| (name.to_owned(), Value::String(written(sum)))).collect()
}

fn containers<'a>(spec: &'a Fields, list: &str) -> impl Iterator<Item = &'a Fields> {
    spec.get(list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn amounts<'a>(container: &'a Fields, list: &str) -> impl Iterator<Item = (&'a str, Sum<'a>)> {
    let list = container.get("resources").and_then(|resources| resources.get(list)).and_then(Value::as_object);
    list.into_iter().flatten().filter_map(|(name, amount)| {
        let text = amount.as_str()?;
        Some((name.as_str(), Sum { amount: Quantity::parse(text).ok()?, text: Some(text) }))
    })
}

fn plus<'a>(sums: &mut Sums<'a>, others: impl Iterator<Item = (&'a str, Sum<'a>)>) {
    for (name, other) in others {
        sums.entry(name)
            .and_modify(|sum| *sum = Sum { amount: sum.amount.plus(other.amount), text: None })
            .or_insert(other);
    }
}

fn at_least<'a>(sums: &mut Sums<'a>, others: &Sums<'a>) {
    for (name, other) in others {
        let sum = sums.entry(name).or_insert(*other);
        if other.amount > sum.amount {
            *sum = *other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The resources of the pod as a whole after the strategy.
    fn prepared(resources: Value, containers: Value) -> Value {
        let mut spec = json!({"resources": resources, "containers": containers});
        prepare(spec.as_object_mut().unwrap());
        spec["resources"].take()
    }

    fn container(requests: Value, limits: Value) -> Value {
        json!({"resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn requests_are_those_of_all_containers_and_limits_those_of_containers_that_all_have_one() {
        let limited = |cpu: &str| container(json!({"cpu": cpu, "memory": "1Gi"}), json!({ "cpu": cpu }));
        for (resources, containers, expected) in [
            (json!(null), json!([limited("1")]), json!(null)),
            (json!({}), json!([limited("1")]), json!({})),
            (json!({"requests": {}, "limits": {}}), json!([limited("1")]), json!({"requests": {}, "limits": {}})),
            (
                json!({"requests": {"memory": "4Gi"}}),
                json!([limited("1"), limited("500m")]),
                json!({"requests": {"memory": "4Gi", "cpu": "1500m"}, "limits": {"cpu": "1500m"}}),
            ),
            // One container has no limit of memory, and the other one none of CPU.
            (
                json!({"requests": {"cpu": "1"}}),
                json!([
                    container(json!({"cpu": "1"}), json!({"memory": "1Gi"})),
                    container(json!({}), json!({"cpu": "1"}))
                ]),
                json!({"requests": {"cpu": "1"}}),
            ),
            // The request of the pod is above the limits of its containers.
            (
                json!({"requests": {"cpu": "4"}}),
                json!([limited("1")]),
                json!({"requests": {"cpu": "4", "memory": "1Gi"}, "limits": {"cpu": "4"}}),
            ),
            (
                json!({"limits": {"cpu": "4"}}),
                json!([container(json!({}), json!({}))]),
                json!({"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}),
            ),
            (
                json!({"limits": {"cpu": "4"}}),
                json!([container(json!({"hugepages-2Mi": "2Mi"}), json!({"hugepages-2Mi": "2Mi"}))]),
                json!({"limits": {"cpu": "4", "hugepages-2Mi": "2Mi"}, "requests": {"cpu": "4", "hugepages-2Mi": "2Mi"}}),
            ),
            (
                json!({"requests": {"hugepages-2Mi": "4Mi"}}),
                json!([container(json!({"hugepages-2Mi": "2Mi"}), json!({"hugepages-2Mi": "2Mi"}))]),
                json!({"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}),
            ),
            (
                json!({"requests": {"cpu": "1", "example.com/x": "1"}}),
                json!([container(json!({}), json!({"example.com/x": "1"}))]),
                json!({"requests": {"cpu": "1", "example.com/x": "1"}}),
            ),
        ] {
            assert_eq!(prepared(resources.clone(), containers.clone()), expected, "{resources} {containers}");
            let again = prepared(expected.clone(), containers);
            assert_eq!(again, expected);
        }
    }

    #[test]
    fn init_and_ephemeral_containers_count_and_wrong_types_for_nothing() {
        let one = container(json!({"cpu": "1"}), json!({"cpu": "1"}));
        let two = container(json!({"cpu": "2"}), json!({"cpu": "2"}));
        let of = |init: Value, ephemeral: Value| {
            let mut spec = json!({"resources": {"requests": {"memory": "1Gi"}}, "containers": [one],
                "initContainers": init, "ephemeralContainers": ephemeral});
            prepare(spec.as_object_mut().unwrap());
            (spec["resources"]["requests"]["cpu"].clone(), spec["resources"]["limits"]["cpu"].clone())
        };
        assert_eq!(of(json!([two]), json!([])), (json!("2"), json!("2")));
        assert_eq!(of(json!([]), json!([{}])), (json!("1"), json!(null)));
        assert_eq!(of(json!([{}]), json!([])), (json!("1"), json!(null)));
        let odd = json!({"resources": {"requests": 1, "limits": {"cpu": 5}}, "containers": "x", "initContainers": [1]});
        let mut spec = odd;
        prepare(spec.as_object_mut().unwrap());
    }
}
