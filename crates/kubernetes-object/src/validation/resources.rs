//! Quantities of resources, and the names of resources (`pkg/apis/core/helper`).

use super::formats::label_text;
use super::node::{Causes, Node};
use crate::go_text::go_quote;
use crate::names::{is_qualified_name, qualified_name_errors};
use crate::quantity::Quantity;
use std::collections::{BTreeSet, HashMap, HashSet};

const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const INTEGER: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const QUOTA: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// `IsHugePageResourceName`
pub(super) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// `IsStandardQuotaResourceName`
pub(super) fn is_quota(name: &str) -> bool {
    QUOTA.contains(&name) || INTEGER.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// `IsStandardResourceName`
fn is_standard(name: &str) -> bool {
    is_quota(name) || name == "storage"
}

/// `IsNativeResource`
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// `IsExtendedResourceName`
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && is_qualified_name(&format!("requests.{name}"))
}

/// `IsOvercommitAllowed`
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// `validateResourceName`
pub(super) fn resource_name(name: &str, node: &Node<'_>, out: &mut Causes) -> bool {
    let errors = qualified_name_errors(name);
    errors.iter().for_each(|why| out.invalid(node, go_quote(name), why));
    if errors.is_empty() && !name.contains('/') && !is_standard(name) {
        out.invalid(node, go_quote(name), "must be a standard resource type or fully qualified");
        return false;
    }
    errors.is_empty()
}

