//! The validations of a ValidatingAdmissionPolicy, compiled (`validating.compilePolicy`).

use crate::cel::Type;
use crate::expressions::expression::{Compiler, Declarations, Expression};
use crate::metrics::Registry;
use crate::policies::metrics::Checks;
use crate::policies::policy::{Fields, Rules};
use k8s_openapi::api::admissionregistration::v1::{self as api, ValidatingAdmissionPolicy};

/// A compiled policy.
pub(super) type Policy = crate::policies::policy::Policy<Validations>;

/// The rules of a policy.
#[derive(Debug)]
pub(crate) struct Validations {
    pub(crate) validations: Box<[Validation]>,
    /// The audit annotations.
    pub(crate) annotations: Box<[Annotation]>,
}

/// A condition on the request.
#[derive(Debug)]
pub(crate) struct Validation {
    /// The expression that must be true.
    pub(crate) expression: Expression,
    /// The message of a failure.
    pub(crate) message: String,
    /// The expression of the message, which wins over `message`.
    pub(crate) message_expression: Option<Expression>,
    /// The reason of the refusal.
    pub(crate) reason: Option<String>,
}

/// An audit annotation.
#[derive(Debug)]
pub(crate) struct Annotation {
    /// The second half of the annotation's key.
    pub(crate) key: String,
    /// The expression of the value.
    pub(crate) expression: Expression,
}

impl Validation {
    fn compile(validation: &api::Validation, compiler: &Compiler) -> Self {
        let message_expression = validation.message_expression.as_deref().filter(|source| !source.is_empty());
        let without_authorizer = Declarations { authorizer: false, ..Declarations::OF_POLICIES };
        Self {
            expression: compiler.compile(&validation.expression, Declarations::OF_POLICIES, &[Type::Bool]),
            message: validation.message.as_deref().unwrap_or_default().trim().to_owned(),
            message_expression: message_expression
                .map(|source| compiler.compile(source, without_authorizer, &[Type::String])),
            reason: validation.reason.clone(),
        }
    }
}

impl Annotation {
    fn compile(annotation: &api::AuditAnnotation, compiler: &Compiler) -> Self {
        let types = [Type::String, Type::Null];
        let expression = compiler.compile(&annotation.value_expression, Declarations::OF_POLICIES, &types);
        Self { key: annotation.key.clone(), expression }
    }
}

impl Rules for Validations {
    type Source = ValidatingAdmissionPolicy;
    const KIND: &'static str = "ValidatingAdmissionPolicy";
    const STEP: &'static str = "validating";

    fn checks(registry: &Registry) -> prometheus::Result<Checks> {
        registry.once("validating", Checks::validating)
    }

    fn fields(policy: &ValidatingAdmissionPolicy) -> Fields<'_> {
        let spec = policy.spec.as_ref();
        Fields {
            metadata: &policy.metadata,
            constraints: spec.and_then(|spec| spec.match_constraints.as_ref()),
            parameter_kind: spec.and_then(|spec| spec.param_kind.as_ref()),
            failure_policy: spec.and_then(|spec| spec.failure_policy.as_deref()),
            conditions: spec.and_then(|spec| spec.match_conditions.as_ref()),
            variables: spec.and_then(|spec| spec.variables.as_ref()),
        }
    }

    fn compile(policy: &ValidatingAdmissionPolicy, compiler: &Compiler) -> Self {
        let spec = policy.spec.as_ref();
        let validations = spec.and_then(|spec| spec.validations.as_ref()).into_iter().flatten();
        let annotations = spec.and_then(|spec| spec.audit_annotations.as_ref()).into_iter().flatten();
        Self {
            validations: validations.map(|validation| Validation::compile(validation, compiler)).collect(),
            annotations: annotations.map(|annotation| Annotation::compile(annotation, compiler)).collect(),
        }
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let of_validations = self.validations.iter().flat_map(|validation| {
            std::iter::once(&validation.expression).chain(validation.message_expression.as_ref())
        });
        of_validations.chain(self.annotations.iter().map(|annotation| &annotation.expression))
    }
}
