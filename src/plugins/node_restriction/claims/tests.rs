use crate::plugins::checker::Checked;
use crate::plugins::node_restriction::tests::{by_node, plugin, why, with_pods};
use serde_json::{Value, json};

fn claim(metadata: Value, spec: Value, status: Value) -> Value {
    let mut metadata = metadata;
    metadata["name"] = "c".into();
    metadata["namespace"] = "ns".into();
    json!({"metadata": metadata, "spec": spec, "status": status})
}

async fn updated(old: Value, new: Value) -> Checked {
    let plugin = plugin(with_pods(&[]));
    by_node(&plugin).subresource("status").update("", "persistentvolumeclaims", old, new).await
}

#[tokio::test]
async fn a_node_reports_the_size_and_the_resizing_of_a_claim() {
    let requests = |amount: &str| json!({"resources": {"requests": {"storage": amount}}});
    let old = || claim(json!({"resourceVersion": "1"}), requests("1Gi"), json!({"phase": "Bound"}));
    for new in [
        old(),
        claim(json!({}), requests("1024Mi"), json!({"phase": "Bound", "capacity": {"storage": "2Gi"}})),
        claim(
            json!({"labels": {}, "managedFields": [{"manager": "kubelet"}], "finalizers": null}),
            requests("1Gi"),
            json!({"phase": "Bound", "conditions": [{"type": "Resizing", "status": "True"}], "accessModes": [],
                   "allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}),
        ),
    ] {
        updated(old(), new).await.stays_unchanged();
    }
}

#[tokio::test]
async fn a_refusal_shows_every_other_change_of_the_node() {
    let old = claim(json!({"labels": {"a": "1"}}), json!({"volumeName": "v"}), json!({"phase": "Bound"}));
    let new = claim(
        json!({"labels": {"a": "<2>"}}),
        json!({"volumeName": "v", "accessModes": ["ReadWriteOnce"]}),
        json!({"phase": "Bound", "modifyVolumeStatus": {"status": "Pending"}}),
    );
    let text = "node \"n\" is not allowed to update fields other than status.quantity and status.conditions: \
                @@ -2,10 +2,12 @@\n  \"name\": \"c\",\n  \"namespace\": \"ns\",\n  \"labels\": {\n-  \"a\": \"1\"\n+  \"a\": \"\\u003c2\\u003e\"\n  },\n  \
                \"Spec\": {\n-  \"AccessModes\": null,\n+  \"AccessModes\": [\n+   \"ReadWriteOnce\"\n+  ],\n   \"Selector\": null,\n   \"Resources\": \
                {\n    \"Limits\": null,\n@@ -26,6 +28,9 @@\n   \"AllocatedResources\": null,\n   \"AllocatedResourceStatuses\": null,\n   \
                \"CurrentVolumeAttributesClassName\": null,\n-  \"ModifyVolumeStatus\": null\n+  \"ModifyVolumeStatus\": {\n+   \
                \"TargetVolumeAttributesClassName\": \"\",\n+   \"Status\": \"Pending\"\n+  }\n  }\n }\n";
    assert_eq!(why(updated(old, new).await).unwrap(), text);
}

#[tokio::test]
async fn any_other_field_is_not_for_nodes() {
    let old = || claim(json!({}), json!({}), json!({}));
    for (metadata, spec, status) in [
        (json!({"annotations": {"a": ""}}), json!({}), json!({})),
        (json!({"finalizers": ["f"]}), json!({}), json!({})),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]}),
            json!({}),
            json!({}),
        ),
        (json!({"creationTimestamp": "2026-01-01T00:00:00Z"}), json!({}), json!({})),
        (json!({"generation": 1}), json!({}), json!({})),
        (json!({}), json!({"storageClassName": ""}), json!({})),
        (json!({}), json!({"selector": {}}), json!({})),
        (json!({}), json!({"resources": {"limits": {"storage": "1"}}}), json!({})),
        (json!({}), json!({"dataSource": {"kind": "X", "name": "x"}}), json!({})),
        (json!({}), json!({"dataSourceRef": {"kind": "X", "name": "x", "namespace": ""}}), json!({})),
        (json!({}), json!({}), json!({"phase": "Lost"})),
        (json!({}), json!({}), json!({"currentVolumeAttributesClassName": "c"})),
        (json!({}), json!("text"), json!({})),
        (json!({}), json!({}), json!({"phase": 1})),
        (json!({"labels": "text"}), json!({}), json!({})),
    ] {
        let new = claim(metadata, spec, status);
        assert_eq!(updated(old(), new.clone()).await.code(), Some(403), "{new}");
    }
}

#[tokio::test]
async fn only_the_status_of_claims_is_for_nodes() {
    let plugin = plugin(with_pods(&[]));
    let claim = || claim(json!({}), json!({}), json!({}));
    let text = "may only update PVC status";
    assert_eq!(why(by_node(&plugin).create("", "persistentvolumeclaims", claim()).await).unwrap(), text);
    assert_eq!(why(by_node(&plugin).update("", "persistentvolumeclaims", claim(), claim()).await).unwrap(), text);
    assert_eq!(why(by_node(&plugin).delete("", "persistentvolumeclaims", claim()).await).unwrap(), text);
    let created = by_node(&plugin).subresource("status").create("", "persistentvolumeclaims", claim()).await;
    assert_eq!(why(created).unwrap(), "unexpected operation \"CREATE\"");
}
