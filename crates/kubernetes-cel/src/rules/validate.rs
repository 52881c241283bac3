//! Validates custom resources by the rules of their schema: `schema/cel.Validator` of kube-apiserver.

mod correlate;

use super::{Compiled, InvalidRule};
use crate::EvaluationLimits;
use crate::release::Release;
use crate::schema::{Declared, has};
use crate::types::Type;
use crate::value::{Error, Value};
use correlate::{Correlated, Correlation, Keyed};
use kubernetes_object::go_text::go_quote;
use kubernetes_object::status::Cause;
use kubernetes_object::status::fault::NO_PATH;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The highest cost of all rules together: `RuntimeCELCostBudget`.
const BUDGET: u64 = 10_000_000;
/// The highest cost of one evaluation: `PerCallLimit`.
const PER_CALL: u64 = 1_000_000;
/// The number of bytes of a message that an expression makes.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
/// The nesting of a schema whose rules are compiled.
const MAX_DEPTH: usize = 128;
const STOP: &str = "no further validation rules will be run";

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    release: Release,
    schema: Arc<Json>,
    root: Option<Node>,
}

/// The result of a validation.
#[derive(Debug, Default)]
pub struct Violations {
    /// The errors.
    pub causes: Vec<Cause>,
    /// The errors of unchanged parts of an update, as warnings.
    pub warnings: Vec<String>,
}

/// The rules of a part of the schema, and below it.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Rule>,
    items: Option<Box<Node>>,
    additional: Option<Box<Node>>,
    properties: BTreeMap<String, Node>,
    /// The rules within `allOf`.
    all_of: Vec<Node>,
}

#[derive(Debug)]
struct Rule {
    rule: Result<Compiled, InvalidRule>,
    message_expression: Option<Compiled>,
    /// The message, or else the expression.
    shown: String,
    message: String,
    message_source: String,
    reason: String,
    /// The path of the field that the rule names.
    field: String,
    is_optional: bool,
}

impl Rules {
    /// Compiles the rules of a stored `openAPIV3Schema` for a release. A rule that does not compile is an error of each object.
    pub fn compile(schema: Arc<Json>, release: Release) -> Self {
        let release = release.stored();
        let root = Node::compile(&schema, &schema, true, release, 0);
        Self { release, schema, root }
    }

    /// Returns true if the schema has no rules.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Validates a new object, or an update of `old`.
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> Violations {
        let mut validator = Validator { release: self.release, budget: BUDGET, found: Violations::default() };
        if let Some(root) = &self.root {
            let schema = &*self.schema;
            let correlation = Correlation::of_root(old.map(|old| Correlated { new: object, old, schema }));
            let place = Place { schema, value: object, old, path: String::new(), is_root: true };
            // Validation stops when the budget is spent.
            let _ = validator.node(root, &place, correlation);
        }
        validator.found
    }
}

/// The errors of a default of a part of a schema at a path (`defaulting.ValidateDefaults`): first as a value that does not change, then as a new
/// one. `is_resource` is true if the part describes a whole object. The second value is the rest of the budget; `None` if the budget is spent.
pub fn validate_default(
    schema: &Json,
    default: &Json,
    path: &str,
    is_resource: bool,
    budget: u64,
    release: Release,
) -> (Vec<Cause>, Option<u64>) {
    let (budget, release) = (budget.min(BUDGET), release.stored());
    let Some(root) = Node::compile(schema, schema, is_resource, release, 0) else { return (Vec::new(), Some(budget)) };
    let mut left = budget;
    for old in [Some(default), None] {
        let mut validator = Validator { release, budget, found: Violations::default() };
        let place = Place { schema, value: default, old, path: path.to_owned(), is_root: is_resource };
        // Without a correlation, errors of unchanged parts are errors.
        let ended = validator.node(&root, &place, Correlation::of_root(None));
        if ended.is_err() || !validator.found.causes.is_empty() {
            return (validator.found.causes, ended.is_ok().then_some(left.min(validator.budget)));
        }
        left = left.min(validator.budget);
    }
    (Vec::new(), Some(left))
}

