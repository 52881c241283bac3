//! The effects of ServiceAccount on pods, compared with kube-apiserver's own plugin.

use super::pods::{account, as_developer, generated, namespace, pair, pod, pods};
use crate::harness::{Request, patch, post, put, unique};
use serde_json::{Value, json};

#[test]
fn pods_run_as_their_service_account() {
    let (here, bare) = (unique("accounts"), unique("accounts-bare"));
    let robot = json!({"automountServiceAccountToken": false, "imagePullSecrets": [{"name": "one"}, {"name": "two"}]});
    let bare_namespace = namespace(&bare).into_iter().take(1);
    let setup: Vec<Request> =
        namespace(&here).into_iter().chain([account(&here, "robot", robot)]).chain(bare_namespace).collect();
    pair().set_up(&setup);
    let create = |pod: Value| post(&pods(&here), &pod);
    let mounting = |path: &str| json!({"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": path}]});
    let default_path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let empty = |name: &str| json!([{"name": name, "emptyDir": {}}]);
    let mirror = |name: &str, spec: Value| {
        let mut pod = pod(name, spec);
        pod["spec"]["nodeName"] = json!("nowhere");
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"});
        create(pod)
    };
    let token = json!({"serviceAccountToken": {"path": "t"}});
    let reused = json!({"name": "a", "image": "i"});
    pair().compare(as_developer(vec![
        create(pod("plain", json!({}))),
        create(pod("robot", json!({"serviceAccountName": "robot"}))),
        create(pod("former", json!({"serviceAccount": "robot"}))),
        create(pod("both", json!({"serviceAccount": "other", "serviceAccountName": "robot"}))),
        create(pod("wants", json!({"serviceAccountName": "robot", "automountServiceAccountToken": true, "imagePullSecrets": [{"name": "own"}]}))),
        create(pod("wants-not", json!({"automountServiceAccountToken": false}))),
        create(pod("mounted", json!({"containers": [mounting(default_path)], "volumes": empty("v")}))),
        create(pod(
            "one-mounted",
            json!({"containers": [mounting(default_path), {"name": "b", "image": "i"}], "initContainers": [{"name": "c", "image": "i"}], "volumes": empty("v")}),
        )),
        create(pod("elsewhere", json!({"containers": [mounting(&format!("{default_path}/"))], "volumes": empty("v")}))),
        create(pod("reused", json!({"containers": [reused], "volumes": empty("kube-api-access-mine")}))),
        create(pod("unknown", json!({"serviceAccountName": "unknown"}))),
        create(generated("unknown-", json!({"serviceAccountName": "unknown"}))),
        post(&pods(&bare), &pod("too-early", json!({}))),
        mirror("mirror", json!({})),
        mirror("mirror-account", json!({"serviceAccountName": "robot"})),
        mirror("mirror-secret", json!({"volumes": [{"name": "s", "secret": {"secretName": "x"}}]})),
        mirror("mirror-env", json!({"containers": [{"name": "a", "image": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]})),
        mirror("mirror-token", json!({"volumes": [{"name": "t", "projected": {"sources": [token]}}]})),
        create(pod("nothing", json!({"containers": []}))),
        patch(&format!("{}/applied?fieldManager=me", pods(&here)), "apply", &pod("applied", json!({}))),
        patch(&format!("{}/plain", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        post(&format!("{}?dryRun=All", pods(&here)), &pod("dry", json!({}))),
    ]));
}

#[test]
fn pods_use_the_secrets_that_their_account_may() {
    let here = unique("secrets");
    let strict = json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "T"}},
                        "secrets": [{"name": "good"}], "imagePullSecrets": [{"name": "pull"}]});
    let lax = json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "yes"}}});
    let setup: Vec<Request> =
        namespace(&here).into_iter().chain([account(&here, "strict", strict), account(&here, "lax", lax)]).collect();
    pair().set_up(&setup);
    let of = |account: &str, name: &str, fields: Value| {
        let mut spec = fields;
        spec["serviceAccountName"] = json!(account);
        post(&pods(&here), &pod(name, spec))
    };
    let secret = |name: &str| json!({"volumes": [{"name": "s", "secret": {"secretName": name}}]});
    let env = |name: &str, secret: &str| json!({"name": name, "image": "i", "env": [{"name": "A", "value": "a"}, {"name": "E", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]});
    let env_from =
        |name: &str, secret: &str| json!({"name": name, "image": "i", "envFrom": [{"secretRef": {"name": secret}}]});
    let debug = |container: Value| {
        let mut container = container;
        container["terminationMessagePolicy"] = json!("File");
        patch(
            &format!("{}/fine/ephemeralcontainers", pods(&here)),
            "strategic",
            &json!({"spec": {"ephemeralContainers": [container]}}),
        )
    };
    pair().compare(as_developer(vec![
        of(
            "strict",
            "fine",
            json!({"containers": [env("a", "good"), env_from("b", "good")], "imagePullSecrets": [{"name": "pull"}]}),
        ),
        of("strict", "volume", secret("bad")),
        of("strict", "env", json!({"containers": [env("a", "bad")]})),
        of("strict", "env-from", json!({"containers": [{"name": "o", "image": "i"}, env_from("a", "bad")]})),
        of("strict", "init-env", json!({"initContainers": [env("i", "bad")]})),
        of("strict", "init-env-from", json!({"initContainers": [env_from("i", "bad")]})),
        of("strict", "pull", json!({"imagePullSecrets": [{"name": "pull"}, {"name": "other"}]})),
        of(
            "strict",
            "projected",
            json!({"volumes": [{"name": "p", "projected": {"sources": [{"secret": {"name": "bad"}}]}}]}),
        ),
        of("lax", "lax", secret("bad")),
        debug(env("d", "bad")),
        debug(env_from("e", "bad")),
        debug(env("f", "good")),
        // The stored pod has the account, not the rest of the pod in the request.
        patch(
            &format!("{}/fine/ephemeralcontainers", pods(&here)),
            "strategic",
            &json!({"spec": {"serviceAccountName": "lax", "ephemeralContainers": [env("g", "bad")]}}),
        ),
        put(
            &format!("{}/fine/ephemeralcontainers", pods(&here)),
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fine"}, "spec": {"ephemeralContainers": [
                {"name": "f", "image": "i", "terminationMessagePolicy": "File", "env": [{"name": "A", "value": "a"},
                    {"name": "E", "valueFrom": {"secretKeyRef": {"name": "good", "key": "k"}}}]},
                {"name": "h", "image": "i"}]}}),
        ),
    ]));
}
