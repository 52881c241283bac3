//! The guard: an API server that refuses writes that did not go through the proxy, and the second identity and the prefix of groups.

use crate::harness::{
    Answer, Api, ControlPlane, Kubectl, Proxy, Request, User, delete, eventually, get, only, patch, pki, post, put,
    unique, upstream,
};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;

const MESSAGE: &str = "writes go through the admission proxy, not directly to this API server";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MARK: &str = "impersonate-extra-kube-admission-proxy.dev%2fadmitted";
/// No controller creates service accounts.
const WITHOUT_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// The output of the program.
pub fn print(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy")).arg("print").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn create() -> Request {
    post(CONFIG_MAPS, &config_map(&unique("guarded")))
}

fn is_guarded(answer: &Answer) -> bool {
    answer.status == 403 && answer.text().contains(MESSAGE)
}

/// The bindings and accounts that the test needs once the guard is in force.
fn surroundings() -> String {
    let binding = |kind: &str, role: (&str, &str), namespace: Option<&str>, user: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": format!("{}-{user}", role.1), "namespace": namespace},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
               "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
    };
    let account = |namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
    let support = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "support"},
        "rules": [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "maps", "namespace": "default"},
        "spec": {"hard": {"count/configmaps": "100"}}, "status": {"hard": {"count/configmaps": "100"}, "used": {"count/configmaps": "0"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "running", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut old = config_map("old");
    old["metadata"]["namespace"] = json!("default");
    let objects = [
        account("default", "forwarder"),
        account("default", "robot"),
        account("kube-system", "replicaset-controller"),
        binding("ClusterRoleBinding", ("ClusterRole", "kube-admission-proxy"), None, "proxy"),
        binding("RoleBinding", ("Role", "kube-admission-proxy-impersonator-token"), Some("default"), "proxy"),
        binding("ClusterRoleBinding", ("ClusterRole", "cluster-admin"), None, "root"),
        binding("ClusterRoleBinding", ("ClusterRole", "support"), None, "sam"),
        support,
        quota,
        pod,
        old,
    ];
    objects.iter().map(|object| format!("{object}\n---\n")).collect()
}

/// A token of a service account.
fn token(api: &Api, namespace: &str, name: &str) -> User {
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let answer = api.send(&User::admin(), post(&path, &ask));
    assert_eq!(answer.status, 201, "{}", answer.text());
    User::Token(answer.json()["status"]["token"].as_str().unwrap().to_owned())
}

/// Starts an API server, makes the surroundings, and puts the guard in force.
fn guarded() -> (ControlPlane, User) {
    let control_plane = ControlPlane::start("guarded", &only(&["ValidatingAdmissionPolicy"]));
    let kubectl = control_plane.kubectl(&User::admin());
    let rights = print(&["rbac", "--upstream-impersonator=default/forwarder"]);
    kubectl.ok_with_input(&["apply", "-f", "-"], &rights);
    kubectl.ok_with_input(&["apply", "-f", "-"], &surroundings());
    let controller = token(&control_plane, "kube-system", "replicaset-controller");
    let guard = print(&[
        "guard",
        "--action=Deny",
        "--admitted-mark=default/main",
        "--proxy-user=proxy",
        "--upstream-impersonator=default/forwarder",
    ]);
    kubectl.ok_with_input(&["create", "-f", "-"], &guard);
    eventually("a guard in force", || is_guarded(&control_plane.send(&User::admin(), create())).then_some(()));
    (control_plane, controller)
}

/// Every kind of write, with its answer by an API server that allows it.
fn writes() -> Vec<(&'static str, Request, u16)> {
    let pod = "/api/v1/namespaces/default/pods/running";
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "running", "namespace": "default"}});
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let applied = config_map(&unique("applied"));
    let name = applied["metadata"]["name"].as_str().unwrap().to_owned();
    let old = format!("{CONFIG_MAPS}/old");
    let dry = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
    let delete_dry = |path: &str| delete(path).body("application/json", dry.to_string());
    vec![
        ("create", create(), 201),
        ("create, dry run", post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("dry")), 201),
        ("update", put(&old, &config_map("old")), 200),
        ("patch", patch(&old, "merge", &json!({"data": {"a": unique("value")}})), 200),
        ("apply", patch(&format!("{CONFIG_MAPS}/{name}?fieldManager=e2e"), "apply", &applied), 201),
        ("delete", delete_dry(&old), 200),
        ("deletecollection", delete_dry(CONFIG_MAPS), 200),
        // No node runs the pod.
        ("exec", get(&format!("{pod}/exec?command=true&stdout=true")), 400),
        ("eviction", post(&format!("{pod}/eviction?dryRun=All"), &eviction), 201),
        ("token request", post("/api/v1/namespaces/default/serviceaccounts/robot/token", &ask), 201),
    ]
}

