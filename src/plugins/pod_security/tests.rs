//! Requests and their outcomes: the answer, warnings, audit annotations, metrics.

mod namespaces;

use super::*;
use crate::cluster::FixedState;
use crate::config::PluginConfiguration;
use crate::metrics::Registry;
use crate::plugins::checker;
use crate::user::UserInfo;
use prometheus::TextEncoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PREFIX: &str = "pod-security.kubernetes.io/";
/// The violations of a bare container under the latest restricted policy.
const BARE: &str = "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
    unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), \
    runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), \
    seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

/// The plugin with a cluster and metrics.
struct World {
    plugin: PodSecurity,
    registry: Registry,
}

/// The parameters of a request.
struct Request {
    operation: Operation,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    user: &'static str,
    new: Value,
    old: Option<Value>,
}

/// The outcome of a request.
#[derive(Debug)]
struct Answer {
    result: Result<(), Status>,
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

fn world_with(state: FixedState, configuration: Value) -> World {
    world_of(36, state, configuration)
}

/// A world of the release with this minor version.
fn world_of(release: u16, state: FixedState, configuration: Value) -> World {
    let registry = Registry::new();
    let configuration = PluginConfiguration { origin: "f".into(), directory: "/".into(), value: configuration };
    let plugin = PodSecurity {
        cluster: Cluster::fixed(state),
        configuration: Configuration::read(Some(&configuration)).unwrap(),
        evaluator: Evaluator::of(release),
        metrics: Metrics::new(&registry, release).unwrap(),
    };
    World { plugin, registry }
}

/// A world with the namespace `n`, whose labels are given without their prefix.
fn world(labels: &[(&str, &str)]) -> World {
    world_with(FixedState { namespaces: vec![namespace(labels)], ..FixedState::default() }, Value::Null)
}

fn namespace(labels: &[(&str, &str)]) -> Namespace {
    let labels = labels.iter().map(|(label, value)| (format!("{PREFIX}{label}"), (*value).to_owned())).collect();
    Namespace { name: "n".into(), labels, ..Namespace::default() }
}

/// A configuration with the given defaults, where the name `exempt` is exempt everywhere.
fn configuration(defaults: Value) -> Value {
    json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration", "defaults": defaults,
           "exemptions": {"usernames": ["exempt"], "namespaces": ["exempt"], "runtimeClasses": ["exempt"]}})
}

fn request(operation: Operation, group: &'static str, resource: &'static str, new: Value) -> Request {
    Request { operation, group, resource, subresource: "", user: "alice", new, old: None }
}

fn create_pod(spec: Value) -> Request {
    request(Operation::Create, "", "pods", pod(spec))
}

fn update_pod(old: Value, new: Value) -> Request {
    Request { old: Some(pod(old)), ..request(Operation::Update, "", "pods", pod(new)) }
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
}

fn bare() -> Value {
    json!({"containers": [{"name": "a", "image": "i"}]})
}

fn namespace_object(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels: BTreeMap<String, &str> =
        labels.iter().map(|(label, value)| (format!("{PREFIX}{label}"), *value)).collect();
    json!({"metadata": {"name": name, "labels": labels}})
}

fn create_namespace(name: &str, labels: &[(&str, &str)]) -> Request {
    request(Operation::Create, "", "namespaces", namespace_object(name, labels))
}

fn update_namespace(name: &str, old: &[(&str, &str)], new: &[(&str, &str)]) -> Request {
    let old = Some(namespace_object(name, old));
    Request { old, ..request(Operation::Update, "", "namespaces", namespace_object(name, new)) }
}

impl World {
    async fn send(&self, request: Request) -> Answer {
        let Request { operation, group, resource, subresource, user, new, old } = request;
        let mut attributes = checker::attributes(operation, group, resource, Some(new), old);
        attributes.subresource = subresource.into();
        attributes.context.user = Arc::new(UserInfo { username: user.into(), ..UserInfo::default() });
        // The chain skips a plugin that does not handle the request.
        let result = match SPEC.handles(&attributes) {
            true => self.plugin.validate(&attributes).await.map_err(|denial| denial.into_status(&attributes)),
            false => Ok(()),
        };
        let warnings = attributes.context.warnings.header_values();
        let text = |value: &http::HeaderValue| {
            let text = value.to_str().unwrap().strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap();
            text.replace("\\\"", "\"")
        };
        let annotations = attributes.annotations.take().into_iter();
        let annotations = annotations.map(|(key, value, _)| (key.strip_prefix(PREFIX).unwrap().to_owned(), value));
        Answer { result, warnings: warnings.iter().map(text).collect(), annotations: annotations.collect() }
    }

