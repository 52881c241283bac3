//! Requests that try to store an object that was not admitted, or to make plugins act on an object that is not stored.

use super::*;

#[tokio::test]
async fn a_plugin_may_change_what_is_stored_but_not_where() {
    let path = Path::new().await;
    for (trick, code, message) in [
        (
            "version",
            409,
            "Operation cannot be fulfilled on configmaps \"tricky\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        ("move", 400, "the namespace of the provided object does not match the namespace sent on the request"),
        (
            "rename",
            422,
            "ConfigMap \"renamed\" is invalid: metadata.name: Invalid value: \"renamed\": field is immutable",
        ),
    ] {
        path.json("POST", CONFIG_MAPS, &config_map("tricky")).await;
        let before = path.stored(&at("tricky")).await;
        let mut object = config_map("tricky");
        object["metadata"]["labels"] = json!({"trick": trick});
        let (found, status) = path.json("PUT", &at("tricky"), &object).await;
        assert_eq!((found, &status["message"]), (code, &json!(message)), "PUT {trick}");
        if trick == "rename" {
            // kube-apiserver reports the error twice: for every object, and for the kind.
            assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(2));
        }
        let patch = json!({"metadata": {"labels": {"trick": trick}}}).to_string();
        let (found, status) = path.ask("PATCH", &at("tricky"), "application/merge-patch+json", patch).await;
        assert_eq!((found, &status["message"]), (code, &json!(message)), "PATCH {trick}");
        assert_eq!(path.stored(&at("tricky")).await, before, "{trick}");
    }
}

#[tokio::test]
async fn an_update_without_a_version_is_seen_by_mutating_plugins_as_it_came() {
    let path = Path::new().await;
    path.json("POST", CONFIG_MAPS, &config_map("unversioned")).await;
    let mut object = config_map("unversioned");
    object["metadata"]["labels"] = json!({"trick": "tell-version"});
    assert_eq!(path.json("PUT", &at("unversioned"), &object).await.0, 200);
    assert_eq!(path.stored(&at("unversioned")).await["metadata"]["labels"]["version"], "none");
}

#[tokio::test]
async fn no_plugin_is_asked_about_a_url_that_is_not_served() {
    let path = Path::new().await;
    let object = config_map("nowhere");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nowhere"}});
    for (method, uri, body, code) in [
        ("POST", at("nowhere"), &object, 405),
        ("PUT", CONFIG_MAPS.to_owned(), &object, 405),
        ("POST", "/api/v1/configmaps".to_owned(), &object, 405),
        ("DELETE", "/api/v1/configmaps".to_owned(), &object, 405),
        ("PUT", "/api/v1/configmaps/nowhere".to_owned(), &object, 404),
        ("POST", "/api/v1/namespaces/default/namespaces".to_owned(), &namespace, 404),
        ("CONNECT", "/healthz".to_owned(), &object, 405),
        ("CONNECT", CONFIG_MAPS.to_owned(), &object, 405),
        ("post", CONFIG_MAPS.to_owned(), &object, 405),
        ("TRACE", CONFIG_MAPS.to_owned(), &object, 405),
    ] {
        assert_eq!(path.json(method, &uri, body).await.0, code, "{method} {uri}");
    }
    let patch = path.ask("PATCH", CONFIG_MAPS, "application/merge-patch+json", "{}").await;
    assert_eq!(patch.0, 405);
    assert!(seen("nowhere").is_empty());
}

