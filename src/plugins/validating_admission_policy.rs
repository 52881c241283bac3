//! ValidatingAdmissionPolicy: checks requests against the cluster's validating policies. The implementation is in `policies/`.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::matching::Content;
use crate::policies::{VALIDATING_NEEDS, ValidatingPolicies, config};
use async_trait::async_trait;
use serde_json::Value;

/// ValidatingAdmissionPolicy's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "ValidatingAdmissionPolicy",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: VALIDATING_NEEDS,
    configuration: Some("ValidatingAdmissionPolicyConfiguration"),
    removed: None,
    front_end: FrontEndSupport::LeftOut("the API server evaluates policies itself"),
    about: "Refuses, warns of and audits requests that violate validating admission policies.",
    build,
};

struct ValidatingAdmissionPolicy(ValidatingPolicies);

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let gates = environment.feature_gates;
    let folder = config::read(environment.configuration, "ValidatingAdmissionPolicyConfiguration", gates)?;
    let files = ValidatingPolicies::files(folder, environment)?;
    let policies = ValidatingPolicies::new(environment, files);
    Ok(Box::new(ValidatingAdmissionPolicy(policies?)))
}

#[async_trait]
impl Plugin for ValidatingAdmissionPolicy {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        self.0.validate(attributes).await
    }

    fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        self.0.may_match(attributes, Content::Present)
    }

    fn problems(&self) -> Vec<String> {
        self.0.problems()
    }

    fn look(&self) -> Option<Value> {
        Some(self.0.look())
    }
}
