//! MutatingAdmissionPolicy: applies the cluster's mutating policies to an object. The implementation is in `policies/`.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::matching::Content;
use crate::policies::{MUTATING_NEEDS, MutatingPolicies, config};
use async_trait::async_trait;
use serde_json::Value;

/// MutatingAdmissionPolicy's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "MutatingAdmissionPolicy",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE.or(Operations::UPDATE).or(Operations::CONNECT),
    resources: Resources::All,
    needs: MUTATING_NEEDS,
    configuration: Some("MutatingAdmissionPolicyConfiguration"),
    removed: None,
    front_end: FrontEndSupport::LeftOut("the API server evaluates policies itself"),
    about: "Changes objects by mutating admission policies.",
    build,
};

/// The feature gate, which is off before 1.36 by default.
const GATE: &str = "MutatingAdmissionPolicy";

/// `None` without the gate.
struct MutatingAdmissionPolicy(Option<MutatingPolicies>);

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let gates = environment.feature_gates;
    let folder = config::read(environment.configuration, "MutatingAdmissionPolicyConfiguration", gates)?;
    let files = MutatingPolicies::files(folder, environment)?;
    let policies = gates.is_on(GATE).then(|| MutatingPolicies::new(environment, files));
    Ok(Box::new(MutatingAdmissionPolicy(policies.transpose()?)))
}

#[async_trait]
impl Plugin for MutatingAdmissionPolicy {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        match &self.0 {
            Some(policies) => policies.admit(attributes).await,
            None => Ok(()),
        }
    }

    fn names_own_changes(&self) -> bool {
        true
    }

    fn reads_managed_fields(&self, attributes: &Attributes) -> bool {
        self.0.as_ref().is_some_and(|policies| policies.may_match(attributes, Content::Any))
    }

    fn problems(&self) -> Vec<String> {
        self.0.as_ref().map(MutatingPolicies::problems).unwrap_or_default()
    }

    fn look(&self) -> Option<Value> {
        self.0.as_ref().map(MutatingPolicies::look)
    }
}
