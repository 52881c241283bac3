//! Forms of responses: tables, metadata, documents.

use super::client::{CONFIG_MAPS, Client, config_map};
use serde_json::json;

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

#[tokio::test]
async fn other_encodings_are_not_acceptable() {
    let client = Client::new().header("accept", "application/vnd.kubernetes.protobuf");
    let message = client.get(CONFIG_MAPS).await.refused(406);
    assert_eq!(message, "only the following media types are accepted: application/json");
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
