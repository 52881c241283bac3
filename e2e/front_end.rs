//! The webhook front end, asked by a kube-apiserver with the configurations of `print webhooks`.
//!
//! With `E2E_FRONT_END`, the tests in `plugins/` compare kube-apiserver's plugins with the front end instead of the proxy.

use crate::harness::{Reviewed, User, delete, eventually, get, patch, pki, post, unique};
use serde_json::{Value, json};
use std::process::Command;

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "a", "image": "a", "imagePullPolicy": "IfNotPresent"}]}})
}

fn policy(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["imagePullPolicy"].as_str().unwrap()
}

#[test]
fn pods_of_the_api_server_are_admitted_unless_the_proxy_admitted_them() {
    let mark = "kube-admission-proxy/main";
    let printed = format!("--admitted-mark={mark}");
    let reviewed = Reviewed::with(&["AlwaysPullImages"], &[], &[], &[], &[&printed]);
    let namespace = reviewed.namespace("front-end");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    assert_eq!(policy(&reviewed.accepts(post(&pods, &pod("direct")))), "Always");
    // The proxy impersonates with the mark; another value is none.
    for (value, expected) in [(mark, "IfNotPresent"), ("other/mark", "Always")] {
        let request = post(&pods, &pod(&unique("marked")))
            .header("impersonate-user", "alice")
            .header("impersonate-group", "developers")
            .header("impersonate-extra-kube-admission-proxy.dev%2fadmitted", value);
        let answer = reviewed.send(&User::admin(), request);
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(policy(&answer.json()), expected, "{value}");
    }
    // kube-system is excluded by default, so that the cluster can heal while the front end is down.
    eventually("kube-system", || {
        (reviewed.send(&User::admin(), get("/api/v1/namespaces/kube-system")).status == 200).then_some(())
    });
    let answer = reviewed.send(&User::admin(), post("/api/v1/namespaces/kube-system/pods", &pod("system")));
    assert_eq!((answer.status, policy(&answer.json())), (201, "IfNotPresent"), "{}", answer.text());
}

#[test]
fn a_front_end_that_denies_everything_does_not_block_its_own_removal() {
    let reviewed = Reviewed::start(&["AlwaysDeny"], &[], &[], &[]);
    let refusal = reviewed.send(&User::admin(), post("/api/v1/namespaces/default/pods", &pod("a")));
    let message = "admission webhook \"mutate.kube-admission-proxy.dev\" denied the request: pods \"a\" is forbidden: \
                   admission control is denying all modifications";
    assert_eq!((refusal.status, &refusal.json()["message"]), (403, &json!(message)));
    let resource = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kube-admission-proxy";
    let failing = json!({"webhooks": [{"name": "mutate.kube-admission-proxy.dev", "timeoutSeconds": 1}]});
    let changed = reviewed.send(&User::admin(), patch(resource, "strategic", &failing));
    assert_eq!(changed.status, 200, "{}", changed.text());
    for kind in ["mutating", "validating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/kube-admission-proxy");
        assert_eq!(reviewed.send(&User::admin(), delete(&path)).status, 200);
    }
    eventually("a write without webhooks", || {
        let created = reviewed.send(&User::admin(), post("/api/v1/namespaces/default/pods", &pod("a")));
        (created.status == 201).then_some(())
    });
}

/// The code of a POST to the front end with this client certificate.
fn code(reviewed: &Reviewed, path: &str, name: Option<&str>, body: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Content-Type: application/json", "-d", body]);
    curl.arg("--cacert").arg(pki().ca());
    if let Some(name) = name {
        let pair = pki().client(name, "");
        curl.arg("--cert").arg(&pair.certificate).arg("--key").arg(&pair.key);
    }
    let output = curl.arg(format!("https://127.0.0.1:{}{path}", reviewed.port)).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn only_the_api_server_is_answered() {
    let reviewed = Reviewed::start(&["AlwaysPullImages"], &[], &[], &[]);
    for (path, name, body, expected) in [
        ("/validate", None, "{}", "401"),
        ("/validate", Some("alice"), "{}", "403"),
        ("/validate", Some("kube-apiserver"), "{}", "400"),
        ("/", Some("kube-apiserver"), "{}", "404"),
    ] {
        assert_eq!(code(&reviewed, path, name, body), expected, "{path} {name:?}");
    }
    let metrics = reviewed.front_end().health("/metrics").unwrap().1;
    assert!(
        metrics.contains(r#"kube_admission_proxy_reviews_total{allowed="",code="403",path="/validate"} 1"#),
        "{metrics}"
    );
    let (code, checks) = reviewed.front_end().health("/readyz?verbose").unwrap();
    assert_eq!(code, 200);
    for check in ["[+]webhook-front-end ok\n", "[+]webhook-own-user ok\n"] {
        assert!(checks.contains(check), "{check} is missing in\n{checks}");
    }
    // No client has a port.
    assert!(reviewed.front_end().try_send(&User::admin(), get("/version")).is_err());
}