#[tokio::test]
async fn an_exec_is_admitted_with_the_options_that_the_api_server_reads() {
    let path = Path::new().await;
    for (name, query, container, stdin) in [
        ("e1", "container=safe%zz&container=other&command=ls", json!("other"), Value::Null),
        ("e2", "container=safe;&container=other&command=ls", json!("other"), Value::Null),
        ("e3", "container=&container=safe&stdin=0&stdin=1&command=ls", Value::Null, Value::Null),
        ("e4", "container=one&container=two&stdin=&command=ls", json!("one"), json!(true)),
    ] {
        let uri = format!("/api/v1/namespaces/default/pods/{name}/exec?{query}");
        path.ask("GET", &uri, "", "").await;
        let reviews = seen(name);
        let options = &reviews.first().unwrap_or_else(|| panic!("{name} was not admitted"))["object"];
        assert_eq!((&options["container"], &options["stdin"]), (&container, &stdin), "{query}");
    }
    path.ask("GET", "/api/v1/namespaces/default/pods/e5/exec", "", "").await;
    let wanted = json!({"apiVersion": "v1", "kind": "PodExecOptions", "command": null});
    assert_eq!(seen("e5")[0]["object"], wanted, "an exec without a command, as Go writes it");
}

#[tokio::test]
async fn an_exec_goes_on_with_the_options_that_were_admitted() {
    let server = embedded::Server::new(Arc::default());
    let forwarded = Arc::new(Mutex::new(Vec::new()));
    let (log, behind) = (forwarded.clone(), server.clone());
    let transport = from_fn(move |request| {
        if request.uri().path().ends_with("/exec") {
            log.lock().unwrap().push(request.uri().to_string());
        }
        let behind = behind.clone();
        async move { crate::upstream::Transport::send(&behind, request).await }
    });
    let path = Path::over(server, transport).await;
    let exec = |name: &str, container: &str| {
        format!("/api/v1/namespaces/default/pods/{name}/exec?container={container}&command=ls&stdin=1&more=x")
    };
    path.ask("GET", &exec("swapped", "swap"), "", "").await;
    let wanted = "/api/v1/namespaces/default/pods/swapped/exec?container=other+%26+more&command=a+b&command=&command=c";
    let (wanted, found) = (query_of(wanted), query_of(&forwarded.lock().unwrap().pop().unwrap()));
    assert_eq!(found.iter().filter(|pair| pair.0 != "stdin").cloned().collect::<Vec<_>>(), wanted);
    assert!(found.contains(&("stdin".to_owned(), "true".to_owned())));
    assert_eq!(seen("swapped")[0]["object"]["command"], json!(["a b", "", "c"]));
    path.ask("GET", "/api/v1/namespaces/default/pods/listless/exec?container=listless&more=x", "", "").await;
    let found = query_of(&forwarded.lock().unwrap().pop().unwrap());
    assert_eq!(found, query_of("/?container=listless&stdin=true"));
    assert_eq!(path.ask("GET", &exec("odd", "odd"), "", "").await.0, 501);
    assert!(forwarded.lock().unwrap().is_empty());
}

/// Returns the parameters of a URL, sorted by name; the values of one name keep their order.
fn query_of(uri: &str) -> Vec<(String, String)> {
    let query = uri.split_once('?').unwrap().1;
    let mut pairs: Vec<_> = crate::request::query::query_pairs(query).collect();
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    pairs
}

#[tokio::test]
async fn an_owner_that_is_named_twice_is_admitted_once() {
    let path = Path::new().await;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"});
    let mut object = config_map("owned-twice");
    object["metadata"]["ownerReferences"] = json!([owner, owner]);
    for (method, uri) in [("POST", CONFIG_MAPS.to_owned()), ("PUT", at("owned-twice"))] {
        let headers = [("content-type", "application/json")];
        let response = path.ask_raw(method, &uri, &headers, object.to_string()).await;
        assert!(response.status().is_success(), "{method}");
        let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
        assert_eq!(warnings.len(), 1, "{method}: {warnings:?}");
        assert!(warnings[0].to_str().unwrap().ends_with("duplicate UID(s) observed: 1\""), "{warnings:?}");
        let reviews = seen("owned-twice");
        assert_eq!(reviews.last().unwrap()["object"]["metadata"]["ownerReferences"], json!([owner]));
        assert_eq!(path.stored(&at("owned-twice")).await["metadata"]["ownerReferences"], json!([owner]));
    }
}

