//! Policies over a cluster that does not change.

use super::*;
use crate::admission::PolicyOptions;
use crate::cluster::FixedState;
use crate::config::{FeatureGates, PolicyParameters};
use crate::manifests;
use crate::matching::Content;
use crate::policies::Audience;
use crate::policies::files::Files;
use crate::policies::testing::*;
use crate::processor::{self, Processor};
use crate::sharer::Sharer;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::{Value, json};

/// The policies of a folder.
type ValidatingFiles = manifests::Source<Files<Validations, ValidatingAdmissionPolicyBinding>>;

fn world_in(state: FixedState, policies: Vec<Value>, bindings: Vec<Value>) -> World<ValidatingPolicies> {
    world_with(manifests::Source::default(), state, policies, bindings)
}

fn world_with(
    files: ValidatingFiles,
    state: FixedState,
    policies: Vec<Value>,
    bindings: Vec<Value>,
) -> World<ValidatingPolicies> {
    let policies = policies.into_iter().enumerate();
    let policies = policies.map(|(at, spec)| api::<ValidatingAdmissionPolicy>(&format!("p{at}"), spec)).collect();
    let bindings = bindings.into_iter().enumerate();
    let bindings = bindings.map(|(at, spec)| api(&format!("b{at}"), spec)).collect();
    let state =
        state.with::<ValidatingAdmissionPolicy>(policies).with::<Binding<ValidatingAdmissionPolicyBinding>>(bindings);
    world_of(state, &PolicyOptions::default(), |environment| ValidatingPolicies::new(environment, files))
}

fn policy(fields: Value) -> Value {
    with(json!({ "matchConstraints": constraints() }), fields)
}

fn binding(fields: Value) -> Value {
    with(json!({"policyName": "p0", "validationActions": ["Deny"]}), fields)
}

/// One policy with one binding.
fn world(fields: Value) -> World<ValidatingPolicies> {
    world_in(state(Vec::new()), vec![policy(fields)], vec![binding(json!({}))])
}

async fn refusal(world: &World<ValidatingPolicies>, attributes: &Attributes) -> Option<Status> {
    world.plugin.validate(attributes).await.err().map(|denial| denial.into_status(attributes))
}

#[tokio::test]
async fn a_denial_is_kube_apiservers() {
    let world = world(
        json!({"validations": [{"expression": "object.data.a == '2'", "message": "a must be 2", "reason": "Forbidden"}]}),
    );
    let status = refusal(&world, &create()).await.unwrap();
    let text = "ValidatingAdmissionPolicy 'p0' with binding 'b0' denied request: a must be 2";
    assert_eq!((status.code, &*status.reason), (403, "Forbidden"));
    assert_eq!(status.message, format!("configmaps \"c\" is forbidden: {text}"));
    let details = status.details.unwrap();
    assert_eq!((&*details.name, &*details.kind, &*details.causes[0].message), ("c", "configmaps", text));
    assert!(world.has_metric(
        r#"apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="p0",policy_binding="b0"} 1"#
    ));
}

#[tokio::test]
async fn a_true_validation_passes_and_is_not_counted() {
    let world = world(json!({"validations": [{"expression": "object.data.a == '1' && request.name == 'c'"}]}));
    assert_eq!(refusal(&world, &create()).await, None);
    assert!(!world.registry.gather().iter().any(|family| family.name().contains("policy_check")));
}

#[tokio::test]
async fn bindings_without_parameters_share_an_evaluation() {
    let spec = json!({"failurePolicy": "Fail", "matchConditions": [{"name": "c", "expression": "object.data.b == ''"}],
        "validations": [{"expression": "true"}]});
    let bindings = (0..1000).map(|_| binding(json!({}))).collect();
    let world = world_in(state(Vec::new()), vec![policy(spec)], bindings);
    let status = refusal(&world, &create()).await.unwrap();
    assert!(status.message.ends_with("expression 'object.data.b == ''' resulted in error: no such key: b"), "{status}");
    assert!(world.has_metric(
        r#"apiserver_admission_match_condition_evaluation_errors_total{kind="policy",name="p0",operation="CREATE",type="validate"} 1"#
    ));
}

