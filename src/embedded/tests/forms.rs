//! Forms of responses: tables, metadata, documents.

use super::client::{CONFIG_MAPS, Client, PODS, config_map, pod};
use crate::body::{empty, full};
use crate::object::protobuf;
use crate::object::protobuf::wire::Reader;
use http::{HeaderValue, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn a_table_has_a_row_for_each_object() {
    let client = Client::new().header("accept", TABLE);
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    for path in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}/a")] {
        let table = client.get(&path).await.with_code(200);
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
        assert_eq!(table["rows"][0]["cells"][0], "a");
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert!(table["metadata"]["resourceVersion"].is_string());
    }
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&includeObject=None")).await;
    client.post(CONFIG_MAPS, config_map("b")).await.with_code(201);
    let (_, first) = events.next().await.unwrap();
    let (_, second) = events.next().await.unwrap();
    assert!(first["columnDefinitions"].is_array() && second["columnDefinitions"].is_null());
    assert_eq!(second["rows"][0]["cells"][0], "b");
}

#[tokio::test]
async fn the_rows_of_an_empty_list_are_null_for_a_kind_without_a_printer() {
    let client = Client::new().header("accept", TABLE);
    for (path, rows) in [
        (CONFIG_MAPS, json!([])),
        ("/apis/apps/v1/deployments", json!([])),
        ("/api/v1/limitranges", json!(null)),
        ("/apis/storage.k8s.io/v1/csistoragecapacities", json!(null)),
    ] {
        let table = client.get(path).await.with_code(200);
        assert_eq!(table.get("rows"), Some(&rows), "{path}");
    }
}

#[tokio::test]
async fn metadata_alone_is_to_be_had() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let one = format!("{CONFIG_MAPS}/a");
    let plain = client;
    let client = plain.header("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    let list = client.get(CONFIG_MAPS).await.with_code(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    let item = &list["items"][0];
    assert_eq!((&item["kind"], &item["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
    assert!(item.get("data").is_none());
    let message = "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)";
    assert_eq!(client.get(&one).await.refused(406), message);
    let client = plain.header("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
    let found = client.get(&one).await.with_code(200);
    assert_eq!((&found["kind"], &found["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
    let message = "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)";
    assert_eq!(client.get(CONFIG_MAPS).await.refused(406), message);
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(events.next().await.unwrap().1["kind"], "PartialObjectMetadata");
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The media type and the bytes of an answer.
async fn answer(client: &Client, path: &str) -> (u16, String, Vec<u8>) {
    let response = client.send(Method::GET, path, "", empty()).await;
    let (code, content_type) = (response.status().as_u16(), response.headers()["content-type"].clone());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, content_type.to_str().unwrap().to_owned(), bytes.to_vec())
}

/// The object in an answer in protobuf.
fn decoded(bytes: &[u8]) -> Value {
    let envelope = protobuf::open(bytes).unwrap();
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    let mut fields = envelope.object(group, version, &envelope.kind).unwrap().fields;
    fields.insert("apiVersion".into(), envelope.api_version.clone().into());
    fields.insert("kind".into(), envelope.kind.clone().into());
    fields.into()
}

#[tokio::test]
async fn objects_lists_and_refusals_are_to_be_had_in_protobuf() {
    let json = Client::new();
    json.post(PODS, pod("a")).await.with_code(201);
    let client = json.header("accept", PROTOBUF);
    for (path, code) in [
        (PODS.to_owned(), 200),
        (format!("{PODS}/a"), 200),
        ("/apis/apps/v1/deployments".to_owned(), 200),
        (format!("{PODS}/none"), 404),
        ("/apis/none.test/v1".to_owned(), 404),
    ] {
        let (found, content_type, bytes) = answer(&client, &path).await;
        if content_type == "text/plain; charset=utf-8" {
            assert_eq!(found, 404, "{path}");
            continue;
        }
        assert_eq!((found, &*content_type), (code, PROTOBUF), "{path}");
        let expected = json.get(&path).await.with_code(code);
        let mut decoded = decoded(&bytes);
        // Go's JSON omits the kind of an item, and protobuf has none.
        for item in decoded.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
            assert!(item.get("kind").is_none());
        }
        if expected["items"] == json!([]) {
            decoded["items"] = json!([]);
        }
        assert_eq!(decoded, expected, "{path}");
    }
    let written = client.send(Method::POST, PODS, "application/json", full(pod("b").to_string())).await;
    assert_eq!(
        (written.status().as_u16(), &written.headers()["content-type"]),
        (201, &HeaderValue::from_static(PROTOBUF))
    );
}

#[tokio::test]
async fn metadata_alone_is_to_be_had_in_protobuf_and_a_table_is_not() {
    let json = Client::new();
    json.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let form = |form: &str, version: &str| format!("{PROTOBUF};as={form};v={version};g=meta.k8s.io");
    for version in ["v1", "v1beta1"] {
        let client = json.header("accept", &form("PartialObjectMetadataList", version));
        let (code, content_type, bytes) = answer(&client, CONFIG_MAPS).await;
        assert_eq!((code, &*content_type), (200, PROTOBUF));
        let list = decoded(&bytes);
        assert_eq!(list["items"][0]["metadata"]["name"], "a", "{version} {list}");
        let client = json.header("accept", &form("PartialObjectMetadata", version));
        let object = decoded(&answer(&client, &format!("{CONFIG_MAPS}/a")).await.2);
        assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
        assert!(object.get("data").is_none());
    }
    let (code, content_type, bytes) = answer(&json.header("accept", &form("Table", "v1")), CONFIG_MAPS).await;
    assert_eq!((code, &*content_type), (406, "application/json"));
    let message = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    assert!(String::from_utf8(bytes).unwrap().contains(message));
}

#[tokio::test]
async fn a_watch_in_protobuf_has_frames_of_events() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let client = client.header("accept", PROTOBUF);
    let path = format!("{CONFIG_MAPS}?watch=1");
    let response = client.send(Method::GET, &path, "", empty()).await;
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let mut body = response.into_body();
    client.delete(&format!("{CONFIG_MAPS}/a")).await.with_code(200);
    for expected in ["ADDED", "DELETED"] {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let (length, event) = frame.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
        let mut reader = Reader(event);
        reader.tag("").unwrap();
        assert_eq!(reader.delimited().unwrap(), expected.as_bytes());
        reader.tag("").unwrap();
        let mut raw = Reader(reader.delimited().unwrap());
        raw.tag("").unwrap();
        assert_eq!(decoded(raw.delimited().unwrap())["metadata"]["name"], "a");
    }
    let (code, _, bytes) = answer(&Client::of(client.server.clone()).header("accept", "application/yaml"), &path).await;
    assert_eq!(code, 406);
    assert!(String::from_utf8(bytes).unwrap().contains("application/vnd.kubernetes.protobuf;stream=watch"));
}

#[tokio::test]
async fn yaml_and_indented_json_have_the_layout_of_go() {
    let json = Client::new();
    json.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}, "data": {"a10": "1", "a2": "x: y", "b": "<\n"}}))
        .await
        .with_code(201);
    let one = format!("{CONFIG_MAPS}/a");
    let (code, content_type, bytes) = answer(&json.header("accept", "application/yaml"), &one).await;
    assert_eq!((code, &*content_type), (200, "application/yaml"));
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.starts_with(
            "apiVersion: v1\ndata:\n  a2: 'x: y'\n  a10: \"1\"\n  b: |\n    <\nkind: ConfigMap\nmetadata:\n"
        ),
        "{text}"
    );
    let (_, content_type, bytes) = answer(&json, &format!("{one}?pretty=true")).await;
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(content_type, "application/json");
    assert!(
        text.starts_with("{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n") && text.ends_with("\n}"),
        "{text}"
    );
    assert!(text.contains("\"b\": \"\\u003c\\n\""), "{text}");
}

