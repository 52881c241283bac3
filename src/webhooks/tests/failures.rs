//! Calls that fail: each ends by its deadline, has the text of client-go, and obeys the failure policy.

use super::*;
use crate::backend::testing::{HookServer, Reply};
use crate::backend::{Clients, Endpoint};

async fn failure(server: &HookServer, path: &str) -> String {
    let world = mutating(&[at(server, "w.lab.dev", path, json!({"timeoutSeconds": 1}))]);
    let mut attributes = create(configmap());
    let result = world.plugin.admit(&mut attributes).await;
    failed_calling(&refused(result, &attributes), "w.lab.dev")
}

#[tokio::test]
async fn a_refused_connection_is_worded_as_go_does_and_obeys_the_policy() {
    let text = "failed to call webhook: Post \"https://127.0.0.1:1/x/y?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused";
    let url = "https://127.0.0.1:1/x/y";
    let mut attributes = create(configmap());
    let world = mutating(&[hook("w.lab.dev", url, None, json!({}))]);
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    assert_eq!(failed_calling(&status, "w.lab.dev"), text);
    let cause = format!("failed calling webhook \"w.lab.dev\": {text}");
    assert_eq!(status.details.unwrap().causes[0].message, cause);
    assert!(world.metric(r#"apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="w.lab.dev",operation="CREATE",rejection_code="503",type="admit"} 1"#));

    let ignoring = [hook("w.lab.dev", url, None, json!({"failurePolicy": "Ignore"}))];
    let world = mutating(&ignoring);
    world.plugin.admit(&mut attributes).await.unwrap();
    let annotations = attributes.annotations.take();
    assert!(annotations.iter().any(|(key, value, _)| {
        key == "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0" && value == "w.lab.dev"
    }));
    assert!(world.metric(r#"apiserver_admission_webhook_fail_open_count{name="w.lab.dev",type="admit"} 1"#));
    assert!(world.metric(r#"apiserver_admission_webhook_request_total{code="503",name="w.lab.dev",operation="CREATE",rejected="false",type="admit"} 1"#));

    let world = validating(&ignoring);
    world.plugin.validate(&attributes).await.unwrap();
    let annotations = attributes.annotations.take();
    assert_eq!(annotations[0].0, "failed-open.validating.webhook.admission.k8s.io/round_0_index_0");
}

#[tokio::test]
async fn broken_answers_are_errors_with_clear_texts() {
    let server = HookServer::start(&[
        ("eof", Reply::Bytes(Vec::new())),
        ("cut", Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\"".to_vec())),
        ("chunk", Reply::Bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"kin".to_vec())),
        ("nonsense", Reply::Bytes(b"220 smtp.example ESMTP\r\n".to_vec())),
        ("reset", Reply::Reset),
        ("huge", Reply::Http(200, "application/json", vec![b' '; (8 << 20) + 1])),
        ("e503", Reply::Http(503, "text/plain", b"lab says 503".to_vec())),
        ("e500", Reply::Http(500, "text/plain", b"lab says 500".to_vec())),
        ("garbage", Reply::Http(200, "application/json", br#"{"hello":"world"}"#.to_vec())),
        ("text", Reply::Http(200, "text/html", b"<html>".to_vec())),
        ("gzip", Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}".to_vec())),
        (
            "no-gzip",
            Reply::Bytes(
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 17\r\n\r\n{\"hello\":\"world\"}"
                    .to_vec(),
            ),
        ),
    ])
    .await;
    let post = |path: &str| format!("failed to call webhook: Post \"{}?timeout=1s\": ", server.url(path));
    let body = "failed to call webhook: unexpected error when reading response body. Please retry. Original error: ";
    for (path, want) in [
        ("/eof", post("/eof") + "EOF"),
        ("/cut", format!("{body}unexpected EOF")),
        ("/chunk", format!("{body}unexpected EOF")),
        ("/huge", format!("{body}the response is longer than 8388608 bytes")),
        ("/gzip", format!("{body}unexpected EOF")),
        ("/no-gzip", format!("{body}gzip: invalid header")),
        ("/e503", "failed to call webhook: the server is currently unable to handle the request".into()),
        (
            "/e500",
            "failed to call webhook: an error on the server (\"lab says 500\") has prevented the request from succeeding".into(),
        ),
        ("/garbage", "received invalid webhook response: webhook response was absent".into()),
    ] {
        assert_eq!(failure(&server, path).await, want, "{path}");
    }
    let nonsense = "net/http: HTTP/1.x transport connection broken: malformed HTTP status code \"smtp.example\"";
    assert_eq!(failure(&server, "/nonsense").await, post("/nonsense") + nonsense);
    let reset = failure(&server, "/reset").await;
    assert!(reset.ends_with("read: connection reset by peer"), "{reset}");
    let text = failure(&server, "/text").await;
    assert!(text.starts_with("failed to call webhook: couldn't get version/kind; json parse error: "), "{text}");
}

#[tokio::test]
async fn a_hung_or_dripping_hook_ends_at_its_timeout() {
    let server = HookServer::start(&[("hang", Reply::Hang), ("drip", Reply::Drip)]).await;
    let hang =
        format!("failed to call webhook: Post \"{}?timeout=1s\": context deadline exceeded", server.url("/hang"));
    assert_eq!(failure(&server, "/hang").await, hang);
    let drip = "failed to call webhook: unexpected error when reading response body. Please retry. Original error: context deadline exceeded";
    assert_eq!(failure(&server, "/drip").await, drip);
}

#[tokio::test]
async fn the_requests_own_deadline_counts_too() {
    let server = HookServer::start(&[("hang", Reply::Hang)]).await;
    let ignoring = json!({"failurePolicy": "Ignore", "timeoutSeconds": 30});
    let world = mutating(&[at(&server, "w.lab.dev", "/hang", ignoring.clone())]);
    let mut attributes = create(configmap());
    attributes.context.deadline = Instant::now() + Duration::from_millis(1300);
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    assert_eq!((status.code, &*status.message), (504, "Timeout: request did not complete within requested timeout"));
    assert_eq!(server.seen()[0].path, "/hang?timeout=2s");

    // Past the deadline, no hook is called.
    let world = validating(&[at(&server, "w.lab.dev", "/hang", ignoring)]);
    let status = refused(world.plugin.validate(&attributes).await, &attributes);
    assert_eq!(status.code, 504);
    let world = mutating(&[at(&server, "w.lab.dev", "/hang", json!({}))]);
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    assert_eq!(failed_calling(&status, "w.lab.dev"), "failed to call webhook: context deadline exceeded");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn certificates_are_verified_as_go_verifies_them() {
    let server = HookServer::start_named(&[], &["a.example", "10.0.0.1"]).await;
    let verify = "tls: failed to verify certificate: x509: ";
    let tail = |text: String| text.split_once(verify).map(|(_, tail)| tail.to_owned()).unwrap_or(text);
    assert_eq!(tail(failure(&server, "/allow").await), "certificate is valid for 10.0.0.1, not 127.0.0.1");
    let server = HookServer::start_named(&[], &["a.example"]).await;
    let want = "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs";
    assert_eq!(tail(failure(&server, "/allow").await), want);

    let other = HookServer::start(&[]).await;
    let server = HookServer::start(&[]).await;
    let mut attributes = create(configmap());
    for ca in [Some(&other), None] {
        let world = mutating(&[hook("w.lab.dev", &server.url("/allow"), ca, json!({}))]);
        let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
        assert_eq!(tail(failed_calling(&status, "w.lab.dev")), "certificate signed by unknown authority");
    }
    assert!(server.seen().is_empty());

    let own = HookServer::start_self_signed().await;
    let world = mutating(&[at(&own, "w.lab.dev", "/allow", json!({}))]);
    world.plugin.admit(&mut attributes).await.unwrap();
}

#[tokio::test]
async fn a_failed_call_has_its_reason() {
    let cases = [
        (
            json!({"clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "Zm9v"}}),
            "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
        ),
        (
            json!({"clientConfig": {}}),
            "could not get REST client: failed calling webhook \"w.lab.dev\": webhook configuration must have either service or URL".to_owned(),
        ),
        (
            json!({"clientConfig": {"service": {"name": "nosvc", "namespace": "default", "path": "/p"}}}),
            "failed to call webhook: Post \"https://nosvc.default.svc:443/p?timeout=10s\": service \"nosvc\" not found".to_owned(),
        ),
        (
            json!({"admissionReviewVersions": ["v2"]}),
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)".to_owned(),
        ),
    ];
    for (fields, want) in cases {
        let world = mutating(&[hook("w.lab.dev", "https://127.0.0.1:1/", None, fields)]);
        let mut attributes = create(configmap());
        let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
        assert_eq!(failed_calling(&status, "w.lab.dev"), want);
    }
}

#[tokio::test]
async fn a_service_is_called_at_its_cluster_ip_under_its_own_name() {
    let server = HookServer::start_named(&[], &["hook.default.svc"]).await;
    let service = json!({"metadata": {"name": "hook", "namespace": "default"},
        "spec": {"type": "ClusterIP", "clusterIP": "127.0.0.1", "ports": [{"port": server.port()}]}});
    let to = |port: u16| {
        let service = json!({"name": "hook", "namespace": "default", "path": "/allow/svc", "port": port});
        json!({"clientConfig": {"service": service, "caBundle": server.ca_base64()}})
    };
    let world = |fields| {
        let hooks = [hook("w.lab.dev", "", None, fields)];
        validating_in(FixedState {
            services: vec![serde_json::from_value(service.clone()).unwrap()],
            validating_webhooks: vec![configuration(&hooks)],
            ..default_state()
        })
    };
    let attributes = create(configmap());
    world(to(server.port())).plugin.validate(&attributes).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/allow/svc?timeout=10s");
    assert_eq!(seen[0].headers["host"], format!("hook.default.svc:{}", server.port()));

    let status = refused(world(to(444)).plugin.validate(&attributes).await, &attributes);
    let want = "failed to call webhook: Post \"https://hook.default.svc:444/allow/svc?timeout=10s\": no service port 444 found for service \"hook\"";
    assert_eq!(failed_calling(&status, "w.lab.dev"), want);
}

#[tokio::test]
async fn retry_after_repeats_the_call_and_redirects_do_not() {
    let server = HookServer::start(&[
        ("retry", Reply::RetryAfter(2)),
        ("never", Reply::RetryAfter(100)),
        ("redirect", Reply::Bytes(b"HTTP/1.1 302 X\r\nLocation: /allow\r\nContent-Length: 0\r\n\r\n".to_vec())),
    ])
    .await;
    let world = mutating(&[at(&server, "w.lab.dev", "/retry", json!({}))]);
    world.plugin.admit(&mut create(configmap())).await.unwrap();
    assert_eq!(server.paths().len(), 3);
    let want = "failed to call webhook: the server is currently unable to handle the request";
    assert_eq!(failure(&server, "/never").await, want);
    assert_eq!(server.paths().len(), 3 + 11);
    failure(&server, "/redirect").await;
}

#[tokio::test]
async fn calls_in_a_row_share_a_connection() {
    let server = HookServer::start(&[]).await;
    let world =
        mutating(&[at(&server, "a.lab.dev", "/allow", json!({})), at(&server, "b.lab.dev", "/allow", json!({}))]);
    for _ in 0..5 {
        world.plugin.admit(&mut create(configmap())).await.unwrap();
    }
    assert_eq!((server.paths().len(), server.connections()), (10, 1));
}

#[tokio::test]
async fn another_bundle_is_another_client_and_so_another_connection() {
    let server = HookServer::start(&[]).await;
    let clients = Clients::new(&Limits::default(), Kubeconfig::default());
    let client = |ca: String| clients.client(Endpoint::url(&server.url("/allow"), ca.into()).unwrap()).unwrap();
    let first = client(server.ca().to_owned());
    assert!(Arc::ptr_eq(&first, &client(server.ca().to_owned())));
    assert!(!Arc::ptr_eq(&first, &client(server.ca().repeat(2))));
}