#[tokio::test]
async fn variables_of_variables_do_not_end_the_stack() {
    let with_variables = |count: usize| {
        let variable = |at: usize| match at {
            0 => json!({"name": "v0", "expression": "dyn([object])"}),
            at => json!({"name": format!("v{at}"), "expression": format!("dyn([variables.v{}])", at - 1)}),
        };
        let same = format!("variables.v{last} == variables.v{last}", last = count - 1);
        world(json!({"variables": (0..count).map(variable).collect::<Vec<_>>(), "validations": [{"expression": same}]}))
    };
    assert_eq!(refusal(&with_variables(200), &create()).await, None);
    let status = refusal(&with_variables(400), &create()).await.unwrap();
    assert!(status.message.ends_with("the variables that it is made of nest too deeply"), "{:.400}", status.message);
}

#[tokio::test]
async fn an_access_review_is_asked_for_and_the_expression_evaluated_again() {
    let check = |verb: &str| format!("authorizer.requestResource.check('{verb}').allowed()");
    let world = world(json!({"validations": [
        {"expression": check("get")},
        {"expression": format!("{} || authorizer.serviceAccount('n', 's').path('/x').check('post').allowed()", check("create")), "message": "may not"}]}));
    let status = refusal(&world, &create()).await.unwrap();
    assert!(status.message.ends_with("denied request: may not"), "{status}");
}

#[tokio::test]
async fn actions_warn_and_audit() {
    let validations = json!({"validations": [{"expression": "true"}, {"expression": "false", "message": "no"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'v' + object.data.a"}]});
    let world = world_in(
        state(Vec::new()),
        vec![policy(validations)],
        vec![binding(json!({"validationActions": ["Warn", "Audit"]}))],
    );
    let attributes = create();
    assert_eq!(refusal(&world, &attributes).await, None);
    let warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p0' with binding 'b0': no\"";
    assert_eq!(attributes.context.warnings.header_values(), [warning]);
    let annotations: Vec<_> = attributes.annotations.take().into_iter().map(|(key, value, _)| (key, value)).collect();
    let failure =
        r#"[{"message":"no","policy":"p0","binding":"b0","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    let expected = [("p0/k", "v1"), ("validation.policy.admission.k8s.io/validation_failure", failure)];
    assert_eq!(annotations, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn since_1_37_one_annotation_has_the_failures_of_all_policies() {
    let item = |policy: &str, binding: &str, index: usize| {
        format!(
            r#"{{"message":"no","policy":"{policy}","binding":"{binding}","expressionIndex":{index},"validationActions":["Audit"]}}"#
        )
    };
    let first = item("p0", "b0", 0);
    let all = [item("p0", "b0", 0), item("p0", "b0", 1), item("p0", "b1", 0), item("p0", "b1", 1), item("p1", "b2", 0)];
    for (minor, expected) in [(36, format!("[{first}]")), (37, format!("[{}]", all.join(",")))] {
        let fails = json!({"expression": "false", "message": "no"});
        let two = policy(json!({"validations": [fails, fails]}));
        let one = policy(json!({"validations": [fails]}));
        let audits = |policy: &str| binding(json!({"policyName": policy, "validationActions": ["Audit"]}));
        let bindings = vec![audits("p0"), audits("p0"), audits("p1")];
        let mut world = world_in(state(Vec::new()), vec![two, one], bindings);
        world.plugin.gates = FeatureGates::of_release(minor, "");
        let attributes = create();
        assert_eq!(refusal(&world, &attributes).await, None);
        let annotations = attributes.annotations.take();
        assert_eq!(annotations.len(), 1);
        assert_eq!(annotations[0].1, expected, "1.{minor}");
    }
}

#[tokio::test]
async fn a_policy_is_asked_once_with_each_parameter() {
    let parameter = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "labels": {"l": "x"}}});
    let spec = policy(json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
        {"expression": "false", "messageExpression": "params == null ? 'none' : params.kind + ' ' + params.metadata.name"}]}));
    let warned = |reference: Value| {
        let bound = binding(json!({"validationActions": ["Warn"], "paramRef": reference}));
        let world = world_in(state(vec![parameter("one"), parameter("two")]), vec![spec.clone()], vec![bound]);
        async move {
            let attributes = create();
            let refused = refusal(&world, &attributes).await.map(|status| status.message);
            let warnings = attributes.context.warnings.header_values();
            let said = warnings
                .iter()
                .map(|text| text.to_str().unwrap().rsplit(": ").next().unwrap().trim_end_matches('"').to_owned());
            (refused, said.collect::<Vec<_>>())
        }
    };
    assert_eq!(warned(json!({"name": "two"})).await, (None, vec!["ConfigMap two".to_owned()]));
    let both = vec!["ConfigMap one".to_owned(), "ConfigMap two".to_owned()];
    assert_eq!(warned(json!({"selector": {"matchLabels": {"l": "x"}}})).await, (None, both));
    assert_eq!(warned(json!({"name": "three"})).await, (None, Vec::new()));
    assert_eq!(warned(json!(null)).await, (None, vec!["none".to_owned()]));
    let (refused, _) = warned(json!({"name": "three", "parameterNotFoundAction": "Deny"})).await;
    let why = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p0' with binding 'b0' denied request: failed to configure binding: \
        no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(refused.as_deref(), Some(why));
}

