//! The match of hooks with requests.

use super::*;
use crate::backend::Clients;
use crate::cel::Release;
use crate::config::{EmulatedRelease, FeatureGates, Limits};
use crate::conversion::Converter;
use crate::matching::{Content, InvocationKind, Matcher};
use crate::webhooks::hook::Hooks;

/// Returns the names of the hooks that match the request, or the first error.
async fn wanted(hooks: &[Value], attributes: &Attributes) -> Result<Vec<String>, Status> {
    wanted_in(default_state(), hooks, attributes).await
}

async fn wanted_in(state: FixedState, hooks: &[Value], attributes: &Attributes) -> Result<Vec<String>, Status> {
    let cluster = Cluster::fixed(state);
    let configuration: MutatingWebhookConfiguration = configuration(hooks);
    let hooks = Hooks::compile(
        [&[], &[Arc::new(configuration)]],
        &Clients::new(&Limits::default(), Kubeconfig::default()),
        Release::default(),
    );
    let converter = Converter::new(cluster.clone(), discovery(), &Limits::default(), metrics().1.conversions());
    let mut matcher = Matcher::new(&cluster, &converter);
    let mut names = Vec::new();
    let mut candidates = hooks.candidates(attributes, &cluster);
    candidates.narrow(attributes, attributes.object.as_ref());
    for (_, hook) in candidates {
        let wanted = matcher.wants(&hook.criteria, attributes, attributes.object.as_ref()).await;
        if let Some(wanted) = wanted? {
            assert!(matcher.may_match(&hook.criteria, attributes, Content::Present));
            names.push(match wanted {
                InvocationKind::AsItIs => hook.name.clone(),
                InvocationKind::As(other) => {
                    format!("{} as {}, Kind={}", hook.name, other.kind.api_version(), other.kind.kind)
                }
            });
        }
    }
    Ok(names)
}

fn with(fields: Value) -> Value {
    hook("w", "https://127.0.0.1:1/", None, fields)
}

fn rule(groups: &[&str], versions: &[&str], operations: &[&str], resources: &[&str], scope: &str) -> Value {
    json!({"rules": [{"apiGroups": groups, "apiVersions": versions, "operations": operations, "resources": resources, "scope": scope}]})
}

fn request(
    operation: Operation,
    group: &str,
    version: &str,
    resource: &str,
    subresource: &str,
    namespace: &str,
) -> Attributes {
    let mut attributes = create(configmap());
    attributes.operation = operation;
    attributes.resource = GroupVersionResource::new(group, version, resource);
    attributes.subresource = subresource.into();
    attributes.namespace = namespace.into();
    attributes
}

#[tokio::test]
async fn rules_match_by_operation_group_version_resource_and_scope() {
    use Operation::{Connect, Create, Delete, Update};
    let pods = || request(Create, "", "v1", "pods", "", "default");
    let status = || request(Update, "", "v1", "pods", "status", "default");
    let exec = || request(Connect, "", "v1", "pods", "exec", "default");
    let scale = || request(Update, "apps", "v1", "deployments", "scale", "default");
    let nodes = || request(Delete, "", "v1", "nodes", "", "");
    let namespaces = || request(Create, "", "v1", "namespaces", "", "default");
    let all = &["*"][..];
    for (line, rule, attributes, want) in [
        (line!(), rule(&[""], &["v1"], &["CREATE"], &["pods"], "*"), pods(), true),
        (line!(), rule(&[""], &["v1"], &["UPDATE", "DELETE"], &["pods"], "*"), pods(), false),
        (line!(), rule(&["apps"], &["v1"], all, &["pods"], "*"), pods(), false),
        (line!(), rule(&["apps", ""], &["v1"], all, &["services", "pods"], "*"), pods(), true),
        (line!(), rule(&[""], &["v2"], all, &["pods"], "*"), pods(), false),
        (line!(), rule(all, all, all, all, "*"), pods(), true),
        (line!(), rule(all, all, all, all, "*"), status(), false),
        (line!(), rule(all, all, all, &["*/*"], "*"), status(), true),
        (line!(), rule(all, all, all, &["*/*"], "*"), pods(), true),
        (line!(), rule(all, all, all, &["pods"], "*"), status(), false),
        (line!(), rule(all, all, all, &["pods/*"], "*"), status(), true),
        (line!(), rule(all, all, all, &["pods/*"], "*"), pods(), true),
        (line!(), rule(all, all, all, &["pods/status"], "*"), status(), true),
        (line!(), rule(all, all, all, &["pods/status"], "*"), pods(), false),
        (line!(), rule(all, all, all, &["*/scale"], "*"), scale(), true),
        (line!(), rule(all, all, all, &["*/scale"], "*"), status(), false),
        (line!(), rule(all, all, &["CONNECT"], &["pods/exec"], "*"), exec(), true),
        (line!(), rule(all, all, all, all, "Namespaced"), pods(), true),
        (line!(), rule(all, all, all, all, "Cluster"), pods(), false),
        (line!(), rule(all, all, all, all, "Namespaced"), nodes(), false),
        (line!(), rule(all, all, all, all, "Cluster"), nodes(), true),
        (line!(), rule(all, all, all, all, "Namespaced"), namespaces(), false),
        (line!(), rule(all, all, all, all, "Cluster"), namespaces(), true),
        (line!(), rule(&[], all, all, all, "*"), pods(), false),
        (line!(), json!({"rules": []}), pods(), false),
    ] {
        let names = wanted(&[with(rule)], &attributes).await.unwrap();
        assert_eq!(!names.is_empty(), want, "line {line}");
    }
}

