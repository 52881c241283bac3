//! The review that a hook gets.

use super::*;
use crate::backend::testing::HookServer;

#[tokio::test]
async fn a_review_has_kube_apiservers_fields() {
    let server = HookServer::start(&[]).await;
    let world = mutating(&[at(&server, "w.lab.dev", "/allow", json!({}))]);
    world.plugin.admit(&mut create(configmap())).await.unwrap();
    let seen = server.seen().remove(0);
    let mut review = seen.review;
    let uid = review["request"]["uid"].take();
    assert!(uuid::Uuid::parse_str(uid.as_str().unwrap()).is_ok());
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!(
        review,
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "uid": null, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": "c", "namespace": "default", "operation": "CREATE", "userInfo": {"username": "alice", "groups": ["dev"]},
            "object": configmap(), "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
        }})
    );
    let headers = ["accept", "content-type", "user-agent"].map(|name| &*seen.headers[name]);
    assert_eq!(headers, ["application/json, */*", "application/json", "kube-apiserver-admission"]);
    assert_eq!(seen.path, "/allow?timeout=10s");
}

#[tokio::test]
async fn subresources_old_objects_extra_and_dry_runs_are_in_the_review() {
    let server = HookServer::start(&[]).await;
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps/x"]}]);
    let world = validating(&[at(&server, "w.lab.dev", "/allow", json!({"rules": rules, "timeoutSeconds": 3}))]);
    let mut attributes = create(configmap());
    attributes.operation = Operation::Delete;
    attributes.old_object = attributes.object.take().map(Arc::new);
    attributes.subresource = "x".into();
    attributes.dry_run = true;
    attributes.options = None;
    attributes.context.user =
        Arc::new(UserInfo { uid: "u".into(), extra: [("k".into(), vec!["v".into()])].into(), ..UserInfo::default() });
    world.plugin.validate(&attributes).await.unwrap();
    let seen = server.seen().remove(0);
    let request = &seen.review["request"];
    assert_eq!((&request["subResource"], &request["requestSubResource"]), (&json!("x"), &json!("x")));
    assert_eq!(
        (&request["object"], &request["oldObject"], &request["options"]),
        (&Value::Null, &configmap(), &Value::Null)
    );
    assert_eq!((&request["dryRun"], &request["operation"]), (&json!(true), &json!("DELETE")));
    assert_eq!(request["userInfo"], json!({"uid": "u", "extra": {"k": ["v"]}}));
    assert!(seen.path.ends_with("timeout=3s"));
}

#[tokio::test]
async fn the_first_known_review_version_is_spoken() {
    let server = HookServer::start(&[]).await;
    let versions = |name: &str, versions: &[&str]| {
        at(&server, name, &format!("/label/{name}/1"), json!({ "admissionReviewVersions": versions }))
    };
    let world = mutating(&[versions("a", &["v2", "v1beta1", "v1"]), versions("b", &["v1", "v1beta1"])]);
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    let spoken: Vec<_> = server.seen().iter().map(|seen| seen.review["apiVersion"].clone()).collect();
    assert_eq!(spoken, ["admission.k8s.io/v1beta1", "admission.k8s.io/v1"]);
    assert_eq!(Value::from(attributes.object.unwrap().labels().unwrap().clone()), json!({"a": "1", "b": "1"}));
}

#[tokio::test]
async fn dry_runs_reach_only_hooks_without_side_effects() {
    let server = HookServer::start(&[]).await;
    let world = |effects: &str, policy: &str| {
        validating(&[at(&server, "w.lab.dev", "/allow", json!({"sideEffects": effects, "failurePolicy": policy}))])
    };
    let mut attributes = create(configmap());
    world("Some", "Fail").plugin.validate(&attributes).await.unwrap();
    attributes.dry_run = true;
    for effects in ["None", "NoneOnDryRun"] {
        world(effects, "Fail").plugin.validate(&attributes).await.unwrap();
    }
    for effects in ["Some", "Unknown"] {
        let some = world(effects, "Ignore");
        let status = refused(some.plugin.validate(&attributes).await, &attributes);
        assert_eq!((status.code, &*status.reason), (400, "BadRequest"));
        assert_eq!(status.message, "admission webhook \"w.lab.dev\" does not support dry run");
        assert!(some.metric(r#"apiserver_admission_webhook_rejection_count{error_type="apiserver_internal_error",name="w.lab.dev",operation="CREATE",rejection_code="0",type="validating"} 1"#));
    }
    world("", "Ignore").plugin.validate(&attributes).await.unwrap();
    let status = refused(world("", "Fail").plugin.validate(&attributes).await, &attributes);
    assert_eq!(failed_calling(&status, "w.lab.dev"), "Webhook SideEffects is nil");
    assert_eq!(server.seen().len(), 3);
}
