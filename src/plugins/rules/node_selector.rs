//! The nodes that a node selector selects (`nodeaffinity.NodeSelector`).

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

/// The reason why a node selector is invalid, for errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nodeSelectorTerms[{term}].{list}[{index}]: Invalid value: {why}")]
pub(crate) struct InvalidNodeSelector {
    term: usize,
    list: &'static str,
    index: usize,
    why: &'static str,
}

/// Checks all requirements of a selector (`NewNodeSelector`).
///
/// # Errors
/// If a requirement has an unknown operator, or values that its operator does not take.
pub(crate) fn check(selector: &NodeSelector) -> Result<(), InvalidNodeSelector> {
    for (term, NodeSelectorTerm { match_expressions, match_fields }) in selector.node_selector_terms.iter().enumerate()
    {
        for (index, requirement) in match_expressions.iter().flatten().enumerate() {
            if let Some(why) = fault(requirement) {
                return Err(InvalidNodeSelector { term, list: "matchExpressions", index, why });
            }
        }
        for (index, requirement) in match_fields.iter().flatten().enumerate() {
            if let Some(why) = fault_of_field(requirement) {
                return Err(InvalidNodeSelector { term, list: "matchFields", index, why });
            }
        }
    }
    Ok(())
}

fn fault(NodeSelectorRequirement { operator, values, .. }: &NodeSelectorRequirement) -> Option<&'static str> {
    let values = values.as_deref().unwrap_or_default();
    match (operator.as_str(), values) {
        ("In" | "NotIn", []) => Some("for 'in', 'notin' operators, values set can't be empty"),
        ("Exists" | "DoesNotExist", [_, ..]) => Some("values set must be empty for exists and does not exist"),
        ("Gt" | "Lt", [one]) if one.parse::<i64>().is_err() => {
            Some("for 'Gt', 'Lt' operators, the value must be an integer")
        }
        ("Gt" | "Lt", [] | [_, _, ..]) => Some("for 'Gt', 'Lt' operators, exactly one value is required"),
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => None,
        _ => Some("unknown operator"),
    }
}

fn fault_of_field(NodeSelectorRequirement { operator, values, .. }: &NodeSelectorRequirement) -> Option<&'static str> {
    match (operator.as_str(), values.as_deref().unwrap_or_default()) {
        ("In" | "NotIn", [_]) => None,
        ("In" | "NotIn", _) => Some("must have one element"),
        _ => Some("unknown operator"),
    }
}

/// Whether a term selects the node. An empty term selects none, and so does an invalid one.
pub(crate) fn selects(selector: &NodeSelector, node: &Node) -> bool {
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let field = |key: &str| match key {
        "metadata.name" => node.metadata.name.as_deref(),
        _ => None,
    };
    selector.node_selector_terms.iter().any(|NodeSelectorTerm { match_expressions, match_fields }| {
        let (labels, fields) =
            (match_expressions.as_deref().unwrap_or_default(), match_fields.as_deref().unwrap_or_default());
        !(labels.is_empty() && fields.is_empty())
            && labels.iter().all(|requirement| meets(requirement, label(&requirement.key)))
            // A missing field is the empty text.
            && fields.iter().all(|requirement| meets(requirement, Some(field(&requirement.key).unwrap_or_default())))
    })
}

/// Whether a label or field meets a requirement (`labels.Requirement.Matches`).
fn meets(NodeSelectorRequirement { operator, values, .. }: &NodeSelectorRequirement, given: Option<&str>) -> bool {
    let values = values.as_deref().unwrap_or_default();
    let is_listed = || given.is_some_and(|given| values.iter().any(|value| value == given));
    let compare = || {
        let number = |text: &str| text.parse::<i64>().ok();
        Some(number(given?)?.cmp(&number(values.first()?)?))
    };
    match operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => given.is_some(),
        "DoesNotExist" => given.is_none(),
        "Gt" => compare().is_some_and(|order| order.is_gt()),
        "Lt" => compare().is_some_and(|order| order.is_lt()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn selector(terms: Value) -> NodeSelector {
        serde_json::from_value(json!({ "nodeSelectorTerms": terms })).unwrap()
    }

    #[test]
    fn terms_select_nodes_by_labels_and_name() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"zone": "a", "cores": "8"}}})).unwrap();
        let by = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let labels = |requirements: Value| json!([{ "matchExpressions": requirements }]);
        let fields = |requirement: Value| json!([{"matchFields": [requirement]}]);
        for (terms, expected) in [
            (json!([]), false),
            (json!([{}]), false),
            (labels(json!([by("zone", "In", json!(["a", "b"]))])), true),
            (labels(json!([by("zone", "In", json!(["b"]))])), false),
            (labels(json!([by("zone", "NotIn", json!(["a"]))])), false),
            (labels(json!([by("other", "NotIn", json!(["a"]))])), true),
            (labels(json!([by("zone", "Exists", json!(null))])), true),
            (labels(json!([by("zone", "DoesNotExist", json!([]))])), false),
            (labels(json!([by("cores", "Gt", json!(["7"]))])), true),
            (labels(json!([by("cores", "Gt", json!(["8"]))])), false),
            (labels(json!([by("cores", "Lt", json!(["9"]))])), true),
            (labels(json!([by("zone", "Lt", json!(["9"]))])), false),
            (labels(json!([by("zone", "Exists", json!(null)), by("cores", "In", json!(["4"]))])), false),
            (fields(by("metadata.name", "In", json!(["n"]))), true),
            (fields(by("metadata.name", "NotIn", json!(["n"]))), false),
            (fields(by("metadata.uid", "In", json!(["n"]))), false),
            (
                json!([{"matchFields": [by("metadata.name", "In", json!(["m"]))]}, {"matchExpressions": [by("zone", "Exists", json!(null))]}]),
                true,
            ),
        ] {
            let selector = selector(terms.clone());
            assert_eq!((check(&selector), selects(&selector, &node)), (Ok(()), expected), "{terms}");
        }
    }

    #[test]
    fn requirements_have_known_operators_and_as_many_values_as_these_take() {
        for requirement in [
            json!({"key": "k", "operator": "X"}),
            json!({"key": "k", "operator": "In"}),
            json!({"key": "k", "operator": "Exists", "values": ["a"]}),
            json!({"key": "k", "operator": "Gt", "values": ["a"]}),
            json!({"key": "k", "operator": "Lt", "values": ["1", "2"]}),
        ] {
            let terms = json!([{"matchExpressions": [requirement]}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]);
            assert!(check(&selector(terms)).is_err(), "{requirement}");
        }
        for (operator, values) in [("Exists", json!([])), ("In", json!([])), ("NotIn", json!(["a", "b"]))] {
            let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}]);
            assert!(check(&selector(terms)).is_err(), "{operator}");
        }
    }
}
