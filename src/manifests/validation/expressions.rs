//! Validates a policy's expressions, and the fields beside them.

use super::{Faults, given, items, text};
use crate::cel::schema::is_reserved;
use crate::cel::{Release, Type};
use crate::expressions::{Compiler, Declarations};
use crate::names::qualified_name_errors;
use serde_json::{Value, json};
use std::collections::HashSet;

const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_AUDIT_ANNOTATION_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
/// An expression, and the text of its error.
struct Source<'a> {
    field: &'a str,
    /// The text to compile.
    text: &'a str,
    /// The text that the error quotes.
    given: &'a str,
}

impl Source<'_> {
    /// `validateCELCondition`
    fn check(&self, scope: Scope<'_>, types: &[Type], faults: &mut Faults) {
        if let Some(why) = scope.compiler.compile(self.text, scope.declarations, types).compile_error() {
            faults.not_compiled(self.field, self.given, why);
        }
    }
}

/// `validateMatchConditionsExpression`
pub(super) fn match_condition(
    expression: &str,
    field: &str,
    has_parameters: bool,
    release: Release,
    faults: &mut Faults,
) {
    let declarations = Declarations { authorizer: true, ..Declarations::default() };
    let source = Source { field, text: expression, given: expression };
    let scope = Scope { compiler: &Compiler::new(has_parameters, release), declarations };
    source.check(scope, &[Type::Bool], faults);
}

/// The names that an expression may use.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// The compiler, which knows the variables of the policy.
    compiler: &'a Compiler,
    declarations: Declarations,
}

/// Validates the variables, and the validations or mutations, of a policy's spec. `policy` is the policy's name.
pub(super) fn policy(spec: &Value, policy: &str, is_validating: bool, release: Release, faults: &mut Faults) {
    let has_parameters = spec.get("paramKind").is_some_and(|kind| !kind.is_null());
    let mut compiler = Compiler::new(has_parameters, release);
    let variables = items(spec, "variables");
    for (index, variable) in variables.iter().enumerate() {
        check_variable(variable, &format!("spec.variables[{index}]"), &mut compiler, faults);
    }
    let has_variables = !is_validating || !variables.is_empty();
    let declarations = Declarations { authorizer: true, variables: has_variables, ..Declarations::default() };
    match is_validating {
        true => validating(spec, policy, Scope { compiler: &compiler, declarations }, faults),
        false => {
            let declarations = Declarations { patches: true, ..declarations };
            mutating(spec, Scope { compiler: &compiler, declarations }, faults);
        }
    }
}

/// `validateVariable`
fn check_variable(variable: &Value, path: &str, compiler: &mut Compiler, faults: &mut Faults) {
    let (name, expression) = (text(variable, "name"), text(variable, "expression"));
    if name.trim().is_empty() {
        faults.required(&format!("{path}.name"), "name is not specified");
    } else if !is_identifier(name) {
        faults.invalid(&format!("{path}.name"), name, "must be a valid CEL identifier");
    }
    let field = format!("{path}.expression");
    if expression.trim().is_empty() {
        return faults.required(&field, "expression is not specified");
    }
    for compiled in compiler.variables(std::iter::once((name, expression))) {
        if let Some(why) = compiled.expression.compile_error() {
            faults.not_compiled(&field, expression, why);
        }
    }
}

/// `isCELIdentifier`
fn is_identifier(name: &str) -> bool {
    let is_inner = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.chars().all(is_inner) && !name.starts_with(|c: char| c.is_ascii_digit()) && !is_reserved(name)
}

fn validating(spec: &Value, policy: &str, scope: Scope<'_>, faults: &mut Faults) {
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for field in ["spec.validations", "spec.auditAnnotations"] {
            faults.required(field, "validations or auditAnnotations must contain at least one item");
        }
    }
    for (index, validation) in validations.iter().enumerate() {
        check_validation(validation, &format!("spec.validations[{index}]"), scope, faults);
    }
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let shown = |one: &Value| json!({"Key": text(one, "key"), "ValueExpression": text(one, "valueExpression")});
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        faults.invalid_value("spec.auditAnnotations", annotations.iter().map(shown).collect::<Value>(), &why);
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{index}]");
        check_annotation(annotation, policy, &path, scope, faults);
        let key = text(annotation, "key");
        if !keys.insert(key) {
            faults.duplicate(&format!("{path}.key"), key);
        }
    }
}

