//! A policy of either kind, compiled; the kinds differ in their [`Rules`].

use super::metrics::Checks;
use crate::admission::shadow;
use crate::cel::Release;
use crate::cluster::Projection;
use crate::expressions::Conditions;
use crate::expressions::expression::{Compiler, Declarations, Expression};
use crate::expressions::request::Reads;
use crate::expressions::variables::Variable;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::matching::Criteria;
use crate::metrics::Registry;
use k8s_openapi::api::admissionregistration::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::fmt;

/// A compiled policy.
#[derive(Debug)]
pub(crate) struct Policy<R> {
    /// The name of the policy.
    pub(crate) name: Box<str>,
    /// Whether an annotation of the policy puts it in shadow mode.
    pub(crate) is_shadow: bool,
    /// The requests that the policy matches; `None` is an error of the policy.
    pub(crate) criteria: Option<Criteria>,
    /// The kind of the parameters.
    pub(crate) parameter_kind: Option<ParameterKind>,
    /// Whether failurePolicy is `Ignore`.
    pub(crate) ignores_failure: bool,
    /// The matchConditions.
    pub(crate) conditions: Conditions,
    pub(crate) variables: Box<[Variable]>,
    /// The validations or mutations.
    pub(crate) rules: R,
    /// The values that the expressions may read.
    pub(crate) reads: Reads,
}

/// The validations or mutations of one kind of policy.
pub(crate) trait Rules: fmt::Debug + Send + Sync + Sized + 'static {
    /// The kind of policy.
    type Source: Projection;
    /// The name of the kind, which is the plugin's name too.
    const KIND: &'static str;
    /// The plugin's type, as metrics label it.
    const STEP: &'static str;

    /// Registers the metrics of the plugin, or returns those that the registry has.
    ///
    /// # Errors
    /// If another metric has the name of one of them.
    fn checks(registry: &Registry) -> prometheus::Result<Checks>;
    /// Returns the fields that both kinds of policy have.
    fn fields(source: &Self::Source) -> Fields<'_>;
    /// Compiles the other fields. An expression that does not compile is kept as its error.
    fn compile(source: &Self::Source, compiler: &Compiler) -> Self;
    /// Returns all expressions of the rules.
    fn expressions(&self) -> impl Iterator<Item = &Expression>;
}

/// The fields that both kinds of policy have.
pub(crate) struct Fields<'a> {
    /// `metadata`
    pub(crate) metadata: &'a ObjectMeta,
    /// `matchConstraints`
    pub(crate) constraints: Option<&'a api::MatchResources>,
    /// `paramKind`
    pub(crate) parameter_kind: Option<&'a api::ParamKind>,
    /// `failurePolicy`
    pub(crate) failure_policy: Option<&'a str>,
    /// `matchConditions`
    pub(crate) conditions: Option<&'a Vec<api::MatchCondition>>,
    /// `variables`
    pub(crate) variables: Option<&'a Vec<api::Variable>>,
}

impl<R: Rules> Policy<R> {
    /// Compiles a stored policy by the rules of a release.
    pub(crate) fn compile(source: &R::Source, release: Release) -> Self {
        let fields = R::fields(source);
        let mut compiler = Compiler::new(fields.parameter_kind.is_some(), release.stored());
        let variables = fields.variables.into_iter().flatten();
        let variables = compiler.variables(variables.map(|variable| (&*variable.name, &*variable.expression)));
        let ignores_failure = fields.failure_policy == Some("Ignore");
        let conditions = fields.conditions.map(Vec::as_slice).unwrap_or_default();
        let mut compiled = Self {
            name: fields.metadata.name.as_deref().unwrap_or_default().into(),
            is_shadow: shadow::is_policy(fields.metadata),
            criteria: fields.constraints.cloned().map(Criteria::from),
            parameter_kind: fields.parameter_kind.map(ParameterKind::from),
            ignores_failure,
            conditions: Conditions::compile(conditions, &compiler, Declarations::OF_POLICIES, ignores_failure),
            variables,
            rules: R::compile(source, &compiler),
            reads: Reads::default(),
        };
        compiled.reads = Reads::of(compiled.expressions());
        compiled
    }

    /// Returns all expressions of the policy.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let variables = self.variables.iter().map(|variable| &variable.expression);
        variables.chain(self.conditions.expressions()).chain(self.rules.expressions())
    }
}

/// The `paramKind` of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterKind {
    api_version: String,
    kind: String,
}

impl From<&api::ParamKind> for ParameterKind {
    fn from(kind: &api::ParamKind) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { api_version: text(&kind.api_version), kind: text(&kind.kind) }
    }
}

/// The reason why the kind of a policy's parameters cannot be used, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnusableKind {
    /// The apiVersion has two slashes.
    #[error("unexpected GroupVersion string: {0}")]
    Malformed(String),
    /// The API server does not serve the kind (`ensureParamsForPolicyLocked`).
    #[error(
        "failed to find resource referenced by paramKind: '{}{}, Kind={}'",
        if .0.group.is_empty() { "/" } else { "" }, .0.api_version(), .0.kind
    )]
    Unknown(GroupVersionKind),
    /// As many kinds of parameters as may be are followed already.
    #[error("too many kinds of parameters are in use to follow `{0}`")]
    TooMany(ParameterKind),
}

impl ParameterKind {
    /// Returns group, version and kind (`schema.ParseGroupVersion`).
    ///
    /// # Errors
    /// If the version has two slashes.
    pub(crate) fn parsed(&self) -> Result<GroupVersionKind, UnusableKind> {
        match split_api_version(&self.api_version) {
            (_, version) if version.contains('/') => Err(UnusableKind::Malformed(self.api_version.clone())),
            (group, version) => Ok(GroupVersionKind::new(group, version, &*self.kind)),
        }
    }
}

/// Formats the kind like `ParamKind.String`.
impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "&ParamKind{{APIVersion:{},Kind:{},}}", self.api_version, self.kind)
    }
}
