//! Definitions in the API server's form, from the cache and from direct reads.

use super::*;
use crate::cluster::FixedState;
use crate::cluster::tests::client;
use crate::config::Limits;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

fn kind(version: &str) -> GroupVersionKind {
    GroupVersionKind::new("example.com", version, "Widget")
}

fn widgets(version: &str) -> GroupVersionResource {
    GroupVersionResource::new("example.com", version, "widgets")
}

fn definition(schema: Value) -> Value {
    json!({
        "metadata": {"name": "widgets.example.com", "uid": "u", "resourceVersion": "1",
            "managedFields": [{"manager": "m", "fieldsV1": {}}]},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "conversion": {"strategy": "Webhook", "webhook": {}},
            "versions": [
                {"name": "v1", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}},
                {"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v0", "served": false, "storage": false, "deprecated": true},
            ]
        },
        "status": {"acceptedNames": {"kind": "Widget"}}
    })
}

fn with_default() -> Value {
    json!({"type": "object", "properties": {"spec": {"properties": {"a": {"default": "x"}}, "default": {}}}})
}

fn fixed(definitions: &[Value]) -> Arc<Cluster> {
    let written = |value: &Value| serde_json::from_value(value.clone()).unwrap();
    Cluster::fixed(FixedState::default().cached::<Definition>(definitions.iter().map(written).collect()))
}

#[tokio::test]
async fn decodes_by_the_schema_of_the_served_version() {
    let cluster = fixed(&[definition(with_default())]);
    let found = cluster.custom_resource(&kind("v1")).unwrap();
    assert_eq!(&*found.storage_version, "v2");
    let normal = found.schema().unwrap().normalize(json!({"spec": {"b": 1}})).unwrap();
    assert_eq!(normal.object.into_value(), json!({"spec": {"a": "x"}}));
    assert_eq!(normal.unknown, ["unknown field \"spec.b\""]);
    assert!(cluster.custom_resource(&kind("v2")).is_some());
    assert!(cluster.custom_resource(&kind("v0")).is_none());
}

#[tokio::test]
async fn versions_that_are_not_served_are_known_for_conversion() {
    let mut definition = definition(with_default());
    definition["spec"]["versions"][1]["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    let found = fixed(&[definition]).find_definition(&widgets("v1")).await.unwrap().unwrap();
    let versions: Vec<_> = found
        .versions
        .iter()
        .map(|one| {
            (
                &*one.kind.version,
                one.is_served,
                one.has_status,
                one.scale.as_ref().map(|scale| &*scale.spec_replicas_path),
            )
        })
        .collect();
    assert_eq!(
        versions,
        [("v1", true, false, None), ("v2", true, true, Some(".spec.size")), ("v0", false, false, None)]
    );
    assert!(matches!(found.conversion, Conversion::Webhook(_)));
    let said: Vec<_> = found.versions.iter().map(|one| one.deprecation.as_deref()).collect();
    assert_eq!(said, [None, None, Some("example.com/v0 Widget is deprecated; use example.com/v2 Widget")]);
}

#[tokio::test]
async fn a_definition_that_preserves_unknown_fields_prunes_nothing() {
    let mut definition = definition(json!({"not": "structural", "$ref": "x"}));
    definition["spec"]["preserveUnknownFields"] = true.into();
    let found = fixed(&[definition]).custom_resource(&kind("v1")).unwrap();
    let value = json!({"spec": {"b": null}});
    assert_eq!(found.schema().unwrap().normalize(value.clone()).unwrap().object.into_value(), value);
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_refuses_its_objects_alone() {
    let deep = (0..200).fold(json!({"type": "string"}), |schema, _| json!({"items": schema}));
    for schema in [json!({"items": [{}]}), json!({"properties": 5}), deep] {
        // As text, because an API server sends the schema as text.
        let text = definition(json!("SCHEMA")).to_string().replace("\"SCHEMA\"", &schema.to_string());
        let (_, kept) = Definition::project(serde_json::from_str(&text).unwrap());
        let refused = kept.versions[0].schema().unwrap_err();
        assert_eq!((refused.code, &*refused.message), (500, "Internal error occurred: error resolving resource"));
        assert!(kept.versions[1].schema().is_ok());
    }
}

#[tokio::test]
async fn a_name_that_is_not_accepted_is_not_served() {
    let mut definition = definition(json!({"type": "object"}));
    definition["status"] = json!({});
    assert!(fixed(&[definition]).custom_resource(&kind("v1")).is_none());
}

/// A cluster with an empty cache, in front of an API server that gives this answer for the definition; and the number of such calls.
async fn behind(answer: impl Fn() -> (u16, Value) + Send + Sync + 'static) -> (Arc<Cluster>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let client = client(move |_, url| {
        if url.contains("watch=true") {
            return None;
        }
        if url.contains("/customresourcedefinitions?") {
            return Some((200, json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})));
        }
        assert_eq!(url, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com");
        counted.fetch_add(1, Ordering::SeqCst);
        Some(answer())
    });
    let cluster = Cluster::start(client, &[Need::CUSTOM_RESOURCE_DEFINITIONS], Arc::default());
    assert!(cluster.wait_synced().await);
    (cluster, asked)
}

