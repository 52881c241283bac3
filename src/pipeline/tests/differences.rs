//! The differences from kube-apiserver that `docs/src/differences.md` names, as far as no other test shows them.

use super::*;
use crate::config::Limits;
use crate::object::cbor;
use http::header::{CONTENT_TYPE, WARNING};

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An authorizer that allows every verb except this one.
fn without(verb: &'static str) -> Arc<Authorizer> {
    let reviews = from_fn(move |request: Request<Body>| async move {
        let body = request.into_body().collect().await.map_err(|_| crate::upstream::UpstreamError::Timeout)?.to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        review["status"] = json!({"allowed": review["spec"]["resourceAttributes"]["verb"] != verb});
        Ok(Response::builder().status(201).body(full(review.to_string())).unwrap())
    });
    Arc::new(Authorizer::new(authz::Config::new(
        Mode::Webhook,
        Reviewer::Subject(kube_client(reviews)),
        &Limits::default(),
    )))
}

#[tokio::test]
async fn a_create_by_put_or_apply_is_authorized_before_plugins_see_it() {
    let mut path = Path::new().await;
    path.pipeline.authorizer = without("create");
    let labelled = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": {"id": "before-rights"}}});
    let (code, status) = path.json("PUT", &format!("{ENDPOINTS}/e"), &labelled("Endpoints", "e")).await;
    assert_eq!((code, mutated("before-rights")), (403, 0), "{status}");
    let apply = format!("{}?fieldManager=m", at("unrighted"));
    let configuration = labelled("ConfigMap", "unrighted").to_string();
    let (code, status) = path.ask("PATCH", &apply, "application/apply-patch+yaml", configuration).await;
    assert_eq!((code, mutated("before-rights")), (403, 0), "{status}");
}

#[tokio::test]
async fn no_plugin_changes_the_version_of_an_object_or_renames_a_scale() {
    let path = Path::new().await;
    let mut object = config_map("retyped");
    object["metadata"]["labels"] = json!({"trick": "retype"});
    let (code, status) = path.json("POST", CONFIG_MAPS, &object).await;
    assert_eq!((code, &status["message"]), (400, &json!("admission changed the kind of the object")));
    assert_eq!(path.stored(&at("retyped")).await["reason"], "NotFound");

    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scaled"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(path.json("POST", DEPLOYMENTS, &deployment).await.0, 201);
    let at = format!("{DEPLOYMENTS}/scaled");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2},
        "metadata": {"name": "scaled", "namespace": "default", "labels": {"trick": "rename"}}});
    let (code, status) = path.json("PUT", &format!("{at}/scale"), &scale).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")), "{status}");
    assert_eq!(path.stored(&at).await["spec"]["replicas"], 1);
}

#[tokio::test]
async fn a_deletion_timestamp_of_a_plugin_is_not_stored() {
    let path = Path::new().await;
    let mut object = config_map("expired");
    object["metadata"]["labels"] = json!({"trick": "expire"});
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    let stored = path.stored(&at("expired")).await;
    assert_eq!((&stored["data"]["a"], &stored["metadata"]["deletionTimestamp"]), (&json!("1"), &Value::Null));
}

#[tokio::test]
async fn a_definition_whose_versions_a_plugin_makes_different_is_stored() {
    let path = Path::new().await;
    let version = |name: &str| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "description": "of both versions"}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": schema})
    };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "differents.lab.dev", "labels": {"trick": "differ"}},
        "spec": {"group": "lab.dev", "scope": "Namespaced", "versions": [version("v1"), version("v2")],
            "names": {"plural": "differents", "kind": "Different"}}});
    let (code, answer) = path.json("POST", DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{answer}");
    let stored = path.stored(&format!("{DEFINITIONS}/differents.lab.dev")).await;
    let description = |at: usize| &stored["spec"]["versions"][at]["schema"]["openAPIV3Schema"]["description"];
    assert_eq!([description(0), description(1)], ["of both versions", "of the second version"]);
}

