//! The plugin's estimates from a file, and from a server.

use super::*;
use crate::admission::Operation;
use crate::backend::Lookup;
use crate::backend::testing::{HookServer, Reply};
use crate::cluster::{Cluster, FixedState};
use crate::config::Limits;
use crate::manifests::FollowedFile;
use crate::plugins::checker::{attributes, check};
use history::History;
use jiff::SignedDuration;
use serde_json::json;
use tempfile::TempDir;

fn now() -> Timestamp {
    "2026-02-01T00:00:00Z".parse().unwrap()
}

/// Samples of an image's usage, of which the first is `days_ago` old.
fn samples(count: usize, image: &str, namespace: &str, days_ago: i64, cpu: &str) -> Vec<Value> {
    let time = (now() - SignedDuration::from_hours(24 * days_ago - 1)).to_string();
    vec![json!({"image": image, "namespace": namespace, "time": time, "cpu": cpu, "memory": "5000000"}); count]
}

/// The plugin with these samples.
fn plugin(samples: &[Vec<Value>], namespace_only: bool) -> InitialResources {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.json");
    std::fs::write(&path, json!({"samples": samples.concat()}).to_string()).unwrap();
    let source = Source::File(FollowedFile::follow(path, History::new).unwrap());
    InitialResources { source, percentile: 90, namespace_only, now }
}

fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers}})
}

/// The requests and the annotation of a pod with one container of the image.
async fn estimated(plugin: &InitialResources, image: &str) -> (Value, Value) {
    let given = pod(json!([{"name": "c", "image": image, "resources": {}}]));
    let mut after = check(plugin).create("", "pods", given).await.after();
    let annotation = after["metadata"]["annotations"][ANNOTATION].take();
    (after["spec"]["containers"][0]["resources"]["requests"].take(), annotation)
}

#[tokio::test]
async fn the_first_search_with_thirty_samples_counts() {
    for (usage, namespace_only, cpu) in [
        (vec![samples(30, "a:1", "n", 7, "1m"), samples(99, "a:1", "n", 30, "2m")], false, Some("1m")),
        (vec![samples(29, "a:1", "n", 7, "1m"), samples(99, "a:1", "n", 30, "2m")], false, Some("2m")),
        (vec![samples(29, "a:1", "n", 7, "1m"), samples(60, "a:1", "m", 7, "3m")], false, Some("3m")),
        (vec![samples(29, "a:1", "n", 30, "1m"), samples(60, "a:1", "m", 30, "4m")], false, Some("4m")),
        (vec![samples(29, "a:1", "n", 30, "1m"), samples(60, "a:2", "m", 30, "5m")], false, Some("5m")),
        (vec![samples(60, "a:2", "n", 30, "6m"), samples(60, "a:1", "m", 7, "3m")], true, Some("6m")),
        (vec![samples(60, "a:1", "m", 7, "3m")], true, None),
        // The last search needs no thirty samples.
        (vec![samples(1, "a:2", "m", 30, "7m")], false, Some("7m")),
        (vec![samples(99, "a:1", "n", 31, "1m")], false, None),
        (vec![samples(99, "b:1", "n", 7, "1m")], false, None),
    ] {
        let (requests, _) = estimated(&plugin(&usage, namespace_only), "a:1").await;
        assert_eq!(requests.get("cpu").and_then(Value::as_str), cpu);
    }
}

#[tokio::test]
async fn requests_are_quantities_of_whole_units() {
    for (cpu, want) in [("123.9m", "123m"), ("1", "1"), ("1500m", "1500m"), ("0", "0")] {
        let (requests, annotation) = estimated(&plugin(&[samples(30, "a:1", "n", 7, cpu)], false), "a:1").await;
        assert_eq!(requests, json!({"cpu": want, "memory": "5M"}));
        assert_eq!(annotation, "Initial Resources plugin set: cpu, memory request for container c");
    }
}

