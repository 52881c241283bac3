//! The rules in a custom resource's schema (`x-kubernetes-validations`), as kube-apiserver checks them before it accepts the definition
//! (`ValidateCustomResourceDefinitionOpenAPISchema`). Other faults of a schema are not checked.

mod text;
mod validate;
#[cfg(test)]
mod tests;

pub use validate::{Rules, Violations, validate, validate_default};

use super::check::{Checked, Reference};
use super::environment::Environment;
use super::estimate::Range;
use super::message_types::Table;
use super::plan::Program;
use super::release::Release;
use super::schema::{Declared, has};
use super::source::CompileError;
use super::types::Type;
use serde_json::Value;
use std::sync::Arc;

/// The highest cost of a rule in a request: `StaticEstimatedCostLimit`.
pub const RULE_COST: u64 = 10_000_000;
/// The highest cost of all rules of a schema: `StaticEstimatedCRDCostLimit`.
pub const SCHEMA_COST: u64 = 100_000_000;
/// The number of rules to name if all rules together cost too much.
const NAMED: usize = 4;
/// The extension that holds the rules.
const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The result of checking the rules of a schema.
#[derive(Debug, Default)]
pub struct Findings {
    /// The reasons why kube-apiserver rejects the rules: `field: text`.
    pub errors: Vec<String>,
    /// The costs of the rules that compile, by field.
    pub costs: Vec<(String, Cost)>,
}

/// The cost of a rule's expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The cost of one evaluation.
    pub once: Range,
    /// The highest cost in one request: for as many values as the schema allows.
    pub in_all: u64,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Compiled {
    checked: Checked,
    /// The program, with the variables `self` and `oldSelf`.
    pub program: Program,
}

/// Checks the rules of a schema at a path, as a release does.
pub fn check(schema: &Value, path: &str, release: Release) -> Findings {
    let mut checker = Checker { release, costs: Vec::new(), totals: Vec::new() };
    let root = Node { schema, path: path.to_owned(), is_root: true, cardinality: Some(1), uncorrelatable: None };
    let Errors { mut schema, cel } = checker.node(&root);
    schema.extend(cel);
    let Checker { costs, mut totals, .. } = checker;
    let total = totals.iter().fold(0u64, |sum, (_, cost)| sum.saturating_add(*cost));
    if total > SCHEMA_COST {
        totals.retain(|(_, cost)| *cost >= SCHEMA_COST / 100);
        totals.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        let named = totals.iter().take(NAMED);
        schema.extend(named.map(|(field, _)| {
            format!("{field}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema")
        }));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        schema.push(format!("{path}: Forbidden: {}", text::too_costly(what, total, SCHEMA_COST)));
    }
    Findings { errors: schema, costs }
}

/// Compiles an expression over `self` and `oldSelf`; with `is_old_optional`, `oldSelf` is an optional.
///
/// # Errors
/// If the expression does not compile, with cel-go's text.
pub fn compile(
    source: &str,
    declared: &Declared,
    is_old_optional: bool,
    release: Release,
) -> Result<(Environment, Checked), CompileError> {
    let mut table = Table::default();
    let of = declared.declare("selfType", &mut table);
    let old = if is_old_optional { Type::optional(of.clone()) } else { of.clone() };
    let environment = Environment::of(release, Arc::new(table)).variable("self", of).variable("oldSelf", old);
    let checked = environment.check(source)?;
    Ok((environment, checked))
}

/// The reason why a rule does not compile, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRule(String);

impl Compiled {
    /// Compiles the `rule` of a rule, or its `messageExpression` if `of` is [`Type::String`].
    ///
    /// # Errors
    /// If the expression does not compile or has another type.
    pub fn new(
        source: &str,
        of: &Type,
        declared: &Declared,
        is_old_optional: bool,
        release: Release,
    ) -> Result<(Self, Range), InvalidRule> {
        let (prefix, wrong) = match of {
            Type::Bool => ("", "cel expression must evaluate to a bool"),
            _ => ("messageExpression ", "messageExpression must evaluate to a string"),
        };
        let (environment, checked) = compile(source, declared, is_old_optional, release)
            .map_err(|CompileError(why)| InvalidRule(format!("{prefix}compilation failed: {why}")))?;
        if checked.output() != of {
            return Err(InvalidRule(wrong.to_owned()));
        }
        let program = environment.instantiate(&checked).map_err(|CompileError(why)| match prefix {
            "" => InvalidRule(why),
            _ => InvalidRule(why.replacen("program", "messageExpression", 1)),
        })?;
        let sizes = |path: &[&str]| declared.size_at(path.get(1..)?);
        let range = environment.estimate(&checked, &sizes).map_err(|CompileError(why)| InvalidRule(why))?;
        Ok((Self { checked, program }, range))
    }

    /// Whether the expression uses `oldSelf`.
    pub fn uses_old_self(&self) -> bool {
        let mut references = self.checked.references.values();
        references.any(|reference| matches!(reference, Reference::Variable(1)))
    }
}

