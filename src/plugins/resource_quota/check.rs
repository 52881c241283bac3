//! Checks one request against the quotas of its namespace (`CheckRequest`).

use super::evaluator::{Evaluator, Gates, Subject};
use super::pods::MUST_BE_SAID;
use super::quotas::Quota;
use super::scopes::Selector;
use crate::admission::Denial;
use crate::cluster::Cluster;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::{ResourceList, add};
use std::collections::{BTreeMap, BTreeSet};

/// The data of a request that quotas need.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) evaluator: Evaluator,
    pub(super) new: Subject,
    pub(super) previous: Previous,
    /// The resource names that a quota must cover.
    pub(super) limited_names: BTreeSet<String>,
    /// The scopes that a quota must cover.
    pub(super) limited_scopes: Vec<Selector>,
    /// Whether the request is a dry run, which is not charged.
    pub(super) dry_run: bool,
    /// True if the caller is known to have the permission for the request. If false, no quota is charged.
    pub(super) is_authorized: bool,
    /// Whether the request updates the status, which is charged whatever the limits.
    pub(super) is_status: bool,
}

/// The state that was charged before.
#[derive(Debug)]
pub(super) enum Previous {
    /// None, because the request is a create.
    None,
    /// The old object.
    Billed(Subject),
    /// None, because the update creates the object.
    Unbilled,
    /// Unknown, because the old object is missing.
    Lost,
}

/// The charge of a request to a quota.
#[derive(Debug, PartialEq)]
pub(super) struct Charge {
    /// The index of the quota.
    pub(super) index: usize,
    /// The usage after the charge.
    pub(super) used: ResourceList,
}

/// Returns the request's charges; empty if the request does not change any quota.
pub(super) fn check(
    quotas: &[Quota],
    request: &Request,
    cluster: &Cluster,
    gates: &Gates,
) -> Result<Vec<Charge>, Denial> {
    let applying = Applying::find(quotas, request, cluster, gates)?;
    let negative: Vec<&str> =
        request.new.usage.iter().filter(|(_, quantity)| quantity.is_negative()).map(|(name, _)| &**name).collect();
    if !negative.is_empty() {
        let names = negative.join(",");
        return Err(Denial::forbidden(format!("quota usage is negative for resource(s): {names}")));
    }
    let deltas = applying.deltas(quotas, request)?;
    if deltas.is_empty() {
        return Ok(Vec::new());
    }
    applying.cover(request)?;
    let mut charges = Vec::new();
    for (index, delta) in deltas {
        let Some(quota) = index.and_then(|index| quotas.get(index)).filter(|quota| !quota.is_settled) else { continue };
        let requested = mask(&delta, |name| quota.hard.contains_key(name));
        if requested.is_empty() {
            continue;
        }
        let mut used = quota.used.clone();
        add(&mut used, &requested);
        if !request.is_status {
            within(quota, &requested, &used)?;
        }
        charges.extend(index.map(|index| Charge { index, used }));
    }
    Ok(charges)
}

/// The quotas that apply to a request.
#[derive(Default)]
struct Applying {
    indexes: Vec<usize>,
    /// The resource names that the quotas count for the request's resource.
    names: BTreeSet<String>,
    /// The scopes that match the object, of all quotas, even of quotas that do not apply for another reason.
    scopes: BTreeSet<String>,
}

impl Applying {
    fn find(quotas: &[Quota], request: &Request, cluster: &Cluster, gates: &Gates) -> Result<Self, Denial> {
        let mut applying = Self::default();
        for (index, quota) in quotas.iter().enumerate() {
            let mut is_in_scope = true;
            for selector in &quota.scopes {
                let matches = selector.matches(&request.new.scoped).map_err(|why| {
                    let name = &quota.name;
                    let why = format!("error on matching scope {selector}: {why}");
                    Denial::Plain(format!("error matching scopes of quota {name}, err: {why}"))
                })?;
                is_in_scope &= matches;
                applying.scopes.extend(matches.then(|| selector.name.clone()));
            }
            let names = request.evaluator.matching(quota.hard.keys(), cluster, gates);
            if !is_in_scope || names.is_empty() {
                continue;
            }
            if !quota.is_settled {
                constrain(quota, &names, &request.new)?;
                if names.iter().any(|name| !quota.used.contains_key(name)) {
                    let names: Vec<String> = names.into_iter().collect();
                    let (quota, names) = (&quota.name, names.join(","));
                    let why = format!("status unknown for quota: {quota}, resources: {names}");
                    return Err(Denial::forbidden(why));
                }
            }
            applying.indexes.push(index);
            applying.names.extend(names);
        }
        Ok(applying)
    }

