//! PodGroupWorkloadExists: a pod group must refer to an existing template of a workload.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::Cluster;
use crate::object::Object;
use async_trait::async_trait;
use k8s_openapi::api::scheduling::v1alpha2::Workload;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodGroupWorkloadExists",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("scheduling.k8s.io", "podgroups", "")]),
    // Few clusters serve alpha kinds, so objects are read from the API server when needed.
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses pod groups of a workload that does not exist (feature gate GenericWorkload).",
    build: |environment| {
        let is_on = environment.feature_gates.is_on("GenericWorkload");
        Ok(Box::new(PodGroupWorkloadExists { cluster: environment.cluster.clone(), is_on }))
    },
};

const REFERENCE: [&str; 2] = ["spec", "podGroupTemplateRef"];

struct PodGroupWorkloadExists {
    cluster: Arc<Cluster>,
    is_on: bool,
}

#[async_trait]
impl Plugin for PodGroupWorkloadExists {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(group) = attributes.object.as_ref().filter(|_| self.is_on) else { return Ok(()) };
        let path = [REFERENCE[0], REFERENCE[1], "workload"];
        if !group.get(&path).is_some_and(serde_json::Value::is_object) {
            return Ok(());
        }
        let field = |name| -> &str { Object::str(group, &[path[0], path[1], path[2], name]) };
        let (name, template) = (field("workloadName"), field("podGroupTemplateName"));
        let Some(workload) = self.cluster.find_live::<Workload>(&attributes.namespace, name).await? else {
            return Err(Denial::forbidden(format!("PodGroup rejected: Workload {name:?} not found")));
        };
        if workload.metadata.deletion_timestamp.is_some() {
            return Err(Denial::forbidden(format!("PodGroup rejected: Workload {name:?} is being deleted")));
        }
        let templates = &workload.spec.pod_group_templates;
        if templates.iter().any(|known| known.name == template) {
            return Ok(());
        }
        Err(Denial::forbidden(format!(
            "PodGroup rejected: PodGroupTemplate {template:?} not found in Workload {name:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::check;
    use serde_json::{Value, json};

    async fn refusal(is_on: bool, workload: &str, template: &str) -> Option<String> {
        let known = |name: &str, deleted: Value| {
            let policy = json!({"basic": {}});
            let metadata = json!({"name": name, "namespace": "n", "deletionTimestamp": deleted});
            let templates = json!([{"name": "t", "schedulingPolicy": policy}]);
            serde_json::from_value(json!({"metadata": metadata, "spec": {"podGroupTemplates": templates}})).unwrap()
        };
        let workloads = vec![known("w", Value::Null), known("going", json!("2026-01-01T00:00:00Z"))];
        let cluster = Cluster::fixed(FixedState::default().with::<Workload>(workloads));
        let reference = json!({"workload": {"workloadName": workload, "podGroupTemplateName": template}});
        let group = json!({"metadata": {"name": "g", "namespace": "n"}, "spec": {"podGroupTemplateRef": reference}});
        let plugin = PodGroupWorkloadExists { cluster, is_on };
        let checked = check(&plugin).validating().create("scheduling.k8s.io", "podgroups", group).await;
        checked.refusal().map(|status| status.message.replace("podgroups.scheduling.k8s.io \"g\" is forbidden: ", ""))
    }

    #[tokio::test]
    async fn the_workload_and_its_template_must_be_there() {
        for (workload, template, want) in [
            ("w", "t", None),
            ("x", "t", Some("PodGroup rejected: Workload \"x\" not found")),
            ("going", "t", Some("PodGroup rejected: Workload \"going\" is being deleted")),
            ("w", "u", Some("PodGroup rejected: PodGroupTemplate \"u\" not found in Workload \"w\"")),
        ] {
            assert_eq!(refusal(true, workload, template).await.as_deref(), want);
        }
        assert_eq!(refusal(false, "x", "t").await, None);
    }

    #[tokio::test]
    async fn a_group_of_no_workload_is_free() {
        let cluster = Cluster::fixed(FixedState::default());
        let plugin = PodGroupWorkloadExists { cluster, is_on: true };
        let checked = check(&plugin).validating().create("scheduling.k8s.io", "podgroups", json!({"spec": {}})).await;
        checked.stays_unchanged();
    }
}
