//! RBAC: what users may do, and what reviews answer.

use super::client::{Client, PODS};
use crate::embedded::{Server, Settings};
use serde_json::{Value, json};
use std::sync::Arc;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

fn admin() -> Client {
    Client::of(Server::with(Arc::default(), Settings { rbac: true, ..Settings::default() }))
}

fn role(kind: &str, name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, name: &str, role: [&str; 2], subject: Value) -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role[0], "name": role[1]});
    let metadata = json!({"name": name});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "roleRef": role, "subjects": [subject],
    })
}

fn access(user: &str, verb: &str, namespace: &str, resource: &str, name: &str) -> Value {
    let attributes = json!({"verb": verb, "namespace": namespace, "resource": resource, "name": name});
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    })
}

#[tokio::test]
async fn a_user_may_do_what_a_binding_grants() {
    let admin = admin();
    let alice = admin.header("impersonate-user", "alice");
    let refused = alice.get(PODS).await.refused(403);
    let cannot = r#"User "alice" cannot list resource "pods" in API group "" in the namespace "default""#;
    assert_eq!(refused, format!("pods is forbidden: {cannot}"));
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    admin.post(&roles, role("Role", "reader", rules)).await.with_code(201);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let subject = json!({"kind": "User", "name": "alice"});
    admin.post(&bindings, binding("RoleBinding", "b", ["Role", "reader"], subject)).await.with_code(201);
    alice.get(PODS).await.with_code(200);
    alice.get(&format!("{PODS}/x")).await.refused(403);
    alice.get("/api/v1/pods").await.refused(403);
    let answer = admin.post(REVIEWS, access("alice", "list", "default", "pods", "")).await.with_code(201);
    let reason = r#"RBAC: allowed by RoleBinding "b/default" of Role "reader" to User "alice""#;
    assert_eq!(answer["status"], json!({"allowed": true, "reason": reason}));
    let answer = admin.post(REVIEWS, access("alice", "list", "other", "pods", "")).await.with_code(201);
    assert_eq!(answer["status"], json!({"allowed": false}));
}

#[tokio::test]
async fn names_subresources_and_groups_count() {
    let admin = admin();
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/log", "*/status"], "verbs": ["*"]},
    ]);
    admin.post(&format!("{RBAC}/clusterroles"), role("ClusterRole", "some", rules)).await.with_code(201);
    let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"});
    let of_all = binding("ClusterRoleBinding", "some", ["ClusterRole", "some"], subject);
    admin.post(&format!("{RBAC}/clusterrolebindings"), of_all).await.with_code(201);
    let robot = admin.header("impersonate-user", "system:serviceaccount:default:robot");
    robot.get("/api/v1/namespaces/default/configmaps/one").await.refused(404);
    robot.get("/api/v1/namespaces/default/configmaps/two").await.refused(403);
    robot.get(&format!("{PODS}/x")).await.refused(403);
    robot.get(&format!("{PODS}/x/status")).await.refused(404);
}

#[tokio::test]
async fn the_bootstrap_policy_is_there() {
    let admin = admin();
    let viewer = admin.header("impersonate-user", "eve");
    viewer.get("/version").await.with_code(200);
    viewer.get("/apis").await.with_code(200);
    viewer.get("/metrics").await.refused(403);
    let subject = json!({"kind": "Group", "name": "watchers"});
    let view = binding("ClusterRoleBinding", "watchers", ["ClusterRole", "view"], subject);
    admin.post(&format!("{RBAC}/clusterrolebindings"), view).await.with_code(201);
    let watcher = viewer.header("impersonate-group", "watchers");
    watcher.get(PODS).await.with_code(200);
    watcher.get("/api/v1/secrets").await.refused(403);
    // A role with an aggregation rule has the rules of new roles too.
    let mut more =
        role("ClusterRole", "more", json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]));
    more["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    admin.post(&format!("{RBAC}/clusterroles"), more).await.with_code(201);
    watcher.get("/api/v1/secrets").await.with_code(200);
}

