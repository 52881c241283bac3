//! JobValidation: the parallelism of a gang-scheduled job cannot change.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::Cluster;
use crate::object::Object;
use async_trait::async_trait;
use k8s_openapi::api::scheduling::v1alpha2::PodGroup;
use serde_json::Value;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "JobValidation",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::UPDATE,
    resources: Resources::Only(&[("batch", "jobs", "")]),
    // Few clusters serve alpha kinds, so objects are read from the API server when needed.
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses changes of the parallelism of gang-scheduled jobs (feature gates GenericWorkload, WorkloadWithJob).",
    build: |environment| {
        let is_on = ["GenericWorkload", "WorkloadWithJob"].iter().any(|gate| environment.feature_gates.is_on(gate));
        Ok(Box::new(JobValidation { cluster: environment.cluster.clone(), is_on }))
    },
};

struct JobValidation {
    cluster: Arc<Cluster>,
    is_on: bool,
}

#[async_trait]
impl Plugin for JobValidation {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let (Some(new), Some(old)) = (&attributes.object, &attributes.old_object) else { return Ok(()) };
        let parallelism = |job: &Object| job.get(&["spec", "parallelism"]).and_then(Value::as_i64);
        if !self.is_on || parallelism(new) == parallelism(old) {
            return Ok(());
        }
        let is_gang = |group: &Arc<PodGroup>| group.spec.scheduling_policy.gang.is_some();
        let gang = self.groups(old).await.into_iter().find(is_gang);
        match gang {
            None => Ok(()),
            Some(group) => Err(Denial::forbidden(format!(
                "cannot change parallelism for a Job referencing gang-scheduled PodGroup {:?}",
                group.metadata.name.as_deref().unwrap_or_default()
            ))),
        }
    }
}

impl JobValidation {
    /// The pod group of the job's pods: the group that the job's template names, or the groups that the job controls. Empty if
    /// the groups cannot be read, as in kube-apiserver.
    async fn groups(&self, job: &Object) -> Vec<Arc<PodGroup>> {
        let named = ["spec", "template", "spec", "schedulingGroup", "podGroupName"];
        if job.get(&named).is_some_and(Value::is_string) {
            let found = self.cluster.find_live::<PodGroup>(job.namespace(), job.str(&named)).await;
            return found.ok().flatten().into_iter().collect();
        }
        let is_controlled = |group: &Arc<PodGroup>| {
            let mut owners = group.metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.controller == Some(true) && owner.uid == job.uid())
        };
        let mut groups = self.cluster.list_live::<PodGroup>(job.namespace()).await.unwrap_or_default();
        groups.retain(is_controlled);
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::check;
    use serde_json::json;

    fn group(name: &str, policy: &str, owner: &str) -> PodGroup {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner, "controller": true});
        let policy = json!({policy: if policy == "gang" { json!({"minCount": 2}) } else { json!({}) }});
        let metadata = json!({"name": name, "namespace": "n", "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"schedulingPolicy": policy}})).unwrap()
    }

    async fn refusal(is_on: bool, group_name: Option<&str>, to: Value) -> Option<String> {
        let groups = vec![group("gang", "gang", "1"), group("basic", "basic", "1"), group("other", "gang", "2")];
        let cluster = Cluster::fixed(FixedState::default().with::<PodGroup>(groups));
        let job = |uid: &str, parallelism: Value| {
            let template = json!({"spec": {"schedulingGroup": {"podGroupName": group_name}}});
            json!({"metadata": {"name": "j", "namespace": "n", "uid": uid}, "spec": {"parallelism": parallelism, "template": template}})
        };
        let plugin = JobValidation { cluster, is_on };
        let checked = check(&plugin).validating().update("batch", "jobs", job("1", json!(1)), job("1", to)).await;
        checked.refusal().map(|status| status.message)
    }

    #[tokio::test]
    async fn a_gang_keeps_its_size() {
        let text = "jobs.batch \"j\" is forbidden: cannot change parallelism for a Job referencing gang-scheduled PodGroup \"gang\"";
        assert_eq!(refusal(true, Some("gang"), json!(2)).await.as_deref(), Some(text));
        assert_eq!(refusal(true, None, json!(2)).await.as_deref(), Some(text));
        for (is_on, group, to) in [
            (true, Some("gang"), json!(1)),
            (true, Some("basic"), json!(2)),
            (true, Some("missing"), json!(2)),
            (false, Some("gang"), json!(2)),
        ] {
            assert_eq!(refusal(is_on, group, to).await, None, "{group:?}");
        }
    }
}
