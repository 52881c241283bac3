//! A MutatingAdmissionPolicy, compiled (`mutating.compilePolicy`).

use crate::cel::Type;
use crate::policies::conditions::Conditions;
use crate::policies::expression::{Compiler, Declarations, Expression};
use crate::policies::request::Looks;
use crate::policies::source::{Compiled, ParameterKind};
use crate::policies::variables::Variable;
use crate::webhooks::criteria::Criteria;
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, Mutation as ApiMutation};

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
    /// What it does, in order.
    pub mutations: Box<[Mutation]>,
    /// Whether it is asked again when the object changes after it.
    pub is_reinvocable: bool,
    /// What its expressions look at.
    pub looks: Looks,
}

/// Something that is done to an object.
#[derive(Debug)]
pub enum Mutation {
    /// An apply configuration is merged into it.
    Apply(Expression),
    /// A JSON patch is applied to it.
    JsonPatch(Expression),
}

impl Mutation {
    fn compile(mutation: &ApiMutation, compiler: &Compiler) -> Option<Self> {
        let declarations = Declarations { variables: true, authorizer: true, patches: true, ..Declarations::default() };
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

    /// What it is made by.
    pub fn expression(&self) -> &Expression {
        let (Self::Apply(expression) | Self::JsonPatch(expression)) = self;
        expression
    }
}

impl Compiled for Policy {
    type Source = MutatingAdmissionPolicy;

    fn compile(policy: &MutatingAdmissionPolicy) -> Self {
        let spec = policy.spec.clone().unwrap_or_default();
        let mut compiler = Compiler::new(spec.param_kind.is_some());
        let variables = compiler
            .variables(spec.variables.iter().flatten().map(|variable| (&*variable.name, &*variable.expression)));
        let declarations = Declarations { variables: true, authorizer: true, ..Declarations::default() };
        let ignores_failure = spec.failure_policy.as_deref() == Some("Ignore");
        let conditions = spec.match_conditions.as_deref().unwrap_or_default();
        let mutations = spec.mutations.iter().flatten();
        let mut compiled = Self {
            name: policy.metadata.name.as_deref().unwrap_or_default().into(),
            criteria: spec.match_constraints.clone().map(Criteria::from),
            parameter_kind: spec.param_kind.as_ref().map(ParameterKind::from),
            ignores_failure,
            conditions: Conditions::compile(conditions, &compiler, declarations, ignores_failure),
            mutations: mutations.filter_map(|mutation| Mutation::compile(mutation, &compiler)).collect(),
            is_reinvocable: spec.reinvocation_policy.as_deref() == Some("IfNeeded"),
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
        let variables = self.variables.iter().map(|variable| &variable.expression);
        variables.chain(self.conditions.expressions()).chain(self.mutations.iter().map(Mutation::expression))
    }
}
