//! The features that both kinds of policies share: shadow mode, parameters of policies from files, and label selectors.

use super::testing::*;
use super::*;
use crate::admission::PolicyOptions;
use crate::admission::shadow::{POLICY, ShadowNames};
use crate::config::PolicyParameters;
use crate::manifests::policies::Policy as Manifest;
use crate::manifests::{LoadError, Source};
use crate::status::Status;
use k8s_openapi::api::admissionregistration::v1 as api;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::Path;

/// An object with this value of the shadow annotation.
fn marked<T: DeserializeOwned>(name: &str, annotation: &str, spec: &Value) -> T {
    let metadata = json!({"name": name, "annotations": {POLICY: annotation}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn options(shadows: &[&str]) -> PolicyOptions {
    PolicyOptions {
        shadows: ShadowNames::new(shadows.iter().map(|&name| name.to_owned()).collect()),
        ..PolicyOptions::default()
    }
}

/// The reports in the audit annotations: the key's end, the binding, the decision, the code, message and paths.
fn reports(attributes: &Attributes) -> Vec<(String, Value)> {
    let all = attributes.annotations.take().into_iter();
    let of_shadows = all.filter_map(|(key, text, _)| {
        let (phase, name) = key.split_once(".shadow.kube-admission-proxy.dev/")?;
        let report: Value = serde_json::from_str(&text).unwrap();
        let fields = ["configuration", "decision", "code", "message", "paths"].map(|field| report[field].clone());
        Some((format!("{phase} {name}"), Value::from(fields.to_vec())))
    });
    of_shadows.collect()
}

/// A policy with this spec, and one binding for each of these actions.
fn validating(annotation: &str, spec: Value, actions: &[&str], options: &PolicyOptions) -> World<ValidatingPolicies> {
    let spec = with(json!({ "matchConstraints": constraints() }), spec);
    let bindings = actions.iter().enumerate().map(|(at, action)| {
        let spec = json!({"policyName": "p", "validationActions": action.split(',').collect::<Vec<_>>()});
        api(&format!("b{at}"), spec)
    });
    let state = state(Vec::new())
        .with::<api::ValidatingAdmissionPolicy>(vec![marked("p", annotation, &spec)])
        .with::<Binding<api::ValidatingAdmissionPolicyBinding>>(bindings.collect());
    world_of(state, options, |environment| ValidatingPolicies::new(environment, Source::default()))
}

/// Policies that apply these configurations, each with a binding of the same name.
fn mutating(policies: &[(&str, &str, Value)], options: &PolicyOptions) -> World<MutatingPolicies> {
    let all = policies.iter().map(|(name, expression, fields)| {
        let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
        let spec =
            json!({"matchConstraints": constraints(), "reinvocationPolicy": "IfNeeded", "mutations": [mutation]});
        api(name, with(spec, fields.clone()))
    });
    let bindings = policies.iter().map(|(name, ..)| api(name, json!({ "policyName": name })));
    let state = state(Vec::new())
        .with::<api::MutatingAdmissionPolicy>(all.collect())
        .with::<Binding<api::MutatingAdmissionPolicyBinding>>(bindings.collect());
    world_of(state, options, |environment| MutatingPolicies::new(environment, Source::default()))
}

async fn refusal(world: &World<ValidatingPolicies>, attributes: &Attributes) -> Option<Status> {
    world.plugin.validate(attributes).await.err().map(|denial| denial.into_status(attributes))
}

#[tokio::test]
async fn a_validating_shadow_reaches_only_metrics_and_audit() {
    let fails = json!({"validations": [{"expression": "object.data.a == '2'", "message": "a must be 2", "reason": "Forbidden"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'reported'"}]});
    let actions = ["Deny", "Warn,Audit"];
    let enforced = validating("false", fails.clone(), &actions, &PolicyOptions::default());
    let attributes = create();
    assert_eq!(refusal(&enforced, &attributes).await.unwrap().code, 403);
    assert_eq!(attributes.annotations.take().len(), 2);

    for (annotation, options) in [("true", options(&[])), ("", options(&["p"]))] {
        let world = validating(annotation, fails.clone(), &actions, &options);
        let attributes = create();
        assert_eq!(refusal(&world, &attributes).await, None);
        assert!(attributes.context.warnings.header_values().is_empty());
        let denied = json!(["b0", "denied", 403, "a must be 2", null]);
        let warned = json!(["b1", "allowed", null, null, null]);
        let expected = [("validation policy_index_0", denied), ("validation policy_index_1", warned)];
        assert_eq!(reports(&attributes), expected.map(|(key, report)| (key.to_owned(), report)));
        assert!(world.has_metric(
            r#"admission_proxy_shadow_decisions_total{decision="denied",kind="policy",name="p",operation="CREATE",type="validating"} 1"#
        ));
        assert!(!world.registry.gather().iter().any(|family| family.name().contains("policy_check")));
    }
    // One binding of the policy is in shadow mode.
    let world = validating("", fails, &["Deny", "Deny"], &options(&["p/b0"]));
    let attributes = create();
    let status = refusal(&world, &attributes).await.unwrap();
    assert!(status.message.contains("with binding 'b1'"), "{status}");
    assert_eq!(status.details.unwrap().causes.len(), 1);
    assert_eq!(reports(&attributes)[0].1[0], "b0");
}

#[tokio::test]
async fn the_failure_policy_decides_how_a_failed_validating_shadow_is_reported() {
    let unknown = json!({"paramKind": {"apiVersion": "v1", "kind": "Nothing"}});
    for (fields, binding, message) in [
        (json!({}), "b0", "expression 'object.data.b == ''' resulted in error: no such key: b"),
        (
            unknown,
            "",
            "failed to configure policy: failed to find resource referenced by paramKind: '/v1, Kind=Nothing'",
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "object.data.c == ''"}]}),
            "b0",
            "expression 'object.data.c == ''' resulted in error: no such key: c",
        ),
    ] {
        for (failure_policy, decision) in [("Fail", "failed-closed"), ("Ignore", "failed-open")] {
            let spec = json!({"failurePolicy": failure_policy, "validations": [{"expression": "object.data.b == ''"}]});
            let world = validating("true", with(spec, fields.clone()), &["Deny"], &PolicyOptions::default());
            let attributes = create();
            assert_eq!(refusal(&world, &attributes).await, None);
            let mut reported = reports(&attributes);
            if failure_policy == "Ignore" && fields.get("matchConditions").is_some() {
                // An ignored error of matchConditions excludes the request, as outside of shadow mode.
                assert_eq!(reported, []);
                continue;
            }
            assert_eq!(reported.remove(0).1, json!([binding, decision, 422, message, null]));
        }
    }
    let mut attributes = create();
    attributes.namespace = "nowhere".into();
    let world =
        validating("true", json!({"validations": [{"expression": "true"}]}), &["Deny"], &PolicyOptions::default());
    assert_eq!(refusal(&world, &attributes).await, None);
    let why = "namespaces \"nowhere\" not found";
    assert_eq!(reports(&attributes)[0].1, json!(["b0", "failed-closed", 404, why, null]));
}

#[tokio::test]
async fn many_shadows_are_all_counted_and_some_are_annotated() {
    let fails = json!({"validations": [{"expression": "false"}]});
    let world = validating("true", fails, &["Deny"; 60], &PolicyOptions::default());
    let attributes = create();
    assert_eq!(refusal(&world, &attributes).await, None);
    assert_eq!(reports(&attributes).len(), 50);
    assert!(world.has_metric(
        r#"admission_proxy_shadow_decisions_total{decision="denied",kind="policy",name="p",operation="CREATE",type="validating"} 60"#
    ));
}

#[tokio::test]
async fn changes_of_a_mutating_shadow_are_dropped() {
    let policies = [
        ("a", r#"Object{data: {"shadow/a": "1"}}"#, json!({})),
        ("b", r#"Object{data: {"b": string(has(object.data.a)) + string("shadow/a" in object.data)}}"#, json!({})),
        ("c", r#"Object{data: {"c": object.data.x}}"#, json!({})),
        ("d", r#"Object{data: {"a": "1"}}"#, json!({})),
        ("e", r#"Object{data: {"e": "1"}}"#, json!({"matchConditions": [{"name": "c", "expression": "false"}]})),
    ];
    let world = mutating(&policies, &options(&["a", "c/c", "d", "e"]));
    let mut attributes = create();
    world.plugin.admit(&mut attributes).await.unwrap();
    let data = |attributes: &Attributes| attributes.object.as_ref().and_then(|object| object.get(&["data"])).cloned();
    assert_eq!(data(&attributes), Some(json!({"a": "1", "b": "truefalse"})));
    let why = "expression 'Object{data: {\"c\": object.data.x}}' resulted in error: no such key: x";
    let expected = [
        json!(["a", "changed", null, null, ["/data/shadow~1a"]]),
        json!(["c", "failed-closed", 403, why, null]),
        json!(["d", "allowed", null, null, null]),
    ];
    let reported = reports(&attributes);
    assert_eq!(reported.iter().map(|(_, report)| report.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(reported[0].0, "mutation policy_index_0");
    let text = prometheus::TextEncoder::new().encode_to_string(&world.registry.gather()).unwrap();
    assert!(text.contains(r#"check_total{error_type="no_error",policy="b""#), "{text}");
    assert!(!text.contains(r#",policy="a""#), "{text}");
    // The second pass calls no policy in shadow mode.
    attributes.reinvocation.is_reinvoke = true;
    world.plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(reports(&attributes), []);
}

#[tokio::test]
async fn shadows_alone_do_not_change_that_nothing_is_changed() {
    let world = mutating(&[("a", r#"Object{data: {"a": "2"}}"#, json!({}))], &options(&["a"]));
    let mut attributes = create();
    world.plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(attributes.object, create().object);
    assert!(!attributes.reinvocation.requested);
    let mut attributes = create();
    attributes.namespace = "nowhere".into();
    world.plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(reports(&attributes)[0].1[1], "failed-closed");
}

/// A folder with a policy whose message is its parameter's name, and its binding.
fn folder(kind: &str, fields: Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let of = |kind: String, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "p.static.k8s.io"}, "spec": spec});
    let mut constraints = constraints();
    constraints["resourceRules"][0]["operations"] = json!(["CREATE"]);
    let spec = json!({"matchConstraints": constraints, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let reference = json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"});
    let mut bound = json!({"policyName": "p.static.k8s.io", "paramRef": reference});
    if kind == "ValidatingAdmissionPolicy" {
        bound["validationActions"] = json!(["Deny"]);
    }
    let items = [of(kind.into(), with(spec, fields)), of(format!("{kind}Binding"), bound)];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(folder.path().join("a.json"), list.to_string()).unwrap();
    folder
}

fn read<R, A>(folder: &Path, parameters: PolicyParameters) -> Result<Source<files::Files<R, A>>, LoadError>
where
    R: policy::Rules<Source: Manifest<Binding = A>>,
    A: Clone + 'static,
    Binding<A>: crate::cluster::Projection<Object = A>,
{
    let (_, metrics) = metrics();
    Source::follow(folder.to_owned(), "any", metrics.manifests().clone(), move |folder| {
        files::Files::load(folder, parameters, crate::cel::Release::default())
    })
}

#[tokio::test]
async fn a_policy_from_a_file_has_parameters_where_that_is_allowed() {
    let limits = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": "default"}, "data": {"x": "1"}});
    let says = json!({"validations": [{"expression": "false", "messageExpression": "string(params.metadata.name + params.data.x)"}]});
    let place = folder("ValidatingAdmissionPolicy", says);
    let forbidden = read::<validating::Validations, _>(place.path(), PolicyParameters::Forbidden).unwrap_err();
    assert!(forbidden.to_string().ends_with("spec.paramKind is not supported for static manifests"), "{forbidden}");
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    for (parameters, message) in [(vec![limits.clone()], "limits1"), (Vec::new(), missing)] {
        let files = read(place.path(), PolicyParameters::Allowed).unwrap();
        let world = world_of(state(parameters), &PolicyOptions::default(), |environment| {
            ValidatingPolicies::new(environment, files)
        });
        let status = refusal(&world, &create()).await.unwrap();
        let binding = "ValidatingAdmissionPolicy 'p.static.k8s.io' with binding 'p.static.k8s.io'";
        assert!(status.message.ends_with(&format!("{binding} denied request: {message}")), "{status}");
    }
    let sets =
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: params.data}"}});
    let place = folder("MutatingAdmissionPolicy", json!({"reinvocationPolicy": "Never", "mutations": [sets]}));
    assert!(read::<mutating::Mutations, _>(place.path(), PolicyParameters::Forbidden).is_err());
    let files = read(place.path(), PolicyParameters::Allowed).unwrap();
    let world = world_of(state(vec![limits]), &PolicyOptions::default(), |environment| {
        MutatingPolicies::new(environment, files)
    });
    let mut attributes = create();
    world.plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(attributes.object.unwrap().get(&["data"]), Some(&json!({"a": "1", "x": "1"})));
}
