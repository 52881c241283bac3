//! Label and field selectors: from query strings and from `metav1.LabelSelector`s, and whether labels match them.

mod set;
mod syntax;

pub use set::{Matching, SelectorSet};
pub use syntax::{label_key_errors, label_value_errors, subdomain_errors};

use crate::go_text::go_quote;
use crate::status::invalid::aggregate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Requirements on labels, all of which must hold (`labels.Selector`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Whether it matches nothing at all: the selector of a missing `LabelSelector`.
    nothing: bool,
    requirements: Vec<LabelRequirement>,
}

/// One requirement of a [`LabelSelector`] (`labels.Requirement`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// What is asked of its value.
    pub operator: Operator,
    /// What the operator compares with.
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
    /// Matches everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches nothing.
    pub fn nothing() -> Self {
        Self { nothing: true, requirements: Vec::new() }
    }

    /// From a query string's `labelSelector` (`labels.Parse`).
    ///
    /// # Errors
    /// With the text of kube-apiserver's 400.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = parser.requirements()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { nothing: false, requirements })
    }

    /// From a `metav1.LabelSelector` (`LabelSelectorAsSelector`); none matches nothing, an empty one everything.
    ///
    /// # Errors
    /// When an operator, key or value is not allowed.
    pub fn from_api(selector: Option<&meta::LabelSelector>) -> Result<Self, String> {
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

    /// The same from JSON.
    ///
    /// # Errors
    /// Also when the JSON is of another shape.
    pub fn from_json(selector: Option<&Value>) -> Result<Self, String> {
        match selector {
            None | Some(Value::Null) => Ok(Self::nothing()),
            Some(selector) => {
                let selector: meta::LabelSelector =
                    serde::Deserialize::deserialize(selector).map_err(|error: serde_json::Error| error.to_string())?;
                Self::from_api(Some(&selector))
            }
        }
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Its requirements; none also for a selector that matches nothing.
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

/// Which words an error uses, where several operators mean the same.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// `=`, `==`, `!=`, matchLabels.
    Exact,
    Other,
}

impl LabelRequirement {
    /// `labels.NewRequirement`.
    fn new(key: &str, operator: Operator, values: Vec<String>, origin: Origin) -> Result<Self, String> {
        let mut errors = Vec::new();
        let why = label_key_errors(key);
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
            Some(why) => Err(why),
        }
    }

    fn from_api(key: &str, operator: &str, values: Vec<String>) -> Result<Self, String> {
        let operator = match operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("{} is not a valid label selector operator", go_quote(other))),
        };
        Self::new(key, operator, values, Origin::Other)
    }

    /// Whether a label's value, or its absence, fulfils it.
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

const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

/// Symbols and words; `in` and `notin` are told from labels by where they stand.
fn tokens(text: &str) -> Vec<&str> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(blank);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '=' if rest.starts_with("==") => 2,
            '!' if rest.starts_with("!=") => 2,
            c if SYMBOLS.contains(&c) => 1,
            _ => rest.find(|c| blank(c) || SYMBOLS.contains(&c)).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start_matches(blank);
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

/// The end is an empty token, as words never are.
impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn is_word(token: &str) -> bool {
        !token.is_empty() && !token.starts_with(SYMBOLS)
    }

    fn requirements(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        let first = self.peek();
        if first.is_empty() {
            return Ok(requirements);
        }
        if !Self::is_word(first) && first != "!" {
            return Err(format!("found '{first}', expected: !, identifier, or 'end of string'"));
        }
        loop {
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|error| format!("unable to parse requirement: {error}"))?);
            match self.next() {
                "" => return Ok(requirements),
                "," => {
                    let next = self.peek();
                    if !Self::is_word(next) && next != "!" {
                        return Err(format!("found '{next}', expected: identifier after ','"));
                    }
                }
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let absent = self.peek() == "!";
        if absent {
            self.at += 1;
        }
        let key = self.next();
        if !Self::is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let why = label_key_errors(key);
        if !why.is_empty() {
            return Err(invalid("<nil>", key, &why.join("; ")));
        }
        if absent {
            return LabelRequirement::new(key, Operator::DoesNotExist, Vec::new(), Origin::Other);
        }
        if matches!(self.peek(), "" | ",") {
            return LabelRequirement::new(key, Operator::Exists, Vec::new(), Origin::Other);
        }
        let (operator, origin) = match self.next() {
            "in" => (Operator::In, Origin::Other),
            "notin" => (Operator::NotIn, Origin::Other),
            "=" | "==" => (Operator::In, Origin::Exact),
            "!=" => (Operator::NotIn, Origin::Exact),
            ">" => (Operator::GreaterThan, Origin::Other),
            "<" => (Operator::LessThan, Origin::Other),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        let set = matches!(operator, Operator::In | Operator::NotIn) && origin == Origin::Other;
        let mut values = if set { self.values()? } else { vec![self.exact_value()?] };
        values.sort();
        values.dedup();
        LabelRequirement::new(key, operator, values, origin)
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.next();
        if Self::is_word(value) { Ok(value.to_owned()) } else { Err(format!("found '{value}', expected: identifier")) }
    }

    /// `(a,b)`; what is left out between commas is the empty value.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut values = Vec::new();
        match self.peek() {
            ")" => {
                self.at += 1;
                return Ok(vec![String::new()]);
            }
            first if first != "," && !Self::is_word(first) => {
                return Err(format!("found '{first}', expected: ',', ')' or identifier"));
            }
            _ => {}
        }
        loop {
            match self.next() {
                "," => {
                    if values.is_empty() || matches!(self.peek(), ")" | ",") {
                        values.push(String::new());
                    }
                    if self.peek() == ")" {
                        break;
                    }
                }
                word if Self::is_word(word) => {
                    values.push(word.to_owned());
                    match self.peek() {
                        "," => {}
                        ")" => break,
                        other => return Err(format!("found '{other}', expected: ',' or ')'")),
                    }
                }
                other => return Err(format!("found '{other}', expected: ',', or identifier")),
            }
        }
        self.at += 1;
        Ok(values)
    }
}

/// Requirements on fields, all of which must hold (`fields.Selector`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One requirement of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// Path of the field, `metadata.name`.
    pub field: String,
    /// Whether the field must have the value, rather than must not.
    pub equals: bool,
    /// The value.
    pub value: String,
}

impl FieldSelector {
    /// From a query string's `fieldSelector` (`fields.ParseSelector`).
    ///
    /// # Errors
    /// With the text of kube-apiserver's 400.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let requirement =
                FieldRequirement { field: field.to_owned(), equals: operator != "!=", value: unescape(value)? };
            // `=` alone is a term that asks nothing.
            if !requirement.field.is_empty() || !requirement.value.is_empty() {
                requirements.push(requirement);
            }
        }
        Ok(Self { requirements })
    }

    /// Its requirements, sorted.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether fields match; `field` gives the value at a path, empty where there is none.
    pub fn matches(&self, field: impl Fn(&str) -> String) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (field(&requirement.field) == requirement.value) == requirement.equals)
    }

    /// The value that a field must have, if the selector asks for one (`RequiresExactMatch`).
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        let requirement =
            self.requirements.iter().find(|requirement| requirement.equals && requirement.field == field)?;
        Some(&requirement.value)
    }
}

/// At commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
    .collect()
}

fn split_term(term: &str) -> Option<(&str, &'static str, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        let operator = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator))?;
        Some((field, operator, rest.strip_prefix(operator)?))
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                return Err(format!("invalid field selector: unescaped character in value: {}", character as u32));
            }
            other => text.push(other),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