#[tokio::test]
async fn since_1_37_a_parameter_that_no_list_has_is_read() {
    let parameter =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": "default"}});
    let spec = policy(json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
        {"expression": "false", "messageExpression": "params.kind + ' ' + params.metadata.name"}]}));
    let missing = "no params found for policy binding with `Deny` parameterNotFoundAction";
    for (minor, name, expected) in
        [(36, "new", missing), (37, "new", "ConfigMap new"), (37, "none", missing), (37, "none", missing)]
    {
        let bound = binding(json!({"paramRef": {"name": name, "parameterNotFoundAction": "Deny"}}));
        let state = FixedState { unlisted: vec![parameter.clone()], ..state(Vec::new()) };
        let mut world = world_in(state, vec![spec.clone()], vec![bound]);
        world.plugin.gates = FeatureGates::of_release(minor, "");
        let status = refusal(&world, &create()).await.unwrap();
        assert!(status.message.ends_with(expected), "1.{minor} {name}: {status}");
    }
}

#[tokio::test]
async fn a_kind_of_parameters_that_is_not_served_is_a_mistake_in_the_policy() {
    for (failure_policy, expected) in [("Ignore", None), ("Fail", Some("/v1, Kind=Nothing"))] {
        let world =
            world(json!({"failurePolicy": failure_policy, "paramKind": {"apiVersion": "v1", "kind": "Nothing"},
            "validations": [{"expression": "true"}]}));
        let refused = refusal(&world, &create()).await.map(|status| status.message);
        let why = expected.map(|kind| {
            format!("configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p0' denied request: failed to configure policy: \
                failed to find resource referenced by paramKind: '{kind}'")
        });
        assert_eq!(refused, why);
        assert_eq!(world.plugin.problems().len(), 1);
    }
}

#[tokio::test]
async fn an_expression_that_does_not_compile_is_reported_and_obeys_the_failure_policy() {
    for (failure_policy, is_refused) in [("Ignore", false), ("Fail", true)] {
        let world = world(json!({"failurePolicy": failure_policy, "validations": [{"expression": "objects.x"}]}));
        let problems = world.plugin.problems();
        assert!(problems[0].starts_with("ValidatingAdmissionPolicy p0: compilation failed: ERROR: <input>:1:1: undeclared reference to 'objects'"), "{problems:?}");
        let refused = refusal(&world, &create()).await;
        assert_eq!(refused.is_some(), is_refused);
        if let Some(status) = refused {
            assert!(
                status.message.contains("denied request: compilation error: compilation failed: ERROR: <input>:1:1"),
                "{status}"
            );
        }
        let (action, error) = (if is_refused { "deny" } else { "allow" }, "compile_error");
        let line = format!(
            "apiserver_validating_admission_policy_check_total{{enforcement_action=\"{action}\",error_type=\"{error}\",policy=\"p0\",policy_binding=\"b0\"}} 1"
        );
        assert!(world.has_metric(&line), "{line}");
    }
}

