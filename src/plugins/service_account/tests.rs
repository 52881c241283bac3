use super::*;
use crate::cluster::FixedState;
use crate::plugins::checker::{Checked, check};
use k8s_openapi::api::core::v1::ServiceAccount as KubeAccount;

fn account(name: &str, rest: Value) -> KubeAccount {
    let mut account = json!({"metadata": {"name": name, "namespace": "n"}});
    account.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
    serde_json::from_value(account).unwrap()
}

fn plugin() -> ServiceAccount {
    let mut strict = account("strict", json!({"secrets": [{"name": "mine"}], "imagePullSecrets": [{"name": "pull"}]}));
    strict.metadata.annotations = Some([("kubernetes.io/enforce-mountable-secrets".to_owned(), "T".to_owned())].into());
    let cached = vec![
        account("default", json!({"imagePullSecrets": [{"name": "pull"}]})),
        account("manual", json!({"automountServiceAccountToken": false})),
        strict,
    ];
    let live = [cached.clone(), vec![account("new", json!({"automountServiceAccountToken": false}))]].concat();
    ServiceAccount(Cluster::fixed(FixedState::default().with::<Account>(cached).live::<Account>(live)))
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
}

async fn created(spec: Value) -> Checked {
    check(&plugin()).create("", "pods", pod(spec)).await
}

/// The message of the refusal of a pod with the account `strict`.
async fn refusal(rest: Value) -> Option<String> {
    let mut spec = json!({"serviceAccountName": "strict"});
    spec.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
    let refusal = check(&plugin()).validating().create("", "pods", pod(spec)).await.refusal()?;
    Some(refusal.message.replace("pods \"p\" is forbidden: ", ""))
}

#[tokio::test]
async fn the_token_is_mounted_in_containers_of_initializers() {
    let place = "/var/run/secrets/kubernetes.io/serviceaccount";
    let own = json!({"name": "kube-api-access-abcde", "readOnly": true, "mountPath": place});
    let mut new = pod(json!({
        "serviceAccountName": "default", "imagePullSecrets": [{"name": "pull"}],
        "volumes": [{"name": "kube-api-access-abcde"}],
        "containers": [{"name": "a", "volumeMounts": [own]}, {"name": "sidecar"}],
    }));
    check(&plugin()).update("", "pods", new.clone(), new.clone()).await.stays_unchanged();
    let mut old = new.clone();
    old["metadata"]["initializers"] = json!({"pending": [{"name": "a.b.c"}]});
    let after = check(&plugin()).update("", "pods", old.clone(), new.clone()).await.after();
    new["spec"]["containers"][1]["volumeMounts"] = json!([own]);
    assert_eq!(after, new);
    let mut strict = pod(json!({"serviceAccountName": "strict", "imagePullSecrets": [{"name": "other"}]}));
    let refused = check(&plugin()).validating().update("", "pods", old, strict.clone()).await;
    assert_eq!(refused.code(), Some(403));
    strict["metadata"]["initializers"] = Value::Null;
    let initialized = check(&plugin()).validating().update("", "pods", strict.clone(), strict).await;
    assert_eq!(initialized.code(), None);
}

#[tokio::test]
async fn a_pod_runs_as_the_default_account_with_its_token_and_pull_secrets() {
    let place = "/var/run/secrets/kubernetes.io/serviceaccount";
    let own = json!({"name": "x", "mountPath": place});
    let given =
        json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [own]}], "initContainers": [{"name": "i"}]});
    let after = created(given).await.after();
    let spec = &after["spec"];
    assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("default"), &json!("default")));
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-") && volume.len() == "kube-api-access-".len() + 5);
    let mount = json!([{"name": volume, "readOnly": true, "mountPath": place}]);
    assert_eq!((&spec["containers"][0]["volumeMounts"], &spec["initContainers"][0]["volumeMounts"]), (&mount, &mount));
    assert_eq!(spec["containers"][1]["volumeMounts"], json!([own]));
    assert_eq!(spec["volumes"][0]["projected"]["defaultMode"], 420);
    let token = json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}});
    assert_eq!(spec["volumes"][0]["projected"]["sources"][0], token);
}

#[tokio::test]
async fn a_token_volume_of_the_pods_own_is_used() {
    let volumes = json!([{"name": "kube-api-access-mine"}]);
    let spec = created(json!({"containers": [{"name": "a"}], "volumes": volumes})).await.after()["spec"].clone();
    assert_eq!(spec["volumes"], volumes);
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-mine");
}

