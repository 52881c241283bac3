//! The proxy in front of an API server of a later release: fields that only the API server knows are kept.

use crate::harness::{
    Later, Proxy, Received, Request, User, Webhook, eventually, get, patch, post, put, unique, upstream,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A pod without or with the fields that only the API server knows.
fn pod(name: &str, next: bool) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "one", "image": "i"}, {"name": "two", "image": "i"}]}});
    if next {
        pod["spec"]["next"] = json!("strict");
        pod["spec"]["containers"][0]["next"] = json!("one");
        pod["spec"]["containers"][1]["next"] = json!("two");
    }
    pod
}

/// Checks that a sent body removes no unknown field: a whole object has all of them, a patch has no null, and list items are complete.
#[track_caller]
fn assert_keeps(received: &Received) {
    let Received { path, content_type, body } = received;
    let spec = &body["spec"];
    if content_type == "application/json" {
        assert_eq!(spec["next"], "strict", "{path}: {body}");
    }
    assert!(!body.to_string().contains(r#""next":null"#), "{path}: {body}");
    for container in spec["containers"].as_array().into_iter().flatten() {
        let is_named_only = content_type == "application/apply-patch+yaml" && container.get("image").is_none();
        assert!(is_named_only || container["next"] == container["name"], "{path}: {body}");
    }
    assert_ne!(content_type, "application/vnd.kubernetes.protobuf", "{path}");
}

#[test]
fn fields_that_only_the_api_server_knows_are_kept() {
    let later = Later::before(upstream());
    let kubeconfig = later.api().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &["--disable-admission-plugins=ServiceAccount"]);
    eventually("a word about the release", || proxy.output().contains("of Kubernetes 1.37").then_some(()));
    let (_, advice) = proxy.health("/readyz?verbose").unwrap();
    assert!(
        advice.contains("[+]upstream-release ok: warning: the upstream API server is of Kubernetes 1.37"),
        "{advice}"
    );

    // Another plugin changes labels and a container in the same write.
    let changing = proxy.namespace("later-changed");
    let webhook = Webhook::start();
    let change = json!([{"op": "add", "path": "/metadata/labels/webhook", "value": "yes"},
        {"op": "replace", "path": "/spec/containers/1/image", "value": "webhook"}]);
    let path = format!("/patch/{}", URL_SAFE_NO_PAD.encode(change.to_string()));
    let configuration = webhook.configuration("Mutating", &unique("later"), &changing, &[&path]);
    let configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(proxy.send(&User::admin(), post(configurations, &configuration)).status, 201);
    eventually("the webhook", || {
        let created = post(&format!("/api/v1/namespaces/{changing}/pods?dryRun=All"), &pod("probe", false));
        proxy.accepts(created)["metadata"]["labels"].get("webhook").map(|_| ())
    });

    for (namespace, is_changed) in [(proxy.namespace("later"), false), (changing, true)] {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let at = format!("{pods}/p");
        later.take();
        let kept = |request: Request| {
            let what = format!("{} {} {}", request.method, request.path, String::from_utf8_lossy(&request.body));
            let answer = proxy.send(&User::developer(), request);
            assert!(answer.status < 300, "{what}: {}", answer.text());
            assert_eq!(answer.header("warning"), Vec::<String>::new(), "{what}");
            let received = later.take();
            assert!(!received.is_empty(), "{what}");
            received.iter().for_each(assert_keeps);
            let answer = answer.json();
            assert_eq!(answer["metadata"]["labels"].get("webhook").is_some(), is_changed, "{what}: {answer}");
            received
        };
        kept(post(&format!("{pods}?fieldValidation=Strict"), &pod("p", true)));
        kept(patch(&at, "merge", &json!({"metadata": {"labels": {"a": "c"}}})));
        let image = json!({"spec": {"containers": [{"name": "one", "image": "strategic"}]}});
        kept(patch(&at, "strategic", &image));
        kept(patch(&at, "json", &json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "json"}])));
        let mut read = proxy.accepts(get(&at));
        read["metadata"]["labels"]["a"] = json!("d");
        kept(put(&at, &read));
        let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"applied": "yes"}},
            "spec": {"next": "strict", "containers": [{"name": "one", "image": "applied", "next": "one"}]}});
        let received = kept(patch(&format!("{at}?fieldManager=m&force=true"), "apply", &applied));
        assert_eq!(received[0].body["spec"]["next"], "strict");
        let created = pod("q", true);
        kept(patch(&format!("{pods}/q?fieldManager=m"), "apply", &created));

        let status = json!({"status": {"message": "new", "conditions": [{"type": "Ready", "status": "False"}]}});
        let answer = proxy.accepts(patch(&format!("{at}/status"), "strategic", &status));
        assert_eq!(answer["status"]["message"], "new");
        later.take().iter().for_each(assert_keeps);
    }
    let shown = webhook.take();
    assert!(shown.len() > 5 && shown.iter().all(|review| !review.body.to_string().contains("next")), "{shown:?}");
}