#[tokio::test]
async fn the_documents_of_discovery_have_every_encoding() {
    let client = Client::new();
    const AGGREGATED: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let expected = client.header("accept", &format!("application/json{AGGREGATED}")).get("/apis").await.with_code(200);
    let (code, content_type, bytes) =
        answer(&client.header("accept", &format!("{PROTOBUF}{AGGREGATED}")), "/apis").await;
    assert_eq!((code, content_type), (200, format!("{PROTOBUF}{AGGREGATED}")));
    let found = decoded(&bytes);
    let names = |list: &Value| -> Vec<Value> {
        let groups = list["items"].as_array().unwrap().iter();
        groups
            .flat_map(|group| group["versions"].as_array().unwrap())
            .flat_map(|version| version["resources"].as_array().cloned().unwrap_or_default())
            .collect()
    };
    assert!(names(&found).len() > 50);
    assert_eq!(names(&found), names(&expected));
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"] {
        let (code, content_type, bytes) = answer(&client.header("accept", PROTOBUF), path).await;
        assert_eq!((code, &*content_type), (200, PROTOBUF), "{path}");
        let envelope = protobuf::open(&bytes).unwrap();
        assert_eq!(client.get(path).await.with_code(200)["kind"], envelope.kind, "{path}");
    }
}

#[tokio::test]
async fn health_version_and_discovery_are_served() {
    let client = Client::new();
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(client.get(path).await.with_code(200), "ok", "{path}");
    }
    assert_eq!(client.get("/version").await.with_code(200)["major"], "1");
    for path in ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v2", "/openapi/v3"] {
        client.get(path).await.with_code(200);
    }
}
