use super::*;
use crate::authz::Decision;
use crate::cluster::FixedState;
use crate::plugins::checker::{Check, check};

fn of(state: FixedState) -> Initializers {
    let cluster = Cluster::fixed(state);
    Initializers { configurations: RemovedObjects::ApiServer(cluster.clone()), cluster }
}

fn configuration(name: &str, initializers: Value) -> InitializerConfiguration {
    let value = json!({"metadata": {"name": name}, "initializers": initializers});
    serde_json::from_value(value).unwrap()
}

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource]})
}

fn plugin(configurations: Vec<InitializerConfiguration>) -> Initializers {
    of(FixedState::default().cached::<InitializerConfiguration>(configurations))
}

/// The plugin with one initializer of config maps.
fn usual() -> Initializers {
    plugin(vec![configuration("c", json!([{"name": "one.lab.io", "rules": [rule("", "configmaps")]}]))])
}

fn object(initializers: Value) -> Value {
    json!({"metadata": {"name": "c1", "namespace": "ns", "initializers": initializers}})
}

fn plain() -> Value {
    json!({"metadata": {"name": "c1", "namespace": "ns"}})
}

fn waiting_for(names: &[&str]) -> Value {
    let pending: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    object(json!({ "pending": pending }))
}

/// A caller who may initialize config maps of the namespace, and by name only `c1`.
fn initializes(question: &authz::AccessAttributes) -> Decision {
    let is_asked = (&*question.verb, &*question.namespace, &*question.resource) == ("initialize", "ns", "configmaps");
    Decision { allowed: is_asked && matches!(&*question.name, "" | "c1"), ..Decision::default() }
}

fn administrator(plugin: &Initializers) -> Check<'_> {
    check(plugin).caller(initializes)
}

#[tokio::test]
async fn initializers_are_sorted_by_their_configurations_and_keep_their_order() {
    let rules = || json!([rule("", "configmaps")]);
    let plugin = plugin(vec![
        configuration(
            "b-conf",
            json!([{"name": "one.lab.io", "rules": rules()}, {"name": "two.lab.io", "rules": rules()}]),
        ),
        configuration("a-conf", json!([{"name": "zero.lab.io", "rules": rules()}])),
    ]);
    let created = check(&plugin).create("", "configmaps", plain()).await;
    created.becomes(waiting_for(&["zero.lab.io", "one.lab.io", "two.lab.io"]));
}

#[tokio::test]
async fn every_rule_of_an_initializer_must_match() {
    let plugin = plugin(vec![configuration(
        "c",
        json!([
            {"name": "both-match.lab.io", "rules": [rule("", "*"), rule("", "secrets")]},
            {"name": "both-must-match.lab.io", "rules": [rule("", "configmaps"), rule("", "secrets")]},
            {"name": "no-rules.lab.io", "rules": []},
            {"name": "null-rules.lab.io", "rules": null},
            {"name": "without-rules.lab.io"},
        ]),
    )]);
    check(&plugin).create("", "secrets", plain()).await.becomes(waiting_for(&["both-match.lab.io"]));
    check(&plugin).create("", "pods", plain()).await.stays_unchanged();
}

#[test]
fn only_the_first_entry_of_a_list_is_a_wildcard() {
    let secrets = GroupVersionResource::new("", "v1", "secrets");
    for (groups, versions, resources, matches) in [
        (json!([""]), json!(["v1"]), json!(["secrets"]), true),
        (json!(["*"]), json!(["*"]), json!(["*"]), true),
        (json!(["x", ""]), json!(["v2", "v1"]), json!(["pods", "secrets"]), true),
        (json!([""]), json!(["v1"]), json!(["*/*"]), true),
        (json!(["x", "*"]), json!(["v1"]), json!(["secrets"]), false),
        (json!([""]), json!(["v1"]), json!(["pods", "*"]), false),
        (json!([""]), json!(["v1beta1"]), json!(["secrets"]), false),
        (json!([""]), json!(["v1"]), json!(["secrets/status"]), false),
        (json!([]), json!(["v1"]), json!(["secrets"]), false),
        (Value::Null, json!(["v1"]), json!(["secrets"]), false),
    ] {
        let rule = json!({"apiGroups": groups, "apiVersions": versions, "resources": resources});
        let rule: Rule = serde_json::from_value(rule.clone()).unwrap();
        assert_eq!(rule.matches(&secrets), matches, "{rule:?}");
    }
}

