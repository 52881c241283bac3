use super::*;
use crate::admission::metrics::Metrics as AdmissionMetrics;
use crate::admission::{
    Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, RefusalLog, Resources, Spec,
};
use crate::authn::{self, StaticTokens, fake::Upstream};
use crate::authz::{self, AccessReviews};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, FixedState};
use crate::config::Limits;
use crate::metrics::Registry;
use crate::object::patch::admission;
use crate::plugins;
use crate::request::body::BodyRoom;
use crate::server::testing::silent;
use crate::sharer::Sharing;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// The only tenant, with these plugins.
struct Alone(Arc<Chain>);

#[async_trait]
impl ReviewingTenants for Alone {
    async fn plugins(&self, _: &Attributes) -> Result<Option<Arc<Chain>>, Status> {
        Ok(Some(self.0.clone()))
    }
}

/// The front end with one accepted caller, and the registry of its metrics.
struct Side {
    front_end: FrontEnd,
    registry: Registry,
}

/// An upstream that allows `alice` everything, and whose client is `proxy`.
fn upstream() -> Arc<Upstream> {
    Upstream::with_status(
        |review| json!({"allowed": review["spec"]["user"] == "alice", "userInfo": {"username": "proxy"}}),
    )
}

fn side(specs: &[&'static Spec]) -> Side {
    let (registry, limits) = (Registry::new(), Limits { review_bytes: 100_000, ..Limits::default() });
    let metrics = Arc::new(AdmissionMetrics::new(&registry).unwrap());
    let cluster = Cluster::fixed(FixedState::default());
    let chain = Chain::build(specs, metrics.clone(), |_| PluginEnvironment {
        limits: &limits,
        ..PluginEnvironment::with_defaults(cluster.clone(), Discovery::unconnected(), metrics.clone())
    });
    let tokens = StaticTokens::parse(b"secret,kube-apiserver,1\nother,somebody,2").unwrap();
    let config = authn::Config { token_file: Some(Arc::new(ArcSwap::from_pointee(tokens))), ..Default::default() };
    let reviewer = authz::Reviewer::Subject(upstream().client());
    let front_end = FrontEnd {
        authenticator: Authenticator::new(authn::Schemes::new(config), &Sharing::ByUser, None),
        allowed_names: vec!["kube-apiserver".into()],
        tenants: Arc::new(Alone(Arc::new(chain.unwrap()))),
        authorizer: Arc::new(Authorizer::new(
            AccessReviews::new(authz::Config::new(authz::Mode::Webhook, reviewer, &Limits::default())),
            Sharing::ByUser,
        )),
        processor: Processor::new(1),
        own_user: Arc::default(),
        refusals: RefusalLog::default(),
        arriving: Arrivals::new(2, 1),
        seats: Seats::new(2, 1),
        bodies: BodyRoom::new(&limits),
        metrics: FrontEndMetrics::register(&registry).unwrap(),
        limits: Arc::new(limits),
    };
    Side { front_end, registry }
}

fn request(path: &str, body: impl Into<Bytes>) -> Request<Body> {
    let connection = Connection {
        remote: ([127, 0, 0, 1], 1).into(),
        certificates: Vec::new(),
        server_name: None,
        kept: Default::default(),
        is_http2: false,
        state: Default::default(),
    };
    let request = Request::post(path).header(CONTENT_TYPE, "application/json").header("authorization", "Bearer secret");
    request.extension(Arc::new(connection)).body(full(body)).unwrap()
}

impl Side {
    async fn send(&self, request: Request<Body>) -> (u16, String) {
        let (parts, body) = self.front_end.handle(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), String::from_utf8_lossy(&body).into_owned())
    }

    /// The response to a review.
    async fn ask(&self, path: &str, review: &Value) -> Value {
        let (code, body) = self.send(request(path, review.to_string())).await;
        assert_eq!(code, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&answer["apiVersion"], &answer["kind"]), (&review["apiVersion"], &json!("AdmissionReview")));
        assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
        answer["response"].clone()
    }
}

/// The review of a create by `alice`.
fn review(group: &str, resource: &str, kind: &str, object: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u-1", "operation": "CREATE", "namespace": "n", "name": object["metadata"]["name"],
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "userInfo": {"username": "alice"}, "object": object, "oldObject": null,
    }})
}

fn pod() -> Value {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"},
        "spec": {"containers": [{"name": "a", "image": "i", "imagePullPolicy": "Never"}]}});
    review("", "pods", "Pod", object)
}

