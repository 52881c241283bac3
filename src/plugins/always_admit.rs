//! AlwaysAdmit: admits every request.

use crate::admission::{FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "AlwaysAdmit",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Accepts every request; deprecated, because it has no effect.",
    build: |_| Ok(Box::new(AlwaysAdmit)),
};

struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;
    use serde_json::json;

    #[tokio::test]
    async fn accepts_a_create() {
        check(&AlwaysAdmit).create("", "pods", json!({"metadata": {"name": "a"}})).await.stays_unchanged();
    }
}
