//! The audit log.

use crate::harness::{Api, ControlPlane, Proxy, User, Webhook, eventually, folder, get, only, post, unique, upstream};
use serde_json::{Value, json};
use std::time::Duration;

fn events(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The last line may be incomplete.
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn requests_and_their_users_are_logged_without_secrets() {
    let folder = folder("audit");
    let (log, policy) = (folder.join("audit.log"), folder.join("policy.yaml"));
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/config/audit-policy.yaml"), &policy).unwrap();
    let flags = [format!("--audit-log-path={}", log.display()), format!("--audit-policy-file={}", policy.display())];
    let proxy = Proxy::embedded(&[&flags[0], &flags[1]]);
    let namespaces = "/api/v1/namespaces";
    proxy.accepts(post(namespaces, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "logged"}})));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "stringData": {"password": "swordfish"}});
    proxy.accepts(post("/api/v1/namespaces/logged/secrets", &secret));
    proxy.send(&User::Anonymous, get(namespaces));

    let of = |resource: &str, code: u64| {
        eventually(&format!("an event of {resource} with {code} in {}", log.display()), || {
            let fits =
                |event: &Value| event["objectRef"]["resource"] == resource && event["responseStatus"]["code"] == code;
            events(&log).into_iter().find(fits)
        })
    };
    let event = of("namespaces", 201);
    assert_eq!((&event["kind"], &event["apiVersion"]), (&json!("Event"), &json!("audit.k8s.io/v1")));
    assert_eq!((&event["level"], &event["stage"]), (&json!("Request"), &json!("ResponseComplete")));
    assert_eq!((&event["verb"], &event["user"]["username"]), (&json!("create"), &json!("alice")));
    assert_eq!(event["requestURI"], namespaces);
    assert_eq!(event["requestObject"]["metadata"]["name"], "logged");
    assert_eq!(of("secrets", 201)["level"], "Metadata");
    assert!(!std::fs::read_to_string(&log).unwrap().contains("swordfish"));
    assert_eq!(of("namespaces", 401)["responseStatus"]["code"], 401);
}

#[test]
fn an_event_is_complete_for_every_media_type_of_the_client() {
    let folder = folder("audit");
    let (log, policy) = (folder.join("audit.log"), folder.join("policy.yaml"));
    let rules = "rules: [{level: RequestResponse, resources: [{group: '', resources: [configmaps]}]}]";
    std::fs::write(&policy, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}\n")).unwrap();
    let flags = [format!("--audit-log-path={}", log.display()), format!("--audit-policy-file={}", policy.display())];
    let proxy = Proxy::before(upstream(), &[&flags[0], &flags[1]]);
    let namespace = proxy.namespace("audited");
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let text = "y".repeat(300_000);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"k": text}});
    proxy.accepts(post(&maps, &map));
    let path = format!("{maps}/big");
    let of = |id: &str| {
        eventually(&format!("the event {id} in {}", log.display()), || {
            let is_it = |event: &Value| event["auditID"] == id && event["stage"] == "ResponseComplete";
            events(&log).into_iter().find(is_it)
        })
    };
    for (id, accept, encoding) in [
        ("json", "application/json", "identity"),
        ("yaml", "application/yaml", "identity"),
        ("protobuf", "application/vnd.kubernetes.protobuf", "identity"),
        ("gzip", "application/json", "gzip"),
        ("gzip-protobuf", "application/vnd.kubernetes.protobuf", "gzip"),
    ] {
        let request = get(&path).header("accept", accept).header("accept-encoding", encoding).header("audit-id", id);
        assert_eq!(proxy.send(&User::developer(), request.over_http2()).status, 200);
        let event = of(id);
        assert_eq!(event["requestURI"], path, "{id}");
        let found = &event["responseObject"];
        assert_eq!((&found["kind"], &found["metadata"]["name"]), (&json!("ConfigMap"), &json!("big")), "{id}");
        assert_eq!(found["data"]["k"].as_str().map(str::len), Some(text.len()), "{id}");
    }

    let refused = get(&path).header("impersonate-user", "bob").header("audit-id", "refused");
    let refused = refused.header("accept", "application/vnd.kubernetes.protobuf");
    assert_eq!(proxy.send(&User::named("mallory", ""), refused).status, 403);
    let status = of("refused")["responseStatus"].clone();
    assert_eq!(
        (&status["status"], &status["reason"], &status["code"]),
        (&json!("Failure"), &json!("Forbidden"), &json!(403))
    );
    assert_eq!(
        (status["details"]["name"].clone(), status["details"]["kind"].clone()),
        (json!("big"), json!("configmaps"))
    );
    assert!(status["message"].as_str().unwrap().contains("cannot impersonate"), "{status}");

    let allowed = get(&path).header("impersonate-user", "bob").header("impersonate-group", "developers");
    assert_eq!(proxy.send(&User::admin(), allowed.header("audit-id", "allowed")).status, 200);
    let event = of("allowed");
    assert_eq!(event["authenticationMetadata"]["impersonationConstraint"], "impersonate:user-info");
}

