//! The mutations of a MutatingAdmissionPolicy, compiled (`mutating.compilePolicy`).

use crate::cel::Type;
use crate::expressions::expression::{Compiler, Declarations, Expression};
use crate::metrics::Registry;
use crate::policies::metrics::Checks;
use crate::policies::policy::{Fields, Rules};
use k8s_openapi::api::admissionregistration::v1::{self as api, MutatingAdmissionPolicy};

/// A compiled policy.
pub(super) type Policy = crate::policies::policy::Policy<Mutations>;

/// The mutations of a policy.
#[derive(Debug)]
pub(crate) struct Mutations {
    /// The mutations in their order.
    pub(crate) mutations: Box<[Mutation]>,
    /// Whether reinvocationPolicy is `IfNeeded`: the policy is called again if the object changes after it.
    pub(crate) is_reinvocable: bool,
}

/// A change to an object.
#[derive(Debug)]
pub(crate) enum Mutation {
    /// Merges an apply configuration into the object.
    Apply(Expression),
    /// Applies a JSON patch to the object.
    JsonPatch(Expression),
}

impl Mutation {
    fn compile(mutation: &api::Mutation, compiler: &Compiler) -> Option<Self> {
        let declarations = Declarations { patches: true, ..Declarations::OF_POLICIES };
        match &*mutation.patch_type {
            "ApplyConfiguration" => {
                let source = mutation.apply_configuration.as_ref()?.expression.as_deref().unwrap_or_default();
                Some(Self::Apply(compiler.compile(source, declarations, &[Type::object("Object")])))
            }
            "JSONPatch" => {
                let source = mutation.json_patch.as_ref()?.expression.as_deref().unwrap_or_default();
                let types = [Type::list(Type::object("JSONPatch"))];
                Some(Self::JsonPatch(compiler.compile(source, declarations, &types)))
            }
            _ => None,
        }
    }

    /// Returns the expression of the change.
    pub(crate) fn expression(&self) -> &Expression {
        let (Self::Apply(expression) | Self::JsonPatch(expression)) = self;
        expression
    }
}

impl Rules for Mutations {
    type Source = MutatingAdmissionPolicy;
    const KIND: &'static str = "MutatingAdmissionPolicy";
    const STEP: &'static str = "admit";

    fn checks(registry: &Registry) -> prometheus::Result<Checks> {
        registry.once("mutating", Checks::mutating)
    }

    fn fields(policy: &MutatingAdmissionPolicy) -> Fields<'_> {
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

    fn compile(policy: &MutatingAdmissionPolicy, compiler: &Compiler) -> Self {
        let spec = policy.spec.as_ref();
        let mutations = spec.and_then(|spec| spec.mutations.as_ref()).into_iter().flatten();
        Self {
            mutations: mutations.filter_map(|mutation| Mutation::compile(mutation, compiler)).collect(),
            is_reinvocable: spec.is_some_and(|spec| spec.reinvocation_policy.as_deref() == Some("IfNeeded")),
        }
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.mutations.iter().map(Mutation::expression)
    }
}
