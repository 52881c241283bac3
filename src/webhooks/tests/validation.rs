//! Validating hooks: all at the same time.

use super::*;
use crate::backend::testing::{HookServer, Reply};
use tokio::sync::Barrier;

#[tokio::test]
async fn all_hooks_are_called_at_once() {
    let together = Reply::Together(Arc::new(Barrier::new(3)));
    let server = HookServer::start(&[("together", together)]).await;
    let hooks: Vec<_> =
        ["a", "b", "c"].map(|name| at(&server, name, "/together", json!({"timeoutSeconds": 30}))).into();
    validating(&hooks).plugin.validate(&create(configmap())).await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_refusal_is_reported_after_all_have_answered() {
    let full = json!({"allowed": false, "status": {"code": 422, "reason": "Invalid", "message": "unprocessable in the lab",
        "details": {"name": "x", "causes": [{"field": "spec.x", "reason": "FieldValueInvalid", "message": "no"}]}}});
    let server =
        HookServer::start(&[("http", Reply::Http(500, "text/plain", b"no".to_vec())), ("full", Reply::Response(full))])
            .await;
    let world = validating(&[
        at(&server, "mix1.lab.dev", "/http", json!({"failurePolicy": "Ignore"})),
        at(&server, "mix2.lab.dev", "/warn", json!({})),
        at(&server, "mix3.lab.dev", "/full", json!({})),
    ]);
    let attributes = create(configmap());
    let status = refused(world.plugin.validate(&attributes).await, &attributes);
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    assert_eq!(status.message, "admission webhook \"mix3.lab.dev\" denied the request: unprocessable in the lab");
    assert_eq!(status.details.unwrap().causes[0].field, "spec.x");
    assert_eq!(server.seen().len(), 3);
    assert_eq!(attributes.context.warnings.header_values().len(), 2);
    let annotations = attributes.annotations.take();
    assert!(annotations.iter().any(|(key, value, _)| {
        key == "failed-open.validating.webhook.admission.k8s.io/round_0_index_0" && value == "mix1.lab.dev"
    }));
    assert!(world.metric(r#"apiserver_admission_webhook_fail_open_count{name="mix1.lab.dev",type="validating"} 1"#));
}

#[tokio::test]
async fn a_refusals_status_is_kept_as_far_as_it_is_one() {
    let server = HookServer::start(&[
        ("bare", Reply::Response(json!({"allowed": false}))),
        ("reason", Reply::Response(json!({"allowed": false, "status": {"reason": "Because"}}))),
        (
            "success",
            Reply::Response(json!({"allowed": false, "status": {"code": 200, "status": "Success", "message": "m"}})),
        ),
        ("far", Reply::Response(json!({"allowed": false, "status": {"code": 700, "message": "m"}}))),
        ("unsaid", Reply::Response(json!({"allowed": null}))),
    ])
    .await;
    for (path, code, reason, tail) in [
        ("/bare", 400, "", " without explanation"),
        ("/reason", 400, "Because", ": Because"),
        ("/success", 400, "", ": m"),
        ("/far", 700, "", ": m"),
        ("/unsaid", 400, "", " without explanation"),
    ] {
        let attributes = create(configmap());
        let world = validating(&[at(&server, "w", path, json!({}))]);
        let status = refused(world.plugin.validate(&attributes).await, &attributes);
        let message = format!("admission webhook \"w\" denied the request{tail}");
        assert_eq!((status.code, &*status.reason, status.message), (code, reason, message), "{path}");
        assert_eq!(status.status, "Failure");
    }
}

#[tokio::test]
async fn a_hook_that_cannot_be_matched_keeps_the_others_from_being_called() {
    let server = HookServer::start(&[]).await;
    let world = validating(&[
        at(&server, "a.lab.dev", "/allow", json!({})),
        at(
            &server,
            "b.lab.dev",
            "/allow",
            json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
        ),
    ]);
    let attributes = create(configmap());
    assert_eq!(refused(world.plugin.validate(&attributes).await, &attributes).code, 500);
    assert!(server.seen().is_empty());
}
