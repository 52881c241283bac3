//! Backends that kubeconfigs name: a real server records its requests, and invalid files give errors.

use super::super::{CallFailure, GenericWebhook};
use super::*;
use crate::backend::testing::{HookServer, Reply};
use crate::cluster::{Cluster as State, FixedState};
use crate::config::Limits;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

/// A folder with a kubeconfig of one cluster and one user.
fn kubeconfig(cluster: &Value, user: &Value) -> TempDir {
    file(&json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "b", "cluster": cluster}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "b", "user": "u"}}]}))
}

fn file(content: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeconfig"), content.to_string()).unwrap();
    folder
}

fn backend(folder: &TempDir) -> Result<GenericWebhook, String> {
    let cluster = State::fixed(FixedState::default());
    let made = GenericWebhook::new(&folder.path().join("kubeconfig"), Duration::ZERO, cluster, &Limits::default());
    made.map_err(|why| why.to_string())
}

async fn post(folder: &TempDir) -> Result<Map<String, Value>, CallFailure> {
    backend(folder).unwrap().post("{}\n".into(), Instant::now() + Duration::from_secs(30)).await
}

fn echo() -> (&'static str, Reply) {
    ("policy", Reply::Http(200, "application/json", b"{}".to_vec()))
}

fn at(server: &HookServer) -> Value {
    json!({"server": server.url("/policy/"), "certificate-authority-data": server.ca_base64()})
}

#[tokio::test]
async fn a_backend_is_sent_what_client_go_sends() {
    let server = HookServer::start(&[echo()]).await;
    post(&kubeconfig(&at(&server), &json!({"token": "secret"}))).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/policy?timeout=30s");
    for (name, value) in [
        ("authorization", "Bearer secret"),
        ("accept", "application/json, */*"),
        ("accept-encoding", "gzip"),
        ("content-type", "application/json"),
        ("user-agent", AGENT),
    ] {
        assert_eq!(seen.headers[name], value);
    }
    assert!(!seen.headers.keys().any(|name| name.starts_with("impersonate")));
}