#[tokio::test]
async fn a_kind_with_a_request_or_a_limit_is_not_estimated() {
    let plugin = plugin(&[samples(30, "a:1", "n", 7, "1m")], false);
    let container = |name: &str, resources: Value| json!({"name": name, "image": "a:1", "resources": resources});
    let mut given = pod(json!([
        container("c", json!({})),
        container("d", json!({"requests": {"memory": "1"}})),
        container("e", json!({"limits": {"cpu": "1"}})),
        container("f", json!({"limits": {"cpu": "1"}, "requests": {"memory": "1"}})),
        {"name": "g", "image": "unknown"},
    ]));
    given["spec"]["initContainers"] = json!([container("i", Value::Null)]);
    given["metadata"]["annotations"] = json!({ANNOTATION: "mine", "own": "1"});
    let after = check(&plugin).create("", "pods", given).await.after();
    let annotation = "Initial Resources plugin set: cpu, memory request for init container i; cpu, memory request for container c; \
                      cpu request for container d; memory request for container e";
    assert_eq!(after["metadata"]["annotations"], json!({ANNOTATION: annotation, "own": "1"}));
    let resources: Vec<&Value> =
        after["spec"]["containers"].as_array().unwrap().iter().map(|one| &one["resources"]).collect();
    let want = [
        json!({"requests": {"cpu": "1m", "memory": "5M"}}),
        json!({"requests": {"cpu": "1m", "memory": "1"}}),
        json!({"limits": {"cpu": "1"}, "requests": {"memory": "5M"}}),
        json!({"limits": {"cpu": "1"}, "requests": {"memory": "1"}}),
        Value::Null,
    ];
    assert_eq!(resources, want.iter().collect::<Vec<_>>());
    assert_eq!(after["spec"]["initContainers"][0]["resources"], want[0]);
}

#[tokio::test]
async fn resources_are_not_set_without_a_source_or_without_history() {
    let given =
        || pod(json!([{"name": "c", "image": "a"}, {"name": "d", "image": "r:5000/a@sha256:b"}, {"name": "e"}]));
    let none = InitialResources { source: Source::None, percentile: 90, namespace_only: false, now };
    check(&none).create("", "pods", given()).await.stays_unchanged();
    check(&plugin(&[], false)).create("", "pods", given()).await.stays_unchanged();
    assert!(!none.has_side_effects(&attributes(Operation::Create, "", "pods", Some(given()), None)));
    assert_eq!(none.problems(), [WITHOUT_SOURCE]);
    assert!(plugin(&[], false).problems().is_empty());
}

#[tokio::test]
async fn the_annotation_of_a_second_pass_contains_that_of_the_first_one() {
    let plugin = plugin(&[samples(30, "a:1", "n", 7, "1m")], false);
    let given = pod(json!([{"name": "c", "image": "a:1"}]));
    let mut attributes = attributes(Operation::Create, "", "pods", Some(given), None);
    plugin.admit(&mut attributes).await.unwrap();
    let pod = attributes.object.as_mut().unwrap();
    assert!(pod.append(&["spec", "containers"], json!({"name": "late", "image": "a:1"})));
    plugin.admit(&mut attributes).await.unwrap();
    let both =
        "Initial Resources plugin set: cpu, memory request for container c; cpu, memory request for container late";
    assert_eq!(attributes.object.unwrap().str(&["metadata", "annotations", ANNOTATION]), both);
}

/// The plugin with a server of usage that answers this, and the folder with the server's authority.
async fn asking(reply: Reply) -> (InitialResources, HookServer, TempDir) {
    let server = HookServer::start(&[("usage", reply)]).await;
    let folder = tempfile::tempdir().unwrap();
    let authorities = folder.path().join("ca.crt");
    std::fs::write(&authorities, server.ca()).unwrap();
    let cluster = Cluster::fixed(FixedState::default());
    let lookup = Lookup::new(&server.url("/usage"), Some(authorities), cluster, &Limits::default()).unwrap();
    (
        InitialResources { source: Source::Url(Box::new(lookup)), percentile: 80, namespace_only: false, now },
        server,
        folder,
    )
}

fn json_reply(value: &Value) -> Reply {
    Reply::Http(200, "application/json", value.to_string().into_bytes())
}

