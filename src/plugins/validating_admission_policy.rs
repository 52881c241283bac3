//! ValidatingAdmissionPolicy: checks requests against the cluster's validating policies. The implementation is in `policies/`.

use crate::admission::{
    Attributes, BuildError, Denial, Environment, FrontEnd, Operations, Phases, Plugin, Resources, Spec,
};
use crate::policies::{VALIDATING_NEEDS, Validating, config, validating_files};
use async_trait::async_trait;

/// ValidatingAdmissionPolicy's facts.
pub static SPEC: Spec = Spec {
    name: "ValidatingAdmissionPolicy",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: VALIDATING_NEEDS,
    configuration: Some("ValidatingAdmissionPolicyConfiguration"),
    removed: None,
    front_end: FrontEnd::LeftOut("the API server evaluates policies itself"),
    about: "Refuses, warns of and audits requests that violate validating admission policies.",
    build,
};

struct ValidatingAdmissionPolicy(Validating);

fn build(environment: &Environment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let gates = environment.feature_gates;
    let folder = config::read(environment.configuration, "ValidatingAdmissionPolicyConfiguration", gates)?;
    let files = validating_files(folder, environment)?;
    let policies = Validating::new(environment, files);
    Ok(Box::new(ValidatingAdmissionPolicy(policies.map_err(|error| BuildError(error.to_string()))?)))
}

#[async_trait]
impl Plugin for ValidatingAdmissionPolicy {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        self.0.validate(attributes).await
    }

    fn looks_at_stored(&self, attributes: &Attributes) -> bool {
        self.0.looks_at_stored(attributes)
    }

    fn problems(&self) -> Vec<String> {
        self.0.problems()
    }
}
