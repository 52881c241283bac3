//! Compares the refusal of escalating roles and bindings in the embedded API server with kube-apiserver's.

use crate::harness::{Api, Proxy, Request, User, delete, eventually, get, patch, post, proxy_only, put, upstream};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn role(kind: &str, name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, name: &str, role: [&str; 2], user: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role[0], "name": role[1]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
}

/// Creates an object as a user who may grant everything.
fn create(api: &Api, request: Request) {
    let answer = api.send(&User::admin(), request);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

#[test]
fn roles_and_bindings_grant_what_their_author_holds_as_in_kube_apiserver() {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1], "--authorization-mode=RBAC"]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    let namespace = "embedded-escalation";
    let (cluster_roles, cluster_bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    let (roles, bindings) =
        (format!("{RBAC}/namespaces/{namespace}/roles"), format!("{RBAC}/namespaces/{namespace}/rolebindings"));
    let write = json!(["create", "update", "patch", "delete", "get"]);
    let manages = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": write},
        {"apiGroups": [""], "resources": ["pods", "*/log"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]},
        {"nonResourceURLs": ["/healthz", "/metrics/*"], "verbs": ["get"]},
    ]);
    let may = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": write},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]},
    ]);
    for api in sides {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        create(api, post("/api/v1/namespaces", &object));
        for (name, rules) in [("e2e-manages", &manages), ("e2e-may", &may)] {
            create(api, post(&cluster_roles, &role("ClusterRole", name, rules.clone())));
            create(api, post(&cluster_bindings, &binding("ClusterRoleBinding", name, ["ClusterRole", name], name)));
        }
        // The texts of refusals name this role, which does not exist.
        create(
            api,
            post(
                &cluster_bindings,
                &binding("ClusterRoleBinding", "e2e-gone", ["ClusterRole", "e2e-gone"], "e2e-manages"),
            ),
        );
        let secret = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]);
        create(api, post(&roles, &role("Role", "secrets", secret)));
        let read = get(&format!("{roles}/secrets"));
        for user in ["e2e-manages", "e2e-may"] {
            eventually(&format!("the rights of {user}"), || {
                let answer = api.send(&User::admin(), read.clone().header("impersonate-user", user));
                (answer.status == 200).then_some(())
            });
        }
    }
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let named = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "c"], "verbs": ["get"]});
    let urls = json!({"nonResourceURLs": ["/healthz", "/metrics/x", "/version"], "verbs": ["get", "post"]});
    let mut aggregating = role("ClusterRole", "e2e-aggregating", json!([]));
    aggregating["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let held = json!([rule("", &["pods", "services/log"], &["get"])]);
    let missing = json!([rule("", &["pods"], &["get", "delete", "create"]), rule("apps", &["*"], &["*"]), named, urls]);
    let steps: Vec<Request> = vec![
        post(&roles, &role("Role", "held", held.clone())),
        post(&roles, &role("Role", "missing", json!([rule("", &["pods", "nodes"], &["get", "watch"])]))),
        post(&cluster_roles, &role("ClusterRole", "e2e-missing", missing.clone())),
        post(&cluster_roles, &role("ClusterRole", "e2e-held", held.clone())),
        post(&cluster_roles, &aggregating),
        post(&format!("{roles}?dryRun=All"), &role("Role", "dry", missing.clone())),
        put(&format!("{roles}/held"), &role("Role", "held", json!([rule("", &["pods"], &["list", "watch"])]))),
        put(&format!("{roles}/upserted"), &role("Role", "upserted", json!([rule("", &["secrets"], &["list"])]))),
        patch(&format!("{roles}/secrets"), "merge", &json!({"metadata": {"finalizers": ["example.com/a"]}})),
        patch(&format!("{roles}/secrets"), "merge", &json!({"metadata": {"finalizers": null}})),
        patch(&format!("{roles}/secrets"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        patch(&format!("{cluster_roles}/view"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        post(&bindings, &binding("RoleBinding", "secrets", ["Role", "secrets"], "bob")),
        post(&bindings, &binding("RoleBinding", "held", ["Role", "held"], "bob")),
        post(&bindings, &binding("RoleBinding", "lost", ["Role", "lost"], "bob")),
        post(&bindings, &binding("RoleBinding", "may", ["ClusterRole", "e2e-may"], "bob")),
        post(&bindings, &binding("RoleBinding", "wrong", ["Other", "secrets"], "bob")),
        post(&cluster_bindings, &binding("ClusterRoleBinding", "e2e-admin", ["ClusterRole", "cluster-admin"], "bob")),
        post(&cluster_bindings, &binding("ClusterRoleBinding", "e2e-lost", ["ClusterRole", "e2e-lost"], "bob")),
        patch(&format!("{cluster_bindings}/e2e-may"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        patch(&format!("{roles}/applied?fieldManager=a"), "apply", &role("Role", "applied", missing)),
        get(&format!("{roles}/held")),
        delete(&format!("{roles}/held")),
        delete(&format!("{bindings}/held")),
        delete(&format!("{cluster_roles}/e2e-held")),
    ];
    let mut differences = Vec::new();
    for user in ["e2e-manages", "e2e-may", "e2e-nobody"] {
        for request in &steps {
            let [expected, got] = sides.map(|api| {
                let answer = api.send(&User::admin(), request.clone().header("impersonate-user", user));
                let body = answer.json();
                let shown = if body["kind"] == "Status" { body } else { body["rules"].clone() };
                (answer.status, without_details(shown))
            });
            if expected != got {
                let (method, path) = (&request.method, &request.path);
                differences
                    .push(format!("{user} {method} {path}\n  kube-apiserver: {expected:?}\n  embedded:       {got:?}"));
            }
        }
    }
    for api in sides {
        let names = ["e2e-manages", "e2e-may", "e2e-gone"]
            .iter()
            .flat_map(|name| [format!("{cluster_roles}/{name}"), format!("{cluster_bindings}/{name}")]);
        names.for_each(|path| drop(api.send(&User::admin(), delete(&path))));
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

/// A Status without the uid of an object.
fn without_details(mut body: Value) -> Value {
    if let Some(details) = body.get_mut("details").and_then(Value::as_object_mut) {
        details.remove("uid");
    }
    body
}

#[test]
fn kubectl_lists_rights_and_reconciles_roles_as_with_kube_apiserver() {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1], "--authorization-mode=RBAC"]);
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, {"nonResourceURLs": ["/x"], "verbs": ["get"]}]);
    let wider = json!([{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get"]}]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    let [expected, got] = sides.map(|api| {
        let kubectl = api.kubectl(&User::admin());
        kubectl.ok_with_input(
            &["auth", "reconcile", "-f", "-"],
            &role("ClusterRole", "e2e-reconciled", rules.clone()).to_string(),
        );
        let bound = binding("ClusterRoleBinding", "e2e-reconciled", ["ClusterRole", "e2e-reconciled"], "e2e-reader");
        kubectl.ok_with_input(&["auth", "reconcile", "-f", "-"], &bound.to_string());
        let told = kubectl.ok_with_input(
            &["auth", "reconcile", "-f", "-"],
            &role("ClusterRole", "e2e-reconciled", wider.clone()).to_string(),
        );
        let listed = kubectl.ok(&["auth", "can-i", "--list", "--as=e2e-reader"]);
        let mut lines: Vec<String> =
            listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        lines.sort();
        for path in
            [format!("{RBAC}/clusterrolebindings/e2e-reconciled"), format!("{RBAC}/clusterroles/e2e-reconciled")]
        {
            api.send(&User::admin(), delete(&path));
        }
        (told, lines)
    });
    assert_eq!(got, expected);
}