/// `validateValidation`
fn check_validation(validation: &Value, path: &str, scope: Scope<'_>, faults: &mut Faults) {
    let at = |field: &str| format!("{path}.{field}");
    let (expression, message_expression, message) =
        (text(validation, "expression"), text(validation, "messageExpression"), text(validation, "message"));
    if expression.trim().is_empty() {
        faults.required(&at("expression"), "expression is not specified");
    } else {
        let source = Source { field: &at("expression"), text: expression, given: expression };
        source.check(scope, &[Type::Bool], faults);
    }
    if !message_expression.trim().is_empty() {
        let without = Scope { declarations: Declarations { authorizer: false, ..scope.declarations }, ..scope };
        let source = Source { field: &at("messageExpression"), text: message_expression, given: message_expression };
        source.check(without, &[Type::String], faults);
    } else if !message_expression.is_empty() {
        faults.invalid(&at("messageExpression"), message_expression, "must be non-empty if specified");
    }
    if !message.is_empty() && message.trim().is_empty() {
        faults.invalid(&at("message"), message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        faults.invalid(&at("message"), message, "must not contain line breaks");
    }
    if let Some(reason) = given(validation, "reason") {
        faults.one_of(&at("reason"), reason, &REASONS);
    }
}

/// `validateAuditAnnotation`
fn check_annotation(annotation: &Value, policy: &str, path: &str, scope: Scope<'_>, faults: &mut Faults) {
    let (key, given) = (text(annotation, "key"), text(annotation, "valueExpression"));
    let field = format!("{path}.key");
    if policy.is_empty() {
        faults.invalid(&field, key, "requires metadata.name be non-empty");
    } else {
        let key = format!("{policy}/{key}");
        qualified_name_errors(&key).iter().for_each(|error| faults.invalid(&field, &key, error));
    }
    let (field, text) = (&*format!("{path}.valueExpression"), given.trim());
    if text.is_empty() {
        faults.required(field, "valueExpression is not specified");
    } else if text.len() > MAX_AUDIT_ANNOTATION_BYTES {
        faults.required(field, &format!("must not exceed {MAX_AUDIT_ANNOTATION_BYTES} bytes in length"));
    } else {
        Source { field, text, given }.check(scope, &[Type::String, Type::Null], faults);
    }
}

fn mutating(spec: &Value, scope: Scope<'_>, faults: &mut Faults) {
    let mutations = items(spec, "mutations");
    if mutations.is_empty() {
        faults.required("spec.mutations", "mutations must contain at least one item");
    }
    for (index, mutation) in mutations.iter().enumerate() {
        check_mutation(mutation, &format!("spec.mutations[{index}]"), scope, faults);
    }
    const REINVOCATION: &str = "spec.reinvocationPolicy";
    match text(spec, "reinvocationPolicy") {
        "" => faults.required(REINVOCATION, ""),
        policy => faults.one_of(REINVOCATION, policy, &["IfNeeded", "Never"]),
    }
}

/// `validateMutation`
fn check_mutation(mutation: &Value, path: &str, scope: Scope<'_>, faults: &mut Faults) {
    let patch_type = text(mutation, "patchType");
    let (field, other, evaluates_to) = match patch_type {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Type::object("Object")),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Type::list(Type::object("JSONPatch"))),
        "" => return faults.required(&format!("{path}.patchType"), ""),
        _ => return faults.one_of(&format!("{path}.patchType"), patch_type, &PATCH_TYPES),
    };
    let found = |field: &str| mutation.get(field).filter(|value| !value.is_null());
    match found(field) {
        None => {
            faults.required(&format!("{path}.{field}"), &format!("must be specified when patchType is {patch_type}"));
        }
        Some(patch) => {
            let (text, field) = (text(patch, "expression").trim(), format!("{path}.{field}.expression"));
            if text.is_empty() {
                faults.required(&field, "");
            } else {
                let source = Source { field: &field, text, given: text };
                source.check(scope, &[evaluates_to], faults);
            }
        }
    }
    if found(other).is_some() {
        let why = format!("must not be specified when patchType is {patch_type}");
        faults.invalid(&format!("{path}.{other}"), &format!("{{{other}}}"), &why);
    }
}
