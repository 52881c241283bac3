//! The credentials of webhook calls: the users of the kubeconfig that the plugins' configuration names.

use super::*;
use crate::backend::testing::{HookServer, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

fn users(users: Value) -> Kubeconfig {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, json!({ "users": users }).to_string()).unwrap();
    Kubeconfig::load(&path).unwrap()
}

fn as_users(server: &HookServer, path: &str, kubeconfig: Kubeconfig) -> ValidatingWebhooks {
    let hooks = [at(server, "w.lab.dev", path, json!({}))];
    let configuration = configuration::<ValidatingWebhookConfiguration>(&hooks);
    let cluster = Cluster::fixed(FixedState { validating_webhooks: vec![configuration], ..default_state() });
    ValidatingWebhooks::new(cluster, discovery(), metrics().1, &Limits::default(), kubeconfig, Manifests::default())
}

#[tokio::test]
async fn a_webhook_is_called_as_the_user_of_its_target() {
    let server = HookServer::start(&[]).await;
    let target = server.url("").replace("https://", "");
    let all = json!([{"name": "*", "user": {"token": "of-all"}}, {"name": target, "user": {"token": "of-this"}}]);
    as_users(&server, "/allow", users(all)).validate(&create(configmap())).await.unwrap();
    let one = json!([{"name": "*", "user": {"username": "u", "password": "p", "as": "jane"}}]);
    as_users(&server, "/allow", users(one)).validate(&create(configmap())).await.unwrap();
    let other = json!([{"name": "other.example:443", "user": {"token": "of-other"}}]);
    as_users(&server, "/allow", users(other)).validate(&create(configmap())).await.unwrap();

    let headers: Vec<_> = server.seen().into_iter().map(|seen| seen.headers).collect();
    assert_eq!(headers[0]["authorization"], "Bearer of-this");
    assert_eq!((&*headers[1]["authorization"], &*headers[1]["impersonate-user"]), ("Basic dTpw", "jane"));
    assert!(!headers[2].contains_key("authorization"));
    assert!(headers.iter().all(|headers| headers["user-agent"] == "kube-apiserver-admission"));
}

#[tokio::test]
async fn a_webhook_is_shown_the_certificate_of_its_user() {
    let (server, certificate, key) = HookServer::start_for_clients(&[("hook", Reply::Response(json!({})))]).await;
    let user = json!([{"name": "*", "user": {
        "client-certificate-data": STANDARD.encode(certificate), "client-key-data": STANDARD.encode(key)}}]);
    as_users(&server, "/hook", users(user)).validate(&create(configmap())).await.unwrap();

    let attributes = create(configmap());
    let status = refused(as_users(&server, "/hook", Kubeconfig::default()).validate(&attributes).await, &attributes);
    let text = failed_calling(&status, "w.lab.dev");
    assert!(text.ends_with("remote error: tls: certificate required"), "{text}");
}

#[tokio::test]
async fn a_user_that_cannot_be_called_as_fails_the_call() {
    let server = HookServer::start(&[]).await;
    let user = json!([{"name": "*", "user": {"auth-provider": {"name": "p"}}}]);
    let attributes = create(configmap());
    let status = refused(as_users(&server, "/allow", users(user)).validate(&attributes).await, &attributes);
    let want = "could not get REST client: user \"*\": auth provider not supported";
    assert_eq!(failed_calling(&status, "w.lab.dev"), want);
    assert!(server.seen().is_empty());
}
