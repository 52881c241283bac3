//! An aggregated API, for which kube-apiserver forwards requests to another server. That server's OpenAPI document declares that it
//! supports dry runs.

use crate::harness::{
    ControlPlane, Proxy, Request, User, WEBHOOK_SECONDS, Webhook, eventually, get, only, patch, pki, post, put,
};
use serde_json::{Value, json};

const THINGS: &str = "/apis/aggregated.e2e.test/v1/namespaces/default/things";
const DOCUMENT: &str = "/openapi/v3/apis/aggregated.e2e.test/v1";

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "maximum": 9}, "note": {"type": "string"}, "mode": {"type": "string", "default": "slow"}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.aggregated.e2e.test"},
        "spec": {"group": "aggregated.e2e.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn registration(webhook: &Webhook, kind: &str, path: &str) -> Request {
    let resource = format!("{}webhookconfigurations", kind.to_lowercase());
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "aggregated"},
        "webhooks": [{"name": "things.e2e.test", "clientConfig": webhook.client_config(path), "sideEffects": "None",
            "timeoutSeconds": WEBHOOK_SECONDS,
            "rules": [{"operations": ["*"], "apiGroups": ["aggregated.e2e.test"], "apiVersions": ["*"], "resources": ["things"]}],
            "admissionReviewVersions": ["v1"]}]});
    post(&format!("/apis/admissionregistration.k8s.io/v1/{resource}"), &object)
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "aggregated.e2e.test/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn an_aggregated_api_that_knows_dry_runs_is_tried_and_applied_to() {
    let serving = ControlPlane::start("serving", &only(&[]));
    let front_proxy = pki().front_proxy("front-proxy");
    let as_front_proxy = vec![
        format!("--proxy-client-cert-file={}", front_proxy.certificate.display()),
        format!("--proxy-client-key-file={}", front_proxy.key.display()),
    ];
    let aggregating = ControlPlane::start("aggregating", &[only(&[]), as_front_proxy].concat());
    let webhook = Webhook::start();
    serving.accepts(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "serving"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.aggregated.e2e.test"},
        "spec": {"group": "aggregated.e2e.test", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"name": "serving", "namespace": "default", "port": serving.port}}});
    aggregating.accepts(post("/api/v1/namespaces/default/services", &service));
    aggregating.accepts(post("/apis/apiregistration.k8s.io/v1/apiservices", &api));
    aggregating.accepts(registration(&webhook, "Mutating", "/label/admitted/yes"));
    aggregating.accepts(registration(&webhook, "Validating", "/allow"));
    eventually("an aggregated API that is described", || {
        let answer = aggregating.send(&User::admin(), get(DOCUMENT));
        (answer.status == 200 && answer.text().contains("dryRun")).then_some(())
    });
    let proxy = Proxy::before(&aggregating, &[]);
    eventually("the API through the proxy", || {
        let probe = post(&format!("{THINGS}?dryRun=All"), &thing("probe", json!({})));
        (proxy.send(&User::admin(), probe).status == 201 && webhook.take().len() == 2).then_some(())
    });
    let validated = || {
        let of_validating = webhook.take().into_iter().filter(|review| review.path.starts_with("/allow"));
        of_validating.map(|review| review.body["request"]["object"].clone()).collect::<Vec<_>>()
    };

    let created = proxy.accepts(post(THINGS, &thing("created", json!({"size": 1}))));
    assert_eq!(
        (&created["spec"]["mode"], &created["metadata"]["labels"]),
        (&json!("slow"), &json!({"admitted": "yes"}))
    );
    let shown = validated();
    assert!(shown.len() == 1 && shown[0]["metadata"]["creationTimestamp"].is_string(), "{shown:?}");
    let mut changed = thing("created", json!({"size": 2}));
    let at = format!("{THINGS}/created");
    let why = r#"things.aggregated.e2e.test "created" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#;
    proxy.rejects(put(&at, &changed), 422, why);
    changed["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    proxy.accepts(put(&at, &changed));
    assert_eq!(validated()[0]["metadata"]["generation"], 2);

    let at = format!("{THINGS}/applied?fieldManager=me");
    for size in [1, 2] {
        let applied = proxy.accepts(patch(&at, "apply", &thing("applied", json!({"size": size}))));
        assert_eq!(applied["spec"], json!({"size": size, "mode": "slow"}));
        assert_eq!(applied["metadata"]["labels"], json!({"admitted": "yes"}));
        let owners = applied["metadata"]["managedFields"].as_array().unwrap();
        let owned: Vec<_> = owners.iter().map(|owner| (&owner["operation"], &owner["fieldsV1"])).collect();
        assert_eq!(owned, [(&json!("Apply"), &json!({"f:spec": {"f:size": {}}}))]);
    }
    let refused = proxy.send(&User::admin(), patch(&at, "apply", &thing("applied", json!({"size": 10}))));
    assert_eq!(refused.status, 422, "{}", refused.text());
}
