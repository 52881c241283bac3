//! The plugin against a real TLS server: its requests, and the outcomes of answers and failures.

use super::*;
use crate::admission::Operation;
use crate::backend::testing::{HookServer, Reply};
use crate::cluster::{Cluster, FixedState};
use crate::config::Limits;
use crate::plugins::checker::attributes;
use serde_json::{Value, json};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// The plugin with a backend at the URL.
fn plugin(url: &str, ca: &str, default_allow: bool) -> ImagePolicyWebhook {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let kubeconfig = json!({"clusters": [{"name": "b", "cluster": {"server": url, "certificate-authority-data": ca}}],
        "contexts": [{"name": "c", "context": {"cluster": "b", "user": ""}}], "current-context": "c"});
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let cluster = Cluster::fixed(FixedState::default());
    ImagePolicyWebhook {
        backend: GenericWebhook::new(&path, Duration::from_millis(1), cluster, &Limits::default()).unwrap(),
        answers: Answers::new(HOUR, HOUR, 1 << 24),
        default_allow,
    }
}

fn of(server: &HookServer, path: &str) -> ImagePolicyWebhook {
    plugin(&server.url(path), &server.ca_base64(), false)
}

fn says(status: Value) -> Reply {
    let review = json!({"apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "status": status});
    json_reply(&review)
}

fn json_reply(value: &Value) -> Reply {
    Reply::Http(200, "application/json", value.to_string().into_bytes())
}

fn pod(image: &str) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn create(pod: Value) -> Attributes {
    attributes(Operation::Create, "", "pods", Some(pod), None)
}

/// The code and message of a refusal.
async fn refusal(plugin: &ImagePolicyWebhook, attributes: &Attributes) -> Option<(u16, String)> {
    let status = plugin.validate(attributes).await.err()?.into_status(attributes);
    Some((status.code, status.message))
}

fn forbidden(why: &str) -> Option<(u16, String)> {
    Some((403, format!("pods \"p\" is forbidden: {why}")))
}

#[tokio::test]
async fn the_review_has_images_annotations_and_the_namespace() {
    let server = HookServer::start(&[("image", says(json!({"allowed": true})))]).await;
    let plugin = of(&server, "/image");
    let whole = json!({"metadata": {"name": "p", "namespace": "n", "annotations": {
            "b.image-policy.k8s.io/ticket": "1", ".image-policy.k8s.io/": "2", "image-policy.k8s.io/x": "3", "other": "4"}},
        "spec": {"initContainers": [{"image": "i"}], "ephemeralContainers": [{"image": "e"}],
            "containers": [{"image": "a"}, {"image": ""}, {}]}});
    assert_eq!(refusal(&plugin, &create(whole.clone())).await, None);
    assert_eq!(
        server.seen()[0].review,
        json!({"kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "metadata": {},
            "spec": {"containers": [{"image": "a"}, {}, {}, {"image": "i"}], "namespace": "n",
                "annotations": {".image-policy.k8s.io/": "2", "b.image-policy.k8s.io/ticket": "1"}},
            "status": {"allowed": false}})
    );

    // The review contains debug containers only for their own subresource; the API server does not store other changes there.
    let mut old = whole.clone();
    old["metadata"]["annotations"] = json!({"a.image-policy.k8s.io/b": "stored"});
    let mut debug = attributes(Operation::Update, "", "pods", Some(whole), Some(old));
    debug.subresource = "ephemeralcontainers".into();
    assert_eq!(refusal(&plugin, &debug).await, None);
    let spec =
        json!({"containers": [{"image": "e"}], "namespace": "n", "annotations": {"a.image-policy.k8s.io/b": "stored"}});
    assert_eq!(server.seen()[1].review["spec"], spec);

    assert_eq!(refusal(&plugin, &create(json!({"metadata": {"name": "p"}}))).await, None);
    assert_eq!(server.seen()[2].review["spec"], json!({}));
}

#[tokio::test]
async fn a_no_is_a_refusal_with_the_backends_reason() {
    let server = HookServer::start(&[
        ("reason", says(json!({"allowed": false, "reason": "bad image"}))),
        ("silent", says(json!({"allowed": false}))),
        ("empty", says(json!({}))),
        ("none", json_reply(&json!({"hello": "world"}))),
        ("cased", says(json!({"Allowed": true}))),
        ("yaml", Reply::Http(200, "application/yaml", b"status: {allowed: true}".to_vec())),
        ("created", Reply::Http(201, "", br#"{"status": {"allowed": true}}"#.to_vec())),
    ])
    .await;
    let rejected = forbidden("one or more images rejected by webhook backend");
    for (path, want) in [
        ("/reason", forbidden("image policy webhook backend denied one or more images: bad image")),
        ("/silent", rejected.clone()),
        ("/empty", rejected.clone()),
        ("/none", rejected.clone()),
        ("/cased", rejected),
        ("/yaml", None),
        ("/created", None),
    ] {
        assert_eq!(refusal(&of(&server, path), &create(pod("a"))).await, want, "{path}");
    }
}

#[tokio::test]
async fn audit_annotations_of_the_backend_are_published_also_of_a_refusal_and_of_a_remembered_answer() {
    let annotations = json!({"audit-required": "yes", "not/valid": "x"});
    let server = HookServer::start(&[("no", says(json!({"allowed": false, "auditAnnotations": annotations})))]).await;
    let plugin = of(&server, "/no");
    for _ in 0..2 {
        let attributes = create(pod("a"));
        assert!(refusal(&plugin, &attributes).await.is_some());
        let published: Vec<_> = attributes.annotations.take().into_iter().map(|(key, value, _)| (key, value)).collect();
        let key = "imagepolicywebhook.image-policy.k8s.io/audit-required";
        assert_eq!(published, [(key.to_owned(), "yes".to_owned())]);
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn an_answer_is_remembered_for_the_same_spec_only() {
    let server = HookServer::start(&[
        ("yes", says(json!({"allowed": true}))),
        ("garbled", Reply::InTurn(vec![json_reply(&json!({"status": 1})), says(json!({"allowed": true}))])),
    ])
    .await;
    let plugin = of(&server, "/yes");
    let mut annotated = pod("a");
    annotated["metadata"]["annotations"] = json!({"x.image-policy.k8s.io/y": "z"});
    let mut elsewhere = pod("a");
    elsewhere["metadata"]["namespace"] = json!("m");
    let mut labelled = pod("a");
    labelled["metadata"]["labels"] = json!({"k": "v"});
    for (pod, asked) in [(pod("a"), 1), (labelled, 1), (pod("b"), 2), (annotated, 3), (elsewhere, 4), (pod("a"), 4)] {
        assert_eq!(refusal(&plugin, &create(pod)).await, None);
        assert_eq!(server.seen().len(), asked);
    }

    // A failure is not cached.
    let plugin = of(&server, "/garbled");
    assert!(refusal(&plugin, &create(pod("a"))).await.is_some());
    assert_eq!(refusal(&plugin, &create(pod("a"))).await, None);
}

#[tokio::test]
async fn an_answer_that_is_no_review_is_a_refusal_in_gos_words() {
    let of_kind = |api_version: &str, kind: &str| {
        json_reply(&json!({"apiVersion": api_version, "kind": kind, "status": {"allowed": true}}))
    };
    let server = HookServer::start(&[
        ("html", Reply::Http(200, "text/html", b"<html>".to_vec())),
        ("nothing", Reply::Http(200, "", Vec::new())),
        ("text", says(json!("yes"))),
        ("allowed", says(json!({"allowed": "yes"}))),
        ("annotations", says(json!({"allowed": true, "auditAnnotations": {"a": 1}}))),
        ("pod", of_kind("v1", "Pod")),
        ("status", json_reply(&json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}))),
        ("newer", of_kind("imagepolicy.k8s.io/v1", "ImageReview")),
        ("review", of_kind("admission.k8s.io/v1", "AdmissionReview")),
        ("huge", Reply::Http(200, "application/json", vec![b' '; (8 << 20) + 1])),
        ("smtp", Reply::Bytes(b"220 smtp.example ESMTP\r\n".to_vec())),
    ])
    .await;
    let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
    for (path, want) in [
        ("/nothing", "0-length response with status code: 200 and content type: application/json".to_owned()),
        ("/text", "json: cannot unmarshal string into Go struct field ImageReview.status of type v1alpha1.ImageReviewStatus".into()),
        ("/allowed", "json: cannot unmarshal string into Go struct field ImageReviewStatus.status.allowed of type bool".into()),
        (
            "/annotations",
            "json: cannot unmarshal number into Go struct field ImageReviewStatus.status.auditAnnotations of type string".into(),
        ),
        ("/pod", "converting (v1.Pod) to (v1alpha1.ImageReview): unknown conversion".into()),
        ("/status", "converting (v1.Status) to (v1alpha1.ImageReview): unknown conversion".into()),
        ("/review", "converting (v1.AdmissionReview) to (v1alpha1.ImageReview): unknown conversion".into()),
        ("/newer", format!("no kind \"ImageReview\" is registered for version \"imagepolicy.k8s.io/v1\" {scheme}")),
        (
            "/huge",
            "unexpected error when reading response body. Please retry. Original error: the response is longer than 8388608 bytes".into(),
        ),
    ] {
        assert_eq!(refusal(&of(&server, path), &create(pod("a"))).await, forbidden(&want), "{path}");
    }
    for (path, part) in
        [("/html", "couldn't get version/kind; json parse error: "), ("/smtp", "malformed HTTP status code")]
    {
        let (_, message) = refusal(&of(&server, path), &create(pod("a"))).await.unwrap();
        assert!(message.contains(part), "{message}");
    }
    // The plugin did not retry any of these calls.
    assert_eq!(server.seen().len(), 11);
}

#[tokio::test]
async fn errors_that_may_pass_are_tried_five_times_and_others_once() {
    let http = |code: u16| Reply::Http(code, "text/plain", b"said".to_vec());
    let status = |code: u16, reason: &str| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "own words", "code": code});
        Reply::Http(code, "application/json", status.to_string().into_bytes())
    };
    let allowed = || says(json!({"allowed": true}));
    let server = HookServer::start(&[
        ("e500", http(500)),
        ("e504", http(504)),
        ("e429", http(429)),
        ("e404", http(404)),
        ("e503", http(503)),
        ("e403", http(403)),
        ("e302", Reply::Bytes(b"HTTP/1.1 302 X\r\nContent-Length: 0\r\n\r\n".to_vec())),
        ("own500", status(500, "NotFound")),
        ("own400", status(400, "InternalError")),
        ("refused", status(403, "Forbidden")),
        ("mime", Reply::Http(200, "/", Vec::new())),
        ("reset", Reply::Reset),
        ("later", Reply::InTurn(vec![http(500), Reply::Reset, http(504), allowed()])),
    ])
    .await;
    let refused = |code: u16, message: &str| Some((code, message.to_owned()));
    for (path, asked, want) in [
        ("/e500", 5, forbidden("an error on the server (\"said\") has prevented the request from succeeding")),
        (
            "/e504",
            5,
            forbidden(
                "the server was unable to return a response in the time allotted, but may still be processing the request",
            ),
        ),
        ("/e429", 5, forbidden("the server has received too many requests and has asked us to try again later")),
        ("/e404", 1, forbidden("the server could not find the requested resource")),
        ("/e503", 1, forbidden("the server is currently unable to handle the request")),
        // A refusal of the call itself is not wrapped in a refusal.
        ("/e403", 1, refused(403, "said")),
        ("/e302", 1, forbidden("the server responded with the status code 302 but did not return more information")),
        ("/own500", 1, forbidden("own words")),
        ("/own400", 5, forbidden("own words")),
        ("/refused", 1, refused(403, "own words")),
        ("/mime", 5, forbidden("Internal error occurred: mime: no media type")),
        ("/later", 4, None),
    ] {
        assert_eq!(refusal(&of(&server, path), &create(pod("a"))).await, want, "{path}");
        assert_eq!(server.paths().iter().filter(|seen| *seen == path).count(), asked, "{path}");
    }
    let (_, message) = refusal(&of(&server, "/reset"), &create(pod("a"))).await.unwrap();
    assert!(message.ends_with("read: connection reset by peer"), "{message}");
    assert_eq!(server.paths().iter().filter(|seen| *seen == "/reset").count(), 5);
}

#[tokio::test]
async fn retry_after_is_obeyed_within_an_attempt() {
    let server = HookServer::start(&[("retry", Reply::RetryAfter(2))]).await;
    // The later answer is another kind of review.
    let (_, message) = refusal(&of(&server, "/retry"), &create(pod("a"))).await.unwrap();
    assert!(message.contains("unknown conversion") || message.contains("no kind"), "{message}");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_silent_backend_fails_closed_or_open() {
    let (server, other) = (HookServer::start(&[("hang", Reply::Hang)]).await, HookServer::start(&[]).await);
    let nobody = "https://127.0.0.1:1/image";
    let unreachable = plugin(nobody, &server.ca_base64(), false);
    let dial = format!("Post \"{nobody}?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused");
    assert_eq!(refusal(&unreachable, &create(pod("a"))).await, forbidden(&dial));

    let stranger = plugin(&server.url("/hang"), &other.ca_base64(), false);
    let (_, message) = refusal(&stranger, &create(pod("a"))).await.unwrap();
    assert!(message.ends_with("x509: certificate signed by unknown authority"), "{message}");

    let open = plugin(nobody, &server.ca_base64(), true);
    let attributes = create(pod("a"));
    let before = attributes.object.clone();
    assert_eq!(refusal(&open, &attributes).await, None);
    let published: Vec<_> = attributes.annotations.take().into_iter().map(|(key, value, _)| (key, value)).collect();
    assert_eq!(published, [("imagepolicywebhook.image-policy.k8s.io/failed-open".to_owned(), "true".to_owned())]);
    assert_eq!(attributes.object, before);
    assert_eq!(attributes.marks.take(), [("alpha.image-policy.k8s.io/failed-open", "true")]);

    // After the deadline, every pod is refused.
    for default_allow in [false, true] {
        let hung = plugin(&server.url("/hang"), &server.ca_base64(), default_allow);
        let mut attributes = create(pod("a"));
        attributes.context.deadline = Instant::now() + Duration::from_millis(300);
        let text = "Timeout: request did not complete within requested timeout - context deadline exceeded";
        assert_eq!(refusal(&hung, &attributes).await, Some((504, text.to_owned())));
    }
}

#[tokio::test]
async fn a_denial_is_one_also_where_failures_pass() {
    let server = HookServer::start(&[("no", says(json!({"allowed": false})))]).await;
    let open = plugin(&server.url("/no"), &server.ca_base64(), true);
    assert!(refusal(&open, &create(pod("a"))).await.is_some());
}

#[tokio::test]
async fn an_object_that_is_no_pod_is_a_bad_request() {
    let plugin = plugin("https://127.0.0.1:1/", "", true);
    let text = "Resource was marked with kind Pod but was unable to be converted";
    for object in [
        json!({"spec": []}),
        json!({"spec": {"containers": {}}}),
        json!({"spec": {"containers": ["a"]}}),
        json!({"spec": {"initContainers": [{"image": 1}]}}),
        json!({"metadata": {"annotations": []}}),
        json!({"metadata": {"annotations": {"a": 1}}}),
    ] {
        assert_eq!(refusal(&plugin, &create(object.clone())).await, Some((400, text.to_owned())), "{object}");
    }
    let nothing = attributes(Operation::Create, "", "pods", None, None);
    assert_eq!(refusal(&plugin, &nothing).await, Some((400, text.to_owned())));
}