    /// The counters that are not zero.
    fn counted(&self) -> Vec<String> {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
        lines.map(|line| line.strip_prefix("pod_security_").unwrap().to_owned()).collect()
    }
}

impl Answer {
    #[track_caller]
    fn stays_silent(self) {
        self.accepts(&[], &[]);
    }

    #[track_caller]
    fn accepts(self, warnings: &[&str], annotations: &[(&str, &str)]) {
        self.result.as_ref().expect("the plugin refuses the request");
        self.says(warnings, annotations);
    }

    #[track_caller]
    fn refuses(self, code: u16, message: &str, annotations: &[(&str, &str)]) -> Status {
        let status = self.result.clone().expect_err("the plugin accepts the request");
        assert_eq!((status.code, &*status.message), (code, message));
        self.says(&[], annotations);
        status
    }

    #[track_caller]
    fn says(self, warnings: &[&str], annotations: &[(&str, &str)]) {
        assert_eq!(self.warnings, warnings);
        let want = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(self.annotations, want);
    }
}

#[tokio::test]
async fn refuses_a_pod_that_violates_what_is_enforced_and_does_not_warn_as_well() {
    let world = world(&[("enforce", "restricted"), ("audit", "restricted")]);
    let would = format!("would violate PodSecurity \"restricted:latest\": {BARE}");
    let annotations = [("enforce-policy", "restricted:latest"), ("audit-violations", &*would)];
    let message = format!("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": {BARE}");
    let status = world.send(create_pod(bare())).await.refuses(403, &message, &annotations);
    assert_eq!(status.reason, "Forbidden");
    let details = status.details.unwrap();
    assert_eq!((&*details.name, &*details.kind, &*details.group), ("p", "pods", ""));
    assert_eq!(
        world.counted(),
        [
            r#"evaluations_total{decision="deny",mode="audit",policy_level="restricted",policy_version="latest",request_operation="create",resource="pod",subresource=""} 1"#,
            r#"evaluations_total{decision="deny",mode="enforce",policy_level="restricted",policy_version="latest",request_operation="create",resource="pod",subresource=""} 1"#,
        ]
    );
}

#[tokio::test]
async fn accepts_a_pod_and_reports_the_violations_of_stricter_modes() {
    let world = world(&[
        ("enforce", "baseline"),
        ("enforce-version", "v1.30"),
        ("audit", "restricted"),
        ("audit-version", "v1.7"),
        ("warn", "restricted"),
        ("warn-version", "v1.99"),
    ]);
    let audit = "would violate PodSecurity \"restricted:v1.7\": runAsNonRoot != true (pod or container \"a\" must set \
                 securityContext.runAsNonRoot=true)";
    let warn = format!("would violate PodSecurity \"restricted:v1.99\": {BARE}");
    let annotations = [("enforce-policy", "baseline:v1.30"), ("audit-violations", audit)];
    world.send(create_pod(bare())).await.accepts(&[&warn], &annotations);
    assert_eq!(
        world.counted(),
        [
            r#"evaluations_total{decision="allow",mode="enforce",policy_level="baseline",policy_version="v1.30",request_operation="create",resource="pod",subresource=""} 1"#,
            r#"evaluations_total{decision="deny",mode="audit",policy_level="restricted",policy_version="v1.7",request_operation="create",resource="pod",subresource=""} 1"#,
            r#"evaluations_total{decision="deny",mode="warn",policy_level="restricted",policy_version="future",request_operation="create",resource="pod",subresource=""} 1"#,
        ]
    );
}

#[tokio::test]
async fn versions_after_the_emulated_release_are_counted_as_future() {
    for (release, version) in [(36, "future"), (37, "v1.37")] {
        let labels = [("enforce", "baseline"), ("enforce-version", "v1.37")];
        let state = FixedState { namespaces: vec![namespace(&labels)], ..FixedState::default() };
        let world = world_of(release, state, Value::Null);
        world.send(create_pod(json!({}))).await.result.unwrap();
        let version = format!("policy_version=\"{version}\"");
        assert!(world.counted().iter().any(|line| line.contains(&version)), "{:?}", world.counted());
    }
}

#[tokio::test]
async fn a_privileged_namespace_asks_for_nothing() {
    for labels in [&[][..], &[("enforce", "privileged"), ("enforce-version", "v1.20"), ("audit", "privileged")]] {
        let world = world(labels);
        let annotations = [("enforce-policy", "privileged:latest")];
        world.send(create_pod(json!({"hostPID": true}))).await.accepts(&[], &annotations);
        // A pod is not decoded for a privileged policy.
        world.send(create_pod(json!("text"))).await.accepts(&[], &annotations);
        assert_eq!(
            world.counted(),
            [
                r#"evaluations_total{decision="allow",mode="enforce",policy_level="privileged",policy_version="latest",request_operation="create",resource="pod",subresource=""} 2"#
            ]
        );
    }
}

#[tokio::test]
async fn wrong_labels_mean_restricted_and_are_audited() {
    let world = world(&[("enforce", "strict"), ("warn", "all")]);
    let message = format!("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": {BARE}");
    let error = "Failed to parse policy: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must \
                 be one of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \
                 \"all\": must be one of privileged, baseline, restricted]";
    let annotations = [("enforce-policy", "restricted:latest"), ("error", error)];
    world.send(create_pod(bare())).await.refuses(403, &message, &annotations);
    assert!(world.counted().contains(
        &r#"errors_total{fatal="false",request_operation="create",resource="pod",subresource=""} 1"#.to_owned()
    ));
}

#[tokio::test]
async fn defaults_hold_without_labels() {
    let state = || FixedState { namespaces: vec![namespace(&[("audit", "privileged")])], ..FixedState::default() };
    let world =
        world_with(state(), configuration(json!({"enforce": "baseline", "audit": "baseline", "warn": "baseline"})));
    let message = "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    let annotations = [("enforce-policy", "baseline:latest")];
    world.send(create_pod(json!({"hostPID": true}))).await.refuses(403, message, &annotations);
}

#[tokio::test]
async fn namespaces_users_and_runtime_classes_may_be_exempt() {
    let mut exempt = namespace(&[("enforce", "restricted")]);
    exempt.name = "exempt".into();
    let namespaces = vec![namespace(&[("enforce", "restricted"), ("warn", "restricted")]), exempt];
    let world = world_with(FixedState { namespaces, ..FixedState::default() }, configuration(json!({})));
    let mut in_exempt = create_pod(bare());
    in_exempt.new["metadata"]["namespace"] = json!("exempt");
    world.send(in_exempt).await.accepts(&[], &[("exempt", "namespace")]);
    let by_exempt = Request { user: "exempt", ..create_pod(bare()) };
    world.send(by_exempt).await.accepts(&[], &[("exempt", "user")]);
    let mut spec = bare();
    spec["runtimeClassName"] = json!("exempt");
    world.send(create_pod(spec.clone())).await.accepts(&[], &[("exempt", "runtimeClass")]);
    let template = json!({"metadata": {"name": "d", "namespace": "n"}, "spec": {"template": {"spec": spec}}});
    let deployment = request(Operation::Create, "apps", "deployments", template);
    world.send(deployment).await.accepts(&[], &[("exempt", "runtimeClass")]);
    let by_exempt = Request { user: "exempt", ..request(Operation::Update, "batch", "jobs", pod(json!({}))) };
    world.send(by_exempt).await.accepts(&[], &[("exempt", "user")]);
    assert_eq!(
        world.counted(),
        [
            r#"exemptions_total{request_operation="create",resource="controller",subresource=""} 1"#,
            r#"exemptions_total{request_operation="create",resource="pod",subresource=""} 3"#,
            r#"exemptions_total{request_operation="update",resource="controller",subresource=""} 1"#,
        ]
    );
    let mut other = bare();
    other["runtimeClassName"] = json!("other");
    assert_eq!(world.send(create_pod(other)).await.result.unwrap_err().code, 403);
}

#[tokio::test]
async fn a_namespace_that_the_cache_lacks_is_asked_of_the_api_server() {
    let live = Some(vec![namespace(&[("enforce", "baseline")])]);
    let world = world_with(FixedState { live_namespaces: live, ..FixedState::default() }, Value::Null);
    assert_eq!(world.send(create_pod(json!({"hostPID": true}))).await.result.unwrap_err().code, 403);
}

#[tokio::test]
async fn a_pod_in_an_unknown_namespace_is_refused_and_a_controller_is_not() {
    let world = world_with(FixedState::default(), Value::Null);
    let message = "Internal error occurred: failed to lookup namespace \"n\"";
    let why = "Internal error occurred: failed to lookup namespace \"n\": namespaces \"n\" not found";
    let status = world.send(create_pod(bare())).await.refuses(500, message, &[("error", why)]);
    assert_eq!(status.reason, "InternalError");
    assert_eq!(status.details.unwrap().causes[0].message, "failed to lookup namespace \"n\"");
    let why = "failed to lookup namespace \"n\": namespaces \"n\" not found";
    world.send(request(Operation::Create, "batch", "jobs", pod(json!({})))).await.accepts(&[], &[("error", why)]);
    assert_eq!(
        world.counted(),
        [
            r#"errors_total{fatal="true",request_operation="create",resource="controller",subresource=""} 1"#,
            r#"errors_total{fatal="true",request_operation="create",resource="pod",subresource=""} 1"#,
        ]
    );
}

#[tokio::test]
async fn controllers_are_never_refused_but_warned_of_their_pods() {
    let world = world(&[("enforce", "restricted"), ("audit", "restricted"), ("warn", "restricted")]);
    let would = format!("would violate PodSecurity \"restricted:latest\": {BARE}");
    let template = json!({ "spec": bare() });
    let metadata = json!({"name": "c", "namespace": "n"});
    let in_spec = json!({"metadata": metadata, "spec": {"template": template}});
    for (group, resource, object) in [
        ("", "podtemplates", json!({"metadata": metadata, "template": template})),
        ("", "replicationcontrollers", in_spec.clone()),
        ("apps", "replicasets", in_spec.clone()),
        ("apps", "deployments", in_spec.clone()),
        ("apps", "statefulsets", in_spec.clone()),
        ("apps", "daemonsets", in_spec.clone()),
        ("batch", "jobs", in_spec.clone()),
        ("batch", "cronjobs", json!({"metadata": metadata, "spec": {"jobTemplate": {"spec": {"template": template}}}})),
    ] {
        for operation in [Operation::Create, Operation::Update] {
            let answer = world.send(request(operation, group, resource, object.clone())).await;
            answer.accepts(&[&would], &[("audit-violations", &would)]);
        }
        let scale = Request { subresource: "status", ..request(Operation::Update, group, resource, object) };
        world.send(scale).await.stays_silent();
    }
    assert!(world.counted().contains(
        &r#"evaluations_total{decision="deny",mode="warn",policy_level="restricted",policy_version="latest",request_operation="update",resource="controller",subresource=""} 8"#.to_owned()
    ));
}

#[tokio::test]
async fn objects_without_a_pod_template_are_skipped() {
    let world = world(&[("enforce", "restricted"), ("audit", "restricted")]);
    let empty = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {}});
    for (group, resource) in [
        ("", "replicationcontrollers"),
        ("apps", "deployments"),
        ("extensions", "deployments"),
        ("apps", "controllerrevisions"),
        ("", "services"),
        ("metrics.k8s.io", "pods"),
        ("other.io", "namespaces"),
    ] {
        world.send(request(Operation::Create, group, resource, empty.clone())).await.stays_silent();
    }
    let controller = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"template": {"spec": bare()}}});
    world.send(request(Operation::Create, "extensions", "deployments", controller)).await.stays_silent();
}

