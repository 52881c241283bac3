//! Fields of a tenant's file, each by its effect.

use super::{Folder, blue, config_map, green, namespace, of, ok, operator, pod};
use crate::harness::{Api, Proxy, User, Webhook, eventually, free_port, get, patch, pki, post, unique, upstream};
use serde_json::{Value, json};
use std::fs;

#[test]
fn labels_choose_the_webhooks_and_policies_of_a_tenant() {
    let tenants = Folder::new();
    let chosen = json!({"matchLabels": {"for": "blue"}});
    let spec = json!({"namespaces": {"names": ["blue-*"]}, "admission": {"fromAPI": {"webhooks": chosen, "policies": chosen}}});
    tenants.write("blue", &of("team-blue", &spec));
    tenants.write("green", &of("team-green", &json!({"namespaces": {"names": ["green-*"]}})));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let webhook = Webhook::start();
    for (name, user) in [("blue-l", blue()), ("green-l", green())] {
        ok(&proxy, &user, post("/api/v1/namespaces", &namespace(name)));
    }
    let registrations = "/apis/admissionregistration.k8s.io/v1";
    for (name, labels) in [("chosen", json!({"for": "blue"})), ("plain", json!({}))] {
        let mut configuration = webhook.about_everything("Mutating", &format!("/label/{name}/yes"));
        configuration["metadata"] = json!({"name": name, "labels": labels});
        configuration["webhooks"][0]["rules"][0]["resources"] = json!(["configmaps"]);
        ok(&proxy, &operator(), post(&format!("{registrations}/mutatingwebhookconfigurations"), &configuration));
        let policy = json!({"metadata": {"name": name, "labels": labels}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]},
            "validations": [{"expression": format!("object.metadata.name != '{name}'")}]}});
        ok(&proxy, &operator(), post(&format!("{registrations}/validatingadmissionpolicies"), &policy));
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
        ok(&proxy, &operator(), post(&format!("{registrations}/validatingadmissionpolicybindings"), &binding));
    }
    let labels = |user: &User, name: &str| {
        let made =
            ok(&proxy, user, post(&format!("/api/v1/namespaces/{name}/configmaps?dryRun=All"), &config_map("one")));
        made["metadata"]["labels"]
            .as_object()
            .map(|labels| labels.keys().cloned().collect::<Vec<_>>())
            .unwrap_or_default()
    };
    eventually("both webhooks for green", || (labels(&green(), "green-l") == ["chosen", "plain"]).then_some(()));
    eventually("one webhook for blue", || (labels(&blue(), "blue-l") == ["chosen"]).then_some(()));
    let status = |user: &User, space: &str, name: &str| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        proxy.send(user, post(&format!("/api/v1/namespaces/{space}/secrets?dryRun=All"), &secret)).status
    };
    eventually("both policies for green", || {
        (["chosen", "plain"].map(|name| status(&green(), "green-l", name)) == [422, 422]).then_some(())
    });
    eventually("one policy for blue", || {
        (["chosen", "plain"].map(|name| status(&blue(), "blue-l", name)) == [422, 201]).then_some(())
    });
}

#[test]
fn a_hangup_has_files_outside_the_folder_read_again() {
    let tenants = Folder::blue_and_green();
    let outside = crate::harness::folder("outside").join("admission.yaml");
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodNodeSelector", "path": "selector.yaml"}]});
    fs::write(&outside, file.to_string()).unwrap();
    let write = |number: u32| {
        let selector = json!({"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": format!("n={number}")}});
        fs::write(outside.with_file_name("selector.yaml"), selector.to_string()).unwrap();
    };
    write(1);
    let spec = json!({"namespaces": {"names": ["blue-*"]}, "admission": {"enablePlugins": ["PodNodeSelector"], "pluginConfig": outside}});
    tenants.write("blue", &of("team-blue", &spec));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-h")));
    let selector = || {
        let made = ok(&proxy, &blue(), post("/api/v1/namespaces/blue-h/pods?dryRun=All", &pod(&unique("pod"))));
        made["spec"]["nodeSelector"]["n"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(selector(), "1");
    write(2);
    proxy.hang_up();
    eventually("the changed file", || (selector() == "2").then_some(()));
}

#[test]
fn groups_have_a_prefix_only_at_the_api_server() {
    let tenants = Folder::new();
    let kubeconfig = upstream().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let space = upstream().namespace("prefixed");
    let spec = json!({"namespaces": {"names": [space]}, "upstream": {"kubeconfig": kubeconfig, "groupPrefix": "via:"}});
    tenants.write("red", &of("developers", &spec));
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "via"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "via:developers"}]});
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings");
    assert_eq!(upstream().send(&User::admin(), post(&path, &binding)).status, 201);
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let someone = User::named("rita", "developers");
    let whoami = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let review = ok(&proxy, &someone, post("/tenants/red/apis/authentication.k8s.io/v1/selfsubjectreviews", &whoami));
    assert_eq!(review["status"]["userInfo"]["groups"], json!(["via:developers", "system:authenticated"]));
    let maps = format!("/api/v1/namespaces/{space}/configmaps");
    eventually("a right of the prefixed group", || {
        let create = post(&format!("/tenants/red{maps}"), &config_map(&unique("map")));
        (proxy.send(&someone, create).status == 201).then_some(())
    });
    let refused = proxy.send(&someone, get(&maps));
    assert!(refused.status == 403 && refused.message().contains("needs the tenant's address"), "{}", refused.text());
}

