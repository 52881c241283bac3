//! The pods that the controllers of kube-controller-manager make of workloads.

use serde_json::{Map, Value, json};

/// A pod that a controller would make.
#[derive(Debug, PartialEq)]
pub(super) struct Made {
    /// The service account of the controller, in `kube-system`.
    pub(super) account: &'static str,
    pub(super) pod: Value,
}

/// Returns the pod of an admitted workload; `None` for an object that makes none.
pub(super) fn made_by(object: &Value) -> Option<Made> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, uid) = (text("/kind"), text("/metadata/name"), text("/metadata/uid"));
    let count = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    // The owner of a Deployment's pods is a ReplicaSet, and that of a CronJob's a Job.
    let (account, template, owner) = match kind {
        "Deployment" => ("replicaset-controller", "/spec/template", Some(("apps/v1", "ReplicaSet"))),
        "ReplicaSet" => ("replicaset-controller", "/spec/template", None),
        "ReplicationController" => ("replication-controller", "/spec/template", None),
        "StatefulSet" => ("statefulset-controller", "/spec/template", None),
        "DaemonSet" => ("daemon-set-controller", "/spec/template", None),
        "Job" => ("job-controller", "/spec/template", None),
        "CronJob" => ("job-controller", "/spec/jobTemplate/spec/template", Some(("batch/v1", "Job"))),
        _ => return None,
    };
    if count == 0 || object.pointer("/spec/suspend") == Some(&Value::Bool(true)) && kind == "Job" {
        return None;
    }
    let template = object.pointer(template)?;
    let (api_version, owner_kind) = owner.unwrap_or((text("/apiVersion"), kind));
    // Names of Deployments' ReplicaSets and CronJobs' Jobs end with a hash or a time.
    let owner_name = if owner.is_some() { format!("{name}-0") } else { name.to_owned() };
    let mut metadata: Map<String, Value> =
        template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.retain(|field, _| matches!(&**field, "labels" | "annotations" | "finalizers"));
    // A name that is not drawn, so that a report is the same each time.
    let prefix = if kind == "StatefulSet" { format!("{name}-") } else { format!("{owner_name}-") };
    metadata.insert("name".to_owned(), json!(format!("{prefix}0")));
    metadata.insert("generateName".to_owned(), json!(prefix));
    metadata.insert("namespace".to_owned(), json!(text("/metadata/namespace")));
    let owner = json!({
        "apiVersion": api_version, "kind": owner_kind, "name": owner_name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
    });
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")?});
    Some(Made { account, pod })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, spec: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w", "namespace": "n", "uid": "u"}, "spec": spec})
    }

    #[test]
    fn a_pod_is_that_of_its_controller() {
        let template = json!({"metadata": {"labels": {"a": "b"}, "name": "x"}, "spec": {"containers": []}});
        for (kind, spec, account, name, owner) in [
            ("Deployment", json!({"template": template}), "replicaset-controller", "w-0-0", ["apps/v1", "ReplicaSet"]),
            ("StatefulSet", json!({"template": template}), "statefulset-controller", "w-0", ["apps/v1", "StatefulSet"]),
            ("DaemonSet", json!({"template": template}), "daemon-set-controller", "w-0", ["apps/v1", "DaemonSet"]),
            (
                "CronJob",
                json!({"jobTemplate": {"spec": {"template": template}}}),
                "job-controller",
                "w-0-0",
                ["batch/v1", "Job"],
            ),
        ] {
            let made = made_by(&workload(kind, &spec)).unwrap();
            let metadata = &made.pod["metadata"];
            assert_eq!((made.account, &metadata["name"]), (account, &json!(name)), "{kind}");
            assert_eq!((&metadata["labels"], &metadata["namespace"]), (&json!({"a": "b"}), &json!("n")), "{kind}");
            let reference = &metadata["ownerReferences"][0];
            assert_eq!([&reference["apiVersion"], &reference["kind"]], owner, "{kind}");
        }
    }

    #[test]
    fn a_workload_without_pods_makes_none() {
        let template = json!({"spec": {"containers": []}});
        for object in [
            workload("Deployment", &json!({"replicas": 0, "template": template})),
            workload("Job", &json!({"suspend": true, "template": template})),
            workload("ConfigMap", &json!({"template": template})),
            workload("Deployment", &json!({})),
        ] {
            assert_eq!(made_by(&object), None);
        }
    }
}