#[tokio::test]
async fn a_proxied_path_is_admitted_with_its_last_slash() {
    let path = Path::new().await;
    for (name, rest, wanted) in [("s1", "", Value::Null), ("s2", "/", json!("/")), ("s3", "/a/", json!("/a/"))] {
        path.ask("GET", &format!("/api/v1/namespaces/default/services/{name}/proxy{rest}"), "", "").await;
        assert_eq!(seen(name)[0]["object"]["path"], wanted, "{name}");
    }
}

#[tokio::test]
async fn a_collections_items_are_deleted_by_the_clients_own_selector_too() {
    let server = embedded::Server::new(Arc::default());
    let forwarded = Arc::new(Mutex::new(Vec::new()));
    let (log, behind) = (forwarded.clone(), server.clone());
    let transport = from_fn(move |request| {
        if request.method() == Method::DELETE {
            log.lock().unwrap().push(request.uri().to_string());
        }
        let behind = behind.clone();
        async move { crate::upstream::Transport::send(&behind, request).await }
    });
    let path = Path::over(server, transport).await;
    path.json("POST", CONFIG_MAPS, &config_map("selected")).await;
    let uri = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%21%3Dother");
    assert_eq!(path.ask("DELETE", &uri, "application/json", "").await.0, 200);
    let wanted = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%21%3Dother%2Cmetadata.name%3Dselected");
    assert_eq!(*forwarded.lock().unwrap(), [wanted]);
    assert_eq!(path.stored(&at("selected")).await["reason"], "NotFound");
}

#[tokio::test]
async fn a_dry_run_deletes_nothing_however_it_is_asked_for() {
    let path = Path::new().await;
    path.json("POST", CONFIG_MAPS, &config_map("rehearsed")).await;
    let body = r#"{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}"#;
    for (uri, body, code) in [
        (format!("{CONFIG_MAPS}?dryRun=All"), "", 200),
        (format!("{CONFIG_MAPS}?dryRun=&dryRun=All"), "", 422),
        (format!("{}?dryRun=All&dryRun=All", at("rehearsed")), "", 200),
        (format!("{}?dryRun=", at("rehearsed")), "", 422),
        (CONFIG_MAPS.to_owned(), body, 200),
        (at("rehearsed"), body, 200),
    ] {
        assert_eq!(path.ask("DELETE", &uri, "application/json", body).await.0, code, "{uri} {body}");
        assert_eq!(path.stored(&at("rehearsed")).await["kind"], "ConfigMap", "{uri} {body}");
    }
}

