//! PodSecurityPolicies, in front of the embedded API server.

use super::{PODS, PRIVILEGED, pod};
use crate::harness::{Proxy, Request, User, eventually, get, patch, post, put};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const POLICIES: &str = "/apis/policy/v1beta1/podsecuritypolicies";

/// A policy with these fields.
fn policy(name: &str, fields: Value) -> Value {
    let any = json!({"rule": "RunAsAny"});
    let mut spec =
        json!({"volumes": ["*"], "seLinux": any, "runAsUser": any, "supplementalGroups": any, "fsGroup": any});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": name}, "spec": spec})
}

/// Lets the group `developers` write pods.
fn let_developers_write(proxy: &Proxy) {
    let rules = json!([{"apiGroups": [""], "resources": ["pods", "pods/ephemeralcontainers"], "verbs": ["*"]}]);
    administer(proxy, post(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "pods"}, "rules": rules})));
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "developers"}]);
    let binding = json!({
        "metadata": {"name": "pods"}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pods"},
    });
    administer(proxy, post(&format!("{RBAC}/clusterrolebindings"), &binding));
}

/// Lets a subject use a policy in the namespace `default`.
fn let_use(proxy: &Proxy, policy: &str, group: &str, subject: &Value) {
    let name = format!("{policy}-{}", subject["name"].as_str().unwrap());
    let rule = json!({
        "apiGroups": [group], "resources": ["podsecuritypolicies"], "resourceNames": [policy], "verbs": ["use"],
    });
    let place = format!("{RBAC}/namespaces/default");
    administer(proxy, post(&format!("{place}/roles"), &json!({"metadata": {"name": name}, "rules": [rule]})));
    let binding = json!({
        "metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
    });
    administer(proxy, post(&format!("{place}/rolebindings"), &binding));
}

/// Sends a request as an administrator, and checks that it succeeds.
fn administer(proxy: &Proxy, request: Request) -> Value {
    let answer = proxy.send(&User::admin(), request);
    assert!(answer.status < 300, "{} {}", answer.status, answer.text());
    answer.json()
}

fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

/// The name of the policy that admits a pod in a dry run, or the message of the refusal.
fn admitted(proxy: &Proxy, user: &User, pod: &Value) -> String {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap();
    let answer = proxy.send(user, post(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), pod));
    let policy = &answer.json()["metadata"]["annotations"]["kubernetes.io/psp"];
    policy.as_str().map_or_else(|| answer.message(), str::to_owned)
}

#[test]
fn the_right_to_use_a_policy_counts_in_its_namespace_for_the_user_or_the_service_account() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=PodSecurityPolicy", "--authorization-mode=RBAC"]);
    let_developers_write(&proxy);
    administer(&proxy, post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})));
    for account in ["builder", "other"] {
        let account = json!({"metadata": {"name": account}});
        administer(&proxy, post("/api/v1/namespaces/default/serviceaccounts", &account));
    }
    administer(&proxy, post(POLICIES, &policy("open", json!({}))));
    for (name, group) in [("alice", "policy"), ("bob", "extensions"), ("carol", "*"), ("dave", "apps")] {
        let_use(&proxy, "open", group, &user(name));
    }
    let builder = json!({"kind": "ServiceAccount", "name": "builder", "namespace": "default"});
    let_use(&proxy, "open", "policy", &builder);
    let developer = |name: &str| User::named(name, "developers");
    let plain = pod("p", "default");
    eventually("a pod that the policy admits", || {
        let users = ["alice", "bob", "carol"];
        users.iter().all(|name| admitted(&proxy, &developer(name), &plain) == "open").then_some(())
    });
    let none = "pods \"p\" is forbidden: PodSecurityPolicy: unable to admit pod: []";
    assert_eq!(admitted(&proxy, &developer("dave"), &plain), none);
    let elsewhere = pod("p", "other");
    assert_eq!(admitted(&proxy, &developer("alice"), &elsewhere), none);
    // An administrator needs no binding.
    assert_eq!(admitted(&proxy, &User::admin(), &elsewhere), "open");
    let with_account = |name: &str| {
        let mut pod = pod("p", "default");
        pod["spec"]["serviceAccountName"] = json!(name);
        pod
    };
    assert_eq!(admitted(&proxy, &developer("dave"), &with_account("builder")), "open");
    assert_eq!(admitted(&proxy, &developer("dave"), &with_account("other")), none);
}

