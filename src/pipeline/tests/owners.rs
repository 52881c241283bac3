//! The second write, which corrects the owners: the answer is that to the first one, in each form, whatever happens in between.

use super::*;
use crate::config::FieldOwnership;
use crate::object::{Object, protobuf};
use crate::response::yaml_entry;
use crate::upstream::UpstreamError;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The answer to a write of owners.
#[derive(Clone, Copy)]
enum Second {
    Refused(u16),
    Unreachable,
}

/// Returns a transport that answers every create with managedFields that include a field of admission, and every write of owners with
/// `second`; and the list of all requests but creates.
fn owning(server: &Arc<embedded::Server>, second: Second) -> (SharedTransport, Arc<Mutex<Vec<String>>>) {
    let (server, requests) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let sent = requests.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (server, requests) = (server.clone(), requests.clone());
        async move {
            let is_create = request.method() == Method::POST;
            if ![ROLES, PODS].iter().any(|stored| request.uri().path().starts_with(stored)) {
                return crate::upstream::Transport::send(&server, request).await;
            }
            if is_create {
                let mut object: Value =
                    serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
                object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
                    "apiVersion": object["apiVersion"], "fieldsV1": {"f:rules": {}, "f:everything": {}}}]);
                let answer = Response::builder().status(201).header("content-type", "application/json");
                return Ok(answer.body(full(object.to_string())).unwrap());
            }
            requests.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            match second {
                Second::Refused(code) => Ok(Response::builder().status(code).body(full("{}")).unwrap()),
                Second::Unreachable => Err(UpstreamError::Timeout),
            }
        }
    });
    (transport, sent)
}

