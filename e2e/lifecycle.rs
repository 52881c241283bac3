//! Start, shutdown, and an unreachable upstream.

use crate::harness::{Api, Proxy, Relay, User, Webhook, eventually, get, post, upstream};
use serde_json::{Value, json};
use std::fs;

#[test]
fn on_sigterm_watches_end_requests_in_flight_finish_and_the_exit_is_clean() {
    let mut proxy = Proxy::embedded(&["--shutdown-delay-duration=1s"]);
    let webhook = Webhook::start();
    let namespace = proxy.namespace("drain");
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let configuration = webhook.configuration("Mutating", &namespace, &namespace, &["/held"]);
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(proxy.send(&User::admin(), post(path, &configuration)).status, 201);
    eventually("a webhook that is known", || {
        proxy.accepts(post(&format!("{maps}?dryRun=All"), &map("probe")));
        (!webhook.take().is_empty()).then_some(())
    });
    let mut watch = proxy.stream(&User::developer(), get("/api/v1/namespaces?watch=true"));
    assert_eq!(watch.status, 200);
    assert_eq!(watch.next_json().unwrap()["type"], "ADDED");

    let api: Api = (*proxy).clone();
    let request = post(&maps, &map("held"));
    let in_flight = std::thread::spawn(move || api.send(&User::developer(), request));
    webhook.asked();
    proxy.terminate();
    eventually("a proxy that is no longer ready", || {
        proxy.health("/readyz").is_none_or(|(code, _)| code != 200).then_some(())
    });
    while watch.next_json().is_some() {}
    webhook.release();
    assert_eq!(in_flight.join().unwrap().status, 201);
    assert!(proxy.wait().success(), "{}", proxy.output());
}

#[test]
fn a_starting_proxy_is_alive_but_not_ready() {
    let kubeconfig = upstream().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let mut config: Value = serde_json::from_slice(&fs::read(&kubeconfig).unwrap()).unwrap();
    // The certificate authenticates the proxy; the proxy only waits for the token.
    let version = "client.authentication.k8s.io/v1";
    let token = json!({"apiVersion": version, "kind": "ExecCredential", "status": {"token": "any"}});
    let script = format!("touch asked; until [ -e go ]; do sleep 0.1; done; echo '{token}'");
    config["users"][0]["user"]["exec"] =
        json!({"apiVersion": version, "command": "sh", "args": ["-c", script], "interactiveMode": "Never"});
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let proxy = Proxy::starting(&kubeconfig, &[]);
    eventually("a proxy that asks for its token", || proxy.folder().join("asked").exists().then_some(()));
    let (code, lines) = proxy.health("/readyz").unwrap();
    assert_eq!(code, 500);
    assert!(lines.contains("[-]start failed"), "{lines}");
    assert_eq!(proxy.health("/livez").unwrap().0, 200);
    fs::write(proxy.folder().join("go"), "").unwrap();
    let proxy = proxy.ready();
    assert!(proxy.health("/readyz?verbose").unwrap().1.contains("[+]informer-sync ok"));
    assert_eq!(proxy.send(&User::developer(), get("/api/v1/namespaces/default")).status, 200);
}

#[test]
fn an_upstream_that_is_gone_is_503_and_nothing_hangs() {
    let relay = Relay::to(upstream().port);
    let kubeconfig = Api { port: relay.port }.kubeconfig(&User::named("admission-proxy", "system:masters"));
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &["--authorization-mode=AlwaysAllow"]);
    let mut watch = proxy.stream(&User::developer(), get("/api/v1/namespaces?watch=true"));
    assert_eq!(watch.status, 200);
    assert!(watch.next_json().is_some());

    relay.cut();
    let answer = proxy.send(&User::developer(), get("/api/v1/namespaces"));
    assert_eq!(answer.status, 503, "{}", answer.text());
    let status = answer.json();
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("ServiceUnavailable")));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    let answer = proxy.send(&User::developer(), post("/api/v1/namespaces/default/configmaps", &map));
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(proxy.health("/livez").unwrap().0, 200);
    eventually("a proxy that is not ready", || proxy.health("/readyz/upstream").filter(|(code, _)| *code == 500));
    assert_eq!(proxy.health("/readyz").unwrap().0, 500);
}

#[test]
fn the_health_address_serves_metrics_and_the_main_port_does_not_answer_for_it() {
    let proxy = Proxy::embedded(&[]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "measured"}});
    proxy.accepts(post("/api/v1/namespaces/default/configmaps", &map));
    let (code, metrics) = proxy.health("/metrics").unwrap();
    assert_eq!(code, 200);
    let name = "apiserver_admission_controller_admission_duration_seconds_count{";
    assert!(metrics.lines().any(|line| line.starts_with(name) && line.contains("NamespaceLifecycle")), "{metrics}");
    assert_eq!(proxy.health("/livez").unwrap().0, 200);
    assert_eq!(proxy.health("/nothing").unwrap().0, 404);
}