#[tokio::test]
async fn the_patch_makes_the_admitted_object() {
    let side = side(&[&plugins::always_pull_images::SPEC, &plugins::default_toleration_seconds::SPEC]);
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let mut review = pod();
        review["apiVersion"] = json!(version);
        let response = side.ask("/mutate?timeout=5s", &review).await;
        assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
        let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
        let before = crate::object::Object::from_value(review["request"]["object"].clone()).unwrap();
        let after = admission::Patch::decode(&patch).unwrap().apply(&before).unwrap();
        assert_eq!(after["spec"]["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(after["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
        // The webhook is called again with the result.
        review["request"]["object"] = after;
        assert_eq!(side.ask("/mutate", &review).await, json!({"uid": "u-1", "allowed": true}));
        assert_eq!(side.ask("/validate", &review).await, json!({"uid": "u-1", "allowed": true}));
    }
}

#[tokio::test]
async fn a_refusal_has_the_status_of_the_plugin() {
    let side = side(&[&plugins::deny_service_external_ips::SPEC]);
    let object = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"externalIPs": ["1.2.3.4"]}});
    let response = side.ask("/validate", &review("", "services", "Service", object)).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    let message = "services \"a\" is forbidden: Use of external IPs is denied by admission control";
    assert_eq!(response["status"]["message"], message);
    let text = prometheus::TextEncoder::new().encode_to_string(&side.registry.gather()).unwrap();
    let counted = r#"kube_admission_proxy_reviews_total{allowed="false",code="200",path="/validate"} 1"#;
    assert!(text.contains(counted), "{text}");
}

#[tokio::test]
async fn a_plugin_asks_about_the_user_of_the_review() {
    let side = side(&[&plugins::certificate_approval::SPEC]);
    let object = json!({"metadata": {"name": "a"}, "spec": {"signerName": "example.com/a"}});
    let mut review = review("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest", object);
    review["request"]["oldObject"] = review["request"]["object"].clone();
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["subResource"] = json!("approval");
    assert_eq!(side.ask("/validate", &review).await["allowed"], true);
    review["request"]["userInfo"]["username"] = json!("bob");
    assert_eq!(side.ask("/validate", &review).await["allowed"], false);
}

/// Shows its request, waits for the label `wait`, and refuses nothing.
struct Witness;

static WITNESS: Spec = Spec {
    name: "Witness",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "",
    build: |_| Ok(Box::new(Witness)),
};

#[async_trait]
impl Plugin for Witness {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        if attributes.context.user.username == "sleeper" {
            std::future::pending::<()>().await;
        }
        let Attributes { operation, kind, resource, subresource, namespace, name, dry_run, context, .. } = attributes;
        let options = attributes.options.as_ref().map(|options| options.kind().to_owned()).unwrap_or_default();
        let old = attributes.old_object.as_ref().map(|old| old.name().to_owned()).unwrap_or_default();
        context.warnings.add(format!(
            "{} {} {} {subresource} {namespace} {name} {dry_run} {} {:?} {options} {old}",
            operation.as_str(),
            kind.kind,
            resource.resource,
            context.user.username,
            context.user.extra,
        ));
        attributes.annotations.add("witness.io/key", "value");
        Ok(())
    }
}

#[tokio::test]
async fn a_plugin_sees_the_request_of_the_review() {
    let mut review = review("", "pods", "Eviction", json!({"metadata": {"name": "a"}}));
    let request = &mut review["request"];
    request["subResource"] = json!("eviction");
    request["dryRun"] = json!(true);
    request["operation"] = json!("UPDATE");
    request["oldObject"] = json!({"metadata": {"name": "before"}});
    request["options"] = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    request["userInfo"]["extra"] = json!({"k": ["v"]});
    let response = side(&[&WITNESS]).ask("/validate", &review).await;
    let seen = r#"UPDATE Eviction pods eviction n a true alice {"k": ["v"]} UpdateOptions before"#;
    assert_eq!(response["warnings"], json!([seen]));
    assert_eq!(response["auditAnnotations"], json!({"witness.io_key": "value"}));
}