fn refusal(code: u16) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "R", "message": "m"}),
    )
}

#[tokio::test(start_paused = true)]
async fn a_definition_of_just_now_is_asked_for_and_remembered() {
    let (cluster, asked) = behind(|| (200, definition(with_default()))).await;
    for _ in 0..3 {
        let found = cluster.find_custom_resource(&widgets("v1"), &kind("v1")).await.unwrap().unwrap();
        assert_eq!(found.kind, kind("v1"));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(cluster.find_custom_resource(&widgets("v9"), &kind("v9")).await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_remembered_for_a_while() {
    let (cluster, asked) = behind(|| refusal(404)).await;
    for _ in 0..3 {
        assert!(cluster.find_custom_resource(&widgets("v1"), &kind("v1")).await.unwrap().is_none());
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Limits::default().definition_ttl).await;
    assert!(cluster.find_custom_resource(&widgets("v1"), &kind("v1")).await.unwrap().is_none());
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_an_error_and_not_remembered() {
    let (cluster, asked) = behind(|| refusal(403)).await;
    for count in 1..3 {
        let refused = cluster.find_custom_resource(&widgets("v1"), &kind("v1")).await.unwrap_err();
        assert_eq!((refused.code, &*refused.message), (500, "Internal error occurred: error resolving resource"));
        assert_eq!(asked.load(Ordering::SeqCst), count);
    }
}

#[tokio::test]
async fn follows_definitions_as_the_api_server_lists_them() {
    let client = client(|_, url| {
        let list = json!({"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"resourceVersion": "1"}, "items": [definition(with_default())]});
        (!url.contains("watch=true")).then_some((200, list))
    });
    let cluster = Cluster::start(client, &[Need::CUSTOM_RESOURCE_DEFINITIONS], Arc::default());
    assert!(cluster.wait_synced().await);
    let found = cluster.custom_resource(&kind("v1")).unwrap();
    assert!(Arc::ptr_eq(&found, &cluster.custom_resource(&kind("v1")).unwrap()));
}

#[tokio::test]
async fn a_watched_definition_is_read_as_well() {
    let event = json!({"type": "ADDED", "object": definition(with_default())}).to_string();
    // An API server writes the event's type first.
    let event = event.replacen(",\"type\":\"ADDED\"}", "}", 1).replacen('{', "{\"type\":\"ADDED\",", 1);
    let event: kube::core::WatchEvent<Written> = serde_json::from_str(&event).unwrap();
    let kube::core::WatchEvent::Added(written) = event else { panic!("{event:?}") };
    assert_eq!(Definition::project(written).1.versions.len(), 3);
}

#[tokio::test]
async fn an_api_server_without_definitions_has_no_custom_resources() {
    let client = client(|_, url| match url {
        url if url.starts_with("/apis?") => Some((200, json!({"groups": []}))),
        _ => Some(refusal(404)),
    });
    let cluster = Cluster::start(client, &[Need::CUSTOM_RESOURCE_DEFINITIONS], Arc::default());
    assert!(cluster.wait_synced().await);
    assert!(cluster.find_custom_resource(&widgets("v1"), &kind("v1")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_proxy_that_may_not_list_definitions_refuses_custom_resources_alone() {
    let client = client(|_, _| Some(refusal(403)));
    let cluster = Cluster::start(client, &[Need::CUSTOM_RESOURCE_DEFINITIONS], Arc::default());
    assert!(cluster.wait_synced().await);
    assert_eq!(cluster.find_custom_resource(&widgets("v1"), &kind("v1")).await.unwrap_err().code, 500);
}
