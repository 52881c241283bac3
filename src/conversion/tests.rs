//! Conversion of custom resources, and webhooks that require another version.

use super::*;
use crate::backend::testing::{HookServer, Reply};
use crate::cluster::{Definition, FixedState};
use crate::metrics::Registry;
use prometheus::TextEncoder;
use serde_json::{Value, json};
use std::time::Duration;

fn definition(conversion: Value) -> Value {
    json!({
        "metadata": {"name": "gadgets.lab.dev"},
        "spec": {"group": "lab.dev", "conversion": conversion, "versions": [
            {"name": "v1", "served": true, "storage": true},
            {"name": "v2", "served": true, "storage": false},
        ]},
        "status": {"acceptedNames": {"kind": "Gadget"}}
    })
}

fn converter(conversion: Value) -> Converter {
    counting(conversion, &Registry::new())
}

fn counting(conversion: Value, registry: &Registry) -> Converter {
    let definitions = vec![serde_json::from_value(definition(conversion)).unwrap()];
    let cluster = Cluster::fixed(FixedState::default().cached::<Definition>(definitions));
    Converter::new(cluster, Discovery::unconnected(), &Limits::default(), &Metrics::new(registry).unwrap())
}

fn webhook(server: &HookServer, path: &str, versions: &[&str]) -> Value {
    let client = json!({"url": server.url(path), "caBundle": server.ca_base64()});
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": versions}})
}

fn kind(version: &str) -> GroupVersionKind {
    GroupVersionKind::new("lab.dev", version, "Gadget")
}

fn gadget() -> Value {
    json!({"apiVersion": "lab.dev/v1", "kind": "Gadget", "spec": {"a": 1},
        "metadata": {"name": "g", "namespace": "n", "uid": "u", "generation": 2, "labels": {"a": "b"}}})
}

async fn convert(converter: &Converter) -> Result<Value, String> {
    let object = Object::from_value(gadget()).unwrap();
    let resource = GroupVersionResource::new("lab.dev", "v1", "gadgets");
    let deadline = Instant::now() + Duration::from_secs(20);
    let converted = converter.convert(&object, &resource, &kind("v1"), &kind("v2"), deadline).await;
    converted.map(Object::into_value).map_err(|why| why.to_string())
}

#[tokio::test]
async fn a_confined_webhook_is_not_called_at_this_machine() {
    let server = HookServer::start(&[]).await;
    let converter = converter(webhook(&server, "/x", &["v1"]));
    converter.cluster.confine_webhooks(Arc::default());
    let text = convert(&converter).await.unwrap_err();
    assert!(text.ends_with("dial tcp: lookup 127.0.0.1: no address that upstream.webhookTargets allows"), "{text}");
    assert!(server.seen().is_empty());
}

/// The answer to a review, with the given fields in its response.
fn answered(review: &Value, fields: Value) -> Value {
    let mut response = json!({"uid": review["request"]["uid"], "result": {"status": "Success"}});
    response.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})
}

/// The answer to a review with the object in the desired version, changed by `change`.
fn converted(review: &Value, change: impl Fn(&mut Value)) -> Value {
    let mut object = review["request"]["objects"][0].clone();
    object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
    change(&mut object);
    answered(review, json!({"convertedObjects": [object]}))
}

#[tokio::test]
async fn without_a_webhook_only_the_version_changes() {
    let mut expected = gadget();
    expected["apiVersion"] = "lab.dev/v2".into();
    assert_eq!(convert(&converter(json!({"strategy": "None"}))).await.unwrap(), expected);
    assert_eq!(convert(&converter(json!({}))).await.unwrap(), expected);
}