#[tokio::test]
async fn a_user_sees_its_own_rules() {
    let admin = admin();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = admin.header("impersonate-user", "eve").post(path, review).await.with_code(201);
    let rules = answer["status"]["resourceRules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["resources"] == json!(["selfsubjectreviews"])), "{rules:?}");
    assert!(!answer["status"]["nonResourceRules"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_missing_role_is_named() {
    let admin = admin();
    let subject = json!({"kind": "User", "name": "alice"});
    let lost = binding("ClusterRoleBinding", "lost", ["ClusterRole", "lost"], subject);
    admin.post(&format!("{RBAC}/clusterrolebindings"), lost).await.with_code(201);
    let refused = admin.header("impersonate-user", "alice").get(PODS).await.refused(403);
    let why = r#": RBAC: clusterrole.rbac.authorization.k8s.io "lost" not found"#;
    assert!(refused.ends_with(why), "{refused}");
}

#[tokio::test]
async fn a_user_grants_only_rights_that_the_user_has() {
    let admin = admin();
    let roles = format!("{RBAC}/namespaces/default/roles");
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]);
    admin.post(&roles, role("Role", "author", rules)).await.with_code(201);
    let subject = json!({"kind": "User", "name": "alice"});
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    admin.post(&bindings, binding("RoleBinding", "author", ["Role", "author"], subject)).await.with_code(201);
    let alice = admin.header("impersonate-user", "alice");
    let pods = |verbs: Value| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
    alice.post(&roles, role("Role", "held", pods(json!(["get"])))).await.with_code(201);
    let refused = alice.post(&roles, role("Role", "more", pods(json!(["get", "list", "watch"])))).await.refused(403);
    let rule = r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#;
    assert!(
        refused.ends_with(&format!("is attempting to grant RBAC permissions not currently held:\n{rule}")),
        "{refused}"
    );
    let escalates =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]}]);
    admin.post(&roles, role("Role", "escalates", escalates)).await.with_code(201);
    let subject = json!({"kind": "User", "name": "alice"});
    admin.post(&bindings, binding("RoleBinding", "escalates", ["Role", "escalates"], subject)).await.with_code(201);
    alice.post(&roles, role("Role", "more", pods(json!(["get", "list", "watch"])))).await.with_code(201);
}

#[tokio::test]
async fn a_role_that_grants_too_much_to_compare_is_refused() {
    let admin = admin();
    let alice = admin.header("impersonate-user", "alice");
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let roles = format!("{RBAC}/clusterroles");
    admin.post(&roles, role("ClusterRole", "all", all)).await.with_code(201);
    let subject = json!({"kind": "User", "name": "bob"});
    let of_bob = binding("ClusterRoleBinding", "all", ["ClusterRole", "all"], subject);
    admin.post(&format!("{RBAC}/clusterrolebindings"), of_bob).await.with_code(201);
    let creates =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}]);
    admin.post(&roles, role("ClusterRole", "creator", creates)).await.with_code(201);
    let subject = json!({"kind": "User", "name": "alice"});
    let of_alice = binding("ClusterRoleBinding", "creator", ["ClusterRole", "creator"], subject);
    admin.post(&format!("{RBAC}/clusterrolebindings"), of_alice).await.with_code(201);
    let many = |count: usize| -> Vec<String> { (0..count).map(|at| format!("n{at}")).collect() };
    let product = |name: &str, count: usize| {
        let rule = json!({"apiGroups": many(count), "resources": many(count), "verbs": many(count)});
        role("ClusterRole", name, json!([rule]))
    };
    let refused = alice.post(&roles, product("few", 3)).await.refused(403);
    assert!(refused.contains("is attempting to grant RBAC permissions not currently held"), "{refused}");
    let refused = alice.post(&roles, product("many", 50)).await.refused(403);
    assert!(refused.ends_with("the rules grant more than 100000 verbs on resources: too many to compare"), "{refused}");
    admin.post(&roles, product("many", 50)).await.with_code(201);
}