#[test]
fn the_time_of_webhooks_is_annotated_as_by_kube_apiserver() {
    let folder = folder("latency");
    let policy = folder.join("policy.yaml");
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, verbs: [create]}]\n")
        .unwrap();
    let log = |side: &str| folder.join(format!("{side}.log"));
    let flags = |side: &str| {
        let log = format!("--audit-log-path={}", log(side).display());
        [log, format!("--audit-policy-file={}", policy.display())]
    };
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
    let reference = ControlPlane::start("latency", &[only(&plugins), flags("reference").to_vec()].concat());
    let [of_log, of_policy] = flags("proxy");
    let proxy = Proxy::before(upstream(), &[&of_log, &of_policy]);
    let webhook = Webhook::start();
    webhook.meddle(|_| std::thread::sleep(Duration::from_millis(600)));
    let namespace = unique("latency");
    let sides: [(&str, &Api); 2] = [("reference", &reference), ("proxy", &proxy)];
    let layers = sides.map(|(side, api)| {
        api.accepts(post(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        ));
        for kind in ["Mutating", "Validating"] {
            let url = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
            api.accepts(post(&url, &webhook.configuration(kind, &namespace, &namespace, &["/meddle"])));
        }
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slow"}});
        eventually(&format!("the time of both webhooks at {side}"), || {
            api.accepts(post(&maps, &map));
            events(&log(side)).iter().rev().find_map(|event| {
                let annotations = event["annotations"].as_object()?;
                let prefix = "apiserver.latency.k8s.io/";
                let layers = annotations.keys().filter_map(|key| key.strip_prefix(prefix)).map(str::to_owned);
                let layers: Vec<String> =
                    layers.filter(|layer| layer.ends_with("webhook") || layer == "total").collect();
                (layers.len() == 3).then_some(layers)
            })
        })
    });
    assert_eq!(layers[0], layers[1]);
}

#[test]
fn the_decision_about_a_read_is_annotated_as_by_kube_apiserver() {
    let folder = folder("decisions");
    let policy = folder.join("policy.yaml");
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n").unwrap();
    let log = |side: &str| folder.join(format!("{side}.log"));
    let flags = |side: &str| {
        let log = format!("--audit-log-path={}", log(side).display());
        [log, format!("--audit-policy-file={}", policy.display())]
    };
    let reference = ControlPlane::start("decisions", &[only(&[]), flags("reference").to_vec()].concat());
    let [of_log, of_policy] = flags("proxy");
    let proxy = Proxy::before(upstream(), &[&of_log, &of_policy]);
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = json!({});
    let requests = [
        (User::admin(), get(maps)),
        (User::admin(), get(&format!("{maps}/missing"))),
        (User::admin(), get(&format!("{maps}?watch=1&timeoutSeconds=1"))),
        (User::admin(), get(&format!("{maps}?labelSelector=("))),
        (User::admin(), get("/apis/nothing/v1/things")),
        (User::admin(), get("/version")),
        (User::admin(), get("/nothing")),
        (User::admin(), post("/nothing", &body)),
        (User::named("mallory", ""), get(maps)),
        (User::named("mallory", ""), get(&format!("{maps}/missing"))),
        (User::named("mallory", ""), get(&format!("{maps}?watch=1&timeoutSeconds=1"))),
        (User::named("mallory", ""), get("/version")),
        (User::named("mallory", ""), get("/logs")),
        (User::named("mallory", ""), post("/nothing", &body)),
        (User::Token("nobody".to_owned()), get(maps)),
    ];
    let sides: [(&str, &Api); 2] = [("reference", &reference), ("proxy", &proxy)];
    for (number, (user, request)) in requests.into_iter().enumerate() {
        let what = format!("{} {}", request.method, request.path);
        let [expected, found] = sides.map(|(side, api)| {
            let id = format!("decision-{number}");
            let answer = api.send(&user, request.clone().header("audit-id", &id));
            let event = eventually(&format!("the event of {what} at {side}"), || {
                events(&log(side))
                    .into_iter()
                    .rfind(|event| event["auditID"] == *id && event["responseStatus"].is_object())
            });
            (answer.status, event["annotations"]["authorization.k8s.io/decision"].clone())
        });
        assert_eq!(expected, found, "{what}");
    }
}

#[test]
fn the_changes_of_plugins_are_annotated_without_values_unless_events_are_exact() {
    let folder = folder("changes");
    let policy = folder.join("policy.yaml");
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, verbs: [create]}]\n")
        .unwrap();
    for which in ["all", "kube-apiserver"] {
        let log = folder.join(format!("{which}.log"));
        let flags = [
            format!("--audit-log-path={}", log.display()),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-annotations={which}"),
        ];
        let proxy = Proxy::embedded(&flags.each_ref().map(String::as_str));
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        proxy.accepts(post("/api/v1/namespaces/default/persistentvolumeclaims", &claim));
        let event = events(&log).pop().unwrap();
        let expected = r#"[{"plugin":"StorageObjectInUseProtection","paths":["/metadata/finalizers"]}]"#;
        let found = event["annotations"].get("admission.kube-admission-proxy.dev/changed");
        assert_eq!(found, (which == "all").then_some(&json!(expected)), "{which}");
    }
}
