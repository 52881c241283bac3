//! Label and field selectors: parsed from query strings and from `metav1.LabelSelector`s, and matched against labels.

mod field;
mod parse;
mod set;

pub use field::{FieldRequirement, FieldSelector, escape_field_value};
pub use set::{Matching, SelectorSet};

use crate::go_text::go_quote;
use crate::names::{label_value_errors, qualified_name_errors};
use crate::status::invalid::aggregate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The reason why a text or an object is no selector, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSelector(String);

/// Requirements on labels, all of which must hold (`labels.Selector`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Whether the selector matches nothing at all: the selector of a missing `LabelSelector`.
    nothing: bool,
    requirements: Vec<LabelRequirement>,
}

/// One requirement of a [`LabelSelector`] (`labels.Requirement`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// The comparison with the label's value.
    pub operator: Operator,
    /// The values that the operator compares with.
    pub values: Vec<String>,
}

/// `selection.Operator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=`, `==`, `in`.
    In,
    /// `!=`, `notin`.
    NotIn,
    /// The key alone.
    Exists,
    /// `!key`.
    DoesNotExist,
    /// `>`.
    GreaterThan,
    /// `<`.
    LessThan,
}

impl LabelSelector {
    /// A selector that matches everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// A selector that matches nothing.
    pub fn nothing() -> Self {
        Self { nothing: true, requirements: Vec::new() }
    }

    /// Parses a query string's `labelSelector` (`labels.Parse`).
    ///
    /// # Errors
    /// If the text is no selector, with the text of kube-apiserver's 400.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let mut requirements = parse::Parser::new(text).requirements()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { nothing: false, requirements })
    }

    /// Converts a `metav1.LabelSelector` (`LabelSelectorAsSelector`); a missing selector matches nothing, an empty one everything.
    ///
    /// # Errors
    /// If an operator, key or value is not allowed.
    pub fn from_api(selector: Option<&meta::LabelSelector>) -> Result<Self, InvalidSelector> {
        let Some(selector) = selector else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(LabelRequirement::new(key, Operator::In, vec![value.clone()], Origin::Exact)?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.clone().unwrap_or_default();
            requirements.push(LabelRequirement::from_api(&expression.key, &expression.operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { nothing: false, requirements })
    }

    /// Converts a `metav1.LabelSelector` in JSON as [`Self::from_api`] does.
    ///
    /// # Errors
    /// As [`Self::from_api`], and if the JSON is of another shape.
    pub fn from_json(selector: Option<&Value>) -> Result<Self, InvalidSelector> {
        match selector {
            None | Some(Value::Null) => Ok(Self::nothing()),
            Some(selector) => {
                let selector: meta::LabelSelector = serde::Deserialize::deserialize(selector)
                    .map_err(|error: serde_json::Error| InvalidSelector(error.to_string()))?;
                Self::from_api(Some(&selector))
            }
        }
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements; empty also for a selector that matches nothing.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Whether an object's `metadata.labels` match.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        // A label that is null decodes to the empty string in Go.
        self.matches_by(|key| labels?.get(key).map(|value| value.as_str().unwrap_or_default()))
    }

    /// Whether labels match.
    pub fn matches_map(&self, labels: &impl Labels) -> bool {
        self.matches_by(|key| labels.label(key))
    }

    fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

/// Labels by their keys.
pub trait Labels {
    /// The label of this key.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The source of a requirement, on which the text of an error depends.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// `=`, `==`, `!=`, matchLabels.
    Exact,
    Other,
}

impl LabelRequirement {
    /// `labels.NewRequirement`.
    fn new(key: &str, operator: Operator, values: Vec<String>, origin: Origin) -> Result<Self, InvalidSelector> {
        let mut errors = Vec::new();
        let why = qualified_name_errors(key);
        if !why.is_empty() {
            errors.push(invalid("key", key, &why.join("; ")));
        }
        let wrong_number = match operator {
            Operator::In | Operator::NotIn if origin == Origin::Exact => {
                (values.len() != 1).then_some("exact-match compatibility requires one single value")
            }
            Operator::In | Operator::NotIn => {
                values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Exists | Operator::DoesNotExist => {
                (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan => {
                (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        if let Some(why) = wrong_number {
            let list = if values.is_empty() { "null".to_owned() } else { Value::from(values.clone()).to_string() };
            errors.push(format!("values: Invalid value: {list}: {why}"));
        }
        for (index, value) in values.iter().enumerate() {
            let compares = matches!(operator, Operator::GreaterThan | Operator::LessThan);
            if compares && value.parse::<i64>().is_err() {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(invalid(&format!("values[{index}]"), value, why));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let why = label_value_errors(value);
            if !why.is_empty() {
                errors.push(invalid(&format!("values[{index}][{key}]"), value, &why.join("; ")));
            }
        }
        match aggregate(errors) {
            None => Ok(Self { key: key.to_owned(), operator, values }),
            Some(why) => Err(InvalidSelector(why)),
        }
    }

    fn from_api(key: &str, operator: &str, values: Vec<String>) -> Result<Self, InvalidSelector> {
        let operator = match operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                return Err(InvalidSelector(format!("{} is not a valid label selector operator", go_quote(other))));
            }
        };
        Self::new(key, operator, values, Origin::Other)
    }

    /// Whether a label's value, or its absence, meets the requirement.
    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let limit = self.values.first().and_then(|limit| limit.parse::<i64>().ok());
                let value = value.and_then(|value| value.parse::<i64>().ok());
                match (value, limit) {
                    (Some(value), Some(limit)) if self.operator == Operator::GreaterThan => value > limit,
                    (Some(value), Some(limit)) => value < limit,
                    _ => false,
                }
            }
        }
    }
}

fn invalid(field: &str, value: &str, why: &str) -> String {
    format!("{field}: Invalid value: {}: {why}", go_quote(value))
}

#[cfg(test)]
mod tests;