#[test]
fn a_front_proxy_names_the_callers_of_a_tenant() {
    let tenants = Folder::new();
    let space = upstream().namespace("front-proxy");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "proxy"}});
    let accounts = format!("/api/v1/namespaces/{space}/serviceaccounts");
    assert_eq!(upstream().send(&User::admin(), post(&accounts, &account)).status, 201);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = upstream().send(&User::admin(), post(&format!("{accounts}/proxy/token"), &request)).json();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": unique("proxy")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": space, "name": "proxy"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(upstream().send(&User::admin(), post(bindings, &binding)).status, 201);
    let pair = pki().front_proxy("front-proxy");
    let kubeconfig = tenants.path().join("red.kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "e",
        "clusters": [{"name": "e", "cluster": {"server": upstream().url(), "certificate-authority": pki().ca()}}],
        "users": [{"name": "e", "user": {"client-certificate": pair.certificate, "client-key": pair.key, "token": token["status"]["token"]}}],
        "contexts": [{"name": "e", "context": {"cluster": "e", "user": "e"}}]});
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let spec = json!({"namespaces": {"names": [space]}, "upstream": {"kubeconfig": "red.kubeconfig", "identity": "requestheader"}});
    tenants.write("red", &of("developers", &spec));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let whoami = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/tenants/red/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = eventually("the headers of front proxies", || {
        let answer = proxy.send(&User::developer(), post(path, &whoami));
        (answer.status == 201).then(|| answer.json())
    });
    assert_eq!(review["status"]["userInfo"]["username"], "alice");
    let maps = format!("/tenants/red/api/v1/namespaces/{space}/configmaps");
    ok(&proxy, &User::developer(), post(&maps, &config_map("one")));
}

#[test]
fn a_review_is_answered_by_the_tenant_of_its_namespace() {
    let tenants = Folder::new();
    let [of_blue, plain, contradictory, fileless] = ["blue-r", "plain", "blue-x", "gone"].map(unique);
    let spec = json!({"namespaces": {"names": ["blue-*"]}, "admission": {"enablePlugins": ["AlwaysPullImages"]}});
    tenants.write("blue", &of("team-blue", &spec));
    for (name, label) in [(&of_blue, ""), (&plain, ""), (&contradictory, "green"), (&fileless, "nobody")] {
        let mut object = namespace(name);
        if !label.is_empty() {
            object["metadata"]["labels"] = json!({"kube-admission-proxy.dev/tenant": label});
        }
        assert_eq!(upstream().send(&User::admin(), post("/api/v1/namespaces", &object)).status, 201);
    }
    let port = free_port();
    let flags = [
        tenants.flag(),
        format!("--webhook-bind-address=127.0.0.1:{port}"),
        format!("--webhook-client-ca-file={}", pki().ca().display()),
        "--webhook-allowed-names=kube-apiserver".to_owned(),
        "--webhook-admission-plugins=AlwaysPullImages".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let proxy = Proxy::before(upstream(), &flags);
    let (front_end, caller) = (Api { port }, User::named("kube-apiserver", ""));
    let review = |space: &str| {
        let mut object = pod("p");
        object["metadata"]["namespace"] = json!(space);
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"}, "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "name": "p", "namespace": space, "operation": "CREATE", "userInfo": {"username": "controller"}, "object": object,
            "oldObject": null, "dryRun": false, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}}});
        let answer = front_end.send(&caller, post("/mutate", &review));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["response"].clone()
    };
    let patched = |response: &Value| {
        use base64::Engine as _;
        let patch = response["patch"].as_str().unwrap_or_default();
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
        String::from_utf8(patch).unwrap().contains("imagePullPolicy")
    };
    let answers = [&of_blue, &plain].map(|space| review(space));
    assert_eq!(answers.each_ref().map(|answer| &answer["allowed"]), [&json!(true), &json!(true)], "{answers:?}");
    assert_eq!(answers.each_ref().map(patched), [true, false], "{answers:?}");
    for space in [&contradictory, &fileless] {
        let refused = review(space);
        assert_eq!(refused["allowed"], false, "{refused}");
        assert!(refused["status"]["message"].as_str().unwrap().contains("not one of a single tenant"), "{refused}");
    }
    // A correction of the label makes the namespace somebody's.
    let correct = json!({"metadata": {"labels": {"kube-admission-proxy.dev/tenant": "blue"}}});
    let path = format!("/api/v1/namespaces/{contradictory}");
    assert_eq!(upstream().send(&User::admin(), patch(&path, "merge", &correct)).status, 200);
    eventually("a corrected namespace", || (review(&contradictory)["allowed"] == true).then_some(()));
    drop(proxy);
}