#[tokio::test]
async fn requests_of_the_proxy_and_repairs_of_the_webhook_are_never_refused() {
    let side = side(&[&plugins::always_deny::SPEC]);
    let own = upstream();
    side.front_end.own_user.check().unwrap_err();
    side.front_end.own_user.ask(&own.client(), std::time::Duration::from_secs(1)).await.unwrap();
    side.front_end.own_user.check().unwrap();
    assert_eq!(side.ask("/validate", &pod()).await["allowed"], false);
    let mut of_proxy = pod();
    of_proxy["request"]["userInfo"]["username"] = json!("proxy");
    let hooks = "validatingwebhookconfigurations";
    let of = |group, resource, kind| review(group, resource, kind, json!({"metadata": {"name": "a"}}));
    for review in [
        of_proxy,
        of("admissionregistration.k8s.io", hooks, "ValidatingWebhookConfiguration"),
        of("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
        of("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ] {
        for path in ["/mutate", "/validate"] {
            assert_eq!(side.ask(path, &review).await, json!({"uid": "u-1", "allowed": true}), "{review}");
        }
    }
}

#[tokio::test]
async fn only_an_api_server_is_answered() {
    let side = side(&[&WITNESS]);
    for (authorization, code, text) in [
        ("Bearer secret", 200, ""),
        ("Bearer wrong", 401, "Unauthorized\n"),
        ("", 401, "Unauthorized\n"),
        ("Bearer other", 403, "\"somebody\" is none of --webhook-allowed-names\n"),
    ] {
        let mut request = request("/validate", pod().to_string());
        request.headers_mut().insert("authorization", HeaderValue::from_static(authorization));
        let (got, body) = side.send(request).await;
        assert_eq!(got, code, "{authorization}: {body}");
        assert!(text.is_empty() || body == text, "{authorization}: {body}");
    }
}

#[tokio::test]
async fn callers_may_be_anonymous_if_the_operator_wants_it() {
    let mut side = side(&[&WITNESS]);
    side.front_end.authenticator = Authenticator::new(
        authn::Schemes::new(authn::Config { anonymous: true, ..Default::default() }),
        &Sharing::ByUser,
        None,
    );
    let mut request = request("/validate", pod().to_string());
    request.headers_mut().remove("authorization");
    assert_eq!(side.send(request).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_no_review_gets_the_reason() {
    let side = side(&[&WITNESS]);
    let body = || pod().to_string();
    let mut read = request("/validate", body());
    *read.method_mut() = Method::GET;
    let mut of_another_type = request("/validate", body());
    of_another_type.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    let mut late = pod();
    late["request"]["userInfo"]["username"] = json!("sleeper");
    for (request, code, text) in [
        (request("/", body()), 404, "404 page not found"),
        (request("/mutate/", body()), 404, "404 page not found"),
        (read, 405, "a review is sent with POST"),
        (of_another_type, 415, "the Content-Type of a review must be application/json"),
        (request("/validate?timeout=x", body()), 400, "invalid timeout specified in the request URL"),
        (request("/validate", "{}"), 400, "the body is \"\" of \"\""),
        (request("/validate", vec![b' '; 100_001]), 413, "Request entity too large: limit is 100000"),
        (request("/validate?timeout=5s", late.to_string()), 504, "the review took longer"),
    ] {
        let (got, answer) = side.send(request).await;
        assert_eq!(got, code, "{answer}");
        assert!(answer.starts_with(text) && answer.ends_with('\n'), "{answer} is not {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_too_many_reviews_is_refused() {
    let side = side(&[&WITNESS]);
    let mut late = pod();
    late["request"]["userInfo"]["username"] = json!("sleeper");
    let (first, second) = tokio::join!(
        side.send(request("/validate", late.to_string())),
        side.send(request("/validate", pod().to_string()))
    );
    assert_eq!((first.0, second), (504, (429, "too many reviews in flight\n".to_owned())));
    assert_eq!(side.send(request("/validate", pod().to_string())).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn reviews_that_do_not_arrive_hold_no_seat() {
    let side = side(&[&WITNESS]);
    let mut stalled = Box::pin(side.front_end.handle(request("/validate", "").map(|_| silent().0)));
    assert!(stalled.as_mut().now_or_never().is_none());
    assert_eq!(side.send(request("/validate", pod().to_string())).await.0, 200);
    assert_eq!(stalled.await.status(), 408);
}

/// Wrong types in reviews must not panic, whatever the plugin.
#[tokio::test(start_paused = true)]
async fn every_plugin_answers_reviews_of_odd_objects() {
    let specs: Vec<&'static Spec> = plugins::ALL
        .iter()
        .copied()
        .filter(|spec| spec.front_end.runs() && spec.default_on && spec.name != "NamespaceLifecycle")
        .collect();
    let side = side(&specs);
    for object in [json!({}), json!({"metadata": 7}), json!({"metadata": {"name": []}, "spec": [], "status": "x"})] {
        for spec in &specs {
            let Resources::Only(list) = spec.reviewed() else { continue };
            for (group, resource, subresource) in list {
                let mut review = review(group, resource, "Any", object.clone());
                review["request"]["subResource"] = json!(subresource);
                review["request"]["name"] = json!("a");
                side.ask("/mutate", &review).await;
                side.ask("/validate", &review).await;
            }
        }
    }
}
