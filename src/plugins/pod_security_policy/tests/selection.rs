//! The choice among policies, permissions, updates, and policies that cannot be applied.

use super::*;
use crate::authn::fake::{Upstream, failure};
use crate::authz::{AccessReviews, Authorizer};
use crate::config::Limits;
use crate::sharer::Sharing;
use crate::user::UserInfo;
use std::time::Duration;

/// The refusal of a pod `p`.
fn text(why: &str) -> String {
    format!("pods \"p\" is forbidden: PodSecurityPolicy: {why}")
}

const NONE: &str = "no providers available to validate pod request";
const PRIVILEGED: &str =
    "spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not allowed";

/// A policy that changes every pod.
fn changing(name: &str) -> Value {
    policy(name, json!({"privileged": false, "readOnlyRootFilesystem": true}))
}

/// A policy that changes nothing, and refuses privileged containers.
fn strict(name: &str) -> Value {
    policy(name, json!({"privileged": false}))
}

fn free(name: &str) -> Value {
    policy(name, json!({}))
}

/// A policy that cannot be applied.
fn broken(name: &str) -> Value {
    policy(name, json!({"runAsUser": {"rule": "MustRunAs"}}))
}

async fn chosen(policies: impl IntoIterator<Item = Value>, authorizer: CallerAuthorizer, pod: Value) -> String {
    let plugin = plugin(policies);
    let checked = check(&plugin).authorizer(authorizer).create("", "pods", pod).await;
    let after = checked.after();
    after["metadata"]["annotations"][ANNOTATION].as_str().unwrap().to_owned()
}

async fn refused(policies: impl IntoIterator<Item = Value>, authorizer: CallerAuthorizer, pod: Value) -> String {
    let plugin = plugin(policies);
    let status = check(&plugin).authorizer(authorizer).create("", "pods", pod).await.refusal().unwrap();
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    status.message
}

#[tokio::test]
async fn without_policies_no_pod_is_admitted() {
    assert_eq!(refused([], administrator(), pod(json!({}))).await, text(NONE));
    assert_eq!(refused([broken("a"), broken("b")], administrator(), pod(json!({}))).await, text(NONE));
    let plugin = plugin([]);
    let mut changed = pod(json!({}));
    changed["metadata"]["labels"] = json!({"a": "b"});
    validate(&plugin).update("", "pods", pod(json!({})), changed).await.was_refused(403, &text(NONE));
}

#[tokio::test]
async fn a_policy_that_may_not_be_used_does_not_count() {
    let nobody = || grants(&[]);
    assert_eq!(refused([free("a")], nobody(), pod(json!({}))).await, text("unable to admit pod: []"));
    // Its violations are not shown.
    let given = pod_with(json!({"privileged": true}));
    assert_eq!(refused([strict("a")], nobody(), given.clone()).await, text("unable to admit pod: []"));
    let only = || grants(&[("", "policy", "b"), ("", "policy", "broken")]);
    let policies = || [strict("a"), strict("b"), broken("broken")];
    assert_eq!(refused(policies(), only(), given).await, text(&format!("unable to admit pod: [{PRIVILEGED}]")));
    assert_eq!(chosen(policies(), only(), pod(json!({}))).await, "b");
    assert_eq!(refused([free("a"), broken("broken")], only(), pod(json!({}))).await, text("unable to admit pod: []"));
}

#[tokio::test]
async fn the_first_policy_that_changes_nothing_is_chosen() {
    for (policies, want) in [
        (vec![free("b"), free("a")], "a"),
        (vec![changing("a"), free("b"), free("c")], "b"),
        (vec![changing("b"), changing("a")], "a"),
        (vec![broken("a"), changing("b")], "b"),
    ] {
        assert_eq!(chosen(policies, administrator(), pod(json!({}))).await, want);
    }
    // A policy that refuses does not stop a later one.
    let given = || pod_with(json!({"privileged": true}));
    assert_eq!(chosen([strict("a"), changing("b"), free("c")], administrator(), given()).await, "c");
    // Only policies that may be used are compared.
    let policies = || [changing("a"), changing("b"), free("c")];
    assert_eq!(chosen(policies(), grants(&[("", "policy", "b")]), pod(json!({}))).await, "b");
}