/// A part of the schema.
struct Node<'s> {
    schema: &'s Value,
    path: String,
    is_root: bool,
    /// The highest number of values of this schema in a request; `None` if it has no bound.
    cardinality: Option<u64>,
    /// The part of the schema that prevents finding an old value.
    uncorrelatable: Option<String>,
}

#[derive(Default)]
struct Errors {
    schema: Vec<String>,
    cel: Vec<String>,
}

struct Checker {
    release: Release,
    costs: Vec<(String, Cost)>,
    /// The cost that each expression adds to the total.
    totals: Vec<(String, u64)>,
}

impl Checker {
    fn node(&mut self, node: &Node<'_>) -> Errors {
        let schema = node.schema;
        let mut errors = Errors::default();
        let max = |name: &str| schema.get(name).and_then(Value::as_i64).map(|max| max.max(0) as u64);
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let elements = match text("type") {
            Some("object") if schema.get("additionalProperties").is_some() => max("maxProperties"),
            Some("array") => max("maxItems"),
            _ => Some(1),
        };
        let cardinality = node.cardinality.zip(elements).map(|(of, times)| of.saturating_mul(times));
        let mut below = |schema, path: String, is_correlatable: bool| {
            let uncorrelatable = node.uncorrelatable.clone().or_else(|| (!is_correlatable).then(|| node.path.clone()));
            let Errors { schema, cel } = self.node(&Node { schema, path, is_root: false, cardinality, uncorrelatable });
            errors.schema.extend(schema);
            errors.cel.extend(cel);
        };
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            below(values, format!("{}.additionalProperties", node.path), true);
        }
        // `MapIsCorrelatable`
        let has_fields = text("x-kubernetes-map-type").is_none_or(|of| matches!(of, "granular" | "atomic"));
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            below(property, format!("{}.properties[{name}]", node.path), has_fields);
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            below(items, format!("{}.items", node.path), text("x-kubernetes-list-type") == Some("map"));
        }
        let rules = schema.get(RULES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            text::faults(schema, rule, &format!("{}.{RULES}[{index}]", node.path), &mut errors.schema);
        }
        if errors.schema.is_empty() && !rules.is_empty() {
            self.rules(node, rules, &mut errors.cel);
        }
        errors
    }

    fn rules(&mut self, node: &Node<'_>, rules: &[Value], errors: &mut Vec<String>) {
        let is_resource = node.is_root || has(node.schema, "x-kubernetes-embedded-resource");
        let Some(declared) = Declared::of_schema(node.schema, is_resource, self.release) else {
            errors.push(format!(
                "{}.{RULES}: Internal error: internal error: failed to construct type information for x-kubernetes-validations \
                 rules: unable to convert structural schema to CEL declarations",
                node.path
            ));
            return;
        };
        for (index, rule) in rules.iter().enumerate() {
            self.rule(node, rule, &format!("{}.{RULES}[{index}]", node.path), &declared, errors);
        }
    }

    fn rule(&mut self, node: &Node<'_>, rule: &Value, path: &str, declared: &Declared, errors: &mut Vec<String>) {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let optional = rule.get("optionalOldSelf").and_then(Value::as_bool);
        let is_old_optional = optional == Some(true);
        let field = format!("{path}.rule");
        let compiled = match Compiled::new(text("rule"), &Type::Bool, declared, is_old_optional, self.release) {
            Ok((compiled, once)) => {
                let times = node.cardinality.unwrap_or_else(|| declared.max_cardinality());
                let in_all = once.max.saturating_mul(times);
                self.observe(&field, "estimated rule cost", Cost { once, in_all }, errors);
                Some(compiled)
            }
            Err(why) => {
                errors.push(format!("{field}: Invalid value: {}: {why}", text::rule(rule)));
                None
            }
        };
        let message = text("messageExpression");
        if compiled.is_some() && !message.is_empty() {
            let field = format!("{path}.messageExpression");
            match Compiled::new(message, &Type::String, declared, is_old_optional, self.release) {
                Ok((_, once)) => {
                    let cost = Cost { once, in_all: once.max };
                    self.observe(&field, "estimated messageExpression cost", cost, errors);
                }
                Err(why) => errors.push(format!("{field}: Invalid value: {}: {why}", text::rule(rule))),
            }
        }
        match (compiled.is_some_and(|compiled| compiled.uses_old_self()), &node.uncorrelatable, optional) {
            (true, Some(within), _) => errors.push(format!(
                "{field}: Invalid value: {}: oldSelf cannot be used on the uncorrelatable portion of the schema within {within}",
                kubernetes_object::go_text::go_quote(text("rule"))
            )),
            (false, _, Some(given)) => errors.push(format!(
                "{path}.optionalOldSelf: Invalid value: {given}: may not be set if oldSelf is not used in rule"
            )),
            _ => {}
        }
    }

    fn observe(&mut self, field: &str, what: &str, cost: Cost, errors: &mut Vec<String>) {
        if cost.in_all > RULE_COST {
            errors.push(format!("{field}: Forbidden: {}", text::too_costly(what, cost.in_all, RULE_COST)));
        }
        self.totals.push((field.to_owned(), cost.in_all));
        self.costs.push((field.to_owned(), cost));
    }
}
