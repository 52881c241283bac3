//! Compares events with the events that kube-apiserver 1.36 wrote for the same requests.

use super::*;
use crate::admission::{Annotations, Level as AnnotationLevel};
use crate::metrics::Registry;
use crate::object::Object;
use crate::request::{RequestInfo, request_info};
use crate::status::{Details, Status};
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::sync::Mutex;

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Sink for Lines {
    fn write(&self, event: &Encoded<'_>, _: bool) -> Option<Acknowledgement> {
        self.0.lock().unwrap().push(event.json().to_owned());
        None
    }
}

struct Desk {
    audit: Audit,
    lines: Arc<Lines>,
    metrics: Metrics,
}

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- {level: None, nonResourceURLs: ['/readyz*']}
- {level: Metadata, resources: [{group: '', resources: [secrets]}]}
- {level: Request, resources: [{group: '', resources: [services]}], omitManagedFields: false}
- {level: RequestResponse, resources: [{group: '', resources: [configmaps, 'pods/*']}], omitStages: [RequestReceived]}
- {level: Metadata}
";

fn desk() -> Desk {
    let (lines, metrics) = (Arc::new(Lines::default()), Metrics::register(&Registry::new()).unwrap());
    let clock = || "2026-11-21T04:29:17.435748999Z".parse().unwrap();
    let audit = Audit::with(POLICY.parse().unwrap(), lines.clone(), metrics.clone(), clock, 1000);
    Desk { audit, lines, metrics }
}

impl Desk {
    fn begin(&self, method: &str, uri: &str) -> Option<EventInProgress> {
        let info = info(method, uri);
        self.begin_with(&request(&info, uri))
    }

    fn begin_with(&self, request: &Request<'_>) -> Option<EventInProgress> {
        let mut event = self.audit.begin(request, &admin())?;
        assert_eq!(event.received().now_or_never(), Some(Ok(())));
        Some(event)
    }

    fn events(&self) -> Vec<Value> {
        self.lines.0.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn stages(&self) -> String {
        self.events().iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    }

    fn last(&self) -> Value {
        self.events().pop().unwrap()
    }
}

fn info(method: &str, uri: &str) -> RequestInfo {
    request_info(&method.parse().unwrap(), &uri.parse().unwrap())
}

fn request<'a>(info: &'a RequestInfo, uri: &'a str) -> Request<'a> {
    Request {
        info,
        audit_id: "my-own-id",
        uri,
        user_agent: "lab",
        source_ips: vec!["1.2.3.4".parse().unwrap(), "127.0.0.1".parse().unwrap()],
        received: "2026-11-21T04:29:17.4334Z".parse().unwrap(),
    }
}

fn admin() -> UserInfo {
    UserInfo { username: "admin".into(), groups: vec!["system:masters".into()], ..UserInfo::default() }
}

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

#[test]
fn a_create_is_logged_as_kube_apiserver_logs_it() {
    let desk = desk();
    let mut event = desk.begin("POST", "/api/v1/namespaces/default/configmaps").unwrap();
    assert!(event.wants_request_body() && event.wants_response_body());
    let sent = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "managedFields": []}, "data": {"k": "v"}});
    event.set_request_object(&object(sent));
    event.annotate(DECISION_ANNOTATION, "allow");
    event.annotate(REASON_ANNOTATION, "");
    event.response_started(201, None).unawaited();
    let stored = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u", "managedFields": [{"manager": "x"}]}});
    event.set_response_object(&stored);
    event.response_complete(201, None).unawaited();
    let expected = concat!(
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"my-own-id","stage":"ResponseComplete","#,
        r#""requestURI":"/api/v1/namespaces/default/configmaps","verb":"create","user":{"username":"admin","groups":["system:masters"]},"#,
        r#""sourceIPs":["1.2.3.4","127.0.0.1"],"userAgent":"lab","objectRef":{"resource":"configmaps","namespace":"default","name":"a","apiVersion":"v1"},"#,
        r#""responseStatus":{"metadata":{},"code":201},"requestObject":{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"name":"a"}},"#,
        r#""responseObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u"}},"#,
        r#""requestReceivedTimestamp":"2026-11-21T04:29:17.433400Z","stageTimestamp":"2026-11-21T04:29:17.435748Z","#,
        r#""annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}"#
    );
    assert_eq!(*desk.lines.0.lock().unwrap(), [expected]);
    assert_eq!(desk.metrics.events.get(), 1);
    assert_eq!(desk.metrics.levels.with_label_values(&["RequestResponse"]).get(), 1);
}