#[tokio::test]
async fn the_violations_of_all_policies_are_listed() {
    let given = || pod_with(json!({"privileged": true}));
    let want = text(&format!("unable to admit pod: [{PRIVILEGED} {PRIVILEGED}]"));
    assert_eq!(refused([strict("a"), strict("b")], administrator(), given()).await, want);
    let many: Vec<_> = (10..30).map(|number| strict(&format!("p{number}"))).collect();
    let want = text(&format!("unable to admit pod: [{}]", [PRIVILEGED; 20].join(" ")));
    assert_eq!(refused(many, administrator(), given()).await, want);
}

#[tokio::test]
async fn the_user_or_the_service_account_needs_the_permission() {
    let given = |account: Value| pod(json!({"serviceAccountName": account}));
    for (grants, account, is_admitted) in [
        (grants(&[("", "policy", "a")]), json!(null), true),
        (grants(&[("", "extensions", "a")]), json!(null), true),
        (grants(&[("", "policy", "b")]), json!(null), false),
        (grants(&[("", "apps", "a")]), json!(null), false),
        (grants(&[("system:serviceaccount:ns:sa", "policy", "a")]), json!("sa"), true),
        (grants(&[("system:serviceaccount:ns:sa", "extensions", "a")]), json!("sa"), true),
        (grants(&[("system:serviceaccount:ns:sa", "policy", "a")]), json!("other"), false),
        (grants(&[("system:serviceaccount:ns:sa", "policy", "a")]), json!(null), false),
        (grants(&[("system:serviceaccount:ns:sa", "policy", "a")]), json!(""), false),
        (grants(&[("", "policy", "a")]), json!("sa"), true),
    ] {
        let plugin = plugin([free("a")]);
        let checked = check(&plugin).authorizer(grants).create("", "pods", given(account.clone())).await;
        assert_eq!(checked.code(), (!is_admitted).then_some(403), "{account}");
    }
}

#[tokio::test]
async fn permissions_are_checked_only_where_they_matter() {
    use std::sync::Mutex;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let authorizer = {
        let asked = asked.clone();
        CallerAuthorizer::fixed_for(move |user, question| {
            asked.lock().unwrap().push(format!(
                "{} {} {}",
                user.unwrap_or("caller"),
                question.api_group,
                question.name
            ));
            Decision { allowed: user.is_none(), ..Decision::default() }
        })
    };
    let asks = || std::mem::take(&mut *asked.lock().unwrap());
    let plugin = plugin([strict("a"), changing("b"), changing("c"), free("d"), free("e")]);
    let given = || pod_with(json!({"privileged": true}));
    let mut attributes = attributes(Operation::Create, "", "pods", Some(given()), None);
    attributes.context.authorizer = authorizer;
    plugin.admit(&mut attributes).await.unwrap();
    // Every policy before `d` refuses the pod.
    assert_eq!(asks(), ["caller policy d"]);
    attributes.object = Object::from_value(pod(json!({"serviceAccountName": "sa"})));
    plugin.admit(&mut attributes).await.unwrap();
    let of_account =
        |policy: &str| ["policy", "extensions"].map(|group| format!("system:serviceaccount:ns:sa {group} {policy}"));
    let first = [&of_account("a")[..], &["caller policy a".to_owned()]].concat();
    assert_eq!(asks(), first);
    // The way that led to the permission is tried first.
    plugin.admit(&mut attributes).await.unwrap();
    plugin.validate(&attributes).await.unwrap();
    assert_eq!(asks(), ["caller policy a", "caller policy a"]);
}

/// The authorizer of `alice`, to whom the API server allows the use of one policy, and its reviews.
fn allowed(policy: &'static str) -> (CallerAuthorizer, Arc<Authorizer>, Arc<Upstream>) {
    let allows = move |review: &Value| review["spec"]["resourceAttributes"]["name"] == policy;
    let upstream = Upstream::with_status(move |review| json!({"allowed": allows(review)}));
    let authorizer =
        authz::Config::new(authz::Mode::Webhook, authz::Reviewer::Subject(upstream.client()), &Limits::default());
    let authorizer = Arc::new(Authorizer::new(AccessReviews::new(authorizer), Sharing::ByUser));
    let user = UserInfo { username: "alice".into(), ..UserInfo::default() };
    (CallerAuthorizer::new(authorizer.clone(), Arc::new(user), None), authorizer, upstream)
}

