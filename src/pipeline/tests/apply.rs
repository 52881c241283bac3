//! Apply: the stored object is the admitted one, or nothing is stored.

use super::*;
use http::header::CONTENT_TYPE;

const APPLY: &str = "application/apply-patch+yaml";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A transport to a server that treats an apply configuration as a merge patch; `tamper` may change the configurations that
/// admission extended. Counts the configurations that are not dry runs.
fn applying(server: &Arc<embedded::Server>, tamper: fn(&mut Value)) -> (SharedTransport, Arc<AtomicUsize>) {
    let (server, forwarded) = (server.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = forwarded.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (server, counted) = (server.clone(), counted.clone());
        async move {
            let (mut parts, body) = request.into_parts();
            let mut bytes = body.collect().await.unwrap().to_bytes();
            if parts.method == Method::PATCH && parts.headers[CONTENT_TYPE] == APPLY {
                parts.headers.insert(CONTENT_TYPE, "application/merge-patch+json".parse().unwrap());
                let query = parts.uri.query().unwrap_or_default().to_owned();
                counted.fetch_add(usize::from(!query.contains("dryRun=All")), Ordering::SeqCst);
                let mut configuration: Value = serde_json::from_slice(&bytes).unwrap();
                if query.contains("force=true") {
                    tamper(&mut configuration);
                }
                bytes = configuration.to_string().into();
                let dry_run = if query.contains("dryRun=All") { "?dryRun=All" } else { "" };
                parts.uri = format!("{}{dry_run}", parts.uri.path()).parse().unwrap();
            }
            crate::upstream::Transport::send(&server, Request::from_parts(parts, full(bytes))).await
        }
    });
    (transport, forwarded)
}

async fn path(tamper: fn(&mut Value)) -> (Path, Arc<AtomicUsize>) {
    let server = embedded::Server::new(Arc::default());
    let (transport, forwarded) = applying(&server, tamper);
    (Path::over(server, transport).await, forwarded)
}

fn marked(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"mark": "me"}}, "data": {"b": "2"}})
}

#[tokio::test]
async fn fields_that_admission_adds_are_part_of_the_apply() {
    let (path, forwarded) = path(|_| ()).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("applied")).await.0, 201);
    let uri = format!("{}?fieldManager=m", at("applied"));
    let (code, applied) = path.ask("PATCH", &uri, APPLY, marked("applied").to_string()).await;
    assert_eq!((code, forwarded.load(Ordering::SeqCst)), (200, 1), "{applied}");
    let stored = path.stored(&at("applied")).await;
    assert_eq!(stored["metadata"]["labels"], json!({"mark": "me", "admitted": "yes"}));
    assert_eq!(stored["data"], json!({"a": "1", "b": "2"}));
}

#[tokio::test]
async fn an_admitted_object_that_no_apply_makes_is_written() {
    let (path, forwarded) = path(|configuration| configuration["metadata"]["labels"] = json!({"mark": "me"})).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("deviating")).await.0, 201);
    let uri = format!("{}?fieldManager=m&force=true", at("deviating"));
    let (code, written) = path.ask("PATCH", &uri, APPLY, marked("deviating").to_string()).await;
    assert_eq!((code, forwarded.load(Ordering::SeqCst)), (200, 0), "{written}");
    let stored = path.stored(&at("deviating")).await;
    assert_eq!(stored["metadata"]["labels"], json!({"mark": "me", "admitted": "yes"}));
    assert_eq!(stored["data"], json!({"a": "1", "b": "2"}));
}

#[tokio::test]
async fn an_apply_with_a_version_that_admission_did_not_see_is_never_forwarded() {
    let (path, forwarded) = path(|_| ()).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("guessed")).await.0, 201);
    let mut configuration = config_map("guessed");
    configuration["metadata"]["resourceVersion"] = json!("99999");
    let uri = format!("{}?fieldManager=m", at("guessed"));
    let (code, status) = path.ask("PATCH", &uri, APPLY, configuration.to_string()).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert_eq!(forwarded.load(Ordering::SeqCst), 0);
    // The mutating phase sees the version that the client names, as in kube-apiserver.
    configuration["metadata"]["labels"] = json!({"mark": "me", "id": "guessed"});
    let (code, _) = path.ask("PATCH", &uri, APPLY, configuration.to_string()).await;
    assert_eq!((code, mutated("guessed"), forwarded.load(Ordering::SeqCst)), (409, 1, 0));
}

/// The annotation that kube-apiserver writes for a configuration.
fn last_applied_configuration(configuration: &Value) -> String {
    configuration.to_string().replace('<', "\\u003c").replace('>', "\\u003e") + "\n"
}

/// The managers of the only item of the data, with their operations.
fn owners_of_data(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let of_data = entries.filter(|entry| entry["fieldsV1"]["f:data"].get("f:a").is_some());
    of_data.map(|entry| (entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn the_annotation_of_client_side_apply_has_no_version_of_the_proxy() {
    let path = Path::new().await;
    for (name, label) in [("renewed", "a"), ("renewed-and-changed", "mark")] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({label: "me"});
        let mut annotated = object.clone();
        let annotation = last_applied_configuration(&object);
        annotated["metadata"]["annotations"] = json!({LAST_APPLIED: annotation});
        let by_client = format!("{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply");
        assert_eq!(path.json("POST", &by_client, &annotated).await.0, 201);
        object["data"] = json!({"a": "<2>"});
        let uri = format!("{}?fieldManager=kubectl", at(name));
        for uri in [format!("{uri}&dryRun=All"), uri.clone(), uri] {
            let (code, applied) = path.ask("PATCH", &uri, APPLY, object.to_string()).await;
            assert_eq!((code, &applied["data"]), (200, &json!({"a": "<2>"})), "{applied}");
            let annotation = &applied["metadata"]["annotations"][LAST_APPLIED];
            assert_eq!(annotation, &last_applied_configuration(&object), "{uri}");
            assert_eq!(owners_of_data(&applied), [("kubectl", "Apply")], "{applied}");
        }
        let stored = path.stored(&at(name)).await;
        assert_eq!(stored["metadata"]["annotations"][LAST_APPLIED], last_applied_configuration(&object));
        assert_eq!(owners_of_data(&stored), [("kubectl", "Apply")], "{stored}");
        let shown = seen(name).pop().unwrap();
        assert_eq!(shown["object"]["metadata"]["annotations"][LAST_APPLIED], last_applied_configuration(&object));
    }
}

#[tokio::test]
async fn an_annotation_in_the_configuration_of_a_new_object_is_renewed_without_a_version() {
    let path = Path::new().await;
    let mut object = config_map("new-and-renewed");
    let expected = last_applied_configuration(&{
        let mut object = object.clone();
        object["metadata"]["annotations"] = json!({});
        object
    });
    object["metadata"]["annotations"] = json!({LAST_APPLIED: "{}"});
    let uri = format!("{}?fieldManager=kubectl", at("new-and-renewed"));
    let (code, applied) = path.ask("PATCH", &uri, APPLY, object.to_string()).await;
    assert_eq!(code, 201, "{applied}");
    assert_eq!(applied["metadata"]["annotations"][LAST_APPLIED], expected);
    assert_eq!(path.stored(&at("new-and-renewed")).await["metadata"]["annotations"][LAST_APPLIED], expected);
}
