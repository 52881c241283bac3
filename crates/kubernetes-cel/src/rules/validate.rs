//! Validates new custom resources by the rules of their schema: `schema/cel.Validator` of kube-apiserver.

use super::Compiled;
use crate::Limits;
use crate::schema::{Declared, has};
use crate::types::Type;
use crate::value::{Error, Value};
use serde_json::Value as Json;

/// The highest cost of all rules together: `RuntimeCELCostBudget`.
const BUDGET: u64 = 10_000_000;
/// The highest cost of one evaluation: `PerCallLimit`.
const PER_CALL: u64 = 1_000_000;
/// The number of bytes of a message that an expression makes.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The errors of an object: `field: text`.
pub fn validate(schema: &Json, object: &Json) -> Vec<String> {
    let mut validator = Validator { budget: BUDGET, errors: Vec::new() };
    // Validation stops when the budget is spent.
    let _ = validator.node(schema, object, "", true);
    validator.errors
}

/// The error of a spent budget.
struct Spent;

struct Validator {
    budget: u64,
    errors: Vec<String>,
}

impl Validator {
    fn node(&mut self, schema: &Json, value: &Json, path: &str, is_root: bool) -> Result<(), Spent> {
        if value.is_null() {
            return Ok(());
        }
        let rules = schema.get(super::RULES).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        if !rules.is_empty() {
            let is_resource = is_root || has(schema, "x-kubernetes-embedded-resource");
            self.rules(schema, value, path, is_resource, rules)?;
        }
        match value {
            Json::Array(items) => {
                let Some(of) = schema.get("items") else { return Ok(()) };
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| self.node(of, item, &format!("{path}[{index}]"), false))
            }
            Json::Object(fields) => {
                let values = schema.get("additionalProperties").filter(|values| values.is_object());
                let mut fields = fields.iter();
                fields.try_for_each(|(name, field)| {
                    let property = schema.get("properties").and_then(|properties| properties.get(name));
                    let dot = if path.is_empty() { "" } else { "." };
                    match (property, values) {
                        (Some(of), _) => self.node(of, field, &format!("{path}{dot}{name}"), false),
                        (None, Some(of)) => self.node(of, field, &format!("{path}[{name}]"), false),
                        (None, None) => Ok(()),
                    }
                })
            }
            _ => Ok(()),
        }
    }

    fn rules(
        &mut self,
        schema: &Json,
        json: &Json,
        path: &str,
        is_resource: bool,
        rules: &[Json],
    ) -> Result<(), Spent> {
        let path = if path.is_empty() { "<nil>" } else { path };
        let of = schema.get("type").and_then(Json::as_str).unwrap_or_default();
        let Some(declared) = Declared::of_schema(schema, is_resource) else { return Ok(()) };
        let value = match Value::typed(json, schema, is_resource) {
            Ok(value) => value,
            Err(why) => {
                self.errors.push(format!("{path}: {why}"));
                return Ok(());
            }
        };
        for rule in rules {
            let text = |name: &str| rule.get(name).and_then(Json::as_str).unwrap_or_default();
            match self.rule(rule, &value, &declared) {
                Ok(None) => {}
                Ok(Some(detail)) => {
                    let field = super::text::field_path(schema, text("fieldPath")).unwrap_or_default();
                    let at = match (path, &*field) {
                        (path, "") => path.to_owned(),
                        ("<nil>", field) => field.to_owned(),
                        (path, field) => format!("{path}.{field}"),
                    };
                    let shown = if matches!(of, "object" | "array") { String::new() } else { format!(" {json}:") };
                    // `fieldErrorForReason`
                    self.errors.push(match text("reason") {
                        "FieldValueForbidden" => format!("{at}: Forbidden: {detail}"),
                        "FieldValueRequired" => format!("{at}: Required value: {detail}"),
                        "FieldValueDuplicate" => format!("{at}: Duplicate value:{}", shown.trim_end_matches(':')),
                        _ => format!("{at}: Invalid value:{shown} {detail}"),
                    });
                }
                Err((why, spent)) => {
                    self.errors.push(format!("{path}: Invalid value: {of:?}: {why}"));
                    spent.map_or(Ok(()), Err)?;
                }
            }
        }
        Ok(())
    }

    /// The message of a rule that a value violates. An error is the reason why the rule could not be evaluated, and whether validation
    /// stops.
    fn rule(
        &mut self,
        rule: &Json,
        value: &Value<'_>,
        declared: &Declared,
    ) -> Result<Option<String>, (String, Option<Spent>)> {
        let text = |name: &str| rule.get(name).and_then(Json::as_str).unwrap_or_default();
        let is_optional = rule.get("optionalOldSelf") == Some(&Json::Bool(true));
        let compiled = Compiled::new(text("rule"), &Type::Bool, declared, is_optional);
        let (compiled, _) = compiled.map_err(|why| (format!("rule compile error: {why}"), None))?;
        // A new object has no old value, so a rule for changes does not apply.
        if compiled.uses_old_self() && !is_optional {
            return Ok(None);
        }
        let variables = [Some(value.clone()), is_optional.then_some(Value::Optional(None))];
        let limits = Limits { cost: PER_CALL, deadline: None };
        let outcome = compiled.program.evaluate(&variables, &limits);
        self.budget = self.budget.checked_sub(outcome.cost).ok_or_else(|| (OUT_OF_BUDGET.to_owned(), Some(Spent)))?;
        let source = Some(text("message").trim()).filter(|message| !message.is_empty()).unwrap_or(text("rule").trim());
        match outcome.value {
            Ok(Value::Bool(true)) => return Ok(None),
            Ok(_) => {}
            Err(why @ Error::CostLimit) => {
                let text = "no further validation rules will be run due to call cost exceeds limit for rule";
                return Err((format!("'{why}': {text}: {source}"), Some(Spent)));
            }
            Err(why) if why.to_string().starts_with("no such overload") => {
                let text = "call arguments did not match a supported operator, function or macro signature for rule";
                return Err((format!("'{why}': {text}: {source}"), None));
            }
            Err(why) => return Err((format!("{why} evaluating rule: {source}"), None)),
        }
        let message = Compiled::new(text("messageExpression"), &Type::String, declared, is_optional);
        let message = message.ok().and_then(|(compiled, _)| {
            let outcome = compiled.program.evaluate(&variables, &limits);
            self.budget = self.budget.saturating_sub(outcome.cost);
            let Ok(Value::String(text)) = outcome.value else { return None };
            let text = text.trim();
            (!text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n')).then(|| text.to_owned())
        });
        Ok(Some(message.unwrap_or_else(|| match text("message").trim() {
            "" => format!("failed rule: {source}"),
            message => message.to_owned(),
        })))
    }
}