#[tokio::test]
async fn controllers_are_not_looked_at_where_only_pods_are_judged() {
    let world = world(&[("enforce", "restricted"), ("warn", "privileged")]);
    let controller = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"template": {"spec": bare()}}});
    world.send(request(Operation::Create, "apps", "deployments", controller)).await.stays_silent();
    let broken = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"template": 1}});
    world.send(request(Operation::Create, "apps", "deployments", broken)).await.stays_silent();
}

#[tokio::test]
async fn a_controller_of_wrong_types_is_audited() {
    let world = world(&[("warn", "restricted")]);
    for spec in [json!("x"), json!({"template": []}), json!({"template": {"spec": {"containers": [1]}}})] {
        let controller = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": spec});
        let answer = world.send(request(Operation::Create, "apps", "deployments", controller)).await;
        answer.accepts(
            &[],
            &[("error", "failed to decode object: a field of its template has another type than it must have")],
        );
    }
}

#[tokio::test]
async fn a_pod_of_wrong_types_is_refused() {
    let world = world(&[("enforce", "baseline")]);
    for spec in
        [json!("x"), json!({"containers": {}}), json!({"containers": [{"securityContext": 1}]}), json!({"hostPID": 1})]
    {
        let answer = world.send(create_pod(spec)).await;
        let status = answer.refuses(400, "failed to decode pod", &[("error", "failed to decode pod")]);
        assert_eq!((&*status.reason, &*status.details.unwrap().kind), ("BadRequest", "pods"));
    }
    let answer = world.send(update_pod(json!({"containers": 1}), bare())).await;
    answer.refuses(400, "failed to decode old pod", &[("error", "failed to decode old pod")]);
    let answer = world.send(update_pod(bare(), json!({"containers": [{"image": 1}]}))).await;
    answer.refuses(400, "failed to decode pod", &[("error", "failed to decode pod")]);
}