/// The errors of a new object in a release: `field: text`.
pub fn validate(schema: &Json, object: &Json, release: Release) -> Vec<String> {
    let found = Rules::compile(Arc::new(schema.clone()), release).validate(object, None);
    found.causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

impl Node {
    /// The rules of `rules`, which is `schema` or one of its `allOf`; `None` if there are none.
    fn compile(rules: &Json, schema: &Json, is_resource: bool, release: Release, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let is_resource = is_resource || has(schema, "x-kubernetes-embedded-resource");
        let given = rules.get(super::RULES).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut node = Self::default();
        if !given.is_empty()
            && let Some(declared) = Declared::of_schema(schema, is_resource, release)
        {
            node.rules = given.iter().map(|rule| Rule::compile(rule, schema, &declared, release)).collect();
        }
        let below = |name: &str| {
            let (rules, schema) = (rules.get(name)?, schema.get(name)?);
            Self::compile(rules, schema, false, release, depth + 1).map(Box::new)
        };
        (node.items, node.additional) = (below("items"), below("additionalProperties"));
        let properties = rules.get("properties").and_then(Json::as_object).into_iter().flatten();
        let properties = properties.filter_map(|(name, property)| {
            let of_schema = schema.get("properties")?.get(name)?;
            Some((name.clone(), Self::compile(property, of_schema, false, release, depth + 1)?))
        });
        node.properties = properties.collect();
        let all_of = rules.get("allOf").and_then(Json::as_array).into_iter().flatten();
        node.all_of =
            all_of.filter_map(|rules| Self::compile(rules, schema, is_resource, release, depth + 1)).collect();
        let is_empty = node.rules.is_empty()
            && node.items.is_none()
            && node.additional.is_none()
            && node.properties.is_empty()
            && node.all_of.is_empty();
        (!is_empty).then_some(node)
    }
}

impl Rule {
    fn compile(rule: &Json, schema: &Json, declared: &Declared, release: Release) -> Self {
        let text = |name: &str| rule.get(name).and_then(Json::as_str).unwrap_or_default();
        let is_optional = rule.get("optionalOldSelf") == Some(&Json::Bool(true));
        let compiled = |source: &str, of| {
            let compiled = Compiled::new(source, of, declared, is_optional, release);
            compiled.map(|(compiled, _)| compiled)
        };
        let message_source = text("messageExpression");
        let message = text("message").trim();
        Self {
            rule: compiled(text("rule"), &Type::Bool),
            message_expression: Some(message_source)
                .filter(|source| !source.is_empty())
                .and_then(|source| compiled(source, &Type::String).ok()),
            shown: if message.is_empty() { text("rule").trim() } else { message }.to_owned(),
            message: message.to_owned(),
            message_source: message_source.to_owned(),
            reason: text("reason").to_owned(),
            field: super::text::field_path(schema, text("fieldPath")).unwrap_or_default(),
            is_optional,
        }
    }
}

/// The error of a spent budget.
struct Spent;

/// The text of the fault of a message that is too costly.
struct OutOfBudget(String);

/// A value to validate.
struct Place<'a> {
    schema: &'a Json,
    value: &'a Json,
    old: Option<&'a Json>,
    path: String,
    is_root: bool,
}

impl Place<'_> {
    fn shown_path(&self) -> &str {
        if self.path.is_empty() { NO_PATH } else { &self.path }
    }

    fn kind(&self) -> &str {
        self.schema.get("type").and_then(Json::as_str).unwrap_or_default()
    }

    /// An error about the value, which is shown as its type.
    fn fault(&self, field: &str, why: &str) -> Cause {
        cause("FieldValueInvalid", field, format!("Invalid value: {}: {why}", go_quote(self.kind())))
    }
}

fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), message, field: field.to_owned() }
}

struct Validator {
    release: Release,
    budget: u64,
    found: Violations,
}