#[tokio::test]
async fn the_namespace_must_exist_where_a_policy_matches() {
    let world = world(json!({"validations": [{"expression": "namespaceObject.metadata.labels.team == 'red'"}]}));
    assert_eq!(refusal(&world, &create()).await, None);
    let mut attributes = create();
    attributes.namespace = "nowhere".into();
    let status = refusal(&world, &attributes).await.unwrap();
    assert_eq!((status.code, &*status.message), (404, "namespaces \"nowhere\" not found"));
    attributes.resource.resource = "secrets".into();
    assert_eq!(refusal(&world, &attributes).await, None);
}

#[tokio::test]
async fn policies_and_access_reviews_are_not_seen() {
    let any = json!({"matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
        "validations": [{"expression": "false"}]});
    let world = world_in(state(Vec::new()), vec![any], vec![binding(json!({}))]);
    for (group, resource, is_seen) in [
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", false),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", false),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", true),
        ("authorization.k8s.io", "subjectaccessreviews", false),
        ("authentication.k8s.io", "tokenreviews", false),
        ("", "secrets", true),
    ] {
        let mut attributes = create();
        (attributes.resource.group, attributes.resource.resource) = (group.into(), resource.into());
        assert_eq!(refusal(&world, &attributes).await.is_some(), is_seen, "{resource}");
        assert_eq!(world.plugin.may_match(&attributes, Content::Present), is_seen, "{resource}");
    }
}

#[tokio::test]
async fn a_budget_that_is_spent_ends_the_policy() {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let costly = format!("{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, a + b + c + d >= 0))))");
    // Each validation costs some 60,000; the budget is 10,000,000.
    let world = |count: usize, failure_policy: &str| {
        world(json!({"failurePolicy": failure_policy, "validations": vec![json!({ "expression": costly }); count]}))
    };
    assert_eq!(refusal(&world(2, "Fail"), &create()).await, None);
    let spent = world(400, "Fail");
    let status = refusal(&spent, &create()).await.unwrap();
    assert!(status.message.ends_with("denied request: validation failed due to running out of cost budget, no further validation rules will be run"), "{status}");
    assert!(spent.has_metric(
        r#"apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="out_of_budget",policy="p0",policy_binding="b0"} 1"#
    ));
    assert_eq!(refusal(&world(400, "Ignore"), &create()).await, None);
}

#[tokio::test]
async fn many_brief_evaluations_leave_the_worker() {
    let spec = || policy(json!({"validations": [{"expression": "lists.range(1000).all(x, x >= 0)"}]}));
    for (count, is_long) in [(1, false), (20, true)] {
        let bindings = (0..count).map(|at| binding(json!({ "policyName": format!("p{at}") })));
        let world = world_in(state(Vec::new()), (0..count).map(|_| spec()).collect(), bindings.collect());
        let work = async { (refusal(&world, &create()).await, processor::short_left().is_some()) };
        assert_eq!(Processor::new(1).run(&Sharer::named("alice"), work).await, (None, !is_long), "{count} policies");
    }
}

/// Writes a file with a policy that rejects every request with this message, and its binding.
fn file(folder: &std::path::Path, name: &str, message: &str) {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
    let policy = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": message}]});
    let binding = json!({"policyName": format!("{name}.static.k8s.io"), "validationActions": ["Deny"]});
    let of = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": format!("{name}.static.k8s.io")}, "spec": spec});
    let items = [of("ValidatingAdmissionPolicy", policy), of("ValidatingAdmissionPolicyBinding", binding)];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(folder.join(format!("{name}.json")), list.to_string()).unwrap();
}

fn followed(folder: &std::path::Path) -> Result<ValidatingFiles, manifests::LoadError> {
    let (_, metrics) = metrics();
    let load =
        |folder: &std::path::Path| Files::load(folder, PolicyParameters::Forbidden, crate::cel::Release::default());
    manifests::Source::follow(folder.to_owned(), "ValidatingAdmissionPolicy", metrics.manifests().clone(), load)
}

