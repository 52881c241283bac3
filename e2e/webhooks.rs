//! Webhooks, in front of both kinds of API server.

use crate::harness::{Api, Proxy, User, Webhook, admitting, eventually, get, post, upstream};
use serde_json::{Value, json};

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Registers webhooks for a namespace and waits until they are asked.
fn register(api: &Api, webhook: &Webhook, kind: &str, namespace: &str, paths: &[&str]) {
    let resource = format!("{}webhookconfigurations", kind.to_lowercase());
    let configuration = webhook.configuration(kind, namespace, namespace, paths);
    let answer =
        api.send(&User::admin(), post(&format!("/apis/admissionregistration.k8s.io/v1/{resource}"), &configuration));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let probe = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
    eventually("a webhook that is known", || {
        api.send(&User::admin(), post(&probe, &config_map("probe")));
        webhook.take().iter().any(|review| paths.contains(&review.path.split('?').next().unwrap())).then_some(())
    });
}

fn mutates_and_validates(api: &Api) {
    let webhook = Webhook::start();
    let namespace = api.namespace("hooked");
    register(api, &webhook, "Mutating", &namespace, &["/label/first/1", "/label/second/2"]);
    register(api, &webhook, "Validating", &namespace, &["/warn"]);
    webhook.take();

    let answer =
        api.send(&User::developer(), post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &config_map("one")));
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["metadata"]["labels"], json!({"first": "1", "second": "2"}));
    assert_eq!(answer.header("warning"), [r#"299 - "first warning""#, r#"299 - "second warning""#]);

    let reviews = webhook.take();
    assert_eq!(reviews.len(), 3, "{reviews:#?}");
    let request = &reviews[2].body["request"];
    assert_eq!(request["object"]["metadata"]["labels"], json!({"first": "1", "second": "2"}));
    assert_eq!(request["userInfo"]["username"], "alice");
    assert_eq!(request["operation"], "CREATE");
}

fn denies(api: &Api) {
    let webhook = Webhook::start();
    let namespace = api.namespace("denied");
    register(api, &webhook, "Validating", &namespace, &["/deny"]);
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let message = "admission webhook \"hook-0.e2e.test\" denied the request: denied by the test";
    api.rejects(post(&maps, &config_map("one")), 400, message);
    assert_eq!(api.send(&User::admin(), get(&format!("{maps}/one"))).status, 404);
}

#[test]
fn webhooks_mutate_validate_and_deny_with_the_embedded_server() {
    let proxy = Proxy::embedded(&[]);
    mutates_and_validates(&proxy);
    denies(&proxy);
}

#[test]
fn webhooks_mutate_validate_and_deny_at_kube_apiserver_itself() {
    mutates_and_validates(admitting());
    denies(admitting());
}

#[test]
fn webhooks_mutate_validate_and_deny_with_a_real_server() {
    let proxy = Proxy::before(upstream(), &[]);
    mutates_and_validates(&proxy);
    denies(&proxy);
}

#[test]
fn a_webhook_that_breaks_refuses_the_write() {
    let proxy = Proxy::embedded(&[]);
    let webhook = Webhook::start();
    for path in ["/http/500", "/garbage"] {
        let namespace = proxy.namespace("broken");
        register(&proxy, &webhook, "Validating", &namespace, &[path]);
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let answer = proxy.send(&User::developer(), post(&maps, &config_map("one")));
        assert_eq!(answer.status, 500, "{}", answer.text());
        let start = "Internal error occurred: failed calling webhook \"hook-0.e2e.test\": ";
        assert!(answer.message().starts_with(start), "{}", answer.text());
        assert_eq!(proxy.send(&User::admin(), get(&format!("{maps}/one"))).status, 404);
    }
}