#[test]
fn writes_past_the_proxy_are_refused_and_the_same_writes_through_it_are_not() {
    let (control_plane, controller) = guarded();
    let kubeconfig = control_plane.kubeconfig(&User::named("proxy", ""));
    let mark = "--admitted-mark=default/main";
    let flags = ["--upstream-impersonator=default/forwarder", mark, WITHOUT_SERVICE_ACCOUNTS];
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &flags);
    let (root, masters, developer) = (User::named("root", ""), User::admin(), User::developer());
    for (what, request, code) in writes() {
        for user in [&developer, &root, &masters] {
            let direct = control_plane.send(user, request.clone());
            assert!(is_guarded(&direct), "{what}: {} {}", direct.status, direct.text());
        }
        let through = proxy.send(&developer, request);
        assert_eq!(through.status, code, "{what}: {}", through.text());
    }
    // The proxy writes the status of the quota as itself.
    let quota = control_plane.send(&masters, get("/api/v1/namespaces/default/resourcequotas/maps")).json();
    assert_ne!(quota["status"]["used"]["count/configmaps"], "0", "{quota}");

    let cluster_role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "new"}});
    let hooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "new"}});
    for (resource, object) in [
        ("rbac.authorization.k8s.io/v1/clusterroles", cluster_role),
        ("admissionregistration.k8s.io/v1/validatingwebhookconfigurations", hooks),
    ] {
        let answer = control_plane.send(&root, post(&format!("/apis/{resource}"), &object));
        assert!(is_guarded(&answer), "{resource}: {}", answer.text());
    }
    the_mark_cannot_be_forged(&control_plane, &proxy);
    an_impersonator_of_a_kubeconfig_forwards(&control_plane, &proxy);

    let access = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let review = post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &access);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": unique("replica")}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (user, request, code) in [
        (&developer, get(CONFIG_MAPS), 200),
        (&developer, review, 201),
        (&controller, post("/api/v1/namespaces/default/pods", &pod), 201),
    ] {
        let answer = control_plane.send(user, request);
        assert_eq!(answer.status, code, "{}", answer.text());
    }
    the_documented_holes(&control_plane);
}

/// Clients that claim the mark, or the right to it, at the API server and at the proxy; and proxies with a mistake.
fn the_mark_cannot_be_forged(control_plane: &ControlPlane, proxy: &Proxy) {
    let claim = |user: &str, mark: bool| {
        let request = if user.is_empty() { create() } else { create().header("impersonate-user", user) };
        if mark { request.header(MARK, "default/main") } else { request }
    };
    let sam = User::named("sam", "");
    for (what, user, request, code, text) in [
        ("the mark alone", User::developer(), claim("", true), 400, "without impersonating a user name"),
        ("oneself with the mark", User::developer(), claim("alice", true), 403, "cannot impersonate"),
        ("a user", sam.clone(), claim("alice", false).header("impersonate-group", "developers"), 403, MESSAGE),
        (
            "a user with the mark",
            sam.clone(),
            claim("alice", true),
            403,
            "userextras/kube-admission-proxy.dev/admitted",
        ),
    ] {
        let answer = control_plane.send(&user, request);
        assert_eq!(answer.status, code, "{what}: {}", answer.text());
        assert!(answer.text().contains(text), "{what}: {}", answer.text());
    }
    let refused = proxy.send(&User::named("root", ""), claim("alice", true));
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.message().contains("marks requests that the admission proxy has admitted"), "{}", refused.text());

    let admin = control_plane.kubeconfig(&User::named("proxy", ""));
    let impersonator = "--upstream-impersonator=default/forwarder";
    for mark in [&[][..], &["--admitted-mark=default/other"]] {
        let flags = [&[impersonator, WITHOUT_SERVICE_ACCOUNTS][..], mark].concat();
        let mistaken = Proxy::before_kubeconfig(&admin, &flags);
        let answer = mistaken.send(&User::developer(), create());
        assert!(is_guarded(&answer), "{mark:?}: {}", answer.text());
    }
}