fn of_resource(group: &str, resource: &str) -> Attributes {
    let resource = crate::kind::GroupVersionResource::new(group, "v1", resource);
    let kind = crate::kind::GroupVersionKind::new(group, "v1", "Any");
    Attributes { resource, kind, namespace: String::new(), ..create() }
}

#[tokio::test]
async fn a_long_evaluation_leaves_the_worker_and_answers_the_same() {
    let costly = "lists.range(20000).all(x, x >= 0)";
    for (spec, is_long) in [
        (json!({"validations": [{"expression": "object.data.a == '2'"}]}), false),
        (json!({"validations": [{"expression": format!("!({costly})")}]}), true),
        (
            json!({"variables": [{"name": "v", "expression": costly}], "validations": [{"expression": "!variables.v"}]}),
            true,
        ),
        (
            json!({"validations": [{"expression": "false"}], "matchConditions": [{"name": "c", "expression": costly}]}),
            true,
        ),
    ] {
        let world = world(spec.clone());
        let work = async { (refusal(&world, &create()).await, processor::short_left().is_some()) };
        let (moved, is_short) = Processor::new(1).run(&Sharer::named("alice"), work).await;
        let status = moved.unwrap_or_else(|| panic!("{spec}"));
        assert_eq!((is_short, status.code), (!is_long, 422), "{spec}");
        assert_eq!(refusal(&world, &create()).await.map(|status| status.message), Some(status.message));
        let denied = |times| {
            let labels = r#"enforcement_action="deny",error_type="invalid_error",policy="p0",policy_binding="b0""#;
            world.has_metric(&format!("apiserver_validating_admission_policy_check_total{{{labels}}} {times}"))
        };
        assert!(denied(2), "{spec}");
    }
}

#[tokio::test]
async fn policies_from_files_are_first_and_see_policies_too() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "z", "by z");
    file(folder.path(), "y", "by y");
    let everything =
        json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]});
    let stored = json!({"matchConstraints": everything, "validations": [{"expression": "false", "message": "by p0"}]});
    let files = followed(folder.path()).unwrap();
    let world = world_with(files, state(Vec::new()), vec![stored.clone()], vec![binding(json!({}))]);
    let (policies, maps) = (world.plugin.source.policies(), create());
    let names = |audience, of| -> Vec<String> {
        policies.candidates(audience, of, &world.plugin.cluster).map(|(_, hook)| hook.policy.name.to_string()).collect()
    };
    let bindings = of_resource("admissionregistration.k8s.io", "mutatingadmissionpolicybindings");
    assert_eq!(names(Audience::All, &maps), ["y.static.k8s.io", "z.static.k8s.io", "p0"]);
    assert_eq!(names(Audience::Files, &bindings), ["y.static.k8s.io", "z.static.k8s.io"]);
    for attributes in [&maps, &bindings] {
        assert!(refusal(&world, attributes).await.unwrap().message.ends_with("by y"));
        assert!(world.plugin.may_match(attributes, Content::Present));
    }
    assert_eq!(refusal(&world, &of_resource("authentication.k8s.io", "tokenreviews")).await, None);
    let without = world_in(state(Vec::new()), vec![stored], vec![binding(json!({}))]);
    assert_eq!(refusal(&without, &bindings).await, None);
}

#[tokio::test]
async fn a_folder_is_followed_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "a", "first");
    let world = world_with(followed(folder.path()).unwrap(), state(Vec::new()), Vec::new(), Vec::new());
    let says = async |what: &str| refusal(&world, &create()).await.unwrap().message.ends_with(what);
    assert!(says("first").await);
    std::fs::write(folder.path().join("b.json"), "{}").unwrap();
    file(folder.path(), "a", "second");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(says("first").await);
    assert!(followed(folder.path()).is_err());
    std::fs::remove_file(folder.path().join("b.json")).unwrap();
    let in_time = tokio::time::timeout(Duration::from_secs(10), async {
        while !says("second").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    in_time.await.unwrap();
}
