//! CustomResourceDefinitions and the objects of their kinds.

use super::client::Client;
use crate::body::full;
use crate::config::Limits;
use crate::embedded::Webhooks;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use async_trait::async_trait;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The definition of namespaced widgets in v1, which is stored, and v1beta1.
fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 0},
            "color": {"type": "string", "default": "red"},
            "low": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "too high"}]},
        }},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
    }});
    let version = |name: &str, storage: bool| {
        // Schemas and selectable fields must both be equal in all versions, or both differ, for kube-apiserver's internal version.
        let mut schema = schema.clone();
        schema["description"] = json!(name);
        let selectable = if storage { json!([{"jsonPath": ".spec.color"}]) } else { json!([]) };
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {
                "status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
            },
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            "selectableFields": selectable,
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn with_widgets() -> Client {
    let client = Client::new();
    client.post(DEFINITIONS, definition()).await.with_code(201);
    client
}

fn condition(definition: &Value, of: &str) -> Option<String> {
    let mut conditions = definition["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["type"] == of)?;
    Some(format!("{} {}", found["status"].as_str()?, found["reason"].as_str()?))
}

#[tokio::test]
async fn a_definition_is_established_and_its_kind_is_served_at_once() {
    let client = with_widgets().await;
    let stored = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.with_code(200);
    assert_eq!(condition(&stored, "NamesAccepted").unwrap(), "True NoConflicts");
    assert_eq!(condition(&stored, "Established").unwrap(), "True InitialNamesAccepted");
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    let resources = client.get("/apis/example.com/v1").await.with_code(200);
    assert_eq!(resources["resources"][0]["name"], "widgets");
    assert_eq!(resources["resources"].as_array().unwrap().len(), 3);
    let group = client.get("/apis/example.com").await.with_code(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let openapi = client.get("/openapi/v3/apis/example.com/v1").await.with_code(200);
    let widget = &openapi["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["minimum"], 0);
    assert_eq!(client.get(WIDGETS).await.with_code(200)["kind"], "WidgetList");
    client.get("/apis/example.com/v2/widgets").await.with_code(404);
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let client = with_widgets().await;
    let created = client.post(WIDGETS, widget("a", json!({"size": 1, "none": 2}))).await.with_code(201);
    assert_eq!(created["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(created["metadata"]["generation"], 1);
    let why = client.post(WIDGETS, widget("b", json!({"size": -1, "low": 7}))).await.refused(422);
    assert!(why.contains("spec.size in body should be greater than or equal to 0"), "{why}");
    assert!(why.contains("spec.low: Invalid value: 7: too high"), "{why}");
    let strict = client.post(&format!("{WIDGETS}?fieldValidation=Strict"), widget("b", json!({"none": 1}))).await;
    assert!(strict.refused(400).ends_with("strict decoding error: unknown field \"spec.none\""));
    let path = format!("{WIDGETS}/a");
    let patched =
        client.patch(&path, "merge", json!({"spec": {"size": 2}, "status": {"size": 9}})).await.with_code(200);
    assert_eq!((&patched["metadata"]["generation"], patched.get("status")), (&json!(2), None));
    let status = client.patch(&format!("{path}/status"), "merge", json!({"status": {"size": 2}})).await.with_code(200);
    assert_eq!((&status["metadata"]["generation"], &status["status"]["size"]), (&json!(2), &json!(2)));
    client.patch(&path, "strategic-merge", json!({})).await.refused(415);
    let why = client.put(&path, widget("a", json!({}))).await.refused(422);
    assert!(why.contains("must be specified for an update"), "{why}");
}

#[tokio::test]
async fn objects_have_scales_versions_selectors_and_tables() {
    let client = with_widgets().await;
    client.post(WIDGETS, widget("a", json!({"size": 1}))).await.with_code(201);
    client.post(WIDGETS, widget("b", json!({"size": 2, "color": "blue"}))).await.with_code(201);
    let scale =
        client.patch(&format!("{WIDGETS}/a/scale"), "merge", json!({"spec": {"replicas": 5}})).await.with_code(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let older = client.get("/apis/example.com/v1beta1/namespaces/default/widgets/a").await.with_code(200);
    assert_eq!((&older["apiVersion"], &older["spec"]["size"]), (&json!("example.com/v1beta1"), &json!(5)));
    let blue = client.get(&format!("{WIDGETS}?fieldSelector=spec.color=blue")).await.with_code(200);
    assert_eq!(blue["items"].as_array().unwrap().len(), 1);
    client.get(&format!("{WIDGETS}?fieldSelector=spec.size=1")).await.refused(400);
    let table =
        client.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io").get(WIDGETS).await.with_code(200);
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][1]["cells"], json!(["b", 2]));
}

#[tokio::test]
async fn an_applied_object_has_owners_of_its_fields() {
    let client = with_widgets().await;
    let path = |by: &str| format!("{WIDGETS}/a?fieldManager={by}");
    let apply = "application/apply-patch+yaml";
    client.patch_as(&path("one"), apply, widget("a", json!({"size": 1}))).await.with_code(201);
    client.patch_as(&path("two"), apply, widget("a", json!({"size": 2}))).await.refused(409);
    let applied = client.patch_as(&path("two"), apply, widget("a", json!({"color": "blue"}))).await.with_code(200);
    assert_eq!(applied["spec"], json!({"size": 1, "color": "blue"}));
    assert_eq!(applied["metadata"]["managedFields"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_deleted_definition_goes_with_its_last_object() {
    let client = with_widgets().await;
    let mut held = widget("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(WIDGETS, held).await.with_code(201);
    client.post(WIDGETS, widget("b", json!({}))).await.with_code(201);
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let deleted = client.delete(&path).await.with_code(200);
    assert_eq!(condition(&deleted, "Terminating").unwrap(), "True InstanceDeletionPending");
    client.get(&format!("{WIDGETS}/b")).await.refused(404);
    client.post(WIDGETS, widget("c", json!({}))).await.refused(403);
    client.get(&path).await.with_code(200);
    client.patch(&format!("{WIDGETS}/a"), "merge", json!({"metadata": {"finalizers": null}})).await.with_code(200);
    client.get(&path).await.with_code(404);
    client.get(WIDGETS).await.with_code(404);
    client.get("/apis/example.com").await.with_code(404);
}

#[tokio::test]
async fn names_of_another_definition_are_accepted_once_they_are_free() {
    let client = with_widgets().await;
    let mut other = definition();
    other["metadata"]["name"] = json!("gadgets.example.com");
    other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget"});
    client.post(DEFINITIONS, other).await.with_code(201);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let conflicting = client.get(&path).await.with_code(200);
    assert_eq!(condition(&conflicting, "NamesAccepted").unwrap(), "False ListKindConflict");
    assert_eq!(condition(&conflicting, "Established").unwrap(), "False NotAccepted");
    client.get("/apis/example.com/v1/gadgets").await.with_code(404);
    client.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.with_code(200);
    let accepted = client.get(&path).await.with_code(200);
    assert_eq!(condition(&accepted, "Established").unwrap(), "True InitialNamesAccepted");
    client.get("/apis/example.com/v1/gadgets").await.with_code(200);
}

#[tokio::test]
async fn invalid_definitions_and_too_many_are_refused() {
    let limits = Limits { definitions: 1, ..Default::default() };
    let client = Client::with_limits(limits);
    let mut invalid = definition();
    invalid["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.nope == 1"}]);
    let why = client.post(DEFINITIONS, invalid).await.refused(422);
    assert!(why.contains("undefined field 'nope'"), "{why}");
    client.post(DEFINITIONS, definition()).await.with_code(201);
    let mut other = definition();
    other["metadata"]["name"] = json!("gadgets.example.com");
    other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    client.post(DEFINITIONS, other).await.refused(403);
}

#[tokio::test]
async fn a_changed_definition_ends_watches_and_changes_what_is_served() {
    let client = with_widgets().await;
    client.post(WIDGETS, widget("a", json!({}))).await.with_code(201);
    let mut events = client.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(events.next_name().await, super::client::pair("ADDED", "a"));
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let patch = json!([
        {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added",
            "value": {"type": "string", "default": "x"}},
        {"op": "replace", "path": "/spec/versions/1/served", "value": false},
    ]);
    client.patch(&path, "json", patch).await.with_code(200);
    assert_eq!(events.next().await, None);
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.with_code(200)["spec"]["added"], "x");
    let created = client.post(WIDGETS, widget("b", json!({"size": 1}))).await.with_code(201);
    assert_eq!(created["spec"]["added"], "x");
    client.get("/apis/example.com/v1beta1").await.with_code(404);
}

/// Renames `spec.size` of v1 to `spec.length` of other versions, and refuses negative sizes.
struct Renaming;

#[async_trait]
impl Webhooks for Renaming {
    async fn convert(
        &self,
        definition: &Object,
        object: &Object,
        from: &GroupVersionKind,
        to: &GroupVersionKind,
    ) -> Result<Object, Box<dyn std::error::Error + Send + Sync>> {
        assert_eq!(definition.name(), "widgets.example.com");
        let (field, other) = if from.version == "v1" { ("size", "length") } else { ("length", "size") };
        let mut converted = object.clone();
        let size = converted.remove(&["spec", field]).unwrap_or_default();
        if size.as_i64().is_some_and(|size| size > 99) {
            return Err("conversion webhook for example.com/v1, Kind=Widget failed: too large".into());
        }
        assert!(converted.set(&["spec", other], size));
        assert!(converted.set(&["apiVersion"], to.api_version().into()));
        Ok(converted)
    }
}

const OLDER: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";

/// A server with widgets, which [`Renaming`] converts.
async fn with_renamed_widgets() -> Client {
    let client = Client::new();
    client.server.convert_by(Arc::new(Renaming));
    let mut converted = definition();
    converted["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"]}});
    let fields = json!({"type": "object", "properties": {"length": {"type": "integer", "minimum": 0}}});
    let schema = json!({"type": "object", "properties": {"spec": fields, "status": {"type": "object"}}});
    converted["spec"]["versions"][1] =
        json!({"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}});
    client.post(DEFINITIONS, converted).await.with_code(201);
    client
}

#[tokio::test]
async fn a_webhook_converts_objects_between_versions() {
    let client = with_renamed_widgets().await;
    let older = OLDER;
    let mut sent = widget("a", json!({"length": 3}));
    sent["apiVersion"] = json!("example.com/v1beta1");
    let created = client.post(older, sent).await.with_code(201);
    assert_eq!((&created["apiVersion"], &created["spec"]["length"]), (&json!("example.com/v1beta1"), &json!(3)));
    let stored = client.get(&format!("{WIDGETS}/a")).await.with_code(200);
    assert_eq!((&stored["apiVersion"], &stored["spec"]["size"]), (&json!("example.com/v1"), &json!(3)));
    let mut events = client.watch(&format!("{older}?watch=true")).await;
    assert_eq!(events.next().await.unwrap().1["spec"]["length"], 3);
    let patched = client.patch(&format!("{older}/a"), "merge", json!({"spec": {"length": 4}})).await.with_code(200);
    assert_eq!(patched["spec"]["length"], 4);
    assert_eq!(events.next().await.unwrap().1["spec"]["length"], 4);
    assert_eq!(client.get(WIDGETS).await.with_code(200)["items"][0]["spec"]["size"], 4);
    client.post(WIDGETS, widget("b", json!({"size": 100}))).await.with_code(201);
    assert!(client.get(&format!("{older}/b")).await.refused(500).ends_with("too large"));
    client.get(older).await.refused(500);
    client.delete(&format!("{WIDGETS}/b")).await.with_code(200);
    assert_eq!(client.get(older).await.with_code(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn owners_of_fields_that_a_webhook_renames_are_not_compared() {
    let client = with_renamed_widgets().await;
    let apply = async |path: &str, version: &str, manager: &str, spec: Value| {
        let configuration = json!({"apiVersion": version, "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
        client
            .patch_as(&format!("{path}/a?fieldManager={manager}"), "application/apply-patch+yaml", configuration)
            .await
    };
    apply(WIDGETS, "example.com/v1", "first", json!({"size": 1})).await.with_code(201);
    // kube-apiserver converts the set of `first` with the webhook, and finds a conflict.
    let changed = apply(OLDER, "example.com/v1beta1", "second", json!({"length": 2})).await.with_code(200);
    let managers = changed["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.iter().map(|entry| entry["manager"].clone()).collect::<Vec<_>>(), ["first", "second"]);
}

#[tokio::test]
async fn numbers_are_stored_as_go_writes_them() {
    let client = Client::new();
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}, "f": {"type": "number"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    client.post(DEFINITIONS, definition).await.with_code(201);
    let start = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":""#;
    for (index, (sent, stored)) in [
        (r#"{"n":1.0}"#, r#"{"n":1}"#),
        (r#"{"n":1e3}"#, r#"{"n":1000}"#),
        (r#"{"f":-0.0}"#, r#"{"f":0}"#),
        (r#"{"f":1e20}"#, r#"{"f":100000000000000000000}"#),
        (r#"{"f":1e21}"#, r#"{"f":1e+21}"#),
        (r#"{"f":0.0000015}"#, r#"{"f":0.0000015}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let body = full(format!("{start}w{index}\"}},\"spec\":{sent}}}"));
        let posted = client.send(Method::POST, WIDGETS, "application/json", body).await;
        assert_eq!(posted.status(), 201, "{sent}");
        let bytes = posted.into_body().collect().await.unwrap().to_bytes();
        let answer = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(answer.contains(&format!("\"spec\":{stored}")), "{sent} {answer}");
    }
    // The same number in another form stays the number that is stored.
    let first = client.get(&format!("{WIDGETS}/w0")).await.with_code(200);
    let patch = serde_json::from_str(r#"{"spec":{"n":1.0}}"#).unwrap();
    let patched = client.patch(&format!("{WIDGETS}/w0"), "merge", patch).await.with_code(200);
    assert_eq!((&first["spec"]["n"], &patched["spec"]["n"]), (&json!(1), &json!(1)));
}