/// The impersonator's own kubeconfig in place of tokens that the proxy requests. The user of the other kubeconfig may not impersonate.
fn an_impersonator_of_a_kubeconfig_forwards(control_plane: &ControlPlane, proxy: &Proxy) {
    let kubeconfig = control_plane.kubeconfig(&User::named("proxy", ""));
    let impersonator = control_plane.kubeconfig(&token(proxy, "default", "forwarder"));
    let impersonator = format!("--upstream-impersonator-kubeconfig={}", impersonator.display());
    let flags = ["--admitted-mark=default/main", WITHOUT_SERVICE_ACCOUNTS];
    let other = Proxy::before_kubeconfig(&kubeconfig, &[&[&*impersonator], &flags[..]].concat());
    let answer = other.send(&User::developer(), create());
    assert_eq!(answer.status, 201, "{}", answer.text());
    let alone = Proxy::starting(&kubeconfig, &flags);
    eventually("a proxy that lacks the right", || {
        let (_, lines) = alone.health("/readyz?verbose")?;
        (lines.contains("[-]upstream-rights failed") && lines.contains("[+]informer-sync ok")).then_some(())
    });
    let answer = alone.send(&User::developer(), create());
    assert_eq!(answer.status, 403, "{}", answer.text());
}

/// The attempts that the guard does not refuse, as `docs/src/guard.md` lists them.
fn the_documented_holes(control_plane: &ControlPlane) {
    let root = User::named("root", "");
    let forged = create().header("impersonate-user", "alice").header("impersonate-group", "developers");
    let exempt = create().header("impersonate-user", "root").header("impersonate-group", "system:nodes");
    for (user, request) in [(&root, forged.header(MARK, "default/main")), (&User::named("sam", ""), exempt)] {
        let answer = control_plane.send(user, request);
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let answer = control_plane.send(&root, delete(&format!("{bindings}/kube-admission-proxy-guard")));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_front_proxy_sends_the_mark_in_a_header() {
    let control_plane = ControlPlane::start("front-guarded", &only(&["ValidatingAdmissionPolicy"]));
    let kubectl = control_plane.kubectl(&User::admin());
    kubectl.ok(&["create", "serviceaccount", "proxy"]);
    kubectl.ok(&[
        "create",
        "clusterrolebinding",
        "proxy",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:proxy",
    ]);
    let User::Token(token) = token(&control_plane, "default", "proxy") else { unreachable!() };
    let user = "--proxy-user=system:serviceaccount:default:proxy";
    let mark = "--admitted-mark=default/main";
    let guard = print(&["guard", "--action=deny", mark, user, "--upstream-identity=requestheader"]);
    kubectl.ok_with_input(&["create", "-f", "-"], &guard);
    eventually("a guard in force", || is_guarded(&control_plane.send(&User::admin(), create())).then_some(()));

    let kubeconfig = control_plane.kubeconfig(&User::Certificate(Arc::new(pki().front_proxy("front-proxy"))));
    let mut config: Value = serde_json::from_slice(&std::fs::read(&kubeconfig).unwrap()).unwrap();
    config["users"][0]["user"]["token"] = json!(token);
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &["--upstream-identity=requestheader", mark]);
    assert_eq!(proxy.send(&User::developer(), create()).status, 201);
    let forged = create().header("x-remote-extra-kube-admission-proxy.dev%2fadmitted", "default/main");
    assert!(is_guarded(&control_plane.send(&User::developer(), forged)));
}

#[test]
fn a_guard_warns_before_it_denies() {
    let control_plane = ControlPlane::start("warned", &only(&["ValidatingAdmissionPolicy"]));
    let guard = print(&["guard", "--action=Warn", "--admitted-mark=default/main", "--proxy-user=proxy"]);
    control_plane.kubectl(&User::admin()).ok_with_input(&["create", "-f", "-"], &guard);
    eventually("a warning", || {
        let answer = control_plane.send(&User::admin(), create());
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.header("warning").iter().any(|warning| warning.contains(MESSAGE)).then_some(())
    });
}

#[test]
fn rights_of_prefixed_groups_are_of_use_through_the_proxy_only() {
    let team = unique("team");
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": team},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregate-to-edit"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": format!("via-proxy:{team}")}]});
    let answer =
        upstream().send(&User::admin(), post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let proxy = Proxy::before(upstream(), &["--upstream-group-prefix=via-proxy:"]);
    let bob = User::named("bob", &team);
    eventually("the binding", || (proxy.send(&bob, create()).status == 201).then_some(()));
    assert_eq!(upstream().send(&bob, create()).status, 403);
    // Kubernetes' own groups have no prefix.
    assert_eq!(proxy.send(&User::admin(), create()).status, 201);
    let kubectl = Kubectl::new(proxy.kubeconfig(&bob));
    let groups = format!("[via-proxy:{team} system:authenticated]");
    assert!(kubectl.ok(&["auth", "whoami"]).contains(&groups));
}