#[tokio::test]
async fn namespace_selectors_look_at_the_namespace_of_the_request() {
    let selecting = |labels: Value| {
        let mut fields = rule(&["*"], &["*"], &["*"], &["*"], "*");
        fields["namespaceSelector"] = json!({ "matchLabels": labels });
        [with(fields)]
    };
    let test = selecting(json!({"env": "test"}));
    let prod = selecting(json!({"env": "prod"}));
    let pods = request(Operation::Create, "", "v1", "pods", "", "default");
    assert_eq!(wanted(&test, &pods).await.unwrap(), ["w"]);
    assert!(wanted(&prod, &pods).await.unwrap().is_empty());

    // Objects without a namespace are never exempt.
    let nodes = request(Operation::Create, "", "v1", "nodes", "", "");
    assert_eq!(wanted(&prod, &nodes).await.unwrap(), ["w"]);

    // A namespace that is written is matched by its new labels, a deleted namespace by its stored labels.
    let mut namespace = request(Operation::Update, "", "v1", "namespaces", "", "default");
    namespace.object = Object::from_value(json!({"metadata": {"name": "default", "labels": {"env": "prod"}}}));
    assert_eq!(wanted(&prod, &namespace).await.unwrap(), ["w"]);
    assert!(wanted(&test, &namespace).await.unwrap().is_empty());
    namespace.subresource = "status".into();
    let mut statuses = rule(&["*"], &["*"], &["*"], &["*/*"], "*");
    statuses["namespaceSelector"] = json!({"matchLabels": {"env": "test"}});
    assert_eq!(wanted(&[with(statuses)], &namespace).await.unwrap(), ["w"]);
    let deleted = request(Operation::Delete, "", "v1", "namespaces", "", "default");
    assert_eq!(wanted(&test, &deleted).await.unwrap(), ["w"]);
}

#[tokio::test]
async fn a_namespace_that_the_cache_misses_is_asked_for_and_a_missing_one_is_a_404_only_if_a_rule_matches() {
    let mut fields = rule(&[""], &["v1"], &["*"], &["pods"], "*");
    fields["namespaceSelector"] = json!({"matchLabels": {"env": "test"}});
    let hooks = [with(fields)];
    let live = FixedState {
        namespaces: Vec::new(),
        live_namespaces: Some(default_state().namespaces),
        ..FixedState::default()
    };
    let pods = request(Operation::Create, "", "v1", "pods", "", "default");
    assert_eq!(wanted_in(live, &hooks, &pods).await.unwrap(), ["w"]);

    let missing = wanted(&hooks, &request(Operation::Create, "", "v1", "pods", "", "nope")).await.unwrap_err();
    assert_eq!((missing.code, &*missing.message), (404, "namespaces \"nope\" not found"));
    let other = request(Operation::Create, "", "v1", "services", "", "nope");
    assert!(wanted(&hooks, &other).await.unwrap().is_empty());
}