    /// The usage that the request adds to each quota. The index is `None` if no quota applies. Empty additions are left out.
    fn deltas(&self, quotas: &[Quota], request: &Request) -> Result<Vec<(Option<usize>, ResourceList)>, Denial> {
        let whole = added(&request.new.usage, &ResourceList::new());
        let (change, before) = match &request.previous {
            Previous::None | Previous::Unbilled => (None, None),
            Previous::Billed(old) => (Some(added(&request.new.usage, &old.usage)), Some(old)),
            Previous::Lost => {
                let why = "unable to get previous usage since prior version of object was not found";
                return Err(Denial::forbidden(why));
            }
        };
        // An object that was outside the quota's scope has not been charged to the quota.
        let was_in_scope = |quota: &Quota| {
            before.is_some_and(|old| quota.scopes.iter().all(|scope| scope.matches(&old.scoped).unwrap_or(false)))
        };
        let of = |index: &usize| match (&change, quotas.get(*index)) {
            (Some(change), Some(quota)) if was_in_scope(quota) => change,
            _ => &whole,
        };
        let mut deltas: Vec<(Option<usize>, ResourceList)> =
            self.indexes.iter().map(|index| (Some(*index), of(index).clone())).collect();
        if deltas.is_empty() {
            deltas.push((None, change.unwrap_or(whole)));
        }
        deltas.retain(|(_, delta)| !delta.is_empty());
        Ok(deltas)
    }

    /// Checks that quotas cover the resources and scopes that require a quota.
    fn cover(&self, request: &Request) -> Result<(), Denial> {
        let uncovered: Vec<&str> = request.limited_names.difference(&self.names).map(String::as_str).collect();
        if !uncovered.is_empty() {
            return Err(Denial::forbidden(format!("insufficient quota to consume: {}", uncovered.join(","))));
        }
        let uncovered = request.limited_scopes.iter().filter(|selector| !self.scopes.contains(&selector.name));
        let uncovered: Vec<String> = uncovered.map(Selector::to_string).collect();
        match uncovered.is_empty() {
            true => Ok(()),
            // In kube-apiserver, this error is not a Status.
            false => Err(Denial::Plain(format!("insufficient quota to match these scopes: [{}]", uncovered.join(" ")))),
        }
    }
}

/// Checks that every container specifies the resources that the quota counts (`podEvaluator.Constraints`).
fn constrain(quota: &Quota, counted: &BTreeSet<String>, object: &Subject) -> Result<(), Denial> {
    let mut silent: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (container, said) in &object.containers {
        for name in counted.difference(said).filter(|name| MUST_BE_SAID.contains(&&***name)) {
            silent.entry(name).or_default().insert(container);
        }
    }
    if silent.is_empty() {
        return Ok(());
    }
    let join = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
    let silent = silent.into_iter().map(|(name, containers)| format!("{name} for: {}", join(containers)));
    let silent: Vec<String> = silent.collect();
    Err(Denial::forbidden(format!("failed quota: {}: must specify {}", quota.name, silent.join("; "))))
}

/// Checks that the new usage of the requested resources is within the quota.
fn within(quota: &Quota, requested: &ResourceList, used: &ResourceList) -> Result<(), Denial> {
    let exceeds = |name: &str| used.get(name) > quota.hard.get(name);
    let print = |list: &ResourceList| {
        let exceeded = list.iter().filter(|(name, _)| requested.contains_key(*name) && exceeds(name));
        exceeded.map(|(name, quantity)| format!("{name}={quantity}")).collect::<Vec<_>>().join(",")
    };
    if !requested.keys().any(|name| exceeds(name)) {
        return Ok(());
    }
    Err(Denial::forbidden(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        print(requested),
        print(&quota.used),
        print(&quota.hard)
    )))
}

/// The increase of the usage (`SubtractWithNonNegativeResult`, `RemoveZeros`).
fn added(usage: &ResourceList, before: &ResourceList) -> ResourceList {
    let differences = usage.iter().map(|(name, quantity)| {
        let more = before.get(name).map_or(*quantity, |before| quantity.minus(*before));
        (name.clone(), more)
    });
    differences.filter(|(_, quantity)| *quantity > Quantity::ZERO).collect()
}

fn mask(list: &ResourceList, keep: impl Fn(&str) -> bool) -> ResourceList {
    list.iter().filter(|(name, _)| keep(name)).map(|(name, quantity)| (name.clone(), *quantity)).collect()
}
