//! AlwaysDeny: refuses every request.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "AlwaysDeny",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses every write; deprecated.",
    build: |_| Ok(Box::new(AlwaysDeny)),
};

struct AlwaysDeny;

impl AlwaysDeny {
    fn deny() -> Result<(), Denial> {
        Err(Denial::forbidden("admission control is denying all modifications"))
    }
}

#[async_trait]
impl Plugin for AlwaysDeny {
    async fn admit(&self, _: &mut Attributes) -> Result<(), Denial> {
        Self::deny()
    }

    async fn validate(&self, _: &Attributes) -> Result<(), Denial> {
        Self::deny()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;
    use serde_json::json;

    #[tokio::test]
    async fn names_the_object_in_its_refusal() {
        let checked = check(&AlwaysDeny).create("", "pods", json!({"metadata": {"name": "a"}})).await;
        checked.was_refused(403, "pods \"a\" is forbidden: admission control is denying all modifications");
        let checked = check(&AlwaysDeny).create("", "pods", json!({"metadata": {"generateName": "a-"}})).await;
        checked.was_refused(403, "pods \"a-\" is forbidden: admission control is denying all modifications");
    }

    #[tokio::test]
    async fn refuses_a_delete_in_the_validating_phase_too() {
        let checked =
            check(&AlwaysDeny).validating().delete("apps", "deployments", json!({"metadata": {"name": "d"}})).await;
        checked.was_refused(403, "deployments.apps \"d\" is forbidden: admission control is denying all modifications");
    }
}