#[tokio::test]
async fn object_selectors_look_at_the_new_and_the_old_object() {
    let hooks = [with(json!({"objectSelector": {"matchLabels": {"watch": "yes"}}}))];
    let labelled = || Object::from_value(json!({"metadata": {"labels": {"watch": "yes"}}})).unwrap();
    let mut attributes = create(configmap());
    assert!(wanted(&hooks, &attributes).await.unwrap().is_empty());
    attributes.old_object = Some(Arc::new(labelled()));
    assert_eq!(wanted(&hooks, &attributes).await.unwrap(), ["w"]);
    attributes.object = None;
    assert_eq!(wanted(&hooks, &attributes).await.unwrap(), ["w"]);
    attributes.old_object = None;
    let absent = [with(json!({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}))];
    assert!(wanted(&absent, &attributes).await.unwrap().is_empty());
    attributes.object = Some(labelled());
    attributes.operation = Operation::Connect;
    assert!(wanted(&absent, &attributes).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_broken_selector_is_an_error_of_matching_requests_only() {
    let broken = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    for field in ["namespaceSelector", "objectSelector"] {
        let mut fields = json!({});
        fields[field] = broken.clone();
        let hooks = [with(fields)];
        let status = wanted(&hooks, &create(configmap())).await.unwrap_err();
        assert_eq!(status.code, 500);
        let want = "Internal error occurred: \"Like\" is not a valid label selector operator";
        assert_eq!(status.message, want, "{field}");
        let pods = request(Operation::Create, "", "v1", "pods", "", "default");
        assert!(wanted(&hooks, &pods).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_hook_may_match_only_through_an_equivalent_resource() {
    let named = |groups: &[&str], versions: &[&str], resource: &str, policy: &str| {
        let mut fields = rule(groups, versions, &["*"], &[resource], "*");
        fields["matchPolicy"] = policy.into();
        [with(fields)]
    };
    let autoscalers =
        |versions: &[&str], policy: &str| named(&["autoscaling"], versions, "horizontalpodautoscalers", policy);
    let hpa = request(Operation::Create, "autoscaling", "v1", "horizontalpodautoscalers", "", "default");
    let as_v2 = ["w as autoscaling/v2, Kind=HorizontalPodAutoscaler"];
    assert_eq!(wanted(&autoscalers(&["v2"], "Equivalent"), &hpa).await.unwrap(), as_v2);
    assert!(wanted(&autoscalers(&["v2"], "Exact"), &hpa).await.unwrap().is_empty());
    assert_eq!(wanted(&autoscalers(&["v2", "v1"], "Equivalent"), &hpa).await.unwrap(), ["w"]);
    assert!(wanted(&autoscalers(&["v2beta2"], "Equivalent"), &hpa).await.unwrap().is_empty());
    let mut status = hpa;
    status.subresource = "status".into();
    assert!(wanted(&autoscalers(&["v2"], "Equivalent"), &status).await.unwrap().is_empty());

    let event = request(Operation::Create, "", "v1", "events", "", "default");
    let other = named(&["events.k8s.io"], &["v1"], "events", "Equivalent");
    assert_eq!(wanted(&other, &event).await.unwrap(), ["w as events.k8s.io/v1, Kind=Event"]);
    let event = request(Operation::Create, "events.k8s.io", "v1", "events", "", "default");
    let other = named(&[""], &["*"], "*", "Equivalent");
    assert_eq!(wanted(&other, &event).await.unwrap(), ["w as v1, Kind=Event"]);

    let deployment = request(Operation::Create, "apps", "v1", "deployments", "", "default");
    let other = named(&["apps"], &["v1beta1"], "deployments", "Equivalent");
    assert!(wanted(&other, &deployment).await.unwrap().is_empty());
}

#[tokio::test]
async fn versions_of_a_custom_resource_are_equivalent_served_or_not() {
    let definition = json!({
        "metadata": {"name": "gadgets.lab.dev"},
        "spec": {"group": "lab.dev", "versions": [
            {"name": "v1alpha1", "served": false, "storage": false},
            {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {}}},
            {"name": "v1beta1", "served": true, "storage": false, "subresources": {"scale": {}}},
        ]},
        "status": {"acceptedNames": {"kind": "Gadget"}}
    });
    let state = || {
        let definitions = vec![serde_json::from_value(definition.clone()).unwrap()];
        default_state().cached::<crate::cluster::Definition>(definitions)
    };
    let named = |versions: &[&str]| [with(rule(&["lab.dev"], versions, &["*"], &["gadgets", "gadgets/*"], "*"))];
    for (subresource, versions, want) in [
        ("", &["v1beta1"][..], "w as lab.dev/v1beta1, Kind=Gadget"),
        ("", &["v1alpha1"], "w as lab.dev/v1alpha1, Kind=Gadget"),
        ("", &["v1beta1", "v1alpha1"], "w as lab.dev/v1alpha1, Kind=Gadget"),
        ("", &["v2"], ""),
        ("scale", &["v1beta1"], "w as autoscaling/v1, Kind=Scale"),
        ("scale", &["v1alpha1"], ""),
        ("status", &["v1beta1"], ""),
    ] {
        let gadget = request(Operation::Update, "lab.dev", "v1", "gadgets", subresource, "default");
        let found = wanted_in(state(), &named(versions), &gadget).await.unwrap();
        assert_eq!(found.join(" "), want, "{subresource} {versions:?}");
    }
}

#[tokio::test]
async fn a_hook_for_another_version_of_an_aggregated_api_refuses() {
    let hooks = [with(rule(&["aggregated.dev"], &["v2"], &["*"], &["things"], "*"))];
    let mut thing = create(json!({"apiVersion": "aggregated.dev/v1", "kind": "Thing", "metadata": {"name": "c"}}));
    thing.kind = GroupVersionKind::new("aggregated.dev", "v1", "Thing");
    thing.resource = GroupVersionResource::new("aggregated.dev", "v1", "things");
    let why = "converting (v1.Thing) to (v2.Thing): unknown conversion";
    let status = refused(validating(&hooks).plugin.validate(&thing).await, &thing);
    assert_eq!((status.code, &*status.message), (500, &*format!("Internal error occurred: {why}")));
    let status = refused(mutating(&hooks).plugin.admit(&mut thing).await, &thing);
    assert_eq!(status.message, format!("Internal error occurred: Internal error occurred: {why}"));
}

/// The result of a create of a configmap, with a hook that cannot be called and these conditions.
async fn with_conditions(conditions: &[&str], failure_policy: &str) -> (World<ValidatingWebhooks>, Result<(), Status>) {
    let conditions: Vec<_> = conditions.iter().map(|source| json!({"name": "c", "expression": source})).collect();
    let fields = json!({"matchConditions": conditions, "failurePolicy": failure_policy});
    let world = validating(&[with(fields)]);
    let attributes = create(configmap());
    let result = world.plugin.validate(&attributes).await.map_err(|denial| denial.into_status(&attributes));
    (world, result)
}

#[tokio::test]
async fn a_condition_that_is_false_leaves_the_request_out() {
    let (world, result) = with_conditions(&["true", "request.name != 'c'", "object.data.x == 'y'"], "Fail").await;
    assert_eq!(result, Ok(()));
    let labels = r#"{kind="webhook",name="w",operation="CREATE",type="validating"}"#;
    for name in ["exclusions_total", "evaluation_errors_total", "evaluation_seconds_count"] {
        let expected = u8::from(name != "evaluation_errors_total");
        let line = format!("apiserver_admission_match_condition_{name}{labels} {expected}");
        assert!(world.metric(&line) || expected == 0, "{line}");
    }
}

#[tokio::test]
async fn undecidable_conditions_are_a_failure_or_skip_the_request() {
    let conditions = ["object.data.x == 'y'", "true"];
    let (world, result) = with_conditions(&conditions, "Fail").await;
    let status = result.unwrap_err();
    assert_eq!((status.code, &*status.reason), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "configmaps \"c\" is forbidden: expression 'object.data.x == 'y'' resulted in error: no such key: data"
    );
    assert!(world.metric(
        r#"apiserver_admission_match_condition_evaluation_errors_total{kind="webhook",name="w",operation="CREATE",type="validating"} 1"#
    ));
    assert_eq!(with_conditions(&conditions, "Ignore").await.1, Ok(()));
}

#[tokio::test]
async fn a_hook_whose_conditions_hold_is_called() {
    let (_, result) = with_conditions(&["object.metadata.name == 'c' && request.operation == 'CREATE'"], "Fail").await;
    assert!(result.unwrap_err().message.contains("failed calling webhook"));
}

#[tokio::test]
async fn the_kinds_that_configure_admission_are_exempt() {
    let mut fields = rule(&["*"], &["*"], &["*"], &["*"], "*");
    fields["failurePolicy"] = "Fail".into();
    let (mutating, validating) = (mutating(&[with(fields.clone())]), validating(&[with(fields)]));
    let group = "admissionregistration.k8s.io";
    for (kind, exempt) in [
        ("ValidatingWebhookConfiguration", true),
        ("MutatingWebhookConfiguration", true),
        ("ValidatingAdmissionPolicy", true),
        ("MutatingAdmissionPolicyBinding", true),
        ("Other", false),
    ] {
        let mut attributes = request(Operation::Create, group, "v1", "whatever", "", "");
        attributes.kind = GroupVersionKind::new(group, "v1", kind);
        assert_eq!(mutating.plugin.admit(&mut attributes).await.is_ok(), exempt, "{kind}");
        assert_eq!(validating.plugin.validate(&attributes).await.is_ok(), exempt, "{kind}");
    }
}

#[tokio::test]
async fn reviews_are_seen_by_no_hook_since_1_37() {
    let mut fields = rule(&["*"], &["*"], &["*"], &["*"], "*");
    fields["failurePolicy"] = "Fail".into();
    let off = "ExcludeAdmissionWebhookVirtualResources=false";
    for (minor, gates, group, resource, is_excluded) in [
        (36, "", "authorization.k8s.io", "subjectaccessreviews", false),
        (37, "", "authorization.k8s.io", "subjectaccessreviews", true),
        (37, "", "authorization.k8s.io", "localsubjectaccessreviews", true),
        (37, "", "authentication.k8s.io", "tokenreviews", true),
        (37, "", "authentication.k8s.io", "subjectaccessreviews", false),
        (37, off, "authentication.k8s.io", "tokenreviews", false),
    ] {
        let gates = FeatureGates::of(EmulatedRelease::new(minor), gates).unwrap();
        let mutating = mutating(&[with(fields.clone())]).plugin.with_gates(&gates);
        let validating = validating(&[with(fields.clone())]).plugin.with_gates(&gates);
        let mut attributes = request(Operation::Create, group, "v1", resource, "", "");
        let what = format!("{resource}.{group} in 1.{minor}");
        assert_eq!(validating.validate(&attributes).await.is_ok(), is_excluded, "{what}");
        assert_eq!(validating.may_match(&attributes, Content::Any), !is_excluded, "{what}");
        assert_eq!(mutating.admit(&mut attributes).await.is_ok(), is_excluded, "{what}");
    }
}

#[test]
fn requests_for_other_resources_meet_no_hook() {
    let configuration: MutatingWebhookConfiguration =
        configuration(&[with(json!({})), with(rule(&["*"], &["*"], &["DELETE"], &["*"], "*"))]);
    let hooks = Hooks::compile(
        [&[], &[Arc::new(configuration)]],
        &Clients::new(&Limits::default(), Kubeconfig::default()),
        Release::default(),
    );
    let cluster = Cluster::fixed(default_state());
    let positions = |resource: &str, operation| {
        let attributes = request(operation, "", "v1", resource, "", "default");
        hooks.candidates(&attributes, &cluster).map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(positions("configmaps", Operation::Create), [0]);
    assert_eq!(positions("configmaps", Operation::Delete), [0, 1]);
    assert!(positions("pods", Operation::Create).is_empty());
    assert_eq!(positions("pods", Operation::Delete), [1]);
}

#[test]
fn configurations_are_called_by_name_and_hooks_of_one_name_are_distinguished() {
    let named = |name: &str| -> Arc<MutatingWebhookConfiguration> {
        let mut configuration: MutatingWebhookConfiguration = configuration(&[with(json!({})), with(json!({}))]);
        configuration.metadata.name = Some(name.into());
        Arc::new(configuration)
    };
    let hooks = Hooks::compile(
        [&[], &[named("b"), named("a")]],
        &Clients::new(&Limits::default(), Kubeconfig::default()),
        Release::default(),
    );
    let (attributes, cluster) = (create(configmap()), Cluster::fixed(default_state()));
    let uids: Vec<_> = hooks.candidates(&attributes, &cluster).map(|(_, hook)| &*hook.uid).collect();
    assert_eq!(uids, ["a/w/0", "a/w/1", "b/w/0", "b/w/1"]);
}
