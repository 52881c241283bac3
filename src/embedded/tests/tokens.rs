//! Tokens of service accounts, and their reviews.

use super::client::{Client, PODS, pod};
use serde_json::{Value, json};

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const AUDIENCE: &str = "https://kubernetes.default.svc";

async fn issue(client: &Client, spec: Value) -> String {
    let issued = client.post(TOKEN, json!({ "spec": spec })).await.with_code(201);
    issued["status"]["token"].as_str().unwrap().to_owned()
}

async fn review(client: &Client, token: &str, audiences: &[&str]) -> Value {
    let review = json!({"spec": {"token": token, "audiences": audiences}});
    let review = client.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.with_code(201);
    review["status"].clone()
}

#[tokio::test]
async fn a_token_names_its_service_account() {
    let client = Client::new();
    let issued = client.post(TOKEN, json!({"spec": {}})).await.with_code(201);
    assert_eq!((&issued["kind"], &issued["spec"]["audiences"]), (&json!("TokenRequest"), &json!([AUDIENCE])));
    assert_eq!(issued["spec"]["expirationSeconds"], 3600);
    let status = review(&client, issued["status"]["token"].as_str().unwrap(), &[]).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!([AUDIENCE])));
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:default");
    assert_eq!(
        user["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let id = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert!(id.starts_with("JTI="), "{id}");
}

#[tokio::test]
async fn a_token_is_for_its_audiences_alone() {
    let client = Client::new();
    let token = issue(&client, json!({"audiences": ["a", "b"]})).await;
    assert_eq!(review(&client, &token, &["b", "c"]).await["audiences"], json!(["b"]));
    let error = review(&client, &token, &[]).await["error"].as_str().unwrap().to_owned();
    let why = format!(r#"token audiences ["a" "b"] is invalid for the target audiences ["{AUDIENCE}"]"#);
    assert_eq!(error, format!("[invalid bearer token, {why}]"));
    assert_eq!(review(&client, "x", &[]).await, json!({"user": {}, "error": "invalid bearer token"}));
}

#[tokio::test]
async fn a_bound_token_ends_with_its_object() {
    let client = Client::new();
    let mut running = pod("p");
    running["spec"]["serviceAccountName"] = json!("default");
    let created = client.post(PODS, running).await.with_code(201);
    let token = issue(&client, json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}})).await;
    let user = review(&client, &token, &[]).await["user"].clone();
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-uid"], json!([created["metadata"]["uid"]]));
    client.delete(&format!("{PODS}/p")).await.with_code(200);
    let status = review(&client, &token, &[]).await;
    assert_eq!(status["error"], "[invalid bearer token, service account token has been invalidated]");
}

#[tokio::test]
async fn a_token_ends_with_its_service_account() {
    let client = Client::new();
    let token = issue(&client, json!({})).await;
    client.delete("/api/v1/namespaces/default/serviceaccounts/default").await.with_code(200);
    let error = review(&client, &token, &[]).await["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("[invalid bearer token, service account UID ("), "{error}");
}

#[tokio::test]
async fn a_request_for_a_token_is_checked_as_in_kube_apiserver() {
    let client = Client::new();
    client.post(PODS, pod("p")).await.with_code(201);
    let bound = |kind: &str, name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}}});
    for (request, code, message) in [
        (json!({"spec": {"expirationSeconds": 1}}), 422, "may not specify a duration less than 10 minutes"),
        (json!({"metadata": {"name": "x"}, "spec": {}}), 422, "must match the service account name if specified"),
        (json!({"metadata": {"uid": "x"}, "spec": {}}), 409, "the UID in the token request (x) does not match"),
        (bound("Pod", "p", ""), 400, "to pod running with different serviceaccount name."),
        (bound("Pod", "missing", ""), 404, "pods \"missing\" not found"),
        (bound("ConfigMap", "p", ""), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
    ] {
        let text = client.post(TOKEN, request).await.refused(code);
        assert!(text.contains(message), "{text}");
    }
    client.post("/api/v1/namespaces/default/serviceaccounts/missing/token", json!({"spec": {}})).await.refused(404);
}
