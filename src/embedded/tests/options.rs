//! The options of the server: addresses, APIs, privileged containers, health.

use super::client::{Client, PODS, deployment, pod};
use crate::config::{Addresses, Apis};
use crate::embedded::{Server, Settings, Vitals};
use crate::metrics::Registry;
use crate::server::Drain;
use crate::server::health::Checks;
use serde_json::json;
use std::sync::Arc;

fn with(features: Settings) -> Client {
    Client::of(Server::with(Arc::default(), features))
}

#[tokio::test]
async fn services_have_addresses_of_the_range() {
    let addresses = Addresses::parse("10.9.8.0/29").unwrap();
    let client = with(Settings { addresses, ..Settings::default() });
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for n in 2..=6 {
        let created = client.post(services, service(&format!("s{n}"))).await.with_code(201);
        assert_eq!(created["spec"]["clusterIP"], format!("10.9.8.{n}"));
    }
    assert!(client.post(services, service("more")).await.refused(500).contains("range is full"));
}

#[tokio::test]
async fn an_api_that_is_off_is_not_served_and_not_discovered() {
    let client = with(Settings { apis: Apis::parse(&["apps/v1=false".to_owned()]).unwrap(), ..Settings::default() });
    client.get("/apis/apps/v1/deployments").await.refused(404);
    let groups = client.get("/apis").await.with_code(200);
    assert!(groups["groups"].as_array().unwrap().iter().all(|group| group["name"] != "apps"));
    client.get("/apis/batch/v1/jobs").await.with_code(200);
}

#[tokio::test]
async fn privileged_containers_are_refused_in_pods_and_templates() {
    let client = with(Settings { allow_privileged: false, ..Settings::default() });
    let mut privileged = pod("a");
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    assert_eq!(
        client.post(PODS, privileged.clone()).await.refused(422),
        "Pod \"a\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
    );
    let mut faulty = privileged.clone();
    faulty["spec"]["containers"][0]["image"] = json!("");
    let causes = client.post(PODS, faulty).await.with_code(422)["details"]["causes"].clone();
    assert_eq!(causes.as_array().unwrap().len(), 2, "{causes}");
    client.post(PODS, pod("a")).await.with_code(201);
    let mut template = deployment("d");
    template["spec"]["template"]["spec"] = privileged["spec"].clone();
    client.post("/apis/apps/v1/namespaces/default/deployments", template).await.refused(422);
    Client::new().post(PODS, privileged).await.with_code(201);
}

#[tokio::test]
async fn health_and_metrics_are_those_of_the_process() {
    let checks = Checks::new(&Drain::new());
    let start = checks.pending("start");
    let vitals = Arc::new(Vitals { checks, registry: Registry::new() });
    let client = with(Settings { health: Some(Arc::downgrade(&vitals)), ..Settings::default() });
    assert_eq!(client.get("/readyz").await.code, 500);
    assert_eq!(client.get("/livez").await.code, 200);
    start.finish();
    assert_eq!(client.get("/readyz").await.with_code(200), json!("ok"));
    assert_eq!(client.get("/metrics").await.code, 200);
    assert_eq!(Client::new().get("/metrics").await.with_code(404), "404 page not found\n");
}

#[tokio::test]
async fn paths_that_are_no_resources_have_the_methods_of_their_handlers() {
    let client = Client::new();
    let index = client.get("/").await.with_code(200);
    let paths: Vec<&str> = index["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(paths.is_sorted() && paths.contains(&"/apis/apps/v1") && paths.contains(&"/version"), "{paths:?}");
    for (path, get, post) in [
        ("/", 200, 200),
        ("/version", 200, 405),
        ("/version/", 200, 405),
        ("/version/x", 404, 404),
        ("/healthz", 200, 200),
        ("/healthz/", 404, 404),
        ("/api", 200, 405),
        ("/api/v1", 200, 405),
        ("/apis", 200, 200),
        ("/apis/apps", 200, 200),
        ("/apis/apps/v1", 200, 405),
        ("/apis/apps/v9", 404, 404),
        ("/foo", 404, 404),
    ] {
        assert_eq!((client.get(path).await.code, client.post(path, json!({})).await.code), (get, post), "{path}");
    }
}
