//! Disruption budgets.

use crate::defaults::fields::{Fields, is_zero, pointer};
use crate::release;
use serde_json::{Value, json};

/// The key of an expression that stands for an empty selector of v1beta1 (`policy.PDBV1beta1Label`).
const EMPTY_SELECTOR: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// Until 1.36; the strategy does it since.
pub(super) fn make(object: &mut Fields) {
    if !release::since(37) {
        strip_empty_selector(object);
    }
}

/// Removes the expression from the selector of a budget, unless it is the whole selector.
pub(crate) fn strip_empty_selector(object: &mut Fields) {
    pointer(object, "spec").and_then(|spec| pointer(spec, "selector")).map(strip);
}

/// Removes the expression unless it is the whole selector (`StripPDBV1beta1Label`).
fn strip(selector: &mut Fields) {
    let has_labels = !is_zero(selector, "matchLabels");
    let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") else { return };
    let alone = json!([{ "key": EMPTY_SELECTOR, "operator": "Exists" }]);
    if !has_labels && alone.as_array() == Some(expressions) {
        return;
    }
    expressions.retain(|expression| expression.get("key").and_then(Value::as_str) != Some(EMPTY_SELECTOR));
    if expressions.is_empty() {
        selector.remove("matchExpressions");
    }
}
