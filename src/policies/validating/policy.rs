//! A ValidatingAdmissionPolicy, compiled (`validating.compilePolicy`).

use crate::cel::Type;
use crate::policies::conditions::Conditions;
use crate::policies::expression::{Compiler, Declarations, Expression};
use crate::policies::request::Looks;
use crate::policies::source::{Compiled, ParameterKind};
use crate::policies::variables::Variable;
use crate::webhooks::criteria::Criteria;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, Validation as ApiValidation};

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: Box<str>,
    /// Which requests it is for; none is a mistake in it.
    pub criteria: Option<Criteria>,
    /// The kind of its parameters.
    pub parameter_kind: Option<ParameterKind>,
    /// Whether what goes wrong is ignored.
    pub ignores_failure: bool,
    /// What else must hold for it to be asked.
    pub conditions: Conditions,
    /// Its variables.
    pub variables: Box<[Variable]>,
    /// What must hold.
    pub validations: Box<[Validation]>,
    /// What it tells the audit log.
    pub annotations: Box<[Annotation]>,
    /// What its expressions look at.
    pub looks: Looks,
}

/// Something that must hold.
#[derive(Debug)]
pub struct Validation {
    /// What is to be true.
    pub expression: Expression,
    /// What is said otherwise.
    pub message: String,
    /// Or this.
    pub message_expression: Option<Expression>,
    /// The reason of the refusal.
    pub reason: Option<String>,
}

/// Something for the audit log.
#[derive(Debug)]
pub struct Annotation {
    /// The second half of its key.
    pub key: String,
    /// Its value.
    pub expression: Expression,
}

impl Compiled for Policy {
    type Source = ValidatingAdmissionPolicy;

    fn compile(policy: &ValidatingAdmissionPolicy) -> Self {
        let spec = policy.spec.clone().unwrap_or_default();
        let mut compiler = Compiler::new(spec.param_kind.is_some());
        let variables = compiler
            .variables(spec.variables.iter().flatten().map(|variable| (&*variable.name, &*variable.expression)));
        let with_authorizer = Declarations { variables: true, authorizer: true, ..Declarations::default() };
        let validation = |validation: &ApiValidation| {
            let message_expression = validation.message_expression.as_deref().filter(|source| !source.is_empty());
            let without_authorizer = Declarations { authorizer: false, ..with_authorizer };
            Validation {
                expression: compiler.compile(&validation.expression, with_authorizer, &[Type::Bool]),
                message: validation.message.as_deref().unwrap_or_default().trim().to_owned(),
                message_expression: message_expression
                    .map(|source| compiler.compile(source, without_authorizer, &[Type::String])),
                reason: validation.reason.clone(),
            }
        };
        let ignores_failure = spec.failure_policy.as_deref() == Some("Ignore");
        let conditions = spec.match_conditions.as_deref().unwrap_or_default();
        let mut compiled = Self {
            name: policy.metadata.name.as_deref().unwrap_or_default().into(),
            criteria: spec.match_constraints.clone().map(Criteria::from),
            parameter_kind: spec.param_kind.as_ref().map(ParameterKind::from),
            ignores_failure,
            conditions: Conditions::compile(conditions, &compiler, with_authorizer, ignores_failure),
            validations: spec.validations.iter().flatten().map(validation).collect(),
            annotations: spec
                .audit_annotations
                .iter()
                .flatten()
                .map(|annotation| Annotation {
                    key: annotation.key.clone(),
                    expression: compiler.compile(
                        &annotation.value_expression,
                        with_authorizer,
                        &[Type::String, Type::Null],
                    ),
                })
                .collect(),
            variables,
            looks: Looks::default(),
        };
        compiled.looks = Looks::of(compiled.expressions());
        compiled
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn criteria(&self) -> Option<&Criteria> {
        self.criteria.as_ref()
    }

    fn parameter_kind(&self) -> Option<&ParameterKind> {
        self.parameter_kind.as_ref()
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let validations = self.validations.iter();
        let of_validations = validations.flat_map(|validation| {
            std::iter::once(&validation.expression).chain(validation.message_expression.as_ref())
        });
        let variables = self.variables.iter().map(|variable| &variable.expression);
        let annotations = self.annotations.iter().map(|annotation| &annotation.expression);
        variables.chain(self.conditions.expressions()).chain(of_validations).chain(annotations)
    }
}