#[tokio::test]
async fn a_webhook_may_change_all_but_the_identity() {
    let change = Reply::Made(|review| {
        converted(review, |object| {
            object["spec"] = json!({"b": 1.0, "c": 2.5});
            object["metadata"]["labels"] = json!({"c": "d"});
            object["metadata"]["annotations"] = json!({"e": "f"});
            object["metadata"]["generation"] = json!(7);
            object["metadata"]["finalizers"] = json!(["x/y"]);
        })
    });
    let server = HookServer::start(&[("convert", change)]).await;
    for (versions, expected) in [(&["v9", "v1", "v1beta1"][..], "v1"), (&["v1beta1", "v1"], "v1beta1")] {
        let found = convert(&converter(webhook(&server, "/convert", versions))).await.unwrap();
        let metadata = json!({"name": "g", "namespace": "n", "uid": "u", "generation": 2, "labels": {"c": "d"},
            "annotations": {"e": "f"}});
        let spec = json!({"b": 1.0, "c": 2.5});
        assert_eq!(found, json!({"apiVersion": "lab.dev/v2", "kind": "Gadget", "spec": spec, "metadata": metadata}));
        let mut seen = server.seen().pop().unwrap();
        assert_eq!(seen.path, "/convert?timeout=30s");
        assert!(uuid::Uuid::parse_str(seen.review["request"]["uid"].take().as_str().unwrap()).is_ok());
        let api_version = format!("apiextensions.k8s.io/{expected}");
        let request = json!({"uid": null, "desiredAPIVersion": "lab.dev/v2", "objects": [gadget()]});
        let response = json!({"uid": "", "convertedObjects": null, "result": {"metadata": {}}});
        let review =
            json!({"kind": "ConversionReview", "apiVersion": api_version, "request": request, "response": response});
        assert_eq!(seen.review, review);
    }
}

#[tokio::test]
async fn an_invalid_answer_is_an_error_in_kube_apiservers_words() {
    const NAME: &str = "must consist of alphanumeric characters";
    let replies: &[(&str, Reply, &str)] = &[
        (
            "code",
            Reply::Http(404, "text/plain", b"no".into()),
            "failed: the server could not find the requested resource",
        ),
        (
            "denied",
            Reply::Made(|r| answered(r, json!({"result": {"status": "Failure", "message": "not me"}}))),
            "failed: not me",
        ),
        (
            "nostatus",
            Reply::Made(|r| answered(r, json!({"result": null}))),
            "failed: response.result.status was '', not 'Success'",
        ),
        (
            "uid",
            Reply::Made(|r| answered(r, json!({"uid": "x"}))),
            "failed: expected response.uid=\"{uid}\", got \"x\"",
        ),
        (
            "empty",
            Reply::Made(|r| json!({"apiVersion": r["apiVersion"], "kind": "ConversionReview"})),
            "failed: no response provided",
        ),
        (
            "bare",
            Reply::Made(|_| json!({"response": {}})),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
        ),
        ("none", Reply::Made(|r| answered(r, json!({"convertedObjects": []}))), "returned 0 objects, expected 1"),
        ("two", Reply::Made(|r| answered(r, json!({"convertedObjects": [{}, {}]}))), "returned 2 objects, expected 1"),
        (
            "version",
            Reply::Made(|r| converted(r, |o| o["apiVersion"] = "lab.dev/v1".into())),
            "returned invalid object at index 0: invalid groupVersion (expected lab.dev/v2, received lab.dev/v1)",
        ),
        (
            "kind",
            Reply::Made(|r| converted(r, |o| o["kind"] = "Gizmo".into())),
            "returned invalid object at index 0: invalid kind (expected Gadget, received Gizmo)",
        ),
        (
            "name",
            Reply::Made(|r| converted(r, |o| o["metadata"]["name"] = "other".into())),
            "returned invalid object: must have the same name: g != other",
        ),
        (
            "owner",
            Reply::Made(|r| converted(r, |o| o["metadata"]["uid"] = "other".into())),
            "returned invalid object: must have the same UID: u != other",
        ),
        (
            "labels",
            Reply::Made(|r| converted(r, |o| o["metadata"]["labels"] = json!({"a": 5}))),
            "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (
            "list",
            Reply::Made(|r| converted(r, |o| o["metadata"]["annotations"] = json!([]))),
            "returned invalid metadata: invalid metadata.annotations of type []interface {} in converted object",
        ),
        (
            "key",
            Reply::Made(|r| converted(r, |o| o["metadata"]["labels"] = json!({"a b": "c"}))),
            "returned invalid metadata: metadata.labels: Invalid value: \"a b\": name part must consist of",
        ),
    ];
    let named: Vec<_> = replies.iter().map(|(name, reply, _)| (*name, reply.clone())).collect();
    let server = HookServer::start(&named).await;
    for (name, _, expected) in replies {
        let found = convert(&converter(webhook(&server, &format!("/{name}"), &["v1"]))).await.unwrap_err();
        let seen = server.seen().pop().unwrap();
        let expected = expected.replace("{uid}", seen.review["request"]["uid"].as_str().unwrap_or_default());
        let expected = format!("conversion webhook for lab.dev/v1, Kind=Gadget {expected}");
        assert!(found.starts_with(&expected), "{name}: {found}\n{expected}");
        assert!(found == expected || found.contains(NAME), "{name}: {found}");
    }
}