impl Validator {
    fn node<'a>(&mut self, node: &Node, place: &Place<'a>, correlation: Correlation<'a>) -> Result<(), Spent> {
        if place.value.is_null() {
            return Ok(());
        }
        if !node.rules.is_empty() {
            self.rules(node, place, correlation)?;
        }
        // As in the validation by the schema, unchanged parts are not left out within `allOf`.
        node.all_of.iter().try_for_each(|node| self.node(node, place, correlation.of_parent()))?;
        match place.value {
            Json::Array(items) => self.items(node, place, items, correlation),
            Json::Object(fields) => {
                let schema = place.schema;
                // `MapIsCorrelatable`
                let map_type = schema.get("x-kubernetes-map-type").and_then(Json::as_str).unwrap_or_default();
                let old = place.old.filter(|_| matches!(map_type, "" | "granular" | "atomic"));
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                    let below = |schema, path| Place { schema, value, old, path, is_root: false };
                    let property = schema.get("properties").and_then(|properties| properties.get(name));
                    if let (Some(node), Some(property)) = (node.properties.get(name), property) {
                        let dot = if place.path.is_empty() { "" } else { "." };
                        let place = below(property, format!("{}{dot}{name}", place.path));
                        self.node(node, &place, correlation.field(name))?;
                    } else if let (Some(node), None, Some(values)) =
                        (&node.additional, property, schema.get("additionalProperties"))
                    {
                        let place = below(values, format!("{}[{name}]", place.path));
                        self.node(node, &place, correlation.field(name))?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn items<'a>(
        &mut self,
        node: &Node,
        place: &Place<'a>,
        items: &'a [Json],
        correlation: Correlation<'a>,
    ) -> Result<(), Spent> {
        let (Some(node), Some(schema)) = (&node.items, place.schema.get("items")) else { return Ok(()) };
        let keyed = place.old.and_then(|old| Keyed::of(place.schema, old));
        let correlated = correlation.current.and_then(|current| Keyed::of(current.schema, current.old));
        for (index, value) in items.iter().enumerate() {
            let old = keyed.as_ref().and_then(|keyed| keyed.get(value));
            let path = format!("{}[{index}]", place.path);
            let place = Place { schema, value, old, path, is_root: false };
            self.node(node, &place, correlation.item(value, correlated.as_ref()))?;
        }
        Ok(())
    }

    fn rules<'a>(&mut self, node: &Node, place: &Place<'a>, correlation: Correlation<'a>) -> Result<(), Spent> {
        if self.budget == 0 {
            let why = format!("validation failed due to running out of cost budget, {STOP}");
            self.found.causes.push(place.fault(place.shown_path(), &why));
            return Err(Spent);
        }
        let is_resource = place.is_root || has(place.schema, "x-kubernetes-embedded-resource");
        let value = match Value::typed(place.value, place.schema, is_resource, self.release) {
            Ok(value) => value,
            Err(why) => {
                self.found.causes.push(cause("FieldValueInvalid", place.shown_path(), why.to_string()));
                return Ok(());
            }
        };
        let uses_old = node.rules.iter().any(|rule| rule.rule.as_ref().is_ok_and(Compiled::uses_old_self));
        let typed = |old| Value::typed(old, place.schema, is_resource, self.release).ok();
        let old = place.old.filter(|_| uses_old).and_then(typed);
        for rule in &node.rules {
            self.rule(rule, place, &value, old.as_ref(), correlation)?;
        }
        Ok(())
    }

    fn rule<'a>(
        &mut self,
        rule: &'a Rule,
        place: &Place<'a>,
        value: &Value<'a>,
        old: Option<&Value<'a>>,
        correlation: Correlation<'a>,
    ) -> Result<(), Spent> {
        let compiled = match &rule.rule {
            Ok(compiled) => compiled,
            Err(why) => {
                let why = format!("rule compile error: {why}");
                self.found.causes.push(place.fault(place.shown_path(), &why));
                return Ok(());
            }
        };
        let uses_old = compiled.uses_old_self();
        // A rule for changes applies to values that have an old one.
        if uses_old && old.is_none() && !rule.is_optional {
            return Ok(());
        }
        let old = match rule.is_optional {
            true => Some(Value::Optional(old.cloned().map(Arc::new))),
            false => old.cloned(),
        };
        let variables = [Some(value.clone()), old];
        let limits = EvaluationLimits { cost: PER_CALL, deadline: None };
        let outcome = compiled.program.evaluate(&variables, &limits);
        let Some(left) = self.budget.checked_sub(outcome.cost) else {
            let why = format!("validation failed due to running out of cost budget, {STOP}");
            self.found.causes.push(place.fault(place.shown_path(), &why));
            return Err(Spent);
        };
        self.budget = left;
        let shown = &rule.shown;
        let (why, end) = match outcome.value {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => {
                let is_ratcheted = !uses_old && correlation.is_unchanged();
                return self.violated(rule, place, &variables, is_ratcheted);
            }
            Err(why @ Error::CostLimit) => {
                (format!("'{why}': {STOP} due to call cost exceeds limit for rule: {shown}"), Err(Spent))
            }
            Err(why) if why.to_string().starts_with("no such overload") => {
                let text = "call arguments did not match a supported operator, function or macro signature for rule";
                (format!("'{why}': {text}: {shown}"), Ok(()))
            }
            Err(why) => (format!("{why} evaluating rule: {shown}"), Ok(())),
        };
        self.found.causes.push(place.fault(place.shown_path(), &why));
        end
    }