#[tokio::test]
async fn a_write_whose_client_accepts_no_served_form_is_not_done() {
    let path = Path::new().await;
    let body = config_map("unacceptable").to_string();
    for accept in ["text/html", "application/*", "application/cbor, image/*"] {
        let response = path.ask_raw("POST", CONFIG_MAPS, &[("accept", accept)], body.clone()).await;
        assert_eq!(response.status(), 406, "{accept}");
    }
    assert!(seen("unacceptable").is_empty());
    for accept in
        ["*/*", "text/html, application/json;q=0.1", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"]
    {
        let response =
            path.ask_raw("POST", &format!("{CONFIG_MAPS}?dryRun=All"), &[("accept", accept)], body.clone()).await;
        assert_eq!(response.status(), 201, "{accept}");
    }
}

#[tokio::test]
async fn refuses_a_patch_of_no_known_type_and_a_failed_precondition_in_the_api_servers_words() {
    let path = Path::new().await;
    let (code, status) = path.ask("PATCH", &at("worded"), "text/plain", "{}").await;
    assert_eq!(
        (code, &status["message"], &status["details"]),
        (415, &json!("415: Unsupported Media Type"), &json!({}))
    );
    path.json("POST", CONFIG_MAPS, &config_map("worded")).await;
    let (code, status) = path.json("DELETE", &at("worded"), &json!({"preconditions": {"resourceVersion": "1"}})).await;
    let text = "Operation cannot be fulfilled on ConfigMap \"worded\": the ResourceVersion in the precondition (1)";
    assert_eq!((code, &status["details"]), (409, &json!({"name": "worded", "kind": "ConfigMap"})));
    assert!(status["message"].as_str().unwrap().starts_with(text), "{status}");
}

#[tokio::test]
async fn an_invalid_form_or_timeout_is_refused_before_any_plugin_runs() {
    let path = Path::new().await;
    path.json("POST", CONFIG_MAPS, &config_map("formless")).await;
    let heard = seen("formless").len();
    let body = config_map("formless").to_string();
    let merge = "application/merge-patch+json";
    for (what, code, method, query, content_type, accept) in [
        ("a form that there is not", 406, "PUT", "", "application/json", "application/json;as=Foo;g=meta.k8s.io;v=v1"),
        (
            "a Table in protobuf",
            406,
            "PUT",
            "",
            "application/json",
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
        ),
        ("a media type in capitals", 406, "PUT", "", "application/json", "Application/JSON"),
        ("a time without a unit", 400, "PUT", "timeout=5", "application/json", ""),
        ("a time that is none, first", 400, "PATCH", "timeout=x&timeout=5s", merge, ""),
        ("a time that is none", 400, "DELETE", "timeout=x", "", ""),
        ("one patch of several types", 415, "PATCH", "", "text/plain, application/merge-patch+json", ""),
        ("a dry run of some kind", 422, "PUT", "dryRun=Some", "application/json", ""),
        ("a manager on two lines", 422, "PUT", "fieldManager=a%0Ab", "application/json", ""),
        ("CBOR", 415, "PUT", "", "application/cbor", ""),
        ("a parameter said twice", 415, "PUT", "", "application/json;a=b;a=c", ""),
        ("a media type that is no text", 415, "PUT", "", "application/j\u{e9}son", ""),
    ] {
        let uri = format!("{}?{query}", at("formless"));
        let headers = [("content-type", content_type), ("accept", accept)];
        let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let body = if method == "DELETE" { String::new() } else { body.clone() };
        assert_eq!(path.ask_raw(method, &uri, &headers, body).await.status(), code, "{what}");
    }
    let packed = b"\x1f\x8b\x08\x00 no JSON".to_vec();
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    assert_eq!(path.ask_raw("PUT", &at("formless"), &headers, packed).await.status(), 400, "a packed body");
    assert_eq!(seen("formless").len(), heard);
}

#[tokio::test]
async fn a_missing_object_comes_before_a_broken_patch() {
    let path = Path::new().await;
    path.json("POST", CONFIG_MAPS, &config_map("there")).await;
    for content_type in ["application/merge-patch+json", "application/json-patch+json"] {
        for (name, code) in [("nowhere-at-all", 404), ("there", 400)] {
            assert_eq!(path.ask("PATCH", &at(name), content_type, "{}{}").await.0, code, "{content_type} {name}");
        }
    }
}

#[tokio::test]
async fn a_path_of_no_group_is_not_found_in_plain_text() {
    let path = Path::new().await;
    for (uri, content_type) in [
        ("/api/v1/namespaces/default/nothings", "application/json"),
        ("/api/v2/namespaces/default/configmaps", "application/json"),
        ("/apis/apps/v9/namespaces/default/deployments", "application/json"),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/one", "application/json"),
        ("/apis/v1/namespaces/default/configmaps", "text/plain; charset=utf-8"),
        ("/apis/nobody.example/v1/namespaces/default/nothings", "text/plain; charset=utf-8"),
    ] {
        let response = path.ask_raw("POST", uri, &[], "{}").await;
        assert_eq!(
            (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
            (404, content_type),
            "{uri}"
        );
    }
}

#[tokio::test]
async fn a_deletecollection_with_a_limit_deletes_only_the_selected_items() {
    let path = Path::new().await;
    let collection = "/api/v1/namespaces/kube-public/configmaps";
    for name in ["page1", "page2", "page3"] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"paged": "yes"});
        assert_eq!(path.json("POST", collection, &object).await.0, 201);
    }
    let uri = format!("{collection}?labelSelector=paged%3Dyes");
    assert_eq!(path.ask("DELETE", &format!("{uri}&limit=2"), "", "").await.0, 200);
    assert_eq!(path.stored(&uri).await["items"].as_array().unwrap().len(), 1);
    assert_eq!(path.ask("DELETE", &uri, "", "").await.0, 200);
    assert_eq!(path.stored(&uri).await["items"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn an_update_that_must_name_a_version_is_refused_without_one() {
    let path = Path::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "unversioned-lease"}});
    assert_eq!(path.json("POST", leases, &lease).await.0, 201);
    let uri = format!("{leases}/unversioned-lease");
    let (code, status) = path.json("PUT", &uri, &lease).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("metadata.resourceVersion")), "{status}");
    let stored = path.stored(&uri).await;
    assert_eq!(path.json("PUT", &uri, &stored).await.0, 200);
}