#[tokio::test]
async fn an_update_is_judged_only_if_it_changes_what_runs() {
    let world = world(&[("enforce", "restricted")]);
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let spec = |containers: Value, init: Value, debug: Value| json!({"containers": containers, "initContainers": init, "ephemeralContainers": debug, "hostPID": true});
    let (a, b) = (container("a", "1"), container("b", "1"));
    let old = || spec(json!([a]), json!([b]), json!([container("e", "1"), container("f", "1")]));
    for (new, is_judged) in [
        (old(), false),
        (spec(json!([container("renamed", "1")]), json!([b]), json!([])), false),
        (spec(json!([container("a", "2")]), json!([b]), json!([])), true),
        (spec(json!([a, b]), json!([b]), json!([])), true),
        (spec(json!([a]), json!([container("b", "2")]), json!([])), true),
        (spec(json!([a]), json!([]), json!([])), true),
        (spec(json!([a]), json!([b]), json!([container("f", "1")])), false),
        (spec(json!([a]), json!([b]), json!([container("e", "2")])), true),
        (spec(json!([a]), json!([b]), json!([container("g", "1")])), true),
    ] {
        let answer = world.send(update_pod(old(), new.clone())).await;
        assert_eq!(answer.result.is_err(), is_judged, "{new}");
        if !is_judged {
            answer.stays_silent();
        }
    }
}