#[tokio::test]
async fn duplicate_names_of_a_configuration_stay() {
    let initializer = json!({"name": "a.b.c", "rules": [rule("", "configmaps")]});
    let plugin = plugin(vec![configuration("c", json!([initializer, initializer]))]);
    check(&plugin).create("", "configmaps", plain()).await.becomes(waiting_for(&["a.b.c", "a.b.c"]));
}

#[tokio::test]
async fn mirror_pods_and_reviews_are_exempt() {
    let any = json!([{"name": "any.lab.io", "rules": [rule("*", "*")]}]);
    let plugin = plugin(vec![configuration("c", any)]);
    let mirror =
        json!({"metadata": {"name": "c1", "namespace": "ns", "annotations": {"kubernetes.io/config.mirror": ""}}});
    check(&plugin).create("", "pods", mirror.clone()).await.stays_unchanged();
    let hidden = check(&plugin).create("", "secrets", mirror).await.after();
    assert_eq!(hidden["metadata"]["initializers"], json!({"pending": [{"name": "any.lab.io"}]}));
    check(&plugin).create("authorization.k8s.io", "subjectaccessreviews", plain()).await.stays_unchanged();
    check(&plugin).create("authentication.k8s.io", "tokenreviews", plain()).await.stays_unchanged();
}

#[tokio::test]
async fn subresources_are_ignored() {
    let plugin = usual();
    let status = check(&plugin).subresource("status");
    status.update("", "configmaps", plain(), waiting_for(&["a.b.c"])).await.stays_unchanged();
    check(&plugin).subresource("binding").create("", "pods", object(json!({}))).await.stays_unchanged();
}

#[tokio::test]
async fn a_create_with_initializers_needs_the_verb_initialize() {
    for initializers in [json!({}), json!({"pending": []}), json!({"pending": [{"name": "a.b.c"}]})] {
        let plugin = usual();
        let refused = check(&plugin).create("", "configmaps", object(initializers)).await;
        let status = refused.was_refused(403, "configmaps is forbidden: create with initializers denied: ");
        let details = Details { kind: "configmaps".into(), ..Details::default() };
        assert_eq!((status.reason.as_str(), status.details), ("Forbidden", Some(Box::new(details))));
    }
}

#[tokio::test]
async fn the_verb_is_needed_without_configurations_too() {
    let plugin = plugin(Vec::new());
    let refused = check(&plugin).create("", "configmaps", waiting_for(&["a.b.c"])).await;
    refused.was_refused(403, "configmaps is forbidden: create with initializers denied: ");
    check(&plugin).create("", "configmaps", plain()).await.stays_unchanged();
}

#[tokio::test]
async fn an_administrator_chooses_the_initializers() {
    let plugin = usual();
    for empty in [json!({}), json!({"pending": []}), json!({"pending": null, "result": null})] {
        administrator(&plugin).create("", "configmaps", object(empty)).await.becomes(plain());
    }
    for own in [waiting_for(&["x.y.z"]), waiting_for(&["x.y.z", "x.y.z"]), object(json!({"result": {"code": 1}}))] {
        administrator(&plugin).create("", "configmaps", own).await.stays_unchanged();
    }
}

#[tokio::test]
async fn an_update_of_an_uninitialized_object_needs_the_verb_initialize() {
    let plugin = usual();
    let before = || waiting_for(&["a.b.c", "d.e.f"]);
    let mut changed = before();
    changed["data"] = json!({"x": "y"});
    for after in [changed, waiting_for(&["d.e.f"]), plain(), object(json!({"pending": []}))] {
        let refused = check(&plugin).update("", "configmaps", before(), after.clone()).await;
        let status =
            refused.was_refused(403, "configmaps \"c1\" is forbidden: update to uninitialized resource denied: ");
        let details = Details { name: "c1".into(), kind: "configmaps".into(), ..Details::default() };
        assert_eq!(status.details, Some(Box::new(details)));
        let accepted = administrator(&plugin).update("", "configmaps", before(), after).await;
        assert_eq!(accepted.code(), None);
    }
}