#[tokio::test]
async fn no_odd_path_carries_a_connect_past_admission() {
    let server = embedded::Server::new(Arc::default());
    let forwarded = Arc::new(Mutex::new(Vec::new()));
    let (log, behind) = (forwarded.clone(), server.clone());
    let transport = from_fn(move |request| {
        log.lock().unwrap().push(request.uri().to_string());
        let behind = behind.clone();
        async move { crate::upstream::Transport::send(&behind, request).await }
    });
    let path = Path::over(server, transport).await;
    for odd in [
        "pods/p/./exec",
        "/pods/p/exec",
        "pods//p/exec",
        "pods/p%2Fexec",
        "pods/p/x/../exec",
        "configmaps/../pods/p/attach",
    ] {
        let uri = format!("/api/v1/namespaces/default/{odd}?command=ls");
        assert_eq!(path.ask("GET", &uri, "", "").await.0, 404, "{odd}");
    }
    assert_eq!(*forwarded.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_collection_is_deleted_however_large_it_is() {
    let path = Path::new().await;
    let collection = "/api/v1/namespaces/kube-public/configmaps";
    for name in ["large1", "large2", "large3"] {
        let mut object = config_map(name);
        object["data"]["a"] = json!("x".repeat(600 << 10));
        assert_eq!(path.json("POST", collection, &object).await.0, 201);
    }
    let (code, answer) = path.ask("DELETE", collection, "", "").await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(path.stored(collection).await["items"], json!([]));
}

#[tokio::test]
async fn an_object_of_the_greatest_depth_can_be_changed_and_deleted() {
    let path = Path::new().await;
    let collection = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let revision = |name: &str, depth: usize| {
        // The object itself is one level.
        let mut data = json!({});
        for _ in 2..depth {
            data = json!({"a": data});
        }
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name}, "revision": 1, "data": data})
    };
    let deepest = crate::object::decode::MAX_DEPTH;
    assert_eq!(path.json("POST", collection, &revision("too-deep", deepest + 1)).await.0, 400);
    for name in ["deep1", "deep2"] {
        assert_eq!(path.json("POST", collection, &revision(name, deepest)).await.0, 201);
    }
    let uri = format!("{collection}/deep1");
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    assert_eq!(path.ask("PATCH", &uri, "application/merge-patch+json", label).await.0, 200);
    assert_eq!(path.ask("DELETE", &uri, "", "").await.0, 200);
    assert_eq!(path.ask("DELETE", collection, "", "").await.0, 200);
    assert_eq!(path.stored(collection).await["items"], json!([]));
}

