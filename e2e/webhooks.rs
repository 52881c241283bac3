//! Webhooks, in front of both kinds of API server.

use crate::harness::{Api, Proxy, User, Webhook, admitting, eventually, folder, get, patient, post, seconds, upstream};
use serde_json::{Value, json};
use std::time::Duration;

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Registers webhooks for a namespace and waits until they are called.
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

#[test]
fn shadows_decide_nothing_and_slow_hooks_do_not_add_up() {
    let folder = folder("shadows");
    let (log, policy) = (folder.join("audit.log"), folder.join("policy.yaml"));
    std::fs::write(&policy, "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}").unwrap();
    let flags = [
        format!("--audit-log-path={}", log.display()),
        format!("--audit-policy-file={}", policy.display()),
        format!("--admission-timeout={}", seconds(patient(Duration::from_secs(1)))),
        "--shadow-webhooks=of-others".to_owned(),
    ];
    let proxy = Proxy::before(upstream(), &flags.each_ref().map(String::as_str));
    let (webhook, namespace) = (Webhook::start(), proxy.namespace("shadow"));
    let group = "/apis/admissionregistration.k8s.io/v1";
    let put_in = |kind: &str, name: &str, paths: &[&str], change: &dyn Fn(&mut Value)| {
        let mut configuration = webhook.configuration(kind, name, &namespace, paths);
        change(&mut configuration);
        let path = format!("{group}/{}webhookconfigurations", kind.to_lowercase());
        let answer = proxy.send(&User::admin(), post(&path, &configuration));
        assert_eq!(answer.status, 201, "{}", answer.text());
    };
    put_in("Mutating", "annotated", &["/label/shadow/1"], &|configuration| {
        configuration["metadata"]["annotations"] = json!({"shadow.kube-admission-proxy.dev/hooks": "hook-0.e2e.test"});
    });
    put_in("Validating", "of-others", &["/deny"], &|_| ());
    put_in("Mutating", "slow", &["/held/1", "/held/2", "/held/3"], &|configuration| {
        for hook in configuration["webhooks"].as_array_mut().unwrap() {
            (hook["failurePolicy"], hook["timeoutSeconds"]) = (json!("Ignore"), json!(30));
        }
    });
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let asked = |name: &str| {
        webhook.take();
        let answer = proxy.send(&User::developer(), post(&format!("{maps}?dryRun=All"), &config_map(name)));
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.json()["metadata"]["labels"], Value::Null);
        webhook.take().len()
    };
    eventually("webhooks that are known", || (asked("quick") == 5).then_some(()));
    // The first of the slow webhooks uses up the time; the others are not called any more.
    assert_eq!(asked("held"), 2);
    webhook.release();
    let texts = ["\"decision\\\":\\\"changed", "\"decision\\\":\\\"denied", "\\\"paths\\\":[\\\"/metadata/labels\\\"]"];
    eventually("the shadows in the audit log", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        texts.iter().all(|text| log.contains(text.trim_start_matches('"'))).then_some(())
    });
    let (_, metrics) = proxy.health("/metrics").unwrap();
    for decision in ["changed", "denied"] {
        let name = format!("admission_proxy_shadow_decisions_total{{decision=\"{decision}\",kind=\"webhook\"");
        assert!(metrics.contains(&name), "{metrics}");
    }
    assert!(proxy.output().contains("shadow decision"), "{}", proxy.output());
}