#[tokio::test]
async fn subresources_that_change_no_spec_are_passed_over() {
    let world = world(&[("enforce", "restricted")]);
    for subresource in IGNORED_POD_SUBRESOURCES {
        world.send(Request { subresource, ..create_pod(bare()) }).await.stays_silent();
    }
    for subresource in ["ephemeralcontainers", "resize", "of-a-later-version"] {
        world.send(Request { subresource, ..update_pod(bare(), bare()) }).await.stays_silent();
        let mut new = bare();
        new["ephemeralContainers"] = json!([{"name": "debug", "image": "i"}]);
        let answer = world.send(Request { subresource, ..update_pod(bare(), new) }).await;
        assert_eq!(answer.result.unwrap_err().code, 403, "{subresource}");
    }
    // The body of the unknown subresource is not a Pod, and so cannot be checked.
    let binding = Request { subresource: "of-a-later-version", ..create_pod(json!(1)) };
    assert_eq!(world.send(binding).await.result.unwrap_err().code, 400);
}

#[test]
fn counters_that_dashboards_start_from_are_there() {
    let registry = Registry::new();
    Metrics::new(&registry, 36).unwrap();
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in [
        r#"pod_security_evaluations_total{decision="allow",mode="enforce",policy_level="privileged",policy_version="latest",request_operation="update",resource="pod",subresource=""} 0"#,
        r#"pod_security_exemptions_total{request_operation="create",resource="controller",subresource=""} 0"#,
    ] {
        assert!(text.lines().any(|have| have == line), "{line}\n{text}");
    }
}