#[tokio::test]
async fn the_pod_decides_before_the_account_about_its_token() {
    let of = |account: &str, wants: Value| json!({"serviceAccountName": account, "automountServiceAccountToken": wants, "containers": [{"name": "a"}]});
    for (spec, mounts) in [
        (of("default", json!(false)), false),
        (of("manual", Value::Null), false),
        (of("manual", json!(true)), true),
        (of("new", Value::Null), false),
    ] {
        let after = created(spec).await.after();
        assert_eq!(after["spec"].get("volumes").is_some(), mounts);
    }
}

#[tokio::test]
async fn own_pull_secrets_stay() {
    let spec = json!({"imagePullSecrets": [{"name": "own"}]});
    assert_eq!(created(spec.clone()).await.after()["spec"]["imagePullSecrets"], spec["imagePullSecrets"]);
}

#[tokio::test]
async fn the_account_must_exist() {
    let text = "pods \"p\" is forbidden: error looking up service account n/x: serviceaccount \"x\" not found";
    created(json!({"serviceAccountName": "x"})).await.was_refused(403, text);
    let text = "pods \"p\" is forbidden: error looking up service account n/a/b: invalid resource name \"a/b\": [may not contain '/']";
    created(json!({"serviceAccountName": "a/b"})).await.was_refused(403, text);
    let none = check(&plugin()).validating().create("", "pods", pod(json!({}))).await;
    none.was_refused(403, "pods \"p\" is forbidden: no service account specified for pod n/p");
}

#[tokio::test(start_paused = true)]
async fn the_default_account_is_waited_for() {
    let plugin = ServiceAccount(Cluster::fixed(FixedState::default().with::<Account>(vec![])));
    let begun = tokio::time::Instant::now();
    assert_eq!(check(&plugin).create("", "pods", pod(json!({}))).await.code(), Some(403));
    let waited = begun.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_millis(2000)).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn a_mirror_pod_has_no_account_and_no_secrets() {
    let mirror = |spec: Value| json!({"metadata": {"name": "p", "namespace": "n", "annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": spec});
    for (spec, want) in [
        (json!({"containers": [{"name": "a"}]}), None),
        (json!({"serviceAccountName": "default"}), Some("a mirror pod may not reference service accounts")),
        (json!({"volumes": [{"secret": {"secretName": "s"}}]}), Some("a mirror pod may not reference secrets")),
        (
            json!({"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
            Some("a mirror pod may not reference secrets"),
        ),
        (
            json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
            Some("a mirror pod may not use ServiceAccountToken volume projections"),
        ),
    ] {
        let checked = check(&plugin()).create("", "pods", mirror(spec)).await;
        let found = checked.refusal().map(|status| status.message.replace("pods \"p\" is forbidden: ", ""));
        assert_eq!(found.as_deref(), want);
    }
}

#[tokio::test]
async fn a_strict_account_restricts_every_secret() {
    let key = |name: &str| json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]);
    let end = "is not allowed because service account strict does not reference that secret";
    for (rest, want) in [
        (json!({"volumes": [{"secret": {"secretName": "mine"}}], "imagePullSecrets": [{"name": "pull"}]}), None),
        (
            json!({"volumes": [{"secret": {"secretName": "s"}}]}),
            Some(format!("volume with secret.secretName=\"s\" {end}")),
        ),
        (
            json!({"initContainers": [{"name": "i", "env": key("s")}]}),
            Some(format!("init container i with envVar E referencing secret.secretName=\"s\" {end}")),
        ),
        (json!({"containers": [{"name": "c", "env": key("mine")}]}), None),
        (
            json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]}),
            Some(format!("container c with envFrom referencing secret.secretName=\"s\" {end}")),
        ),
        (
            json!({"imagePullSecrets": [{"name": "pull"}, {"name": "s"}]}),
            Some(format!("imagePullSecrets[1].name=\"s\" {end}").replace("that secret", "that imagePullSecret")),
        ),
        (json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}), None),
    ] {
        assert_eq!(refusal(rest).await, want);
    }
}

#[tokio::test]
async fn debug_containers_are_refused_with_a_plain_error() {
    let debugged = json!({"serviceAccountName": "strict", "ephemeralContainers": [{"name": "d", "envFrom": [{"secretRef": {"name": "s"}}]}]});
    let update = |spec: Value| async move {
        check(&plugin())
            .validating()
            .subresource("ephemeralcontainers")
            .update("", "pods", pod(json!({})), pod(spec))
            .await
    };
    update(debugged.clone()).await.was_refused(
        500,
        "ephemeral container d with envFrom referencing secret.secretName=\"s\" is not allowed because service account strict does \
         not reference that secret",
    );
    let mut lenient = debugged;
    lenient["serviceAccountName"] = "default".into();
    update(lenient).await.stays_unchanged();
}