#[test]
fn a_failure_is_logged_with_its_status_at_every_level() {
    let desk = desk();
    let conflict =
        Status::failure(409, "Conflict", "no").with_details(Details { name: "s".into(), ..Details::default() });
    let event = desk.begin("PUT", "/api/v1/namespaces/default/secrets/s").unwrap();
    assert!(event.wants_response_status(409) && !event.wants_response_status(200) && !event.wants_response_body());
    event.response_complete(409, Some(&conflict)).unawaited();
    let expected = json!({"metadata": {}, "status": "Failure", "message": "no", "reason": "Conflict", "details": {"name": "s"}, "code": 409});
    assert_eq!(desk.last()["responseStatus"], expected);
    assert_eq!(desk.stages(), "RequestReceived ResponseComplete");
    let received = &desk.events()[0];
    assert_eq!(received["stageTimestamp"], received["requestReceivedTimestamp"]);
    assert!(received.get("responseStatus").is_none());
}

#[test]
fn bodies_of_secrets_stay_out_at_metadata() {
    let desk = desk();
    let mut event = desk.begin("POST", "/api/v1/namespaces/default/secrets").unwrap();
    let secret = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "5"}, "data": {"password": "hush"}});
    event.set_request_object(&object(secret.clone()));
    event.set_request_patch(&secret);
    event.set_response_object(&secret);
    event.response_complete(201, None).unawaited();
    let last = desk.last();
    let expected = json!({"resource": "secrets", "namespace": "default", "name": "s", "uid": "u", "apiVersion": "v1", "resourceVersion": "5"});
    assert_eq!(last["objectRef"], expected);
    assert!(!last.to_string().contains("hush"));
}

#[test]
fn level_request_logs_what_was_sent_and_not_what_was_answered() {
    let desk = desk();
    let mut event = desk.begin("PATCH", "/api/v1/namespaces/default/services/s").unwrap();
    event.set_request_patch(&json!([{"op": "remove", "path": "/x"}]));
    event.set_response_object(&json!({"metadata": {}}));
    event.response_complete(200, None).unawaited();
    assert_eq!(desk.last()["requestObject"], json!([{"op": "remove", "path": "/x"}]));
    assert!(desk.last().get("responseObject").is_none());
    // The policy's rule for services keeps managedFields.
    let mut event = desk.begin("PUT", "/api/v1/namespaces/default/services/s").unwrap();
    event.set_request_object(&object(json!({"metadata": {"managedFields": [{}]}})));
    event.response_complete(200, None).unawaited();
    assert_eq!(desk.last()["requestObject"]["metadata"]["managedFields"], json!([{}]));
}

