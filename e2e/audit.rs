//! The audit log.

use crate::harness::{Proxy, User, eventually, folder, get, post};
use serde_json::{Value, json};

fn events(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The last line may still be on its way.
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_was_done_and_by_whom_is_logged_and_secrets_are_not() {
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