    /// Adds the error of a rule that a value violates.
    fn violated<'a>(
        &mut self,
        rule: &'a Rule,
        place: &Place<'a>,
        variables: &[Option<Value<'a>>],
        is_ratcheted: bool,
    ) -> Result<(), Spent> {
        let field = match (place.shown_path(), &*rule.field) {
            (path, "") => path.to_owned(),
            (NO_PATH, field) => field.to_owned(),
            (path, field) if field.starts_with('[') => format!("{path}{field}"),
            (path, field) => format!("{path}.{field}"),
        };
        let mut end = Ok(());
        let found = match self.message(rule, variables) {
            Err(OutOfBudget(why)) => {
                end = Err(Spent);
                place.fault(&field, &why)
            }
            Ok(message) => {
                let detail = message.unwrap_or_else(|| match &*rule.message {
                    "" => format!("failed rule: {}", rule.shown),
                    message => message.to_owned(),
                });
                let is_composite = matches!(place.kind(), "object" | "array");
                let shown = if is_composite { String::new() } else { format!(" {}:", place.value) };
                // `fieldErrorForReason`
                let (reason, message) = match &*rule.reason {
                    reason @ "FieldValueForbidden" => (reason, format!("Forbidden: {detail}")),
                    reason @ "FieldValueRequired" => (reason, format!("Required value: {detail}")),
                    reason @ "FieldValueDuplicate" => {
                        (reason, format!("Duplicate value:{}", shown.trim_end_matches(':')))
                    }
                    _ => ("FieldValueInvalid", format!("Invalid value:{shown} {detail}")),
                };
                cause(reason, &field, message)
            }
        };
        match is_ratcheted {
            true => self.found.warnings.push(format!("{}: {}", found.field, found.message)),
            false => self.found.causes.push(found),
        }
        end
    }

    /// The message that the rule's expression makes; `None` if there is none that can be used (`evalMessageExpression`).
    ///
    /// # Errors
    /// If the expression is too costly.
    fn message<'a>(&mut self, rule: &'a Rule, variables: &[Option<Value<'a>>]) -> Result<Option<String>, OutOfBudget> {
        let Some(compiled) = &rule.message_expression else { return Ok(None) };
        let outcome = compiled.program.evaluate(variables, &EvaluationLimits { cost: PER_CALL, deadline: None });
        let Some(left) = self.budget.checked_sub(outcome.cost) else {
            return Err(OutOfBudget(format!(
                "messageExpression evaluation failed due to running out of cost budget, {STOP}"
            )));
        };
        self.budget = left;
        let text = match outcome.value {
            Ok(Value::String(text)) => text,
            Err(Error::CostLimit) => {
                let source = go_quote(&rule.message_source);
                return Err(OutOfBudget(format!(
                    "{STOP} due to call cost exceeds limit for messageExpression: {source}"
                )));
            }
            _ => return Ok(None),
        };
        let text = text.trim();
        let is_usable = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
        Ok(is_usable.then(|| text.to_owned()))
    }
}