#[test]
fn managed_fields_go_from_lists_and_tables_too() {
    let desk = desk();
    let entry = || json!({"metadata": {"name": "a", "managedFields": [{}]}});
    for answered in [
        json!({"kind": "ConfigMapList", "metadata": {}, "items": [entry(), null, 5]}),
        json!({"kind": "Table", "rows": [{"object": entry()}, {"object": null}, {}]}),
    ] {
        let mut event = desk.begin("GET", "/api/v1/namespaces/default/configmaps").unwrap();
        event.set_response_object(&answered);
        event.response_complete(200, None).unawaited();
        assert!(!desk.last().to_string().contains("managedFields"));
        assert!(desk.last().to_string().contains(r#""name":"a""#));
    }
}

#[test]
fn a_watch_has_a_started_stage_and_ends_when_its_stream_does() {
    let desk = desk();
    let mut event = desk.begin("GET", "/api/v1/nodes?watch=1").unwrap();
    event.response_started(200, None).unawaited();
    assert_eq!(desk.stages(), "RequestReceived ResponseStarted");
    drop(event);
    assert_eq!(desk.stages(), "RequestReceived ResponseStarted ResponseComplete");
    assert_eq!(desk.last()["responseStatus"], json!({"metadata": {}, "code": 200}));
    let event = desk.begin("POST", "/api/v1/namespaces/default/pods/p/exec").unwrap();
    event.response_complete(404, None).unawaited();
    assert!(desk.stages().ends_with("ResponseStarted ResponseComplete"));
}

#[test]
fn a_client_that_goes_early_is_noted() {
    let desk = desk();
    drop(desk.begin("GET", "/api/v1/nodes").unwrap());
    let expected = json!({"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200});
    assert_eq!(desk.last()["responseStatus"], expected);
    assert_eq!(desk.stages(), "RequestReceived ResponseComplete");
}

#[test]
fn a_panic_is_the_last_stage() {
    let desk = desk();
    let event = desk.begin("GET", "/api/v1/nodes").unwrap();
    std::thread::spawn(move || {
        let _event = event;
        panic!("as a test");
    })
    .join()
    .unwrap_err();
    assert!(desk.stages().ends_with("RequestReceived Panic"));
}

#[test]
fn a_failed_authentication_is_one_event() {
    let desk = desk();
    let info = info("GET", "/api/v1/nodes");
    let mut event = desk.audit.begin_unauthenticated(&request(&info, "/api/v1/nodes")).unwrap();
    event.response_started(401, Some(&Status::unauthorized())).unawaited();
    event.response_complete(401, Some(&Status::unauthorized())).unawaited();
    assert_eq!(desk.stages(), "ResponseStarted");
    assert_eq!(desk.last()["user"], json!({}));
    let expected =
        json!({"metadata": {}, "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    assert_eq!(desk.last()["responseStatus"], expected);
    drop(desk.audit.begin_unauthenticated(&request(&info, "/api/v1/nodes")).unwrap());
    assert_eq!(desk.stages(), "ResponseStarted");
}

#[test]
fn a_request_that_the_policy_omits_costs_nothing() {
    let desk = desk();
    assert!(desk.begin("GET", "/readyz").is_none() && desk.events().is_empty());
    assert_eq!(desk.metrics.levels.with_label_values(&["None"]).get(), 1);
    let info = info("GET", "/version");
    assert!(Audit::off().begin(&request(&info, "/version"), &admin()).is_none());
}

#[test]
fn a_path_of_the_server_has_no_object() {
    let desk = desk();
    desk.begin("GET", "/version?a=%3C").unwrap().response_complete(200, None).unawaited();
    assert!(desk.last().get("objectRef").is_none());
    assert_eq!((&desk.last()["requestURI"], &desk.last()["verb"]), (&json!("/version?a=%3C"), &json!("get")));
}

#[test]
fn the_impersonated_user_is_noted_beside_the_real_one() {
    let desk = desk();
    let mut event = desk.begin("GET", "/api/v1/nodes").unwrap();
    let jane = UserInfo {
        username: "jane".into(),
        extra: [("scopes".to_owned(), vec!["x".to_owned()])].into(),
        ..UserInfo::default()
    };
    event.set_impersonated(&jane, "impersonate:user-info".to_owned());
    event.response_complete(200, None).unawaited();
    assert_eq!(desk.last()["user"]["username"], "admin");
    assert_eq!(desk.last()["impersonatedUser"], json!({"username": "jane", "extra": {"scopes": ["x"]}}));
    assert_eq!(desk.last()["authenticationMetadata"], json!({"impersonationConstraint": "impersonate:user-info"}));
    assert!(desk.events()[0].get("impersonatedUser").is_none());
    let mut event = desk.begin("GET", "/api/v1/nodes").unwrap();
    event.set_impersonated(&jane, String::new());
    event.response_complete(200, None).unawaited();
    assert!(desk.last().get("authenticationMetadata").is_none());
}

#[test]
fn the_time_that_layers_took_is_annotated_of_slow_requests() {
    let desk = desk();
    for (received, total) in [("2026-11-21T04:29:16.93Z", Some("505.748999ms")), ("2026-11-21T04:29:17Z", None)] {
        let info = info("GET", "/api/v1/nodes");
        let received = received.parse().unwrap();
        let request = Request { received, ..request(&info, "/api/v1/nodes") };
        let mut event = desk.begin_with(&request).unwrap();
        event.add_latency("authorization", std::time::Duration::from_millis(1));
        event.add_latency("authorization", std::time::Duration::from_millis(2));
        for (mutating, validating) in [(20, 4), (30, 3), (0, 0)] {
            event.add_webhook_latency([mutating, validating].map(std::time::Duration::from_millis));
        }
        event.response_complete(200, None).unawaited();
        let annotations = &desk.last()["annotations"];
        let total = total.map_or(Value::Null, |total| json!(total));
        assert_eq!(annotations["apiserver.latency.k8s.io/total"], total);
        for (layer, time) in [("authorization", "3ms"), ("mutating-webhook", "50ms"), ("validating-webhook", "4ms")] {
            assert_eq!(annotations[format!("apiserver.latency.k8s.io/{layer}")] == time, !total.is_null(), "{layer}");
        }
    }
}

#[test]
fn a_watch_has_no_latencies() {
    let desk = desk();
    let info = info("GET", "/api/v1/nodes?watch=true");
    let request =
        Request { received: "2026-11-21T04:00:00Z".parse().unwrap(), ..request(&info, "/api/v1/nodes?watch=true") };
    let mut event = desk.begin_with(&request).unwrap();
    event.add_latency("authorization", std::time::Duration::from_millis(1));
    event.forget_latencies();
    event.response_complete(200, None).unawaited();
    assert!(!desk.last().to_string().contains("apiserver.latency.k8s.io"));
}

#[test]
fn the_name_of_an_issued_token_is_annotated_at_every_level() {
    let desk = desk();
    let path = "/api/v1/namespaces/a/serviceaccounts/b/token";
    let answer = |token: &str| json!({"kind": "TokenRequest", "status": {"token": token}});
    // {"jti":"0f1e"}
    for (token, id) in
        [("e30.eyJqdGkiOiIwZjFlIn0.x", json!("JTI=0f1e")), ("e30.e30.x", Value::Null), ("x", Value::Null)]
    {
        let mut event = desk.begin("POST", path).unwrap();
        assert!(event.wants_token());
        event.set_response_object(&answer(token));
        event.response_complete(201, None).unawaited();
        assert_eq!(desk.last()["annotations"]["authentication.kubernetes.io/issued-credential-id"], id, "{token}");
    }
    assert!(!desk.begin("POST", "/api/v1/namespaces/a/serviceaccounts").unwrap().wants_token());
}

#[test]
fn annotations_keep_their_first_value_and_their_level() {
    let desk = desk();
    let mut event = desk.begin("GET", "/api/v1/nodes").unwrap();
    let annotations = Annotations::published_up_to(Some(event.annotation_level()));
    annotations.add("a.io/k", "2");
    annotations.add("a.io/l", "3");
    annotations.add_with_level("a.io/patch", "x", AnnotationLevel::Request);
    event.annotate("a.io/k", "1");
    event.annotate_all(annotations.take());
    event.response_complete(200, None).unawaited();
    assert_eq!(desk.last()["annotations"], json!({"a.io/k": "1", "a.io/l": "3"}));
    let mut event = desk.begin("GET", "/api/v1/namespaces/default/configmaps/a").unwrap();
    let annotations = Annotations::published_up_to(Some(event.annotation_level()));
    annotations.add_with_level("a.io/patch", "x", AnnotationLevel::Request);
    event.annotate_all(annotations.take());
    event.response_complete(200, None).unawaited();
    assert_eq!(desk.last()["annotations"], json!({"a.io/patch": "x"}));
}

#[test]
fn the_legacy_line_has_the_form_of_kube_apiserver() {
    let desk = desk();
    let mut event = desk.begin("POST", "/api/v1/namespaces/default/configmaps").unwrap();
    event.response_started(201, None).unawaited();
    let expected = concat!(
        r#"2026-11-21T04:29:17.4334Z AUDIT: id="my-own-id" stage="ResponseStarted" ip="1.2.3.4" method="create" user="admin" "#,
        r#"groups="\"system:masters\"" as="<self>" asgroups="<lookup>" user-agent="lab" namespace="default" "#,
        r#"uri="/api/v1/namespaces/default/configmaps" response="201""#
    );
    assert_eq!(event.encoded().legacy(), expected);
}

#[test]
fn an_exact_event_has_only_annotations_of_kube_apiserver() {
    let lines = Arc::new(testing::Lines::default());
    let info = info("GET", "/api/v1/nodes");
    let (policy, metrics) = (Reloading::fixed(POLICY.parse().unwrap()), Metrics::register(&Registry::new()).unwrap());
    let audit = Audit::new(policy, vec![lines.clone()], metrics, false);
    let mut event = audit.begin(&request(&info, "/x"), &admin()).unwrap();
    assert!(!event.names_changes());
    let keys =
        ["kube-admission-proxy.dev/tenant", "a.kube-admission-proxy.dev/b", "notkube-admission-proxy.dev/c", "a.io/k"];
    keys.into_iter().for_each(|key| event.annotate(key, "1"));
    event.response_complete(200, None).unawaited();
    assert_eq!(lines.last()["annotations"], json!({"notkube-admission-proxy.dev/c": "1", "a.io/k": "1"}));
}

#[test]
fn an_object_past_the_bound_leaves_a_note() {
    let desk = desk();
    let mut event = desk.begin("POST", "/api/v1/namespaces/default/configmaps").unwrap();
    event.set_request_object(&object(json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(1000)}})));
    event.set_response_object(&json!({"metadata": {"name": "a"}}));
    event.response_complete(201, None).unawaited();
    assert!(desk.last().get("requestObject").is_none());
    assert_eq!(desk.last()["responseObject"], json!({"metadata": {"name": "a"}}));
    assert_eq!(desk.last()["annotations"], json!({"audit.k8s.io/truncated": "true"}));
}

#[test]
fn options_of_a_delete_have_the_internal_version() {
    let desk = desk();
    let mut event = desk.begin("DELETE", "/api/v1/namespaces/default/configmaps/a").unwrap();
    assert!(event.wants_response_status(200));
    event.set_request_object(&object(
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}),
    ));
    event.response_complete(200, None).unawaited();
    let expected =
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", "propagationPolicy": "Background"});
    assert_eq!(desk.last()["requestObject"], expected);
}

#[test]
fn a_long_user_agent_is_cut() {
    let desk = desk();
    let info = info("GET", "/version");
    let long = format!("{}é{}", "x".repeat(1023), "y".repeat(100));
    let request = Request { user_agent: &long, ..request(&info, "/version") };
    desk.begin_with(&request).unwrap().response_complete(200, None).unawaited();
    assert_eq!(desk.last()["userAgent"], format!("{}...TRUNCATED", "x".repeat(1023)));
}

/// Requests, and the last events that a kube-apiserver 1.36.3 wrote for them with the adjacent policy.
const RECORDED: &str = include_str!("testdata/kube-apiserver.jsonl");

#[test]
fn equal_requests_give_the_fields_that_kube_apiserver_gives() {
    for recorded in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(recorded).unwrap();
        let expected = &recorded["event"];
        let text = |field: &str| expected[field].as_str().unwrap().to_owned();
        let (lines, metrics) = (Arc::new(Lines::default()), Metrics::register(&Registry::new()).unwrap());
        let clock = || "2026-11-21T04:29:17.5Z".parse().unwrap();
        let policy = include_str!("testdata/policy.yaml").parse().unwrap();
        let audit = Audit::with(policy, lines.clone(), metrics, clock, OBJECT_BYTES);

        let (uri, user) = (text("requestURI"), serde_json::from_value(expected["user"].clone()).unwrap());
        let info = info(recorded["method"].as_str().unwrap(), &uri);
        let request = Request {
            info: &info,
            audit_id: &text("auditID"),
            uri: &uri,
            user_agent: &text("userAgent"),
            source_ips: serde_json::from_value(expected["sourceIPs"].clone()).unwrap(),
            received: text("requestReceivedTimestamp").parse().unwrap(),
        };
        let is_known = user != UserInfo::default();
        let event = if is_known { audit.begin(&request, &user) } else { audit.begin_unauthenticated(&request) };
        replay(event.unwrap(), expected);

        let mut found: Value = serde_json::from_str(lines.0.lock().unwrap().last().unwrap()).unwrap();
        found["stageTimestamp"] = expected["stageTimestamp"].clone();
        assert_eq!(found, *expected);
    }
}