#[tokio::test]
async fn a_write_is_answered_although_the_correction_of_its_owners_fails() {
    for (second, attempts) in [(Second::Refused(403), 2), (Second::Refused(500), 1), (Second::Unreachable, 1)] {
        let server = embedded::Server::new(Arc::default());
        let (transport, requests) = owning(&server, second);
        let path = Path::over(server, transport).await;
        let metadata = json!({"name": "odd?name#1", "labels": {"mark": "me"}});
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": []});
        let uri = format!("{ROLES}?fieldManager=m");
        let (code, created) = path.json("POST", &uri, &role).await;
        assert_eq!((code, &created["metadata"]["name"]), (201, &json!("odd?name#1")), "{created}");
        // The proxy writes as the caller, then as itself if the caller may not; never at the path of another object.
        let expected = vec![format!("PATCH {ROLES}/odd%3Fname%231?fieldManager=m"); attempts];
        assert_eq!(*requests.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn the_flag_selects_the_kinds_whose_owners_are_corrected() {
    for (ownership, expected) in [
        (FieldOwnership::Exact, &[ROLES][..]),
        (FieldOwnership::ExactAll, &[ROLES, PODS]),
        (FieldOwnership::Writer, &[]),
    ] {
        let server = embedded::Server::new(Arc::default());
        let (transport, requests) = owning(&server, Second::Refused(500));
        let mut path = Path::over(server, transport).await;
        path.pipeline.writes.field_ownership = ownership;
        let metadata = json!({"name": "a", "labels": {"mark": "me"}});
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": []});
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        for (at, object) in [(ROLES, role), (PODS, pod)] {
            assert_eq!(path.json("POST", &format!("{at}?fieldManager=m"), &object).await.0, 201);
        }
        let expected: Vec<String> = expected.iter().map(|at| format!("PATCH {at}/a?fieldManager=m")).collect();
        assert_eq!(*requests.lock().unwrap(), expected);
    }
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFLICTING: [&str; 2] = ["get", "patch"];

/// What happens between the two writes of a Secret, and what the caller may do besides.
#[derive(Clone, Copy)]
struct Between {
    is_filled: bool,
    allowed: &'static [&'static str],
}

/// Returns a transport to an API server that answers in YAML and protobuf too, as a controller fills each new Secret before the next write.
fn filling(server: &Arc<embedded::Server>, between: Between) -> SharedTransport {
    let server = server.clone();
    from_fn(move |mut request: Request<Body>| {
        let server = server.clone();
        async move {
            let verb = request.method().as_str().to_ascii_lowercase();
            let is_callers = request.headers().contains_key("impersonate-user");
            let is_of_secret = request.uri().path().starts_with(SECRETS) && verb != "post";
            if is_of_secret && between.is_filled {
                let token = json!({"data": {"token": "VE9LRU4="}}).to_string();
                let fill = Request::patch(request.uri().path()).header("content-type", "application/merge-patch+json");
                crate::upstream::Transport::send(&server, fill.body(full(token)).unwrap()).await?;
            }
            if is_of_secret && is_callers && !between.allowed.contains(&&*verb) {
                let refusal = serde_json::to_string(&Status::failure(403, "Forbidden", "no")).unwrap();
                return Ok(Response::builder().status(403).body(full(refusal)).unwrap());
            }
            let accepted = request.headers().get(ACCEPT).cloned();
            let form =
                accepted.filter(|form| form == "application/yaml" || form == "application/vnd.kubernetes.protobuf");
            if form.is_some() {
                request.headers_mut().remove(ACCEPT);
            }
            let answer = crate::upstream::Transport::send(&server, request).await?;
            let Some(form) = form else { return Ok(answer) };
            let (mut parts, body) = answer.into_parts();
            let object: Object = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            let body = match form == "application/yaml" {
                true => {
                    let mut text = String::new();
                    object.fields().iter().for_each(|(key, value)| yaml_entry(&mut text, 0, key, value));
                    text.into_bytes()
                }
                false => protobuf::encode(&object, "", "v1", "Secret", 0).unwrap(),
            };
            parts.headers = http::HeaderMap::from_iter([(CONTENT_TYPE, form)]);
            Ok(Response::from_parts(parts, full(body)))
        }
    })
}

/// Creates a Secret that admission labels. Returns the bytes of the answer, the metadata in it, and the stored object.
async fn created(accept: &'static str, between: Between) -> (Vec<u8>, Value, Value) {
    let server = embedded::Server::new(Arc::default());
    let path = Path::over(server.clone(), filling(&server, between)).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": {"mark": "me"}},
        "data": {"a": "MQ=="}});
    let headers = [("content-type", "application/json"), ("accept", accept)];
    let answer = path.ask_raw("POST", &format!("{SECRETS}?fieldManager=m"), &headers, secret.to_string()).await;
    let (parts, body) = answer.into_parts();
    assert_eq!(parts.status, 201, "{accept}");
    let body = body.collect().await.unwrap().to_bytes();
    let form = accept.split(';').next().unwrap();
    assert_eq!(parts.headers[CONTENT_TYPE], HeaderValue::from_static(form));
    let (status, headers, body_of_answer) = (parts.status, parts.headers, body.clone());
    let answer = super::super::gateway::Answer { status, headers, body: body_of_answer, room: None };
    let metadata = answer_object::metadata(&answer).unwrap().into_value();
    (body.into(), metadata["metadata"].clone(), path.stored(&format!("{SECRETS}/s")).await)
}

const FORMS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
];

fn owns_label(metadata: &Value) -> bool {
    metadata["managedFields"].to_string().contains("f:admitted")
}

#[tokio::test]
async fn the_answer_to_a_write_has_nothing_that_others_have_written_since() {
    for accept in FORMS {
        for allowed in [&[][..], &["get"], &["patch"], &CONFLICTING] {
            let (body, metadata, stored) = created(accept, Between { is_filled: true, allowed }).await;
            assert_eq!(stored["data"], json!({"a": "MQ==", "token": "VE9LRU4="}));
            for part in ["token", "TOKEN", "VE9LRU4="] {
                let is_there = body.windows(part.len()).any(|window| window == part.as_bytes());
                assert!(!is_there, "{accept} {allowed:?}: {}", String::from_utf8_lossy(&body));
            }
            // The client's next write with this version is a conflict.
            assert_ne!(metadata["resourceVersion"], stored["metadata"]["resourceVersion"], "{accept} {allowed:?}");
            // The owners of an object that the caller may not read stay.
            let is_corrected = allowed.contains(&"get");
            assert_eq!(owns_label(&stored["metadata"]), !is_corrected, "{accept} {allowed:?}");
            assert_eq!(owns_label(&metadata), !is_corrected, "{accept} {allowed:?}");
        }
    }
}

