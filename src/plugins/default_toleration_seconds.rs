//! DefaultTolerationSeconds: sets how long a pod stays on a node that is not ready or unreachable.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::config::DefaultTolerations;
use crate::status::Status;
use async_trait::async_trait;
use serde_json::{Value, json};

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "DefaultTolerationSeconds",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Adds tolerations that let pods stay for a limited time on nodes that are not ready or unreachable.",
    build: |environment| Ok(Box::new(DefaultTolerationSeconds(environment.default_tolerations))),
};

struct DefaultTolerationSeconds(DefaultTolerations);

#[async_trait]
impl Plugin for DefaultTolerationSeconds {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let pod = attributes.object.as_mut().ok_or_else(not_a_pod)?;
        for (key, seconds) in [
            ("node.kubernetes.io/not-ready", self.0.not_ready_seconds),
            ("node.kubernetes.io/unreachable", self.0.unreachable_seconds),
        ] {
            if pod.items(&["spec", "tolerations"]).iter().any(|toleration| covers(toleration, key)) {
                continue;
            }
            let ours = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
            if !pod.append(&["spec", "tolerations"], ours) {
                return Err(not_a_pod());
            }
        }
        Ok(())
    }
}

/// Whether a toleration applies to eviction by the taint `key`, whatever its other fields.
fn covers(toleration: &Value, key: &str) -> bool {
    let is = |field: &str, wanted: &str| {
        let given = toleration.get(field).and_then(Value::as_str).unwrap_or_default();
        given.is_empty() || given == wanted
    };
    is("key", key) && is("effect", "NoExecute")
}

fn not_a_pod() -> Denial {
    Status::bad_request("expected *api.Pod but got another object").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;

    async fn tolerations_after(given: Value) -> Value {
        let plugin = DefaultTolerationSeconds(DefaultTolerations { not_ready_seconds: 300, unreachable_seconds: -1 });
        let pod = json!({"metadata": {"name": "p"}, "spec": {"tolerations": given}});
        check(&plugin).create("", "pods", pod).await.after()["spec"]["tolerations"].clone()
    }

    #[tokio::test]
    async fn only_missing_tolerations_are_added() {
        let not_ready = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        let unreachable = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1});
        let other = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        let any_effect = json!({"key": "node.kubernetes.io/not-ready", "operator": "Equal", "value": "x"});
        let wildcard = json!({"operator": "Exists"});
        for (given, want) in [
            (json!([]), json!([not_ready, unreachable])),
            (Value::Null, json!([not_ready, unreachable])),
            (json!([other]), json!([other, not_ready, unreachable])),
            (json!([any_effect]), json!([any_effect, unreachable])),
            (json!([wildcard]), json!([wildcard])),
        ] {
            assert_eq!(tolerations_after(given.clone()).await, want, "{given}");
        }
    }

    #[tokio::test]
    async fn an_update_is_completed_too_and_nonsense_refused() {
        let plugin = DefaultTolerationSeconds(DefaultTolerations::default());
        let pod = json!({"metadata": {"name": "p"}, "spec": {}});
        let updated = check(&plugin).update("", "pods", pod.clone(), pod).await.after();
        assert_eq!(updated["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
        let wrong = check(&plugin).create("", "pods", json!({"spec": {"tolerations": 7}})).await;
        assert_eq!(wrong.code(), Some(400));
    }
}