#[tokio::test]
async fn a_conflict_of_a_uid_has_the_text_of_the_api_server_and_comes_before_admission() {
    let path = Path::new().await;
    path.json("POST", CONFIG_MAPS, &config_map("unique")).await;
    let uid = path.stored(&at("unique")).await["metadata"]["uid"].as_str().unwrap().to_owned();
    let metadata = json!({"name": "unique", "uid": "other", "labels": {"id": "unique"}});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let (code, status) = path.json("PUT", &at("unique"), &object).await;
    let failed = "Precondition failed: UID in precondition: other, UID in object meta: ";
    let message = format!(
        "Operation cannot be fulfilled on configmaps \"unique\": StorageError: invalid object, Code: 4, Key: \
         /registry/configmaps/default/unique, ResourceVersion: 0, AdditionalErrorMsg: {failed}{uid}"
    );
    assert_eq!((code, &status["message"]), (409, &json!(message)));
    // A PUT that would create the object.
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
    let uri = "/apis/coordination.k8s.io/v1/namespaces/default/leases/unique";
    let (code, status) = path.json("PUT", uri, &lease).await;
    assert!(code == 409 && status["message"].as_str().unwrap().ends_with(failed), "{status}");
    assert_eq!(path.stored(uri).await["reason"], "NotFound");
    assert_eq!(mutated("unique"), 0);
}

#[tokio::test]
async fn headers_without_number_are_refused() {
    let path = Path::new().await;
    let names: Vec<String> = (0..1_001).map(|number| format!("x-{number}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "a")).collect();
    let config_maps = "/api/v1/namespaces/default/configmaps";
    for (count, code) in [(900, 200), (1_001, 431)] {
        assert_eq!(path.ask_raw("GET", config_maps, &headers[..count], String::new()).await.status(), code);
    }
}

#[tokio::test]
async fn bodies_in_other_encodings_than_chunks_are_not_read() {
    let path = Path::new().await;
    let (chunks, gzip) = (("transfer-encoding", "Chunked"), ("transfer-encoding", "gzip, chunked"));
    for (name, headers, code) in [
        ("encoded1", &[gzip][..], 501),
        ("encoded2", &[chunks, chunks], 501),
        ("encoded3", &[("transfer-encoding", "identity, chunked")], 501),
        ("encoded4", &[chunks], 201),
    ] {
        let headers = [headers, &[("content-type", "application/json")]].concat();
        let answer = path.ask_raw("POST", CONFIG_MAPS, &headers, config_map(name).to_string()).await;
        assert_eq!(answer.status(), code, "{headers:?}");
        assert_eq!(path.stored(&at(name)).await["kind"] == "ConfigMap", code == 201, "{headers:?}");
    }
}

#[tokio::test]
async fn a_connection_header_takes_away_nothing_that_the_proxy_sets() {
    let server = embedded::Server::new(Arc::default());
    let (seen, behind) = (Arc::<Mutex<Vec<_>>>::default(), server.clone());
    let heads = seen.clone();
    let transport = from_fn(move |request: Request<Body>| {
        heads.lock().unwrap().push(request.headers().clone());
        let behind = behind.clone();
        async move { crate::upstream::Transport::send(&behind, request).await }
    });
    let path = Path::over(server, transport).await;
    let mut object = config_map("connected");
    object["metadata"]["labels"] = json!({"mark": "me"});
    seen.lock().unwrap().clear();
    let named = [
        ("connection", "content-type, content-length, x-forwarded-for, x-hidden, impersonate-user"),
        ("x-hidden", "1"),
        ("content-type", "application/yaml"),
    ];
    assert_eq!(path.ask_raw("POST", CONFIG_MAPS, &named, object.to_string()).await.status(), 201);
    assert_eq!(path.stored(&at("connected")).await["metadata"]["labels"]["admitted"], "yes");
    for headers in &*seen.lock().unwrap() {
        assert!(!headers.contains_key("connection") && !headers.contains_key("x-hidden"), "{headers:?}");
        assert!(headers.contains_key("content-type") && headers.contains_key("impersonate-user"), "{headers:?}");
    }
    assert!(!seen.lock().unwrap().is_empty());
}
