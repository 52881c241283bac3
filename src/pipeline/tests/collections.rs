//! The answer to a deletecollection: exactly the objects that were deleted.

use super::*;
use http::header::WARNING;

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const SELECTED: &str = "/api/v1/namespaces/default/configmaps?labelSelector=in%3Dit";

async fn fill(path: &Path, names: &[&str]) {
    for name in names {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"in": "it"});
        assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    }
}

async fn delete(path: &Path, uri: &str, accept: &str) -> (u16, Value, Vec<String>) {
    let (parts, body) = path.ask_raw("DELETE", uri, &[("accept", accept)], "").await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let warnings = parts.headers.get_all(WARNING).iter().map(|text| text.to_str().unwrap().to_owned()).collect();
    (parts.status.as_u16(), serde_json::from_slice(&body).unwrap(), warnings)
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn many_pages_are_shown_as_one_list() {
    let server = embedded::Server::new(Arc::new(Limits { list_page_objects: 2, ..Limits::default() }));
    let path = Path::over(server.clone(), Arc::new(server)).await;
    let all = ["p1", "p2", "p3", "p4", "p5"];
    fill(&path, &all).await;
    let (code, list, warnings) = delete(&path, SELECTED, "application/json").await;
    assert_eq!((code, names(&list), warnings.len()), (200, all.to_vec(), 0));
    assert_eq!(path.stored(SELECTED).await["items"], json!([]));
    fill(&path, &all).await;
    let (code, table, _) = delete(&path, SELECTED, TABLE).await;
    let cells: Vec<&Value> = table["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
    assert_eq!((code, cells), (200, all.map(Value::from).iter().collect()));
    fill(&path, &all).await;
    let (code, table, _) = delete(&path, &format!("{SELECTED}&limit=2"), TABLE).await;
    assert_eq!((code, table["rows"].as_array().unwrap().len()), (200, 2));
    assert_eq!(names(&path.stored(SELECTED).await), all[2..]);
}

#[tokio::test]
async fn plugins_see_a_collection_as_a_whole_even_if_it_is_empty() {
    let path = Path::new().await;
    let uri = "/api/v1/namespaces/kube-node-lease/configmaps";
    assert_eq!(delete(&path, uri, "application/json").await.0, 200);
    assert_eq!(mutated("configmaps of kube-node-lease"), 1);
    for name in ["i1", "i2", "i3"] {
        assert_eq!(path.json("POST", uri, &config_map(name)).await.0, 201);
    }
    assert_eq!(delete(&path, uri, "application/json").await.0, 200);
    assert_eq!(mutated("configmaps of kube-node-lease"), 2);
    assert_eq!(path.stored(uri).await["items"], json!([]));
}

#[tokio::test]
async fn plugins_see_the_options_of_a_collection_as_the_client_sent_them() {
    let path = Path::new().await;
    let pods = "/api/v1/namespaces/kube-public/pods";
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    for (name, query, collection, expected) in [
        ("o1", "?dryRun=All", true, Value::Null),
        ("o2", "", true, Value::Null),
        ("o3", "?gracePeriodSeconds=7", true, json!(7)),
        ("o4", "?gracePeriodSeconds=-7", true, json!(-7)),
        ("o5", "?gracePeriodSeconds=-7", false, json!(1)),
        ("o6", "", false, json!(30)),
    ] {
        let (code, created) = path.json("POST", pods, &pod(name)).await;
        assert_eq!(code, 201, "{created}");
        let only = format!("fieldSelector=metadata.name%3D{name}");
        let uri = match (collection, query) {
            (false, query) => format!("{pods}/{name}{query}"),
            (true, "") => format!("{pods}?{only}"),
            (true, query) => format!("{pods}{query}&{only}"),
        };
        assert_eq!(path.ask("DELETE", &uri, "application/json", "").await.0, 200, "{uri}");
        let deletes: Vec<Value> = seen(name).into_iter().filter(|review| review["operation"] == "DELETE").collect();
        assert_eq!(deletes[0]["options"]["gracePeriodSeconds"], expected, "{uri}");
    }
}

#[tokio::test]
async fn a_refused_collection_stays_for_every_reason() {
    let path = Path::new().await;
    let uri = "/api/v1/namespaces/default/limitranges";
    for name in ["r1", "r2"] {
        let object =
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": []}});
        assert_eq!(path.json("POST", uri, &object).await.0, 201);
    }
    let (code, status, _) = delete(&path, uri, "application/json").await;
    assert_eq!((code, &status["message"]), (404, &json!("things \"t\" not found")));
    assert_eq!(names(&path.stored(uri).await), ["r1", "r2"]);
}

#[tokio::test]
async fn a_collection_larger_than_a_page_is_returned_as_a_whole() {
    let path = Path::new().await;
    let uri = "/api/v1/namespaces/kube-system/configmaps";
    for name in ["l1", "l2", "l3"] {
        let mut object = config_map(name);
        object["data"]["a"] = json!("x".repeat(600 << 10));
        assert_eq!(path.json("POST", uri, &object).await.0, 201);
    }
    let (code, list, warnings) = delete(&path, uri, "application/json").await;
    assert_eq!((code, names(&list), warnings.len()), (200, vec!["l1", "l2", "l3"], 0));
    assert_eq!(path.stored(uri).await["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn one_users_large_reads_wait_for_each_other() {
    let mut path = Path::new().await;
    let uri = "/api/v1/namespaces/kube-public/configmaps";
    let mut object = config_map("large");
    object["data"]["a"] = json!("x".repeat(600 << 10));
    assert_eq!(path.json("POST", uri, &object).await.0, 201);
    // Half of this room is less than the object needs, so one user's read takes that user's whole share.
    let limits = Limits { whole_answers_bytes: 1 << 20, ..Limits::default() };
    path.pipeline.gateway.room = Room::alone(&limits);
    let caller = |name: &str| Caller {
        user: Arc::new(crate::user::UserInfo { username: name.into(), ..Default::default() }),
        credentials: None,
        is_proxy: false,
    };
    let read = async |name: &str| path.pipeline.gateway.read_list(uri, 1 << 20, &caller(name)).await;
    let held = read("a").await.unwrap().unwrap();
    let refused = read("a").await.err().unwrap();
    assert_eq!((refused.code, refused.message.contains("no room")), (429, true));
    assert!(read("b").await.unwrap().is_some());
    drop(held);
    assert!(read("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_collection_whose_list_fails_is_not_deleted_unless_lists_have_no_such_form() {
    for (reason, code, is_deleted) in
        [("InternalError", 500, false), ("Expired", 410, false), ("NotAcceptable", 406, true)]
    {
        let server = embedded::Server::new(Arc::default());
        let behind = server.clone();
        let transport = from_fn(move |request: Request<Body>| {
            let behind = behind.clone();
            async move {
                if request.uri().query().is_some_and(|query| query.contains("resourceVersionMatch=Exact")) {
                    let status = Status::failure(code, reason, "not this way");
                    return Ok(crate::response::status(
                        &status,
                        crate::response::ResponseForm::of(&Default::default(), request.uri(), Default::default()),
                    ));
                }
                crate::upstream::Transport::send(&behind, request).await
            }
        });
        let path = Path::over(server, transport).await;
        fill(&path, &["shown"]).await;
        let (found, status, _) = delete(&path, SELECTED, TABLE).await;
        assert_eq!((found, &status["reason"]), (code, &json!(reason)));
        assert_eq!(path.stored(SELECTED).await["items"].as_array().unwrap().is_empty(), is_deleted, "{reason}");
    }
}