fn creating(authorizer: CallerAuthorizer) -> Attributes {
    let mut attributes = attributes(Operation::Create, "", "pods", Some(pod(json!({}))), None);
    attributes.context.authorizer = authorizer;
    attributes
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_remembered_until_rights_change() {
    let (caller, authorizer, upstream) = allowed("c");
    let plugin = plugin([free("a"), free("b"), free("c")]);
    let asks = async || {
        let mut create = creating(caller.clone());
        plugin.admit(&mut create).await.unwrap();
        upstream.bodies().len()
    };
    // Two API groups for each denied policy; the permission may need one or two reviews.
    assert!((5..=6).contains(&asks().await));
    assert_eq!(asks().await, 0);
    // A denial of one user says nothing about another one.
    let mut of_other = creating(caller.clone());
    let user = &mut of_other.context.user;
    *user = Arc::new(UserInfo { groups: vec!["other".into()], ..(**user).clone() });
    plugin.admit(&mut of_other).await.unwrap();
    assert_eq!(upstream.bodies().len(), 4);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(asks().await > 4);
    authorizer.forget_answers("");
    // The API server may not have seen the change yet, so that no answer is kept for a moment.
    assert!(asks().await > 4 && asks().await > 4);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(asks().await > 4);
    assert_eq!(asks().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_review_is_no_denial() {
    let upstream = Upstream::new(|_, _| failure(500, "InternalError", "no"));
    let authorizer =
        authz::Config::new(authz::Mode::Webhook, authz::Reviewer::Subject(upstream.client()), &Limits::default());
    let user = Arc::new(UserInfo { username: "alice".into(), ..UserInfo::default() });
    let caller =
        CallerAuthorizer::new(Arc::new(Authorizer::new(AccessReviews::new(authorizer), Sharing::ByUser)), user, None);
    let plugin = plugin([free("a")]);
    plugin.admit(&mut creating(caller.clone())).await.unwrap_err();
    upstream.bodies();
    plugin.admit(&mut creating(caller)).await.unwrap_err();
    assert!(!upstream.bodies().is_empty());
}

#[tokio::test]
#[ignore = "a figure of an optimized build: cargo test --release --lib fifty_policies -- --ignored --nocapture"]
async fn fifty_policies_add_at_most_100_microseconds() {
    const CREATES: u32 = 2000;
    let time = async |policies: usize| {
        // All policies admit the pod, and the user may use the last one.
        let names = (0..policies - 1).map(|number| format!("a{number}")).chain(["last".to_owned()]);
        let plugin = plugin(names.map(|name| free(&name)));
        let (caller, ..) = allowed("last");
        plugin.admit(&mut creating(caller.clone())).await.unwrap();
        let started = std::time::Instant::now();
        for _ in 0..CREATES {
            let mut create = creating(caller.clone());
            plugin.admit(&mut create).await.unwrap();
            plugin.validate(&create).await.unwrap();
        }
        started.elapsed() / CREATES
    };
    let (one, fifty) = (time(1).await, time(50).await);
    println!("a create with 1 policy: {one:?}, with 50: {fifty:?}");
    assert!(fifty < Duration::from_micros(100), "{fifty:?}");
}

#[tokio::test]
async fn an_authorizer_without_an_answer_permits_nothing() {
    let plugin = plugin([free("a")]);
    let denied = check(&plugin).authorizer(CallerAuthorizer::default()).create("", "pods", pod(json!({}))).await;
    denied.was_refused(403, &text("unable to admit pod: []"));
}

#[tokio::test]
async fn the_policys_name_is_recorded() {
    let plugin = plugin([free("a")]);
    let mut given = pod(json!({}));
    let mut want = given.clone();
    want["metadata"]["annotations"] = json!({ANNOTATION: "a"});
    create(&plugin).create("", "pods", given.clone()).await.becomes(want.clone());
    create(&plugin).dry_run().create("", "pods", given.clone()).await.becomes(want.clone());
    given["metadata"]["annotations"] = json!({ANNOTATION: "other", "kubernetes.io/config.mirror": "m"});
    want["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "m".into();
    create(&plugin).create("", "pods", given).await.becomes(want);
}

#[tokio::test]
async fn a_pod_without_a_name_is_refused_by_its_generate_name() {
    let plugin = plugin([]);
    let mut given = pod(json!({}));
    given["metadata"] = json!({"generateName": "gen-", "namespace": "ns"});
    let text = format!("pods \"gen-\" is forbidden: PodSecurityPolicy: {NONE}");
    create(&plugin).create("", "pods", given).await.was_refused(403, &text);
}

#[tokio::test]
async fn the_policy_of_the_pod_is_tried_first_in_the_validating_phase() {
    let plugin = plugin([free("a"), free("b"), broken("c"), strict("d")]);
    for (hint, want) in [("b", "b"), ("a", "a"), ("c", "a"), ("d", "d"), ("none", "a"), ("", "a")] {
        let mut given = pod(json!({}));
        given["metadata"]["annotations"] = json!({ANNOTATION: hint});
        let mut attributes = attributes(Operation::Create, "", "pods", Some(given), None);
        attributes.context.authorizer = administrator();
        plugin.validate(&attributes).await.unwrap();
        let recorded = attributes.annotations.take();
        assert_eq!((recorded.len(), &*recorded[0].0, &*recorded[0].1), (1, VALIDATE_POLICY, want), "{hint}");
        // The mutating phase ignores the annotation.
        plugin.admit(&mut attributes).await.unwrap();
        let recorded = attributes.annotations.take();
        assert_eq!((recorded.len(), &*recorded[0].0, &*recorded[0].1), (1, ADMIT_POLICY, "a"), "{hint}");
    }
}

/// An update of the pod by these changes of its metadata.
async fn updated(plugin: &PodSecurityPolicyPlugin, old: Value, changes: Value) -> Option<String> {
    let mut new = old.clone();
    merge(&mut new["metadata"], changes);
    validate(plugin).update("", "pods", old, new).await.refusal().map(|status| status.message)
}

#[tokio::test]
async fn an_update_may_not_need_changes() {
    let label = || json!({"labels": {"a": "b"}});
    assert_eq!(updated(&plugin([free("a")]), pod(json!({})), label()).await, None);
    let want = Some(text("unable to validate pod: []"));
    assert_eq!(updated(&plugin([changing("a")]), pod(json!({})), label()).await, want);
    let privileged = pod_with(json!({"privileged": true}));
    let want = Some(text(&format!("unable to validate pod: [{PRIVILEGED}]")));
    assert_eq!(updated(&plugin([strict("a")]), privileged.clone(), label()).await, want);
    // A pod that a policy admits may have any value of the annotation.
    let annotation = || json!({"annotations": {ANNOTATION: "x"}});
    assert_eq!(updated(&plugin([free("a")]), pod(json!({})), annotation()).await, None);
    assert_eq!(updated(&plugin([strict("a")]), privileged, annotation()).await, want);
    // The mutating phase of an update does nothing.
    let plugin = plugin([]);
    create(&plugin).update("", "pods", pod(json!({})), pod(json!({"hostPID": true}))).await.stays_unchanged();
}

#[tokio::test]
async fn references_and_finalizers_are_free() {
    let plugin = plugin([]);
    let mut old = pod(json!({}));
    old["metadata"]["resourceVersion"] = "5".into();
    for changes in [
        json!({}),
        json!({"finalizers": ["a/b"]}),
        json!({"ownerReferences": [{"name": "o"}]}),
        json!({"managedFields": [{"manager": "m"}], "resourceVersion": null, "generation": 2, "selfLink": "s"}),
        json!({"labels": {}, "annotations": null}),
    ] {
        assert_eq!(updated(&plugin, old.clone(), changes.clone()).await, None, "{changes}");
    }
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running"});
    validate(&plugin).update("", "pods", old.clone(), new).await.stays_unchanged();
    for changes in [json!({"labels": {"a": "b"}}), json!({"annotations": {"a": "b"}, "finalizers": ["a/b"]})] {
        assert_eq!(updated(&plugin, old.clone(), changes.clone()).await, Some(text(NONE)), "{changes}");
    }
    validate(&plugin).update("", "pods", old, pod(json!({"hostPID": true}))).await.was_refused(403, &text(NONE));
}

#[tokio::test]
async fn subresources_and_deletes_are_not_handled() {
    let handled = |operation: Operation, resource: &str, subresource: &str| {
        let mut attributes = attributes(operation, "", resource, None, None);
        attributes.subresource = subresource.to_owned();
        SPEC.handles(&attributes)
    };
    assert!(handled(Operation::Create, "pods", "") && handled(Operation::Update, "pods", ""));
    assert!(!handled(Operation::Delete, "pods", "") && !handled(Operation::Create, "services", ""));
    for subresource in ["status", "ephemeralcontainers", "resize", "binding", "eviction"] {
        assert!(!handled(Operation::Update, "pods", subresource), "{subresource}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_synced_policies_a_request_waits_and_is_refused() {
    let state = FixedState { unsynced: true, ..FixedState::default() };
    let plugin = PodSecurityPolicyPlugin::new(Cluster::fixed(state.cached::<PodSecurityPolicy>(Vec::new())));
    let want = "pods \"p\" is forbidden: not yet ready to handle request";
    create(&plugin).create("", "pods", pod(json!({}))).await.was_refused(403, want);
}

#[tokio::test]
async fn a_policy_that_cannot_be_decoded_refuses_all_pods() {
    let state = FixedState::default().undecodable::<PodSecurityPolicy>(&["a"]);
    let plugin = PodSecurityPolicyPlugin::new(Cluster::fixed(state));
    assert_eq!(create(&plugin).create("", "pods", pod(json!({}))).await.code(), Some(500));
    for wrong in [json!({"privileged": "yes"}), json!({"fsGroup": {"rule": "MustRunAs", "ranges": [{"min": "1"}]}})] {
        assert!(serde_json::from_value::<policy::WrittenPolicy>(policy("a", wrong)).is_err());
    }
}

#[tokio::test]
async fn a_policy_that_cannot_be_applied_is_a_problem() {
    let ids = |rule: &str| json!({"rule": rule});
    for (spec, want) in [
        (json!({"runAsUser": ids("MustRunAs")}), "spec.runAsUser: MustRunAs requires at least one range"),
        (json!({"runAsUser": null}), "spec.runAsUser: unrecognized strategy type \"\""),
        (json!({"runAsGroup": ids("MayRunAs")}), "spec.runAsGroup: ranges must be supplied for MayRunAs"),
        (json!({"fsGroup": ids("MustRunAs")}), "spec.fsGroup: ranges must be supplied for MustRunAs"),
        (json!({"supplementalGroups": ids("X")}), "spec.supplementalGroups: unrecognized strategy type \"X\""),
        (json!({"seLinux": ids("MustRunAs")}), "spec.seLinux: MustRunAs requires seLinuxOptions"),
        (json!({"seLinux": ids("X")}), "spec.seLinux: unrecognized strategy type \"X\""),
    ] {
        let plugin = plugin([policy("a", spec), free("b")]);
        assert_eq!(plugin.problems(), [format!("PodSecurityPolicy \"a\" is not used: {want}")]);
    }
}

#[tokio::test]
async fn a_pod_with_a_field_of_another_type_is_refused() {
    let plugin = plugin([free("a")]);
    for spec in [
        json!({"hostPID": "yes"}),
        json!({"containers": {}}),
        json!({"containers": [null]}),
        json!({"volumes": [1]}),
        json!({"securityContext": {"fsGroup": 1.5}}),
    ] {
        let status = create(&plugin).create("", "pods", pod(spec.clone())).await.refusal().unwrap();
        assert_eq!(status.code, 403, "{spec}");
        let start = text("the pod cannot be decoded: spec");
        assert!(status.message.starts_with(&start), "{}", status.message);
    }
}
