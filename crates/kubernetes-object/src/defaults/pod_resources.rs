//! Amounts of resources: amounts are rounded up to thousandths, and the requests and limits of a whole pod are partly defaulted from its
//! containers (`defaultPodRequests`, `defaultHugePagePodLimits`).

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
        .filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory") || name.starts_with(HUGE_PAGES))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    add(resources, "requests", requests);
    add(resources, "requests", limits);
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
fn sum(spec: &Fields, list: &str, is_counted: fn(&str) -> bool) -> Vec<(String, Value)> {
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
