//! Affinity, tolerations and topology spread constraints.

use super::super::formats::label;
use super::super::node::{Causes, Node};
use super::super::selector::{label_key, label_selector, node_selector, node_selector_term};
use crate::go_text::go_quote;
use crate::names::label_value_errors;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `validateAffinity`
pub(super) fn affinity(affinity: &Node<'_>, allows_any_value: bool, out: &mut Causes) {
    let nodes = affinity.at("nodeAffinity");
    if let Some(selector) = nodes.at(REQUIRED).given() {
        node_selector(&selector, allows_any_value, out);
    }
    for term in nodes.at(PREFERRED).items() {
        weight(&term.at("weight"), out);
        node_selector_term(&term.at("preference"), true, out);
    }
    for pods in ["podAffinity", "podAntiAffinity"].map(|field| affinity.at(field)) {
        pods.at(REQUIRED).items().for_each(|term| pod_term(&term, allows_any_value, out));
        for term in pods.at(PREFERRED).items() {
            weight(&term.at("weight"), out);
            pod_term(&term.at("podAffinityTerm"), allows_any_value, out);
        }
    }
}

fn weight(weight: &Node<'_>, out: &mut Causes) {
    if !(1..=100).contains(&weight.int()) {
        out.int(weight, "must be in the range 1-100");
    }
}

/// `validatePodAffinityTerm`
fn pod_term(term: &Node<'_>, allows_any_value: bool, out: &mut Causes) {
    label_selector(&term.at("labelSelector"), allows_any_value, out);
    label_selector(&term.at("namespaceSelector"), allows_any_value, out);
    for namespace in term.at("namespaces").items() {
        out.texts(&namespace.named(term, "namespace"), label(namespace.text(), false));
    }
    label_keys(term, true, out);
    let key = term.at("topologyKey");
    if key.is_empty() {
        out.required(&key, "can not be empty");
    }
    label_key(&key, out);
}

/// `ValidateMatchLabelKeysAndMismatchLabelKeys`
fn label_keys(term: &Node<'_>, has_mismatch: bool, out: &mut Causes) {
    let selector = term.at("labelSelector");
    let (matched, mismatched) = (term.at("matchLabelKeys"), term.at("mismatchLabelKeys"));
    for keys in [Some(&matched), Some(&mismatched).filter(|_| has_mismatch)].into_iter().flatten() {
        if keys.is_empty() {
            continue;
        }
        if selector.is_given() {
            keys.items().for_each(|key| label_key(&key, out));
        } else {
            out.forbidden(keys, "must not be specified when labelSelector is not set");
        }
    }
    let mut known: HashSet<&str> = selector.at("matchLabels").entries().map(|(key, _)| key).collect();
    // The last one of equal keys counts.
    let places: HashMap<&str, usize> = matched.texts().zip(0..).collect();
    for requirement in selector.at("matchExpressions").items() {
        let key = requirement.at("key").text();
        if let Some(index) = places.get(key)
            && known.contains(key)
        {
            out.invalid(&term.item(*index), go_quote(key), "exists in both matchLabelKeys and labelSelector");
        }
        known.insert(key);
    }
    if has_mismatch {
        let mismatched: HashSet<&str> = mismatched.texts().collect();
        for key in matched.items().filter(|key| mismatched.contains(key.text())) {
            out.text(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// `validateTopologySpreadConstraints`
pub(super) fn spread(constraints: &Node<'_>, out: &mut Causes) {
    const POLICIES: [&str; 2] = ["Honor", "Ignore"];
    // The number of constraints that are left, the current one included.
    let mut left: HashMap<[&str; 2], usize> = HashMap::new();
    for constraint in constraints.items() {
        let [key, action] = ["topologyKey", "whenUnsatisfiable"].map(|field| constraint.at(field).text());
        *left.entry([key, action]).or_default() += 1;
    }
    for constraint in constraints.items() {
        let constraint = &constraint;
        let (key, action) = (constraint.at("topologyKey"), constraint.at("whenUnsatisfiable"));
        out.positive(&constraint.at("maxSkew"));
        if key.is_empty() {
            out.required(&key, "can not be empty");
        }
        out.one_of(&action, &["DoNotSchedule", "ScheduleAnyway"]);
        let same = left.entry([key.text(), action.text()]).or_default();
        *same = same.saturating_sub(1);
        if *same > 0 {
            let text = format!("{{{}, {}}}", key.text(), action.text());
            out.duplicate_of(&constraint.at("{topologyKey, whenUnsatisfiable}"), go_quote(&text));
        }
        if let Some(domains) = constraint.at("minDomains").given() {
            out.positive(&domains);
            if action.text() != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", action.text());
                out.int(&domains, &why);
            }
        }
        out.one_of_if_given(&constraint.at("nodeAffinityPolicy"), &POLICIES);
        out.one_of_if_given(&constraint.at("nodeTaintsPolicy"), &POLICIES);
        label_keys(constraint, false, out);
        label_selector(&constraint.at("labelSelector"), false, out);
    }
}

/// `ValidateTolerations`
pub(in super::super) fn tolerations(tolerations: &Node<'_>, out: &mut Causes) {
    for toleration in tolerations.items() {
        let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|field| toleration.at(field));
        if !key.is_empty() {
            label_key(&key, out);
        } else if operator.text() != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            out.text(&operator, why);
        }
        if toleration.at("tolerationSeconds").is_given() && effect.text() != "NoExecute" {
            out.text(&effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator.text() {
            "Equal" | "" => {
                let errors = label_value_errors(value.text());
                if !errors.is_empty() {
                    out.text(&value.on(&operator), &errors.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    out.text(&value.on(&operator), "value must be empty when `operator` is 'Exists'");
                }
            }
            "Lt" | "Gt" => compared_value(&value, out),
            _ => drop(out.one_of(&operator, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            out.one_of(&effect, &EFFECTS);
        }
    }
}

/// `content.IsDecimalInteger`, and the range of the number.
fn compared_value(value: &Node<'_>, out: &mut Causes) {
    let text = value.text();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_led = digits.len() > 1 && digits.starts_with('0') || text == "-0";
    if text.is_empty() {
        out.text(value, "must be non-empty");
    } else if !is_number || is_led {
        out.text(value, "must be a valid decimal integer in canonical form");
    }
    if text.parse::<i64>().is_err() {
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        out.text(value, &format!("strconv.ParseInt: parsing {}: {why}", go_quote(text)));
    }
}

/// `validateTaintEffect` of a taint.
pub(in super::super) fn taint_effect(effect: &Node<'_>, out: &mut Causes) {
    out.required_one_of(effect, &EFFECTS);
}

/// Returns true if the required node affinity has a value that is not a valid label value. An update of such a pod may keep the value.
pub(super) fn has_invalid_values(spec: &Value) -> bool {
    let spec = Node::root(spec);
    let terms = spec.under(&["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"]);
    let expressions = terms.items().flat_map(|term| term.at("matchExpressions").items());
    expressions.flat_map(|each| each.at("values").texts()).any(|value| !label_value_errors(value).is_empty())
}
