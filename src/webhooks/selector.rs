//! A hook's label selectors, compiled (`metav1.LabelSelectorAsSelector`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A compiled label selector.
#[derive(Debug, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Compiles a selector; none is the API's default, which selects everything.
    ///
    /// # Errors
    /// What is wrong with it, in the words of `labels.NewRequirement`.
    pub fn new(selector: Option<&LabelSelector>) -> Result<Self, String> {
        let Some(selector) = selector else { return Ok(Self::default()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement { key: key.clone(), operator: Operator::In, values: vec![value.clone()] });
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.clone().unwrap_or_default();
            let operator = match &*expression.operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("\"{other}\" is not a valid label selector operator")),
            };
            match operator {
                Operator::In | Operator::NotIn if values.is_empty() => {
                    return Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".into());
                }
                Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                    return Err(format!(
                        "values: Invalid value: [{}]: values set must be empty for exists and does not exist",
                        values.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ")
                    ));
                }
                _ => requirements.push(Requirement { key: expression.key.clone(), operator, values }),
            }
        }
        Ok(Self(requirements))
    }

    /// Whether it selects everything without looking.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it selects an object whose labels this function looks up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = label(&requirement.key);
            let listed = || value.is_some_and(|value| requirement.values.iter().any(|listed| listed == value));
            match requirement.operator {
                Operator::In => listed(),
                Operator::NotIn => !listed(),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn selector(json: Value) -> Result<Selector, String> {
        Selector::new(Some(&serde_json::from_value(json).unwrap()))
    }

    #[test]
    fn selects_as_label_selectors_do() {
        let labels = |key: &str| (key == "a").then_some("1");
        let expression = |operator: &str, key: &str, values: Value| {
            let json = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            selector(json).unwrap().matches(labels)
        };
        assert!(selector(json!({})).unwrap().is_empty());
        assert!(selector(json!({"matchLabels": {"a": "1"}})).unwrap().matches(labels));
        assert!(!selector(json!({"matchLabels": {"a": "1", "b": "1"}})).unwrap().matches(labels));
        for (operator, key, values, want) in [
            ("In", "a", json!(["2", "1"]), true),
            ("In", "b", json!(["1"]), false),
            ("NotIn", "a", json!(["1"]), false),
            ("NotIn", "b", json!(["1"]), true),
            ("Exists", "a", json!([]), true),
            ("Exists", "b", json!([]), false),
            ("DoesNotExist", "a", json!([]), false),
            ("DoesNotExist", "b", json!([]), true),
        ] {
            assert_eq!(expression(operator, key, values), want, "{operator} {key}");
        }
    }

    #[test]
    fn refuses_operators_and_values_that_do_not_fit() {
        let expression = |operator: &str, values: Value| {
            selector(json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]})).unwrap_err()
        };
        assert_eq!(expression("Like", json!([])), "\"Like\" is not a valid label selector operator");
        assert!(expression("In", json!([])).contains("can't be empty"));
        assert!(expression("Exists", json!(["x"])).contains("must be empty"));
    }
}