#[tokio::test]
async fn a_webhook_that_cannot_be_asked_is_an_error() {
    let none = converter(json!({"strategy": "Webhook", "webhook": {"clientConfig": {}}}));
    let why = "failed calling webhook \"conversion_webhook_for_gadgets.lab.dev\": webhook configuration must have either service or URL";
    assert_eq!(convert(&none).await.unwrap_err(), why);
    let server = HookServer::start(&[]).await;
    let unknown = converter(webhook(&server, "/allow", &["v7"]));
    assert_eq!(convert(&unknown).await.unwrap_err(), "no supported conversion review versions");
    let gone = json!({"url": "https://127.0.0.1:1/x", "caBundle": server.ca_base64()});
    let gone = json!({"strategy": "Webhook", "webhook": {"clientConfig": gone, "conversionReviewVersions": ["v1"]}});
    let why = "conversion webhook for lab.dev/v1, Kind=Gadget failed: Post \"https://127.0.0.1:1/x?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(convert(&converter(gone)).await.unwrap_err(), why);
}

#[tokio::test]
async fn the_results_of_conversions_are_counted() {
    let server = HookServer::start(&[
        ("ok", Reply::Made(|r| converted(r, |_| ()))),
        ("code", Reply::Http(404, "text/plain", b"no".into())),
        ("denied", Reply::Made(|r| answered(r, json!({"result": {"status": "Failure"}})))),
        ("none", Reply::Made(|r| answered(r, json!({"convertedObjects": []})))),
        ("kind", Reply::Made(|r| converted(r, |o| o["kind"] = "Gizmo".into()))),
    ])
    .await;
    for (path, versions, failure) in [
        ("ok", "v1", Some("")),
        ("code", "v1", Some("conversion_webhook_call_failure")),
        ("denied", "v1", Some("conversion_webhook_malformed_response_failure")),
        ("none", "v1", Some("conversion_webhook_partial_response_failure")),
        ("kind", "v1", Some("conversion_webhook_invalid_converted_object_failure")),
        // An unsupported version: the webhook is not called.
        ("ok", "v7", None),
    ] {
        let registry = Registry::new();
        let converter = counting(webhook(&server, &format!("/{path}"), &[versions]), &registry);
        let is_converted = convert(&converter).await.is_ok();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let counted = text.lines().filter(|line| line.contains("_count{") || line.contains("_total{"));
        let mut expected = Vec::new();
        if let Some(failure) = failure {
            let result = if failure.is_empty() { "success" } else { "failure" };
            let labels = format!("{{failure_type=\"{failure}\",result=\"{result}\"}} 1");
            expected.push(format!("apiserver_conversion_webhook_duration_seconds_count{labels}"));
            expected.push(format!("apiserver_conversion_webhook_request_total{labels}"));
        }
        let of =
            format!("crd_name=\"gadgets.lab.dev\",from_version=\"v1\",succeeded=\"{is_converted}\",to_version=\"v2\"");
        expected.push(format!("apiserver_crd_conversion_webhook_duration_seconds_count{{{of}}} 1"));
        assert_eq!(counted.collect::<Vec<_>>(), expected, "{path} {versions}");
        assert_eq!(is_converted, failure == Some(""));
    }
}

#[tokio::test]
async fn an_object_without_a_kind_is_shown_as_it_came() {
    let server = HookServer::start(&[(
        "kindless",
        Reply::Made(|r| converted(r, |o| *o = json!({"apiVersion": "lab.dev/v2", "spec": {"a": 1.0}}))),
    )])
    .await;
    let why = convert(&converter(webhook(&server, "/kindless", &["v1"]))).await.unwrap_err();
    assert_eq!(why, r#"Object 'Kind' is missing in '{"apiVersion":"lab.dev/v2","spec":{"a":1.0}}'"#);
}