#[tokio::test]
async fn a_user_may_have_a_password_a_token_file_and_others_to_act_for() {
    let server = HookServer::start(&[echo()]).await;
    let mut cluster = at(&server);
    cluster["disable-compression"] = json!(true);
    post(&kubeconfig(&cluster, &json!({"username": "me", "password": "p:w"}))).await.unwrap();

    let user = json!({"tokenFile": "token", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/scope": ["x"]}});
    let folder = kubeconfig(&at(&server), &user);
    fs::write(folder.path().join("token"), "from-file\n").unwrap();
    post(&folder).await.unwrap();

    let headers: Vec<_> = server.seen().into_iter().map(|seen| seen.headers).collect();
    assert_eq!(headers[0]["authorization"], "Basic bWU6cDp3");
    assert!(!headers[0].contains_key("accept-encoding"));
    assert_eq!(headers[1]["authorization"], "Bearer from-file");
    assert_eq!(headers[1]["impersonate-user"], "jane");
    assert_eq!(headers[1]["impersonate-uid"], "7");
    assert_eq!(headers[1]["impersonate-group"], "b");
    assert_eq!(headers[1]["impersonate-extra-example.com%2fscope"], "x");
}

#[tokio::test]
async fn a_client_certificate_is_shown_from_data_and_from_files_as_they_are_now() {
    let (server, certificate, key) = HookServer::start_for_clients(&[echo()]).await;
    let data =
        json!({"client-certificate-data": STANDARD.encode(&certificate), "client-key-data": STANDARD.encode(&key)});
    post(&kubeconfig(&at(&server), &data)).await.unwrap();

    let without = post(&kubeconfig(&at(&server), &json!({}))).await.unwrap_err().to_string();
    assert!(without.ends_with("remote error: tls: certificate required"), "{without}");

    // The server does not know this certificate, until it is replaced.
    let (_other, other_certificate, other_key) = HookServer::start_for_clients(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |certificate: &str, key: &str| {
        fs::write(folder.path().join("certificate"), certificate).unwrap();
        fs::write(folder.path().join("key"), key).unwrap();
    };
    write(&other_certificate, &other_key);
    let files =
        json!({"client-certificate": folder.path().join("certificate"), "client-key": folder.path().join("key")});
    let backend = backend(&kubeconfig(&at(&server), &files)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    assert!(backend.post("{}".into(), deadline).await.is_err());
    write(&certificate, &key);
    backend.post("{}".into(), deadline).await.unwrap();
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn the_cluster_entry_names_the_trusted_authorities() {
    let server = HookServer::start_named(&[echo()], &["policy.example"]).await;
    let other = HookServer::start(&[]).await;
    let verify = "tls: failed to verify certificate: x509: ";
    let url = server.url("/policy");
    for (fields, fault) in [
        (json!({"certificate-authority-data": server.ca_base64(), "tls-server-name": "policy.example"}), ""),
        (json!({"certificate-authority": "ca.crt", "tls-server-name": "policy.example"}), ""),
        (json!({"insecure-skip-tls-verify": true}), ""),
        (
            json!({"certificate-authority-data": server.ca_base64()}),
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            json!({"certificate-authority-data": other.ca_base64(), "tls-server-name": "policy.example"}),
            "certificate signed by unknown authority",
        ),
        (json!({"tls-server-name": "policy.example"}), "certificate signed by unknown authority"),
    ] {
        let mut cluster = json!({ "server": url });
        cluster.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let folder = kubeconfig(&cluster, &json!({}));
        fs::write(folder.path().join("ca.crt"), server.ca()).unwrap();
        let got = post(&folder).await.err().map(|failure| failure.to_string()).unwrap_or_default();
        let want =
            if fault.is_empty() { String::new() } else { format!("Post \"{url}?timeout=30s\": {verify}{fault}") };
        assert_eq!(got, want, "{fields}");
    }
}

#[tokio::test]
async fn a_new_ca_file_counts_from_the_next_connection_on() {
    let (server, other) = (HookServer::start(&[echo()]).await, HookServer::start(&[]).await);
    let folder = kubeconfig(&json!({"server": server.url("/policy"), "certificate-authority": "ca.crt"}), &json!({}));
    let write = |ca: &str| fs::write(folder.path().join("ca.crt"), ca).unwrap();
    write(other.ca());
    let backend = backend(&folder).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    assert!(backend.post("{}".into(), deadline).await.is_err());
    write(server.ca());
    backend.post("{}".into(), deadline).await.unwrap();
}

#[tokio::test]
async fn no_credentials_go_out_without_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let request = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"{}\n") {
            stream.read_buf(&mut head).await.unwrap();
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
        String::from_utf8(head).unwrap().to_lowercase()
    });
    let folder = kubeconfig(&json!({"server": format!("http://{address}/policy")}), &json!({"token": "secret"}));
    post(&folder).await.unwrap();
    let request = request.await.unwrap();
    assert!(request.starts_with("post /policy?timeout=30s http/1.1\r\n"), "{request}");
    assert!(!request.contains("authorization"), "{request}");
}

#[test]
fn errors_name_the_fault_of_a_kubeconfig_and_no_secret() {
    let server = json!({"server": "https://127.0.0.1:1"});
    let pem = STANDARD.encode("no certificate");
    let missing = |field: &str, path: &str| format!("unable to read {field} {path}");
    for (cluster, user, part) in [
        (json!({"server": ""}), json!({}), "invalid configuration: no server found for cluster \"b\""),
        (json!({"server": "ftp://x"}), json!({}), "the scheme must be https or http"),
        (json!({"server": "https://u:hidden@x"}), json!({}), "server: must be a URL without a user and a password"),
        (
            json!({"server": "https://x", "certificate-authority": "/not/there"}),
            json!({}),
            &*missing("certificate-authority", "/not/there"),
        ),
        (
            json!({"server": "https://x", "certificate-authority-data": "!"}),
            json!({}),
            "clusters[0].cluster.certificate-authority-data: must be base64",
        ),
        (
            json!({"server": "https://x", "certificate-authority-data": pem}),
            json!({}),
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        (
            json!({"server": "https://x", "certificate-authority-data": pem, "insecure-skip-tls-verify": true}),
            json!({}),
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (json!({"server": "https://x", "proxy-url": "http://p"}), json!({}), "proxy-url is not supported"),
        (
            json!({"server": "https://x", "insecure-skip-tls-verify": "yes"}),
            json!({}),
            "clusters[0].cluster.insecure-skip-tls-verify: must be true or false",
        ),
        (server.clone(), json!({"token": "hidden", "username": "a"}), "found [token basicAuth], only one is allowed"),
        (server.clone(), json!({"token": ["hidden"]}), "users[0].user.token: must be a string"),
        (server.clone(), json!({"token": "hid\nden"}), "the token has characters that no header can hold"),
        (server.clone(), json!({"tokenFile": "/not/there"}), "open /not/there: "),
        (server.clone(), json!({"exec": {"command": "x", "env": []}}), "user \"u\": exec is not supported"),
        (server.clone(), json!({"auth-provider": {"name": "oidc"}}), "user \"u\": auth provider not supported"),
        (
            server.clone(),
            json!({"client-certificate-data": pem}),
            "client-key-data or client-key must be specified for u",
        ),
        (
            server.clone(),
            json!({"client-certificate": "/not/there", "client-key-data": pem}),
            &*missing("client-cert", "/not/there"),
        ),
        (
            server.clone(),
            json!({"client-certificate-data": pem, "client-key-data": pem}),
            "tls: failed to find any PEM data in certificate input",
        ),
        (
            server.clone(),
            json!({"as-groups": ["a"]}),
            "requesting uid, groups or user-extra for u without impersonating a user",
        ),
    ] {
        let error = backend(&kubeconfig(&cluster, &user)).err().unwrap();
        assert!(error.contains(part), "{cluster} {user}: {error}");
        assert!(!error.contains("hid"), "{error}");
    }
    for (content, part) in [
        (json!({"kind": "Pod"}), "no kind \"Pod\" is registered for version \"\": must be v1 Config"),
        (json!([]), "must be a mapping"),
        (json!({"users": {}}), "users: must be a list"),
        (json!({"users": [{"name": "a"}, {"name": "a"}]}), "users: duplicate name \"a\" in list"),
        (json!({}), "no configuration has been provided"),
        (json!({"current-context": "x"}), "context was not found for specified context: x"),
    ] {
        let error = backend(&file(&content)).err().unwrap();
        assert!(error.contains(part), "{content}: {error}");
    }
    let error = Kubeconfig::load(Path::new("/not/there")).err().unwrap().to_string();
    assert!(error.starts_with("open /not/there: "), "{error}");
}

#[test]
fn a_user_is_looked_up_by_target_domain_and_context() {
    let user = |name: &str| json!({"name": name, "user": {"username": name, "password": "p"}});
    let named = |names: &[&str], context: &str| {
        let users: Vec<_> = names.iter().map(|name| user(name)).collect();
        let folder = file(&json!({"users": users, "current-context": "c",
            "contexts": [{"name": "c", "context": {"user": context, "cluster": ""}}]}));
        Kubeconfig::load(&folder.path().join("kubeconfig")).unwrap()
    };
    let found = |kubeconfig: &Kubeconfig, target: &str| match kubeconfig.identity(target).unwrap().authorization {
        Authorization::Fixed(value) => {
            let pair = value.to_str().unwrap().trim_start_matches("Basic ").to_owned();
            String::from_utf8(STANDARD.decode(pair).unwrap()).unwrap().trim_end_matches(":p").to_owned()
        }
        _ => "nobody".to_owned(),
    };
    let target = "hook.ns.svc:443";
    let order = ["hook.ns.svc:443", "*.ns.svc:443", "*.svc:443", "hook.ns.svc", "*.ns.svc", "*.svc", "*", "someone"];
    for first in 0..order.len() {
        assert_eq!(found(&named(&order[first..], "someone"), target), order[first]);
    }
    assert_eq!(found(&named(&["other"], "missing"), target), "nobody");
    assert_eq!(found(&Kubeconfig::default(), target), "nobody");
    // A name without the port matches only the default port.
    assert_eq!(found(&named(&["hook.ns.svc", "*.svc"], ""), "hook.ns.svc:8443"), "nobody");
    assert_eq!(found(&named(&["*.svc:8443"], ""), "hook.ns.svc:8443"), "*.svc:8443");
    assert_eq!(found(&named(&["::1"], ""), "[::1]:443"), "::1");
}
