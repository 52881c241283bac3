//! FlowSchemas and PriorityLevelConfigurations (`pkg/apis/flowcontrol/validation`).

use super::formats::{label, subdomain};
use super::metadata;
use super::node::{Causes, Node, internal};
use crate::go_text::go_quote;
use std::collections::HashSet;

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const MAX_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
/// `shufflesharding.MaxHashBits`
const MAX_HASH_BITS: u32 = 60;

/// `ValidateFlowSchema`
pub(super) fn flow_schema(object: &Node<'_>, _old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    if subresource == "status" {
        return conditions(object, out);
    }
    metadata::check(object, false, subdomain, out);
    let spec = object.at("spec");
    let precedence = spec.at("matchingPrecedence");
    let number = precedence.int();
    if number <= 0 {
        out.int(&precedence, "must be a positive value");
    }
    if number > MAX_PRECEDENCE {
        out.int(&precedence, &format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if number == 1 && object.under(&["metadata", "name"]).text() != "exempt" {
        out.int(&precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.at("distinguisherMethod").given() {
        let kind = method.at("type");
        if !matches!(kind.text(), "ByNamespace" | "ByUser") {
            out.unsupported(&kind, internal(&method, "Type:type"), &["ByNamespace", "ByUser"]);
        }
    }
    let level = spec.under(&["priorityLevelConfiguration", "name"]);
    if level.is_empty() {
        out.required(&level, "must reference a priority level");
    } else {
        out.texts(&level, subdomain(level.text(), false));
    }
    spec.at("rules").items().for_each(|rule| self::rule(&rule, out));
    conditions(object, out);
}

fn conditions(object: &Node<'_>, out: &mut Causes) {
    let mut known = HashSet::new();
    for kind in object.under(&["status", "conditions"]).items().map(|condition| condition.at("type")) {
        if !known.insert(kind.text()) {
            out.duplicate(&kind);
        }
        out.require(&kind);
    }
}

/// `ValidateFlowSchemaPolicyRulesWithSubjects`
fn rule(rule: &Node<'_>, out: &mut Causes) {
    let subjects = rule.at("subjects");
    if subjects.is_empty() {
        out.required(&subjects, "subjects must contain at least one value");
    }
    subjects.items().for_each(|subject| self::subject(&subject, out));
    let (resources, others) = (rule.at("resourceRules"), rule.at("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        out.required(rule, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for rule in resources.items() {
        verbs(&rule.at("verbs"), out);
        for (field, what, one) in [("apiGroups", "api groups", "api group"), ("resources", "resources", "resource")] {
            let list = rule.at(field);
            if list.is_empty() {
                out.required(&list, &format!("resource rules must supply at least one {one}"));
            } else {
                alone(&list, what, out);
            }
        }
        namespaces(&rule, out);
    }
    for rule in others.items() {
        verbs(&rule.at("verbs"), out);
        let urls = rule.at("nonResourceURLs");
        if urls.is_empty() {
            out.required(&urls, "nonResourceURLs must contain at least one value");
        } else if !alone(&urls, "non-resource URLs", out) {
            urls.items().for_each(|url| self::url(&url, out));
        }
    }
}

/// The error of other values beside a wildcard. Returns whether there is a wildcard.
fn alone(list: &Node<'_>, what: &str, out: &mut Causes) -> bool {
    let has_wildcard = list.has_text("*");
    if has_wildcard && list.len() > 1 {
        out.value(list, &format!("if '*' is present, must not specify other {what}"));
    }
    has_wildcard
}

fn verbs(verbs: &Node<'_>, out: &mut Causes) {
    if verbs.is_empty() {
        out.required(verbs, "verbs must contain at least one value");
    } else if !alone(verbs, "verbs", out) && !verbs.texts().all(|verb| VERBS.contains(&verb)) {
        out.unsupported(verbs, crate::go_text::json::text(verbs.value()), &VERBS);
    }
}

fn namespaces(rule: &Node<'_>, out: &mut Causes) {
    let namespaces = rule.at("namespaces");
    if namespaces.is_empty() && !rule.at("clusterScope").is_true() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        out.required(&namespaces, why);
    } else if !alone(&namespaces, "namespaces", out) {
        for namespace in namespaces.items() {
            for why in label(namespace.text(), false) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {why}");
                out.text(&namespace, &why);
            }
        }
    }
}

/// `ValidateNonResourceURLPath`
fn url(url: &Node<'_>, out: &mut Causes) {
    let text = url.text();
    let wildcards = text.matches('*').count();
    let why = match text {
        "" => "must not be empty",
        "/" => return,
        _ if !text.starts_with('/') => "must start with slash",
        _ if text.contains(' ') => "must not contain white-space",
        _ if text.contains("//") => "must not contain double slash",
        _ if wildcards > 1 || (wildcards == 1 && !text.ends_with("/*")) => "wildcard can only do suffix matching",
        _ => return,
    };
    out.text(url, why);
}

/// `ValidateFlowSchemaSubject`
fn subject(subject: &Node<'_>, out: &mut Causes) {
    const KINDS: [(&str, &str); 3] = [("user", "User"), ("group", "Group"), ("serviceAccount", "ServiceAccount")];
    let kind = subject.at("kind");
    let Some((own, _)) = KINDS.iter().find(|(_, name)| *name == kind.text()) else {
        return out.unsupported(&kind, go_quote(kind.text()), &["Group", "ServiceAccount", "User"]);
    };
    let node = subject.at(own);
    if !node.is_given() {
        out.required(&node, &format!("{own} is required when subject kind is '{}'", kind.text()));
    } else if out.require(&node.at("name")) && *own == "serviceAccount" && node.at("name").text() != "*" {
        out.texts(&node.at("name"), subdomain(node.at("name").text(), false));
    }
    if *own == "serviceAccount" && node.is_given() {
        let namespace = node.at("namespace");
        if namespace.is_empty() {
            out.required(&namespace, "must specify namespace for service account");
        } else {
            out.texts(&namespace, label(namespace.text(), false));
        }
    }
    for (field, name) in KINDS.into_iter().filter(|(field, _)| field != own) {
        if subject.at(field).is_given() {
            let why = format!("{field} is forbidden when subject kind is not '{name}'");
            out.forbidden(&subject.at(field), &why);
        }
    }
}

/// `ValidatePriorityLevelConfiguration`
pub(super) fn priority_level(object: &Node<'_>, _old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    if subresource == "status" {
        return conditions(object, out);
    }
    metadata::check(object, false, subdomain, out);
    let spec = object.at("spec");
    let (kind, limited, exempt) = (spec.at("type"), spec.at("limited"), spec.at("exempt"));
    let is_exempt = object.under(&["metadata", "name"]).text() == "exempt";
    if is_exempt != (kind.text() == "Exempt") {
        out.text(&kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_given() {
                out.forbidden(&limited, "must be nil if the type is not Limited");
            }
            shares(&exempt, out);
        }
        "Limited" => {
            if exempt.is_given() {
                out.forbidden(&exempt, "must be nil if the type is Limited");
            }
            if limited.is_given() {
                self::limited(&limited, out);
            } else {
                out.required(&limited, "must not be empty when type is Limited");
            }
        }
        _ => out.required_one_of(&kind, &["Exempt", "Limited"]),
    }
    conditions(object, out);
}

fn shares(level: &Node<'_>, out: &mut Causes) {
    if level.at("nominalConcurrencyShares").int() < 0 {
        out.int(&level.at("nominalConcurrencyShares"), "must be a non-negative integer");
    }
    if level.at("lendablePercent").is_given() {
        out.in_range(&level.at("lendablePercent"), 0, 100);
    }
}

/// `ValidateLimitedPriorityLevelConfiguration`
fn limited(level: &Node<'_>, out: &mut Causes) {
    shares(level, out);
    let response = level.at("limitResponse");
    let queuing = response.at("queuing");
    match response.at("type").text() {
        "Reject" => {
            if queuing.is_given() {
                out.forbidden(&queuing, "must be nil if limited.limitResponse.type is not Limited");
            }
        }
        "Queue" if !queuing.is_given() => {
            out.required(&queuing, "must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => self::queuing(&queuing, out),
        _ => out.required_one_of(&response.at("type"), &["Queue", "Reject"]),
    }
    if level.at("borrowingLimitPercent").int() < 0 {
        out.int(&level.at("borrowingLimitPercent"), "if specified, must be a non-negative integer");
    }
}

/// `ValidatePriorityLevelQueuingConfiguration`
fn queuing(queuing: &Node<'_>, out: &mut Causes) {
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|field| queuing.at(field));
    for field in [&length, &queues].into_iter().filter(|field| field.int() <= 0) {
        out.int(field, "must be positive");
    }
    if queues.int() > MAX_QUEUES {
        out.int(&queues, &format!("must not be greater than {MAX_QUEUES}"));
    }
    let (deck, size) = (queues.int(), hand.int());
    if size <= 0 {
        return out.int(&hand, "must be positive");
    }
    if size > deck {
        return out.int(&hand, &format!("should not be greater than queues ({deck})"));
    }
    // `shufflesharding.RequiredEntropyBits`
    let bits: f64 = (deck - size + 1..=deck).map(|cards| (cards as f64).log2()).sum();
    if bits.ceil() > f64::from(MAX_HASH_BITS) {
        let why = format!(
            "required entropy bits of deckSize {deck} and handSize {size} should not be greater than {MAX_HASH_BITS}"
        );
        out.int(&hand, &why);
    }
}
