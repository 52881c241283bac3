//! Redirects: how many Go's client follows, to which places, and which headers and body go along.

use super::*;
use crate::backend::testing::HookServer;
use crate::config::WebhookTargets;

/// Redirects every request but those of `/end`.
fn redirects(to: &'static str) -> Misbehaviour {
    late(move |mut stream, _| async move {
        let mut buffer = vec![0; 65536];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            let seen = String::from_utf8_lossy(&buffer[..read]).into_owned();
            let answer = match seen.split(' ').nth(1) {
                Some("/end") => {
                    let body = seen.split_once("\r\n\r\n").unwrap().1;
                    answer(&serde_json::from_str(body).unwrap_or_default())
                }
                _ => format!("HTTP/1.1 {to}\r\nContent-Length: 0\r\n\r\n"),
            };
            write(&mut stream, answer).await;
        }
    })
}

#[tokio::test]
async fn redirects_at_the_endpoint_are_followed_so_often() {
    let server = Faulty::start(redirects("307 X\r\nLocation: /end"));
    let world = validating(&[server.hook(json!({}))]);
    world.plugin.validate(&create(configmap())).await.unwrap();
    assert_eq!(server.accepted(), 1);

    // A redirect to a GET drops the review, and so the uid.
    let world_text = failed_of(&Faulty::start(redirects("302 X\r\nLocation: /end"))).await;
    assert!(world_text.starts_with("received invalid webhook response: expected response.uid="), "{world_text}");
    let text = failure(&Faulty::start(redirects("307 X\r\nLocation: /again"))).await;
    assert_eq!(text, "Post \"/again\": stopped after 10 redirects");
}

