//! Expressions of policies and webhooks: their costs, and their type errors for the kinds that they match.

use super::report::Finding;
use super::resources::Definitions;
use crate::cel::Release;
use crate::cel::typecheck::{ParameterType, TypeChecker, kinds_of_rules};
use crate::expressions::{Compiler, Declarations};
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::Object;
use serde_json::Value;

/// Returns the findings about the expressions that compile in a release.
pub(super) fn findings(kind: &str, object: &Object, definitions: &Definitions<'_>, release: Release) -> Vec<Finding> {
    let mut found = Findings { release, found: Vec::new() };
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for (index, hook) in object.items(&["webhooks"]).iter().enumerate() {
                let compiler = Compiler::of_webhook(release);
                found.conditions(&compiler, items(hook, "matchConditions"), &format!("webhooks[{index}]"));
            }
        }
        "ValidatingAdmissionPolicy" => found.policy(object, Some(definitions)),
        "MutatingAdmissionPolicy" => found.policy(object, None),
        _ => {}
    }
    found.found
}

struct Findings {
    release: Release,
    found: Vec<Finding>,
}

impl Findings {
    fn conditions(&mut self, compiler: &Compiler, conditions: &[Value], path: &str) {
        let declarations = Declarations { authorizer: true, ..Declarations::default() };
        for (index, condition) in conditions.iter().enumerate() {
            let source = text(condition, "expression").trim();
            let field = format!("{path}.matchConditions[{index}].expression");
            self.costs(field, compiler.estimate(source, declarations));
        }
    }

    fn costs(&mut self, field: String, cost: Option<crate::cel::estimate::Range>) {
        self.found.extend(cost.map(|cost| Finding::Expression(field, cost)));
    }

    /// Adds the findings about a policy. With definitions, the expressions are also type-checked for the kinds of the policy.
    fn policy(&mut self, object: &Object, definitions: Option<&Definitions<'_>>) {
        let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
        let parameters = spec.get("paramKind").filter(|kind| !kind.is_null());
        let mut compiler = Compiler::new(parameters.is_some(), self.release);
        let declarations = Declarations { authorizer: true, variables: true, ..Declarations::default() };
        self.conditions(&compiler, items(spec, "matchConditions"), "spec");
        let mut variables = Vec::new();
        for (index, variable) in items(spec, "variables").iter().enumerate() {
            let (name, source) = (text(variable, "name"), text(variable, "expression"));
            self.costs(format!("spec.variables[{index}].expression"), compiler.estimate(source, declarations));
            compiler.variables(std::iter::once((name, source)));
            variables.push((name, source));
        }
        let parameters = parameters.map(|kind| {
            let (name, (group, version)) = (text(kind, "kind"), split_api_version(text(kind, "apiVersion")));
            let schema = definitions.and_then(|known| known.declared(&GroupVersionKind::new(group, version, name)));
            (name, schema)
        });
        let kinds = definitions.into_iter().flat_map(|definitions| {
            let rules = object.items(&["spec", "matchConstraints", "resourceRules"]);
            let kinds = kinds_of_rules(rules, |resource| definitions.kinds_of(resource));
            kinds.into_iter().filter_map(move |kind| Some((kind.clone(), definitions.declared(&kind)?)))
        });
        let parameters = parameters.as_ref().map(|(kind, schema)| ParameterType { kind, schema: schema.as_ref() });
        let checker = TypeChecker::new(self.release, kinds, parameters, variables.iter().copied());
        for (index, validation) in items(spec, "validations").iter().enumerate() {
            for (name, authorizer) in [("expression", true), ("messageExpression", false)] {
                let (field, source) = (format!("spec.validations[{index}].{name}"), text(validation, name));
                if source.trim().is_empty() {
                    continue;
                }
                let untyped = compiler.estimate(source, Declarations { authorizer, ..declarations });
                let typed = checker.estimate(source).filter(|_| untyped.is_some());
                self.costs(field.clone(), typed.or(untyped));
                let warning = checker.warning(source).filter(|_| untyped.is_some());
                self.found.extend(warning.map(|text| Finding::Warning(field, text)));
            }
        }
        for (index, annotation) in items(spec, "auditAnnotations").iter().enumerate() {
            let cost = compiler.estimate(text(annotation, "valueExpression").trim(), declarations);
            self.costs(format!("spec.auditAnnotations[{index}].valueExpression"), cost);
        }
        for (index, mutation) in items(spec, "mutations").iter().enumerate() {
            for name in ["applyConfiguration", "jsonPatch"] {
                let source = mutation.get(name).map(|patch| text(patch, "expression").trim()).unwrap_or_default();
                let cost = compiler.estimate(source, Declarations { patches: true, ..declarations });
                self.costs(format!("spec.mutations[{index}].{name}.expression"), cost);
            }
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