/// Records the data of a recorded request, as the pipeline does.
fn replay(mut event: EventInProgress, recorded: &Value) {
    if let Some(user) = recorded.get("impersonatedUser") {
        event.set_impersonated(&serde_json::from_value(user.clone()).unwrap(), String::new());
    }
    for (key, value) in recorded["annotations"].as_object().into_iter().flatten() {
        event.annotate(key, value.as_str().unwrap());
    }
    match recorded.get("requestObject") {
        Some(patch) if recorded["verb"] == "patch" => event.set_request_patch(patch),
        Some(sent) => {
            let mut sent = object(sent.clone());
            assert!(sent.set(&["apiVersion"], json!("v1")));
            if sent.kind() != "DeleteOptions" {
                assert!(sent.set(&["metadata", "managedFields"], json!([{}])));
            }
            event.set_request_object(&sent);
        }
        // The recording contains only the name of the request's object.
        None if recorded["verb"] == "create" && recorded["objectRef"]["resource"] == "secrets" => {
            event.set_request_object(&object(json!({"metadata": {"name": recorded["objectRef"]["name"]}})));
        }
        None => {}
    }
    if let Some(answered) = recorded.get("responseObject") {
        assert!(event.wants_response_body());
        event.set_response_object(answered);
    }
    let code = recorded["responseStatus"]["code"].as_u64().unwrap().try_into().unwrap();
    let status: Status = serde_json::from_value(recorded["responseStatus"].clone()).unwrap();
    event.response_complete(code, (!status.status.is_empty()).then_some(&status)).unawaited();
}
