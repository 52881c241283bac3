//! Lists: order, pages, versions, selectors.

use super::client::{CONFIG_MAPS, Client, PODS, config_map, pod};
use crate::config::Limits;
use crate::embedded::store::Collection;
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

async fn with_config_maps(limits: Limits) -> Client {
    let client = Client::with_limits(limits);
    for name in ["c", "a", "e", "b", "d"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    client
}

#[tokio::test]
async fn a_list_is_sorted_and_its_items_do_not_repeat_their_kind() {
    let client = with_config_maps(Default::default()).await;
    let list = client.get(CONFIG_MAPS).await.with_code(200);
    assert_eq!(names(&list), ["a", "b", "c", "d", "e"]);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert!(list["items"][0].get("kind").is_none() && list["items"][0].get("apiVersion").is_none());
    assert_eq!(list["metadata"].as_object().unwrap().len(), 1);
    let empty = client.get("/api/v1/namespaces/none/configmaps").await.with_code(200);
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test]
async fn pages_show_the_list_as_it_was_at_the_first() {
    let client = with_config_maps(Default::default()).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.with_code(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    client.delete(&format!("{CONFIG_MAPS}/c")).await.with_code(200);
    client.post(CONFIG_MAPS, config_map("cc")).await.with_code(201);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.with_code(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.with_code(200);
    assert_eq!(names(&last), ["e"]);
    assert!(last["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn a_page_costs_what_it_shows_however_many_objects_there_are() {
    let objects = &Collection::built_in("", "configmaps");
    let mut costs = Vec::new();
    for count in [50, 500] {
        let client = Client::new();
        let visited = || client.server.store.with(|state| state.visited(objects));
        for n in 0..count {
            client.post(CONFIG_MAPS, config_map(&format!("m{n:04}"))).await.with_code(201);
        }
        let (mut seen, mut left, mut page_costs, mut token) = (0, count, Vec::new(), String::new());
        loop {
            let before = visited();
            let path = format!("{CONFIG_MAPS}?limit=10&continue={token}");
            let page = client.get(&path).await.with_code(200);
            page_costs.push(visited() - before);
            seen += names(&page).len();
            left -= names(&page).len();
            // A change after the first page makes the other ones pages of the past.
            client.post(CONFIG_MAPS, config_map(&format!("a{left}"))).await.with_code(201);
            match page["metadata"]["continue"].as_str() {
                Some(next) => token = next.to_owned(),
                None => break,
            }
            assert_eq!(page["metadata"]["remainingItemCount"], left);
        }
        assert_eq!((seen, left), (count, 0));
        costs.push(page_costs.into_iter().max().unwrap());
    }
    assert_eq!(costs, [11, 11]);
}

#[tokio::test]
async fn pages_with_a_selector_are_full_and_without_a_count() {
    let client = Client::new();
    for n in 0..60 {
        let mut object = config_map(&format!("{n:02}"));
        object["metadata"]["labels"] = json!({"tenth": (n % 10 == 9).to_string()});
        client.post(CONFIG_MAPS, object).await.with_code(201);
    }
    let path = format!("{CONFIG_MAPS}?limit=4&labelSelector=tenth%3Dtrue");
    let first = client.get(&path).await.with_code(200);
    assert_eq!(names(&first), ["09", "19", "29", "39"]);
    assert!(first["metadata"].get("remainingItemCount").is_none());
    let token = first["metadata"]["continue"].as_str().unwrap();
    let last = client.get(&format!("{path}&continue={token}")).await.with_code(200);
    assert_eq!((names(&last), last["metadata"].get("continue")), (vec!["49", "59"], None));
}

#[tokio::test]
async fn an_expired_page_has_a_token_for_an_inconsistent_continuation() {
    let client = with_config_maps(Limits { watch_history: 2, ..Default::default() }).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.with_code(200);
    for name in ["f", "g", "h"] {
        client.post(CONFIG_MAPS, config_map(name)).await.with_code(201);
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let answer = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    assert_eq!((answer.code, &answer.body["reason"]), (410, &json!("Expired")));
    let token = answer.body["metadata"]["continue"].as_str().unwrap();
    let rest = client.get(&format!("{CONFIG_MAPS}?continue={token}")).await.with_code(200);
    assert_eq!(names(&rest), ["c", "d", "e", "f", "g", "h"]);
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={version}");
    assert_eq!(client.get(&exact).await.refused(410), "The resourceVersion for the provided list is too old.");
}

#[tokio::test]
async fn a_list_is_had_at_an_exact_version() {
    let client = with_config_maps(Default::default()).await;
    let list = client.get(CONFIG_MAPS).await.with_code(200);
    client.delete(CONFIG_MAPS).await.with_code(200);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={version}");
    assert_eq!(client.get(&exact).await.with_code(200), list);
}

#[tokio::test]
async fn a_limit_applies_unless_any_version_will_do() {
    let client = with_config_maps(Default::default()).await;
    let list = client.get(CONFIG_MAPS).await.with_code(200);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    client.post(CONFIG_MAPS, config_map("f")).await.with_code(201);
    for (query, expected, is_a_page) in [
        ("limit=2".to_owned(), 2, true),
        ("limit=2&resourceVersion=0".to_owned(), 6, false),
        ("limit=2&resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(), 6, false),
        (format!("limit=9&resourceVersion={version}&resourceVersionMatch=NotOlderThan"), 6, false),
        // The legacy form of an exact version.
        (format!("limit=9&resourceVersion={version}"), 5, false),
        (format!("limit=9&resourceVersion={version}&fieldSelector=metadata.name%3Df"), 1, false),
        (format!("resourceVersion={version}"), 6, false),
    ] {
        let list = client.get(&format!("{CONFIG_MAPS}?{query}")).await.with_code(200);
        assert_eq!((names(&list).len(), list["metadata"].get("continue").is_some()), (expected, is_a_page), "{query}");
    }
    let deleted = client.delete(&format!("{CONFIG_MAPS}?limit=2")).await.with_code(200);
    assert_eq!(names(&deleted), ["a", "b"]);
    assert_eq!(names(&client.get(CONFIG_MAPS).await.with_code(200)).len(), 4);
}

#[tokio::test]
async fn options_of_a_get_are_checked() {
    let client = with_config_maps(Default::default()).await;
    for (query, code, message) in [
        ("export", 400, "the export parameter, deprecated since v1.14, is no longer supported"),
        (
            "resourceVersion=x",
            500,
            "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
    ] {
        assert_eq!(client.get(&format!("{CONFIG_MAPS}/a?{query}")).await.refused(code), message, "{query}");
    }
    client.get(&format!("{CONFIG_MAPS}/a?export=false&resourceVersion=0")).await.with_code(200);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let client = Client::new();
    for (query, code, message) in [
        (
            "resourceVersion=x",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        ("resourceVersion=999999", 504, "Timeout: Too large resource version: 999999, current: 30"),
        (
            "resourceVersionMatch=Exact",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden \
             unless resourceVersion is provided",
        ),
        (
            "sendInitialEvents=true",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        ("fieldSelector=spec.foo=1", 400, "field label not supported: spec.foo"),
        ("limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("limit=", 400, "strconv.ParseInt: parsing \"\": invalid syntax"),
        ("timeoutSeconds=1.5", 400, "strconv.ParseInt: parsing \"1.5\": invalid syntax"),
        ("continue=x", 400, "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"),
    ] {
        assert_eq!(client.get(&format!("{PODS}?{query}")).await.refused(code), message, "{query}");
    }
    assert_eq!(
        client.get(&format!("{CONFIG_MAPS}?fieldSelector=data.a=1")).await.refused(400),
        "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    client.get(&format!("{PODS}?labelSelector=a=b=c")).await.refused(400);
}

#[tokio::test]
async fn selectors_select() {
    let client = Client::new();
    let mut a = pod("a");
    a["metadata"]["labels"] = json!({"app": "x"});
    a["spec"]["nodeName"] = json!("n1");
    a["spec"]["hostNetwork"] = json!(true);
    client.post(PODS, a).await.with_code(201);
    client.post(PODS, pod("b")).await.with_code(201);
    client.post("/api/v1/namespaces/other/pods", pod("c")).await.with_code(201);
    for (query, expected) in [
        ("labelSelector=app%3Dx", vec!["a"]),
        ("labelSelector=!app", vec!["b", "c"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("fieldSelector=metadata.namespace!%3Ddefault", vec!["c"]),
        ("fieldSelector=spec.nodeName%3Dn1", vec!["a"]),
        ("fieldSelector=spec.nodeName%3D", vec!["b", "c"]),
        ("fieldSelector=status.phase%3DPending,spec.hostNetwork%3Dfalse", vec!["b", "c"]),
        ("fieldSelector=spec.restartPolicy!%3DAlways", vec![]),
        ("labelSelector=app&limit=1", vec!["a"]),
    ] {
        let list = client.get(&format!("/api/v1/pods?{query}")).await.with_code(200);
        assert_eq!(names(&list), expected, "{query}");
        assert!(list["metadata"].get("remainingItemCount").is_none());
    }
}