/// Returns a transport that adds a warning to every answer to a request with a token, as kube-apiserver warns of some tokens.
fn warning(server: &Arc<embedded::Server>) -> SharedTransport {
    let server = server.clone();
    from_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let has_token = request.headers().contains_key("authorization")
                || request
                    .extensions()
                    .get()
                    .is_some_and(|own: &crate::upstream::ClientCredentials| own.authorization.is_some());
            let mut answer = crate::upstream::Transport::send(&server, request).await?;
            if has_token {
                answer.headers_mut().insert(WARNING, HeaderValue::from_static("299 - \"an old token\""));
            }
            Ok(answer)
        }
    })
}

#[tokio::test]
async fn a_warning_of_the_api_server_about_a_token_needs_passthrough() {
    let server = embedded::Server::new(Arc::default());
    let transport = warning(&server);
    let mut path = Path::over(server, transport.clone()).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("warned")).await.0, 201);
    let reviews = from_fn(|request: Request<Body>| async move {
        let body = request.into_body().collect().await.map_err(|_| crate::upstream::UpstreamError::Timeout)?.to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        review["status"] = json!({"authenticated": true, "user": {"username": "alice"}});
        Ok(Response::builder().status(201).body(full(review.to_string())).unwrap())
    });
    let reviewed = authn::Config { token_review: Some(kube_client(reviews)), ..authn::Config::default() };
    let reviews = from_fn(|_| async move {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
            "status": {"userInfo": {"username": "alice"}}});
        Ok(Response::builder()
            .status(201)
            .header(CONTENT_TYPE, "application/json")
            .body(full(review.to_string()))
            .unwrap())
    });
    let passed = authn::Config { passthrough: Some(reviews), ..authn::Config::default() };
    for (config, identity, warns) in
        [(reviewed, CallerIdentity::Impersonate, false), (passed, CallerIdentity::Passthrough, true)]
    {
        path.pipeline.authenticator = Arc::new(Authenticator::new(config));
        path.pipeline.gateway.forwarder = Forwarder::new(transport.clone(), identity, Drain::new());
        let answer = path.ask_raw("GET", &at("warned"), &[("authorization", "Bearer t")], "").await;
        assert_eq!((answer.status().as_u16(), answer.headers().contains_key(WARNING)), (200, warns));
    }
}

#[tokio::test]
async fn errors_of_cbor_bodies_have_the_texts_of_json_in_front_of_a_later_release() {
    for (minor, decoder) in [("36", "cbor"), ("37", "json")] {
        let (mut path, _) = later::before(minor).await;
        path.pipeline.media_types.has_cbor = true;
        let mut object = config_map("undecodable");
        object["data"]["a"] = json!(2);
        let (code, status) = path.ask("POST", CONFIG_MAPS, "application/cbor", cbor::encode(&object)).await;
        let message = status["message"].as_str().unwrap();
        assert_eq!((code, message.contains(&format!("{decoder}: cannot unmarshal"))), (400, true), "{message}");
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_read_cannot_be_deleted() {
    let server = embedded::Server::new(Arc::default());
    let behind = server.clone();
    let unreadable = from_fn(move |request: Request<Body>| {
        let behind = behind.clone();
        async move {
            if request.method() == Method::GET && request.uri().path() == at("broken") {
                let status = Status::failure(500, "StorageReadError", "the object cannot be read from storage");
                let form = crate::response::ResponseForm::of(&Default::default(), request.uri(), Default::default());
                return Ok(crate::response::status(&status, form));
            }
            crate::upstream::Transport::send(&behind, request).await
        }
    });
    let path = Path::over(server.clone(), unreadable).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("broken")).await.0, 201);
    let uri = format!("{}?ignoreStoreReadErrorWithClusterBreakingPotential=true", at("broken"));
    let (code, status) = path.ask("DELETE", &uri, "", "").await;
    assert_eq!((code, &status["reason"]), (500, &json!("StorageReadError")), "{status}");
    let whole = Path::over(server.clone(), Arc::new(server)).await;
    assert_eq!(whole.stored(&at("broken")).await["metadata"]["name"], "broken");
}
