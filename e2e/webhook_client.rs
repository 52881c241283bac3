//! Webhooks that cannot be called, or that respond with nonsense: the errors of kube-apiserver and of the proxy.

use crate::harness::{
    Api, Pair, User, WEBHOOK_SECONDS, block_on, certificates, eventually, pki, post, runtime, unique,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The bytes that the server writes on each path before it closes the connection.
const RAW: [(&str, &str); 18] = [
    ("/eof", ""),
    ("/smtp", "220 smtp.example ESMTP\r\n"),
    ("/line", "nonsense\n"),
    ("/code", "HTTP/1.1 2x0 OK\r\n\r\n"),
    ("/version", "ICY 200 OK\r\n\r\n"),
    ("/no-line", "HTTP/1.1 2"),
    ("/half-head", "HTTP/1.1 200 OK\r\nA: b\r\n"),
    ("/half-body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"),
    ("/half-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
    ("/no-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"),
    ("/no-gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 17\r\n\r\n{\"hello\":\"world\"}"),
    ("/half-gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"),
    ("/html", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"),
    ("/type", "HTTP/1.1 200 OK\r\nContent-Type: /\r\nContent-Length: 2\r\n\r\n{}"),
    ("/empty", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"),
    ("/choices", "HTTP/1.1 300 Multiple Choices\r\nContent-Length: 0\r\n\r\n"),
    ("/nowhere", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"),
    ("/teapot", "HTTP/1.1 418 Teapot\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nshort"),
];

/// Redirects, by path: redirects as a GET lead to an error, those as a POST to a denial, and some to no target.
const REDIRECTS: [(&str, &str, &str); 11] = [
    ("/moved", "301", "/teapot"),
    ("/found", "302", "/teapot"),
    ("/see-other", "303", "teapot"),
    ("/permanent", "308", "/deny"),
    ("/loop", "307", "/loop"),
    ("/up", "308", "../../x/./../deny"),
    ("/gone", "307", "https://127.0.0.1:1/x"),
    ("/plain", "302", "http://127.0.0.1:1/x?y"),
    ("/mail", "307", "mailto:x@y"),
    ("/opaque", "307", "https:x"),
    ("/odd", "302", "1:x"),
];

/// Starts a TLS server with a response for each path, and returns its port.
fn serve() -> u16 {
    let _ = runtime();
    let pki = pki();
    let key = PrivateKeyDer::from_pem_file(&pki.server.key).unwrap();
    let chain = certificates(&pki.server.certificate).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.ok()?;
                while let Some((path, review)) = request(&mut stream).await {
                    answer(&mut stream, &path, &review).await?;
                }
                Some(())
            });
        }
    });
    port
}

/// Path and review of the next request; the review is null if there is none.
async fn request(stream: &mut TlsStream<TcpStream>) -> Option<(String, Value)> {
    let mut seen = Vec::new();
    loop {
        if stream.read_buf(&mut seen).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&seen);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            let path = head.split(' ').nth(1)?.split('?').next()?.to_owned();
            return Some((path, serde_json::from_str(body).unwrap_or_default()));
        }
    }
}