#[tokio::test]
async fn the_right_to_initialize_may_be_for_one_name() {
    let plugin = usual();
    let named = |mut object: Value| {
        object["metadata"]["name"] = json!("other");
        object
    };
    let (before, after) = (named(waiting_for(&["a.b.c"])), named(plain()));
    let refused = administrator(&plugin).update("", "configmaps", before, after).await;
    refused.was_refused(403, "configmaps \"other\" is forbidden: update to uninitialized resource denied: ");
}

#[tokio::test]
async fn initializers_are_removed_in_any_order_and_added() {
    let plugin = usual();
    let before = || waiting_for(&["a.b.c", "d.e.f"]);
    for after in [waiting_for(&["a.b.c"]), waiting_for(&["d.e.f"]), waiting_for(&["a.b.c", "d.e.f", "g.h.i"]), plain()]
    {
        administrator(&plugin).update("", "configmaps", before(), after).await.stays_unchanged();
    }
    administrator(&plugin).update("", "configmaps", before(), object(json!({"pending": []}))).await.becomes(plain());
}

#[tokio::test]
async fn an_initialized_object_stays_initialized() {
    let plugin = usual();
    let set = "Any \"c1\" is invalid: metadata.initializers: Invalid value: \"null\": field is immutable once \
        initialization has completed";
    for after in [waiting_for(&["a.b.c"]), object(json!({"pending": [], "result": {"status": "Failure"}}))] {
        let refused = administrator(&plugin).update("", "configmaps", plain(), after.clone()).await;
        let status = refused.was_refused(422, set);
        assert_eq!(status.details.map(|details| details.causes.len()), Some(1));
        check(&plugin).update("", "configmaps", plain(), after).await.was_refused(422, set);
    }
    // An empty list changes nothing for any user.
    check(&plugin).update("", "configmaps", plain(), object(json!({"pending": []}))).await.becomes(plain());
}

#[tokio::test]
async fn a_result_is_a_failure() {
    let plugin = usual();
    let with = |status: &str| object(json!({"pending": [{"name": "a.b.c"}], "result": {"status": status}}));
    let before = || waiting_for(&["a.b.c"]);
    administrator(&plugin).update("", "configmaps", before(), with("Failure")).await.stays_unchanged();
    administrator(&plugin).update("", "configmaps", before(), with("Success")).await.was_refused(
        422,
        "Any \"c1\" is invalid: metadata.initializers.result.status: Invalid value: \"Success\": must be 'Failure'",
    );
}

#[tokio::test]
async fn a_namespace_is_initialized_outside_of_namespaces() {
    fn cluster_wide(question: &authz::AccessAttributes) -> Decision {
        Decision { allowed: question.namespace.is_empty(), ..Decision::default() }
    }
    let plugin = plugin(Vec::new());
    let namespace = json!({"metadata": {"name": "n", "initializers": {"pending": [{"name": "a.b.c"}]}}});
    check(&plugin).caller(cluster_wide).create("", "namespaces", namespace).await.stays_unchanged();
}

#[tokio::test(start_paused = true)]
async fn no_object_is_created_before_the_configurations_are_known() {
    let state = FixedState { unsynced: true, ..FixedState::default() };
    let plugin = of(state.cached::<InitializerConfiguration>(Vec::new()));
    let refused = check(&plugin).create("", "configmaps", plain()).await;
    let message = "Waiting for initialization configuration to load: configuration is not ready";
    let status = refused.was_refused(500, message);
    let details = status.details.unwrap();
    assert_eq!((status.reason.as_str(), details.retry_after_seconds), ("LoadingConfiguration", 1));
    assert_eq!(details.causes[0].reason, "InitializerConfigurationPending");
    let state = FixedState::default().undecodable::<InitializerConfiguration>(&["broken"]);
    let plugin = of(state);
    let status = check(&plugin).create("", "configmaps", plain()).await.refusal().unwrap();
    assert!(status.message.starts_with("Unable to refresh the initializer configuration: "), "{}", status.message);
    assert_eq!(status.details.unwrap().causes[0].reason, "InitializerConfigurationFailure");
}