#[test]
fn a_policy_sees_the_defaults_of_a_pod_and_its_own_defaults_are_validated() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=PodSecurityPolicy", PRIVILEGED]);
    let closed = json!({
        "privileged": true, "allowPrivilegeEscalation": false, "hostNetwork": true, "hostPorts": [{"min": 8080, "max": 8090}],
    });
    administer(&proxy, post(POLICIES, &policy("closed", closed)));
    eventually("a pod that the policy admits", || {
        (admitted(&proxy, &User::admin(), &pod("p", "default")) == "closed").then_some(())
    });
    // A port of a container is a port of the host in its network.
    let mut of_host = pod("p", "default");
    of_host["spec"]["hostNetwork"] = json!(true);
    of_host["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    let why = "spec.containers[0].hostPort: Invalid value: 80: Host port 80 is not allowed to be used. Allowed ports: [8080-8090]";
    let refusal = format!("pods \"p\" is forbidden: PodSecurityPolicy: unable to admit pod: [{why}]");
    assert_eq!(admitted(&proxy, &User::admin(), &of_host), refusal);
    let mut privileged = pod("p", "default");
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let refused = proxy.send(&User::admin(), post(PODS, &privileged));
    let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
    assert_eq!((refused.status, refused.message().contains(why)), (422, true), "{}", refused.text());
}

#[test]
fn the_api_accepts_policies_that_cannot_be_applied() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=PodSecurityPolicy"]);
    administer(&proxy, post(POLICIES, &policy("no-ranges", json!({"runAsUser": {"rule": "MustRunAs"}}))));
    administer(&proxy, post(POLICIES, &policy("no-ports", json!({"hostPorts": [{"min": 90, "max": 80}]}))));
    let mut default_alone = policy("default-alone", json!({}));
    default_alone["metadata"]["annotations"] =
        json!({"seccomp.security.alpha.kubernetes.io/defaultProfileName": "runtime/default"});
    administer(&proxy, post(POLICIES, &default_alone));
}

#[test]
fn an_ephemeral_container_is_added_without_a_policy() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=PodSecurityPolicy", "--authorization-mode=RBAC"]);
    let_developers_write(&proxy);
    administer(&proxy, post(POLICIES, &policy("nonroot", json!({"runAsUser": {"rule": "MustRunAsNonRoot"}}))));
    let_use(&proxy, "nonroot", "policy", &user("bob"));
    let (bob, carol) = (User::named("bob", "developers"), User::named("carol", "developers"));
    eventually("a pod that the policy admits", || {
        (admitted(&proxy, &bob, &pod("dry", "default")) == "nonroot").then_some(())
    });
    assert_eq!(proxy.send(&bob, post(PODS, &pod("p", "default"))).status, 201);
    let mut pod = administer(&proxy, get(&format!("{PODS}/p")));
    pod["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "busybox"}]);
    let answer = proxy.send(&carol, put(&format!("{PODS}/p/ephemeralcontainers"), &pod));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["spec"]["ephemeralContainers"][0].get("securityContext"), None);
    // The policy would have to default the debug container now.
    let label = patch(&format!("{PODS}/p"), "merge", &json!({"metadata": {"labels": {"a": "b"}}}));
    let refused = proxy.send(&bob, label);
    let why = "pods \"p\" is forbidden: PodSecurityPolicy: unable to validate pod: []";
    assert_eq!((refused.status, refused.message()), (403, why.to_owned()));
}
