//! Bindings: the parts that the cache keeps, compiled when a binding is read. A cluster may have a hundred thousand bindings.

use crate::admission::shadow;
use crate::cluster::{CONFIGURATION, Need, Projection};
use crate::matching::Criteria;
use crate::object::selector::{InvalidSelector, LabelSelector};
use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, MutatingAdmissionPolicyBinding, ParamRef, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::fmt::Debug;
use std::marker::PhantomData;

/// ValidatingAdmissionPolicyBindings.
pub(crate) const VALIDATING_BINDINGS: Need =
    Need::of::<Binding<ValidatingAdmissionPolicyBinding>>("ValidatingBindings");
/// MutatingAdmissionPolicyBindings.
pub(crate) const MUTATING_BINDINGS: Need = Need::of::<Binding<MutatingAdmissionPolicyBinding>>("MutatingBindings");

/// The effect of a failed validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The request is refused.
    Deny,
    /// The client is warned.
    Warn,
    /// The audit event records the failure.
    Audit,
}

impl Action {
    /// Returns the action as a binding spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

/// The place of a binding's parameters (`paramRef`).
#[derive(Debug, PartialEq)]
pub(crate) struct ParameterReference {
    /// The name of one object.
    pub(crate) name: Option<Box<str>>,
    /// The namespace of the parameters; `None` for the request's namespace.
    pub(crate) namespace: Option<Box<str>>,
    /// The labels of the objects, instead of a name.
    pub(crate) selector: Option<Result<LabelSelector, InvalidSelector>>,
    /// Whether parameterNotFoundAction is `Deny`.
    pub(crate) must_exist: bool,
}

impl From<ParamRef> for ParameterReference {
    fn from(reference: ParamRef) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Box::from);
        Self {
            name: given(reference.name),
            namespace: given(reference.namespace),
            selector: reference.selector.map(|selector| LabelSelector::from_api(Some(&selector))),
            must_exist: reference.parameter_not_found_action.as_deref() == Some("Deny"),
        }
    }
}

/// A binding of the kind `A`.
#[derive(Debug)]
pub(crate) struct Binding<A> {
    /// The name of the binding.
    pub(crate) name: Box<str>,
    /// The name of its policy.
    pub(crate) policy: Box<str>,
    /// The place of the parameters.
    pub(crate) parameters: Option<Box<ParameterReference>>,
    /// The criteria for requests beyond the policy's; `None` for all requests of the policy.
    pub(crate) criteria: Option<Box<Criteria>>,
    /// The effects of failed validations, in the order of the binding.
    pub(crate) actions: Box<[Action]>,
    /// Whether an annotation of the binding puts its policy in shadow mode.
    pub(crate) is_shadow: bool,
    api: PhantomData<fn() -> A>,
}

impl<A> PartialEq for Binding<A> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.policy == other.policy
            && self.is_shadow == other.is_shadow
            && self.parameters == other.parameters
            && self.criteria == other.criteria
            && self.actions == other.actions
    }
}

impl<A> Binding<A> {
    fn new(
        metadata: ObjectMeta,
        policy: Option<String>,
        parameters: Option<ParamRef>,
        resources: Option<MatchResources>,
        actions: &[String],
    ) -> Self {
        let action = |name: &String| match &**name {
            "Deny" => Some(Action::Deny),
            "Warn" => Some(Action::Warn),
            "Audit" => Some(Action::Audit),
            _ => None,
        };
        Self {
            is_shadow: shadow::is_policy(&metadata),
            name: metadata.name.unwrap_or_default().into(),
            policy: policy.unwrap_or_default().into(),
            parameters: parameters.map(|reference| Box::new(reference.into())),
            criteria: resources.map(|resources| Box::new(resources.into())),
            actions: actions.iter().filter_map(action).collect(),
            api: PhantomData,
        }
    }
}

impl Projection for Binding<ValidatingAdmissionPolicyBinding> {
    const NEED: Need = VALIDATING_BINDINGS;
    const MAY_BE_REFUSED: bool = true;
    const FIELDS: &'static [&'static str] = CONFIGURATION;
    type Object = ValidatingAdmissionPolicyBinding;

    fn project(object: ValidatingAdmissionPolicyBinding) -> (String, Self) {
        let key = object.metadata.name.clone().unwrap_or_default();
        let spec = object.spec;
        let (policy, actions) = (Some(spec.policy_name), spec.validation_actions);
        (key, Self::new(object.metadata, policy, spec.param_ref, spec.match_resources, &actions))
    }
}

impl Projection for Binding<MutatingAdmissionPolicyBinding> {
    const NEED: Need = MUTATING_BINDINGS;
    const MAY_BE_REFUSED: bool = true;
    const FIELDS: &'static [&'static str] = CONFIGURATION;
    type Object = MutatingAdmissionPolicyBinding;

    fn project(object: MutatingAdmissionPolicyBinding) -> (String, Self) {
        let key = object.metadata.name.clone().unwrap_or_default();
        let spec = object.spec.unwrap_or_default();
        (key, Self::new(object.metadata, spec.policy_name, spec.param_ref, spec.match_resources, &[]))
    }
}