#[tokio::test]
async fn the_answer_to_a_write_has_the_owners_and_the_version_of_the_second_write() {
    for accept in FORMS {
        for allowed in [&[][..], &CONFLICTING] {
            let (_, metadata, stored) = created(accept, Between { is_filled: false, allowed }).await;
            assert!(!owns_label(&metadata), "{accept}: {metadata}");
            assert_eq!(metadata, stored["metadata"], "{accept} {allowed:?}");
        }
    }
}

/// The managers in the object, each with its operation and its subresource.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|entry| ["manager", "operation", "subresource"].map(|field| text(entry, field)).join(" "))
        .collect()
}

#[tokio::test]
async fn owners_that_a_plugin_sets_are_stored_as_it_leaves_them() {
    let path = Path::new().await;
    for (trick, expected, applied) in
        [("own-nothing", &[][..], &[][..]), ("own-other", &["other Update "], &["other Apply "])]
    {
        for (way, method, content_type) in [
            ("post", "POST", "application/json"),
            ("put", "PUT", "application/json"),
            ("merge", "PATCH", "application/merge-patch+json"),
            ("apply", "PATCH", "application/apply-patch+yaml"),
            ("apply-again", "PATCH", "application/apply-patch+yaml"),
        ] {
            let name = format!("{trick}-{way}");
            let mut object = config_map(&name);
            let by = |manager: &str| format!("{}?fieldManager={manager}&force=true", at(&name));
            match way {
                "put" | "merge" => {
                    let created = path.json("POST", &format!("{CONFIG_MAPS}?fieldManager=m"), &object).await;
                    assert_eq!(created.0, 201, "{}", created.1);
                }
                "apply-again" => {
                    let created = path.ask("PATCH", &by("m"), content_type, object.to_string()).await;
                    assert_eq!(created.0, 201, "{}", created.1);
                }
                _ => {}
            }
            object["metadata"]["labels"] = json!({"trick": trick, "look": "stored"});
            let uri = if way == "post" { format!("{CONFIG_MAPS}?fieldManager=m") } else { by("m") };
            let uri = if content_type.contains("apply") { uri } else { uri.replace("&force=true", "") };
            let dry = format!("{uri}&dryRun=All");
            let expected = if way.starts_with("apply") { applied } else { expected };
            for uri in [&dry, &uri] {
                let (code, answer) = path.ask(method, uri, content_type, object.to_string()).await;
                assert!(code < 300, "{name}: {answer}");
                assert_eq!(managers(&answer), expected, "{name}: {answer}");
                assert_eq!(managers(&seen(&name).pop().unwrap()["object"]), expected, "{name}");
            }
            assert_eq!(managers(&path.stored(&at(&name)).await), expected, "{name}");
        }
    }
}

#[tokio::test]
async fn the_writer_of_a_status_owns_no_change_of_admission() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let path = Path::new().await;
    let spec = json!({"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    for (name, method) in [("status-put", "PUT"), ("status-patch", "PATCH")] {
        let metadata = json!({"name": name, "labels": {"trick": "annotate", "look": "stored"}});
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
        // Without admission.
        let create = Request::post(format!("{DEPLOYMENTS}?fieldManager=first")).body(full(object.to_string())).unwrap();
        assert_eq!(crate::upstream::Transport::send(&path.server, create).await.unwrap().status(), 201);
        object["status"] = json!({"observedGeneration": 7});
        let uri = format!("{DEPLOYMENTS}/{name}/status?fieldManager=m");
        let content_type = if method == "PUT" { "application/json" } else { "application/merge-patch+json" };
        for uri in [format!("{uri}&dryRun=All"), uri] {
            let (code, answer) = path.ask(method, &uri, content_type, object.to_string()).await;
            assert_eq!((code, &answer["metadata"]["annotations"]["admitted"]), (200, &json!("yes")), "{answer}");
            let shown = seen(name).pop().unwrap()["object"].clone();
            let mut all = vec![answer, shown];
            if !uri.contains("dryRun") {
                all.push(path.stored(&format!("{DEPLOYMENTS}/{name}")).await);
            }
            for object in all {
                assert_eq!(managers(&object), ["first Update ", "m Update status"], "{method}");
                let entry = &object["metadata"]["managedFields"][1]["fieldsV1"];
                assert_eq!(*entry, json!({"f:status": {"f:observedGeneration": {}}}), "{method}");
            }
        }
    }
}