/// Writes the response; `None` ends the connection.
async fn answer(stream: &mut TlsStream<TcpStream>, path: &str, review: &Value) -> Option<()> {
    let raw = RAW.iter().find_map(|(at, raw)| (*at == path).then(|| (*raw).to_owned()));
    let redirect = REDIRECTS.iter().find(|(at, ..)| *at == path);
    // A redirect to another server: `/away/CODE/PORT/…`.
    let away = path.strip_prefix("/away/").and_then(|rest| rest.split_once('/')).and_then(|(code, rest)| {
        let (port, path) = rest.split_once('/')?;
        Some((code, format!("https://127.0.0.1:{port}/{path}")))
    });
    let redirect = redirect
        .map(|(_, code, to)| (*code, (*to).to_owned()))
        .or(away)
        .map(|(code, to)| format!("HTTP/1.1 {code} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
    let (text, goes_on) = match (raw, redirect, path) {
        (Some(raw), ..) => (raw, false),
        (_, Some(redirect), _) => (redirect, true),
        (_, _, "/hang") => {
            // Until the client gives up.
            stream.read_to_end(&mut Vec::new()).await.ok()?;
            return None;
        }
        (_, _, "/reset") => {
            socket2::SockRef::from(stream.get_ref().0).set_linger(Some(Duration::ZERO)).ok()?;
            return None;
        }
        _ => {
            let status = json!({"message": "denied by the test"});
            let response = json!({"uid": review["request"]["uid"], "allowed": path != "/deny", "status": status});
            let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            let body = body.to_string();
            let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
            let interim = if path == "/interim" { interim } else { "" };
            (
                format!(
                    "{interim}HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                ),
                true,
            )
        }
    };
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    if goes_on {
        return Some(());
    }
    stream.shutdown().await.ok()?;
    None
}

/// A webhook for config maps with this label.
fn configuration(name: &str, client: &Value) -> Value {
    // Only a server that hangs fails by the timeout.
    let seconds = if client["url"].as_str().is_some_and(|url| url.ends_with("/hang")) { 2 } else { WEBHOOK_SECONDS };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": name},
    "webhooks": [{
        "name": "hook.e2e.test", "clientConfig": client, "timeoutSeconds": seconds, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": {"case": name}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    }]})
}

/// Code and message of a create of such a config map, once the webhook is in effect.
fn heard(api: &Api, name: &str, client: &Value) -> (u16, String) {
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let answer = api.send(&User::admin(), post(configurations, &configuration(name, client)));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let metadata = json!({"name": "one", "labels": {"case": name}});
    let create = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let create = post("/api/v1/namespaces/default/configmaps?dryRun=All", &create);
    eventually(&format!("a failure of {client}"), || {
        let answer = api.send(&User::admin(), create.clone());
        (answer.status != 201).then(|| (answer.status, masked(&answer.message())))
    })
}

/// Replaces values that differ from run to run: the client's port, and the time.
fn masked(message: &str) -> String {
    let words = message.split(' ').map(|word| match word {
        word if word.contains("->") => "FROM->TO:",
        word if word.starts_with("20") && word.contains('T') => "TIME",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn bundle(path: &Path) -> String {
    STANDARD.encode(std::fs::read(path).unwrap())
}

fn compare(pair: &Pair, cases: &[(String, Value)]) {
    let differences: Vec<String> = std::thread::scope(|scope| {
        let compared: Vec<_> = cases
            .iter()
            .map(|(what, client)| {
                scope.spawn(move || {
                    let name = unique("case");
                    let [expected, got] = pair.sides().map(|api| heard(api, &name, client));
                    (expected != got)
                        .then(|| format!("{what}:\n  kube-apiserver {expected:?}\n  the proxy      {got:?}"))
                })
            })
            .collect();
        compared.into_iter().filter_map(|case| case.join().unwrap()).collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn failures_are_worded_as_kube_apiserver_words_them() {
    let pair = Pair::start(&["ValidatingAdmissionWebhook"], &["--enable-aggregator-routing=true".to_owned()], &[]);
    let service = |name: &str, spec: Value| {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        post("/api/v1/namespaces/default/services", &service)
    };
    let suffix = unique("service");
    let named = |name: &str| format!("{name}-{suffix}");
    pair.set_up(&[
        service(&named("idle"), json!({"ports": [{"port": 443}]})),
        service(&named("outside"), json!({"type": "ExternalName", "externalName": "a.invalid"})),
    ]);
    let own = bundle(pki().ca());
    // Each case has a server of its own: kube-apiserver reuses connections to an address for all paths, and may find one closed.
    let url = |path: &str| json!({"url": format!("https://127.0.0.1:{}{path}", serve()), "caBundle": own});
    let to = |name: &str, port: u16| json!({"service": {"name": name, "namespace": "default", "port": port, "path": "/p"}, "caBundle": own});
    let plain = block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime().spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await.ok();
                tokio::spawn(async move { drop(stream.read_to_end(&mut Vec::new()).await) });
            }
        });
        port
    });
    let away = |code: u16, port: u16, path: &str| url(&format!("/away/{code}/{port}{path}"));
    let paths = RAW.map(|(path, _)| path).into_iter().chain(REDIRECTS.map(|(path, ..)| path));
    let mut cases: Vec<(String, Value)> =
        paths.chain(["/hang", "/reset", "/deny"]).map(|path| (path.to_owned(), url(path))).collect();
    cases.extend([
        ("refused".to_owned(), json!({"url": "https://127.0.0.1:1/x", "caBundle": own})),
        (
            "another authority".to_owned(),
            json!({"url": format!("https://127.0.0.1:{}/x", serve()), "caBundle": bundle(pki().front_proxy_ca())}),
        ),
        ("redirected to a refusal".to_owned(), away(307, serve(), "/deny")),
        ("redirected to an error, as a GET".to_owned(), away(303, serve(), "/teapot")),
        ("redirected to what is not TLS".to_owned(), away(308, plain, "/x")),
        ("no TLS".to_owned(), json!({"url": format!("https://127.0.0.1:{plain}/x"), "caBundle": own})),
        ("no such service".to_owned(), to("missing", 443)),
        ("no such port".to_owned(), to(&named("idle"), 444)),
        ("no endpoints".to_owned(), to(&named("idle"), 443)),
        ("an external name".to_owned(), to(&named("outside"), 443)),
    ]);
    compare(&pair, &cases);
}

#[test]
fn interim_answers_are_passed_over() {
    let pair = Pair::start(&["ValidatingAdmissionWebhook"], &[], &[]);
    let client = json!({"url": format!("https://127.0.0.1:{}/interim", serve()), "caBundle": bundle(pki().ca())});
    let deny = json!({"url": format!("https://127.0.0.1:{}/deny", serve()), "caBundle": bundle(pki().ca())});
    // The second webhook is called only for requests that the first one allowed, if the first was called.
    for api in pair.sides() {
        let name = unique("interim");
        let mut both = configuration(&name, &client);
        let mut second = configuration(&name, &deny)["webhooks"][0].clone();
        second["name"] = "second.e2e.test".into();
        both["webhooks"].as_array_mut().unwrap().push(second);
        let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        assert_eq!(api.send(&User::admin(), post(configurations, &both)).status, 201);
        let metadata = json!({"name": "one", "labels": {"case": name}});
        let create = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let create = post("/api/v1/namespaces/default/configmaps?dryRun=All", &create);
        let message = eventually("a refusal", || {
            let answer = api.send(&User::admin(), create.clone());
            (answer.status != 201).then(|| answer.message())
        });
        assert_eq!(message, "admission webhook \"second.e2e.test\" denied the request: denied by the test");
    }
}