/// A server that redirects every request to this place, with this code.
fn redirecting(code: u16, to: String) -> Faulty {
    Faulty::start(late(move |mut stream, _| {
        let answer = format!("HTTP/1.1 {code} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        async move { while request(&mut stream).await.is_some() && write(&mut stream, &answer).await {} }
    }))
}

/// A hook at the first server, which trusts the authorities of both.
fn trusting(first: &Faulty, second: &HookServer) -> Value {
    let bundle = format!("{}{}", first.ca, second.ca());
    first.hook(json!({"clientConfig": {"url": first.url(), "caBundle": STANDARD.encode(bundle)}}))
}

#[tokio::test]
async fn another_server_gets_the_review_if_the_bundle_vouches_for_it() {
    let there = HookServer::start(&[]).await;
    let (allow, deny) = (redirecting(307, there.url("/allow/a?q=1")), redirecting(308, there.url("/deny/b")));
    let world = validating(&[trusting(&allow, &there)]);
    for _ in 0..2 {
        world.plugin.validate(&create(configmap())).await.unwrap();
    }
    let attributes = create(configmap());
    let status = refused(validating(&[trusting(&deny, &there)]).plugin.validate(&attributes).await, &attributes);
    assert_eq!(status.message, "admission webhook \"w.lab.dev\" denied the request: denied by the lab");
    let seen = there.seen();
    let paths: Vec<_> = seen.iter().map(|seen| &*seen.path).collect();
    assert_eq!(paths, ["/allow/a?q=1", "/allow/a?q=1", "/deny/b"]);
    let first = &seen[0];
    assert_eq!(first.headers["host"], there.url("").replace("https://", ""));
    assert_eq!(first.headers["referer"], format!("{}?timeout=1s", allow.url()));
    assert_eq!(first.review["request"]["name"], "c");
}

#[tokio::test]
async fn another_server_without_a_trusted_certificate_gets_no_review() {
    let there = HookServer::start(&[]).await;
    let text = failure(&redirecting(307, there.url("/allow"))).await;
    let unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert_eq!(text, format!("Post \"{}\": {unknown}", there.url("/allow")));
    assert!(there.seen().is_empty());
}

#[tokio::test]
async fn another_server_is_shown_the_same_credentials() {
    let there = HookServer::start(&[]).await;
    let here = redirecting(307, there.url("/allow"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let target = here.url().replace("https://", "").replace("/x", "");
    std::fs::write(&path, json!({"users": [{"name": target, "user": {"token": "t"}}]}).to_string()).unwrap();
    let configuration = configuration::<ValidatingWebhookConfiguration>(&[trusting(&here, &there)]);
    let cluster = Cluster::fixed(FixedState { validating_webhooks: vec![configuration], ..default_state() });
    let users = Kubeconfig::load(&path).unwrap();
    let plugin =
        ValidatingWebhooks::new(cluster, discovery(), metrics().1, &Limits::default(), users, Manifests::default());
    plugin.validate(&create(configmap())).await.unwrap();
    assert_eq!(there.seen()[0].headers["authorization"], "Bearer t");
}

#[tokio::test]
async fn a_redirect_may_lead_back_and_leads_out_of_tls() {
    let here = Arc::new(std::sync::OnceLock::<String>::new());
    let (plain, url) = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, here) = (format!("http://{}/p", listener.local_addr().unwrap()), here.clone());
        let serving = tokio::spawn(async move {
            let mut heads = Vec::new();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut seen = vec![0; 65536];
                let read = stream.read(&mut seen).await.unwrap();
                heads.push(String::from_utf8_lossy(&seen[..read]).into_owned());
                let back = format!("HTTP/1.1 307 X\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", here.get().unwrap());
                write(&mut stream, back).await;
            }
            heads
        });
        (serving, url)
    };
    let server = Faulty::start(late(move |mut stream, _| {
        let away = format!("HTTP/1.1 307 X\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
        async move {
            for number in 0.. {
                let Some(review) = request(&mut stream).await else { return };
                write(&mut stream, if number % 2 == 0 { away.clone() } else { answer(&review) }).await;
            }
        }
    }));
    here.set(server.url()).unwrap();
    let world = validating(&[server.hook(json!({}))]);
    for _ in 0..2 {
        world.plugin.validate(&create(configmap())).await.unwrap();
    }
    assert_eq!(server.accepted(), 1, "the way back is the warm connection");
    for head in plain.await.unwrap() {
        assert!(head.starts_with("POST /p HTTP/1.1\r\n") && !head.contains("referer: "), "{head}");
    }
}

#[tokio::test]
async fn the_target_of_a_services_redirect_must_have_its_name() {
    let (named, unnamed) = (HookServer::start(&[]).await, HookServer::start_named(&[], &["127.0.0.1"]).await);
    let validate = async |there: &HookServer| {
        let here = redirecting(307, there.url("/allow"));
        let attributes = create(configmap());
        let result = services::world(&[&here], there.ca()).plugin.validate(&attributes).await;
        result.map_err(|denial| failed_calling(&denial.into_status(&attributes), "w.lab.dev"))
    };
    validate(&named).await.unwrap();
    let text = validate(&unnamed).await.unwrap_err();
    let want = "x509: certificate is not valid for any names, but wanted to match hook.default.svc";
    assert!(text.ends_with(want), "{text}");
}

/// Calls a hook of an API server whose webhooks may be these servers only.
async fn confined(hook: Value, targets: &[&str]) -> Result<(), String> {
    let configuration = configuration::<ValidatingWebhookConfiguration>(&[hook]);
    let cluster = Cluster::fixed(FixedState { validating_webhooks: vec![configuration], ..default_state() });
    let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
    cluster.confine_webhooks(Arc::new(WebhookTargets::parse(&targets).unwrap()));
    let (users, limits) = (Kubeconfig::default(), Limits::default());
    let plugin = ValidatingWebhooks::new(cluster, discovery(), metrics().1, &limits, users, Manifests::default());
    let attributes = create(configmap());
    let result = plugin.validate(&attributes).await;
    result.map_err(|denial| failed_calling(&denial.into_status(&attributes), "w.lab.dev"))
}

#[tokio::test]
async fn a_confined_webhook_is_called_at_allowed_addresses_only() {
    let server = HookServer::start(&[]).await;
    let at = |url: &str| hook("w.lab.dev", url, Some(&server), json!({}));
    let by_address = server.url("/allow");
    let mapped = by_address.replace("127.0.0.1", "[::ffff:127.0.0.1]");
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let refusal = |url: &str, host: &str| {
        Err(format!(
            "failed to call webhook: Post \"{url}?timeout=10s\": dial tcp: lookup {host}: no address that upstream.webhookTargets allows"
        ))
    };
    for (url, host) in [
        (&*by_address, "127.0.0.1"),
        (&mapped, "::ffff:127.0.0.1"),
        (&by_name, "localhost"),
        // A name that nobody has gets the same text.
        ("https://nobody.invalid/x", "nobody.invalid"),
    ] {
        assert_eq!(confined(at(url), &[]).await, refusal(url, host), "{url}");
        assert_eq!(confined(at(url), &["10.0.0.0/8", "localhost"]).await, refusal(url, host), "{url}");
    }
    assert_eq!(server.seen().len(), 0);
    for url in [&by_address, &by_name] {
        assert_eq!(confined(at(url), &["127.0.0.0/8", "::1"]).await, Ok(()), "{url}");
    }
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_confined_webhook_leads_to_no_other_server() {
    let there = HookServer::start(&[]).await;
    let plain = format!("http://127.0.0.1:{}/x", there.url("").rsplit(':').next().unwrap());
    for (code, to) in [(307, there.url("/allow")), (301, there.url("/allow")), (307, plain)] {
        let here = redirecting(code, to);
        let text = confined(trusting(&here, &there), &["127.0.0.1"]).await.unwrap_err();
        let why = "redirected to another server, to which webhooks of this API server do not lead";
        assert_eq!(text, format!("failed to call webhook: Post \"{}?timeout=1s\": {why}", here.url()));
    }
    assert!(there.seen().is_empty());
    // The same server is asked again.
    let text = confined(Faulty::start(redirects("307 X\r\nLocation: /again")).hook(json!({})), &["127.0.0.1"]).await;
    assert_eq!(text.unwrap_err(), "failed to call webhook: Post \"/again\": stopped after 10 redirects");
}

#[tokio::test]
async fn the_webhooks_of_files_are_those_of_the_operator() {
    let server = HookServer::start(&[]).await;
    let configuration = |name: &str, path: &str| -> ValidatingWebhookConfiguration {
        let hooks = [at(&server, name, path, json!({}))];
        configuration(&hooks)
    };
    let cluster = Cluster::fixed(FixedState {
        validating_webhooks: vec![configuration("w.lab.dev", "/allow/api")],
        ..default_state()
    });
    cluster.confine_webhooks(Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = json!(configuration("m.lab.dev", "/allow/file"));
    manifest["apiVersion"] = json!("admissionregistration.k8s.io/v1");
    manifest["kind"] = json!("ValidatingWebhookConfiguration");
    manifest["metadata"]["name"] = json!("c.static.k8s.io");
    std::fs::write(folder.path().join("hooks.json"), manifest.to_string()).unwrap();
    let counted = metrics().1.manifests().clone();
    let load = |folder: &std::path::Path| {
        crate::manifests::webhooks::load::<ValidatingWebhookConfiguration>(folder, crate::cel::Release::default())
    };
    let manifests = Manifests::follow(folder.path().into(), "ValidatingAdmissionWebhook", counted, load).unwrap();
    let (users, limits) = (Kubeconfig::default(), Limits::default());
    let plugin = ValidatingWebhooks::new(cluster, discovery(), metrics().1, &limits, users, manifests);
    plugin.validate(&create(configmap())).await.unwrap_err();
    assert_eq!(server.seen().iter().map(|seen| &*seen.path).collect::<Vec<_>>(), ["/allow/file?timeout=10s"]);
}

/// The error of a hook that fails although an answer came.
async fn failed_of(server: &Faulty) -> String {
    let attributes = create(configmap());
    let world = validating(&[server.hook(json!({}))]);
    failed_calling(&refused(world.plugin.validate(&attributes).await, &attributes), "w.lab.dev")
}
