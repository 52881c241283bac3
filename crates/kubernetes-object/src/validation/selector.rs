//! Selectors of labels and of nodes.

use super::formats::subdomain;
use super::metadata::labels;
use super::node::{Causes, Node};
use crate::names::{label_value_errors, qualified_name_errors};
use crate::selector::LabelSelector;

/// `ValidateLabelSelector`. Old objects may have values that are no labels' values.
pub(super) fn label_selector(selector: &Node<'_>, allows_any_value: bool, out: &mut Causes) {
    labels(&selector.at("matchLabels"), out);
    for requirement in selector.at("matchExpressions").items() {
        let values = requirement.at("values");
        match (requirement.at("operator").text(), values.is_empty()) {
            ("In" | "NotIn", true) => out.required(&values, "must be specified when `operator` is 'In' or 'NotIn'"),
            ("Exists" | "DoesNotExist", false) => {
                out.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => out.text(&requirement.at("operator"), "not a valid selector operator"),
        }
        label_key(&requirement.at("key"), out);
        if !allows_any_value {
            values.items().for_each(|value| out.texts(&value, label_value_errors(value.text())));
        }
    }
}

/// `ValidateLabelName`
pub(super) fn label_key(key: &Node<'_>, out: &mut Causes) {
    out.texts(key, qualified_name_errors(key.text()));
}

/// Whether [`label_selector`] finds an error.
pub(super) fn is_invalid(selector: &Node<'_>) -> bool {
    let mut out = Causes::default();
    label_selector(selector, false, &mut out);
    !out.is_empty()
}

/// Whether a selector has no requirements (`len(MatchLabels)+len(MatchExpressions) == 0`).
pub(super) fn is_empty(selector: &Node<'_>) -> bool {
    selector.at("matchLabels").is_empty() && selector.at("matchExpressions").is_empty()
}

/// `metav1.LabelSelectorAsSelector`; `None` for an invalid selector.
pub(super) fn parsed(selector: &Node<'_>) -> Option<LabelSelector> {
    LabelSelector::from_json(selector.given().map(|selector| selector.value())).ok()
}

/// `ValidateNodeSelectorTerm`
pub(super) fn node_selector_term(term: &Node<'_>, allows_any_value: bool, out: &mut Causes) {
    for requirement in term.at("matchExpressions").items() {
        let values = requirement.at("values");
        match (requirement.at("operator").text(), values.len()) {
            ("In" | "NotIn", 0) => out.required(&values, "must be specified when `operator` is 'In' or 'NotIn'"),
            ("Exists" | "DoesNotExist", 1..) => {
                out.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            ("Gt" | "Lt", 0 | 2..) => {
                out.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
            _ => out.text(&requirement.at("operator"), "not a valid selector operator"),
        }
        label_key(&requirement.at("key"), out);
        if !allows_any_value {
            values.items().for_each(|value| out.texts(&value, label_value_errors(value.text())));
        }
    }
    for requirement in term.at("matchFields").items() {
        let values = requirement.at("values");
        match (requirement.at("operator").text(), values.len()) {
            ("In" | "NotIn", 1) => {}
            ("In" | "NotIn", _) => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                out.required(&values, why);
            }
            _ => out.text(&requirement.at("operator"), "not a valid selector operator"),
        }
        match requirement.at("key").text() {
            "metadata.name" => values.items().for_each(|value| out.texts(&value, subdomain(value.text(), false))),
            _ => out.text(&requirement.at("key"), "not a valid field selector key"),
        }
    }
}

/// `ValidateNodeSelector`
pub(super) fn node_selector(selector: &Node<'_>, allows_any_value: bool, out: &mut Causes) {
    let terms = selector.at("nodeSelectorTerms");
    if terms.is_empty() {
        out.required(&terms, "must have at least one node selector term");
    }
    terms.items().for_each(|term| node_selector_term(&term, allows_any_value, out));
}