/// `validateContainerResourceName`
pub(super) fn container_resource_name(name: &str, node: &Node<'_>, out: &mut Causes) {
    resource_name(name, node, out);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !is_huge_pages(name) {
            out.invalid(node, go_quote(name), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        out.invalid(node, go_quote(name), "doesn't follow extended resource name standard");
    }
}

/// `validatePodResourceName`
pub(super) fn pod_resource_name(name: &str, node: &Node<'_>, out: &mut Causes) {
    if resource_name(name, node, out) && !["cpu", "memory"].contains(&name) && !is_huge_pages(name) {
        out.unsupported(node, go_quote(name), &["cpu", "hugepages-", "memory"]);
    }
}

/// `ValidateResourceQuotaResourceName`
pub(super) fn quota_resource_name(name: &str, node: &Node<'_>, out: &mut Causes) {
    resource_name(name, node, out);
    if !name.contains('/') && !is_quota(name) {
        out.invalid(node, go_quote(name), "must be a standard resource for quota");
    }
}

/// `ValidateNonnegativeQuantity`
pub(super) fn non_negative(quantity: &Node<'_>, out: &mut Causes) {
    if quantity.quantity().is_negative() {
        out.invalid(quantity, go_quote(&quantity.quantity_text()), "must be greater than or equal to 0");
    }
}

/// `ValidatePositiveQuantityValue`
pub(super) fn positive(quantity: &Node<'_>, out: &mut Causes) -> bool {
    let is_positive = quantity.quantity() > Quantity::whole(0);
    if !is_positive {
        out.invalid(quantity, go_quote(&quantity.quantity_text()), "must be greater than zero");
    }
    is_positive
}

/// `validateBasicResource`
pub(super) fn basic(quantity: &Node<'_>, out: &mut Causes) {
    if quantity.quantity().value() < 0 {
        out.invalid(quantity, quantity.quantity().value(), "must be a valid resource quantity");
    }
}

/// `ValidateResourceQuantityValue`
pub(super) fn quantity_value(name: &str, quantity: &Node<'_>, out: &mut Causes) {
    non_negative(quantity, out);
    if (INTEGER.contains(&name) || is_extended(name)) && quantity.quantity().milli_value() % 1000 != 0 {
        out.invalid(quantity, go_quote(&quantity.quantity_text()), "must be an integer");
    }
}

fn huge_pages(name: &str, quantity: &Node<'_>, out: &mut Causes) {
    let size = Quantity::parse(name.trim_start_matches("hugepages-")).unwrap_or(Quantity::whole(0));
    let is_whole = size > Quantity::whole(0) && size.milli_value() % 1000 == 0;
    if !is_whole || quantity.quantity().value() % size.value() != 0 {
        let text = quantity.quantity_text();
        out.invalid(quantity, go_quote(&text), &format!("{text} is not positive integer multiple of {name}"));
    }
}

/// A rule of resource names.
pub(super) type NameRule = fn(&str, &Node<'_>, &mut Causes);

/// `validateResourceRequirements`. `claims` are the names of the pod's resource claims.
pub(super) fn requirements(requirements: &Node<'_>, names: NameRule, claims: &BTreeSet<&str>, out: &mut Causes) {
    let (limits, requests) = (requirements.at("limits"), requirements.at("requests"));
    let (mut has_compute, mut has_huge_pages) = (false, false);
    let mut common = |name: &str, quantity: &Node<'_>, out: &mut Causes| {
        names(name, quantity, out);
        quantity_value(name, quantity, out);
        has_compute |= matches!(name, "cpu" | "memory");
        has_huge_pages |= is_huge_pages(name);
    };
    for (name, quantity) in limits.entries() {
        common(name, &quantity, out);
        if is_huge_pages(name) {
            huge_pages(name, &quantity, out);
        }
    }
    for (name, quantity) in requests.entries() {
        common(name, &quantity, out);
        let limit = limits.key(name);
        let shown = go_quote(&quantity.quantity_text());
        if limit.is_given() {
            let of = format!("{name} limit of {}", limit.quantity_text());
            if quantity.quantity() != limit.quantity() && !may_overcommit(name) {
                out.invalid(&requests, shown, &format!("must be equal to {of}"));
            } else if quantity.quantity() > limit.quantity() {
                out.invalid(&requests, shown, &format!("must be less than or equal to {of}"));
            }
        } else if !may_overcommit(name) {
            out.required(&limits, "Limit must be set for non overcommitable resources");
        }
        if is_huge_pages(name) {
            huge_pages(name, &quantity, out);
        }
    }
    if has_huge_pages && !has_compute {
        out.forbidden(requirements, "HugePages require cpu or memory");
    }
    claim_names(&requirements.at("claims"), claims, out);
}

/// `validateResourceClaimNames`
fn claim_names(list: &Node<'_>, claims: &BTreeSet<&str>, out: &mut Causes) {
    let mut known: HashSet<String> = HashSet::new();
    // The known keys of a name with a request.
    let mut with_requests: HashMap<String, usize> = HashMap::new();
    for claim in list.items() {
        let (name, request) = (claim.at("name").text(), claim.at("request").text());
        if name.is_empty() {
            out.required(&claim, "");
            continue;
        }
        let mut key = name.to_owned();
        if known.contains(name) {
            out.duplicate_of(&claim, go_quote(name));
        } else {
            if !request.is_empty() {
                label_text(&claim.at("request"), out);
                key = format!("{name}/{request}");
            }
            if known.contains(&key) {
                out.duplicate_of(&claim, go_quote(&key));
            } else if request.is_empty() {
                let same = with_requests.get(name).copied().unwrap_or_default();
                out.repeat(same, |out| out.duplicate_of(&claim, go_quote(name)));
            }
            let name = key.split_once('/').map(|(name, _)| name.to_owned());
            if known.insert(key)
                && let Some(name) = name
            {
                *with_requests.entry(name).or_default() += 1;
            }
        }
        if !claims.contains(name) {
            out.not_found_because(&claim.at("name").on(&claim), || {
                let all: Vec<_> = claims.iter().copied().collect();
                let rest = if all.is_empty() { " which is empty".to_owned() } else { format!(": {}", all.join(", ")) };
                format!("must be one of the names in pod.spec.resourceClaims{rest}")
            });
        }
    }
}