#[tokio::test]
async fn a_server_is_asked_for_cpu_and_then_for_memory() {
    let few = json_reply(&json!({"value": 9, "samples": 29}));
    let enough = |value: Value| json_reply(&json!({"value": value, "samples": 30}));
    let replies =
        vec![few.clone(), few.clone(), few.clone(), few.clone(), enough(json!(123.9)), enough(json!(1_048_576))];
    let (plugin, server, _folder) = asking(Reply::InTurn(replies)).await;
    assert!(plugin.has_side_effects(&attributes(Operation::Create, "", "pods", Some(pod(json!([]))), None)));
    let (requests, _) = estimated(&plugin, "a:1").await;
    assert_eq!(requests, json!({"cpu": "123m", "memory": "1048576"}));
    let query = |kind: &str, image: &str, exact: bool, days: &str, namespace: &str| {
        format!(
            "/usage?kind={kind}&image={image}&exact={exact}&percentile=80&start=2026-01-{days}T00%3A00%3A00Z&end=2026-02-01T00%3A00%3A00Z{namespace}"
        )
    };
    let paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    let want = [
        query("cpu", "a%3A1", true, "25", "&namespace=n"),
        query("cpu", "a%3A1", true, "02", "&namespace=n"),
        query("cpu", "a%3A1", true, "25", ""),
        query("cpu", "a%3A1", true, "02", ""),
        query("cpu", "a", false, "02", ""),
        query("memory", "a%3A1", true, "25", "&namespace=n"),
    ];
    assert_eq!(paths, want);
}

#[tokio::test]
async fn an_error_of_one_kind_leaves_the_other() {
    let memory = json_reply(&json!({"value": 1, "samples": 30}));
    let (plugin, _server, _folder) =
        asking(Reply::InTurn(vec![Reply::Http(500, "text/plain", Vec::new()), memory])).await;
    let mut attributes =
        attributes(Operation::Create, "", "pods", Some(pod(json!([{"name": "c", "image": "a:1"}]))), None);
    plugin.admit(&mut attributes).await.unwrap();
    let pod = attributes.object.unwrap();
    assert_eq!(pod.items(&["spec", "containers"])[0]["resources"], json!({"requests": {"memory": "1"}}));
    let annotation = "Initial Resources plugin set: memory request for container c";
    assert_eq!(pod.str(&["metadata", "annotations", ANNOTATION]), annotation);
}

#[tokio::test]
async fn a_server_that_fails_refuses_no_pod() {
    for reply in [Reply::Reset, Reply::Http(200, "application/json", b"{}".to_vec()), Reply::Http(404, "", Vec::new())]
    {
        let (plugin, _server, _folder) = asking(reply).await;
        let given = pod(json!([{"name": "c", "image": "a:1"}]));
        check(&plugin).create("", "pods", given).await.stays_unchanged();
    }
}

#[tokio::test]
async fn the_questions_about_a_pod_end_at_its_deadline() {
    let (plugin, server, _folder) = asking(Reply::Hang).await;
    let containers: Vec<Value> = (0..50).map(|i| json!({"name": format!("c{i}"), "image": "a:1"})).collect();
    let mut attributes = attributes(Operation::Create, "", "pods", Some(pod(containers.into())), None);
    attributes.context.deadline = Instant::now() + Duration::from_millis(300);
    plugin.admit(&mut attributes).await.unwrap();
    assert!(attributes.context.deadline.elapsed() < TIME_FOR_A_POD && server.seen().len() <= 1);
}

#[tokio::test]
async fn no_pod_of_wrong_types_panics() {
    let plugin = plugin(&[samples(30, "", "n", 7, "1m")], false);
    for spec in [
        json!("text"),
        json!({"containers": {}, "initContainers": 1}),
        json!({"containers": [1, {"resources": []}, {"image": 1, "resources": {"requests": "x", "limits": []}}]}),
    ] {
        let given = json!({"metadata": {"namespace": "n", "annotations": []}, "spec": spec});
        let _any_answer = check(&plugin).create("", "pods", given).await.code();
    }
}
