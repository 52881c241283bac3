//! The gateway of several tenants: each has its own admission, API server and limits, and none reaches into another.

mod clients;
mod escapes;
mod fields;
mod figures;

use crate::harness::{
    Api, Proxy, Request, User, Webhook, delete, eventually, folder, free_port, get, patch, pki, post, unique, upstream,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

/// The tenants of most tests, in a folder.
pub struct Folder(PathBuf);

impl Folder {
    /// A folder with the tenants `default` and `operators`.
    pub fn new() -> Self {
        let made = Self(folder("tenants"));
        made.write("default", &json!({}));
        made.write("operators", &json!({"members": [{"kind": "Group", "name": "operators"}]}));
        made
    }

    /// Writes the file of a tenant.
    pub fn write(&self, name: &str, spec: &Value) {
        let file = json!({"apiVersion": "config.kube-admission-proxy.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": name}, "spec": spec});
        fs::write(self.0.join(format!("{name}.yaml")), file.to_string()).unwrap();
    }

    /// A folder that also has the tenants `blue`, which pulls images always, and `green`.
    pub fn blue_and_green() -> Self {
        let made = Self::new();
        made.write(
            "blue",
            &of(
                "team-blue",
                &json!({"namespaces": {"names": ["blue-*"]}, "serverNames": ["blue.example.com"],
            "admission": {"enablePlugins": ["AlwaysPullImages"]}}),
            ),
        );
        made.write(
            "green",
            &of("team-green", &json!({"namespaces": {"names": ["green-*"]}, "serverNames": ["green.example.com"]})),
        );
        made
    }

    pub fn flag(&self) -> String {
        format!("--tenants-dir={}", self.0.display())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A tenant with the members of a group.
pub fn of(group: &str, more: &Value) -> Value {
    let mut spec = json!({"members": [{"kind": "Group", "name": group}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

pub fn operator() -> User {
    User::named("olga", "operators")
}

pub fn blue() -> User {
    User::named("bea", "team-blue")
}

pub fn green() -> User {
    User::named("gus", "team-green")
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"secret": "of-green"}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "example.com/i:1", "imagePullPolicy": "IfNotPresent"}]}})
}

/// Sends a request that must succeed.
pub fn ok(proxy: &Proxy, user: &User, request: Request) -> Value {
    let what = format!("{} {}", request.method, request.path);
    let answer = proxy.send(user, request);
    assert!(answer.status < 300, "{what}: {} {}\n{}", answer.status, answer.text(), proxy.output());
    answer.json()
}

#[test]
fn tenants_have_different_admission_on_different_api_servers() {
    let tenants = Folder::blue_and_green();
    let kubeconfig = upstream().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let real = upstream().namespace("red");
    let more = json!({"namespaces": {"names": [real]}, "upstream": {"kubeconfig": kubeconfig},
        "admission": {"base": "none", "enablePlugins": ["AlwaysDeny"]}});
    tenants.write("red", &of("developers", &more));
    let proxy = Proxy::embedded(&[&tenants.flag()]);

    let made = ok(&proxy, &blue(), post("/tenants/blue/api/v1/namespaces", &namespace("blue-a")));
    assert_eq!(made["metadata"]["labels"]["kube-admission-proxy.dev/tenant"], "blue");
    // A caller of one tenant needs no address.
    ok(&proxy, &green(), post("/api/v1/namespaces", &namespace("green-a")));
    let policy = |user: &User, path: &str| {
        let made = ok(&proxy, user, post(path, &pod("p")));
        made["spec"]["containers"][0]["imagePullPolicy"].as_str().unwrap().to_owned()
    };
    assert_eq!(policy(&blue(), "/tenants/blue/api/v1/namespaces/blue-a/pods"), "Always");
    assert_eq!(policy(&green(), "/api/v1/namespaces/green-a/pods"), "IfNotPresent");

    // The API server of red has its own objects, and its chain denies every write.
    let maps = format!("/api/v1/namespaces/{real}/configmaps");
    let found = ok(&proxy, &User::developer(), get(&format!("/tenants/red{maps}")));
    assert_eq!(found["kind"], "ConfigMapList");
    let denied = proxy.send(&User::developer(), post(&format!("/tenants/red{maps}"), &config_map("one")));
    assert_eq!(denied.status, 403);
    assert!(denied.message().contains("admission control is denying all modifications"), "{}", denied.text());
    assert_eq!(upstream().send(&User::admin(), get(&format!("{maps}/one"))).status, 404);

    let (_, text) = proxy.health("/metrics").unwrap();
    for line in [
        "kube_admission_proxy_tenant_requests_total{code=\"201\",tenant=\"blue\"} 2",
        "kube_admission_proxy_tenant_requests_total{code=\"403\",tenant=\"red\"} 1",
    ] {
        assert!(text.contains(line), "{line} is missing");
    }
}

#[test]
fn kubectl_works_by_path_and_by_server_name() {
    let tenants = Folder::blue_and_green();
    let pair = pki().server_of("blue.example.com");
    tenants.write(
        "blue",
        &of(
            "team-blue",
            &json!({"namespaces": {"names": ["blue-*"]}, "serverNames": ["blue.example.com"],
        "tls": {"certFile": pair.certificate, "keyFile": pair.key}}),
        ),
    );
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-k")));
    let kubectl = proxy.kubectl(&blue());
    let server = format!("--server={}/tenants/blue", proxy.url());
    kubectl.ok(&[&server, "-n", "blue-k", "create", "configmap", "one", "--from-literal=a=b"]);
    assert!(kubectl.ok(&[&server, "-n", "blue-k", "get", "configmaps", "-o", "name"]).contains("configmap/one"));
    assert!(kubectl.ok(&[&server, "api-resources"]).contains("deployments"));
    assert!(kubectl.ok(&[&server, "explain", "pod.spec"]).contains("containers"));
    let manifest = config_map("two").to_string();
    kubectl.ok_with_input(&[&server, "-n", "blue-k", "apply", "--server-side", "-f", "-"], &manifest);
    kubectl.ok_with_input(&[&server, "-n", "blue-k", "apply", "-f", "-"], &config_map("three").to_string());
    let by_name = ["--tls-server-name=blue.example.com", "-n", "blue-k", "get", "configmap", "two", "-o", "name"];
    assert_eq!(kubectl.ok(&by_name).trim(), "configmap/two");
    let foreign = kubectl.run(&[&format!("--server={}/tenants/green", proxy.url()), "get", "configmaps"]);
    // kubectl does not show the message of a refused discovery.
    assert!(
        !foreign.success && foreign.stderr.contains("couldn't get current server API group list"),
        "{}",
        foreign.stderr
    );
    // A watch through the path.
    let path = "/tenants/blue/api/v1/namespaces/blue-k/configmaps?watch=1&fieldSelector=metadata.name%3Dtwo";
    let mut watch = proxy.stream(&blue(), get(path));
    assert_eq!(watch.next_json().unwrap()["object"]["metadata"]["name"], "two");
}

#[test]
fn a_namespace_is_its_tenants_and_only_operators_change_that() {
    let tenants = Folder::blue_and_green();
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let label = "kube-admission-proxy.dev/tenant";
    let mut shared = namespace("shared");
    shared["metadata"]["labels"] = json!({label: "blue"});
    ok(&proxy, &operator(), post("/api/v1/namespaces", &shared));
    let maps = "/api/v1/namespaces/shared/configmaps";
    ok(&proxy, &blue(), post(maps, &config_map("one")));
    assert_eq!(proxy.send(&green(), get(maps)).status, 403);
    ok(
        &proxy,
        &operator(),
        patch("/api/v1/namespaces/shared", "merge", &json!({"metadata": {"labels": {label: "green"}}})),
    );
    eventually("a namespace that has moved", || (proxy.send(&green(), get(maps)).status == 200).then_some(()));
    eventually("a namespace that is gone", || (proxy.send(&blue(), get(maps)).status == 403).then_some(()));
    // Namespaces without a tenant belong to callers without a tenant.
    ok(&proxy, &operator(), post("/api/v1/namespaces", &namespace("plain")));
    let anyone = User::named("ann", "");
    ok(&proxy, &anyone, post("/api/v1/namespaces/plain/configmaps", &config_map("one")));
    assert_eq!(proxy.send(&anyone, get(maps)).status, 403);
    assert_eq!(proxy.send(&blue(), get("/api/v1/namespaces/plain/configmaps")).status, 403);
    // A caller of several tenants acts as the tenant of the namespace.
    let both = User::named("bob", "both");
    for (name, group) in [("blue", "team-blue"), ("green", "team-green")] {
        let mut spec = of(group, &json!({"namespaces": {"names": [format!("{name}-*")]}}));
        spec["members"].as_array_mut().unwrap().push(json!({"kind": "Group", "name": "both"}));
        tenants.write(name, &spec);
    }
    eventually("members of both", || (proxy.send(&both, get(maps)).status == 200).then_some(()));
    assert_eq!(proxy.send(&both, get("/tenants/blue/api/v1/namespaces/shared/configmaps")).status, 403);
}

#[test]
fn an_api_server_that_is_down_is_only_its_tenants_problem() {
    let tenants = Folder::blue_and_green();
    let dead = folder("dead").join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "e",
        "clusters": [{"name": "e", "cluster": {"server": format!("https://127.0.0.1:{}", free_port())}}],
        "users": [{"name": "e", "user": {"token": "t"}}],
        "contexts": [{"name": "e", "context": {"cluster": "e", "user": "e"}}]});
    fs::write(&dead, config.to_string()).unwrap();
    tenants.write("red", &of("team-red", &json!({"upstream": {"kubeconfig": dead}})));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let red = User::named("rob", "team-red");
    for request in
        [get("/tenants/red/api/v1/namespaces/a/pods"), post("/api/v1/namespaces/a/configmaps", &config_map("a"))]
    {
        let answer = proxy.send(&red, request);
        assert_eq!(answer.status, 503, "{}", answer.text());
    }
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-up")));
    let (code, text) = proxy.health("/readyz?verbose").unwrap();
    assert_eq!(code, 200);
    assert!(text.contains("[+]tenants ok: warning: the API server of") && text.contains("(tenants red)"), "{text}");
}

#[test]
fn a_tenant_has_its_own_limits() {
    let tenants = Folder::blue_and_green();
    let limits = json!({"writesPerSecond": 1, "writeBurst": 3, "bodyBytes": 2000});
    tenants.write("blue", &of("team-blue", &json!({"namespaces": {"names": ["blue-*"]}, "limits": limits})));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-l")));
    ok(&proxy, &green(), post("/api/v1/namespaces", &namespace("green-l")));
    let mut large = config_map("large");
    large["data"]["x"] = json!("x".repeat(2000));
    assert_eq!(proxy.send(&blue(), post("/api/v1/namespaces/blue-l/configmaps", &large)).status, 413);
    ok(&proxy, &green(), post("/api/v1/namespaces/green-l/configmaps", &large));
    let begun = Instant::now();
    // At once, so that a slow machine does not send them at less than the rate.
    let codes: Vec<u16> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..20)
            .map(|index| {
                let request = post("/api/v1/namespaces/blue-l/configmaps", &config_map(&format!("m{index}")));
                let proxy = &proxy;
                scope.spawn(move || proxy.send(&blue(), request).status)
            })
            .collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    let allowed = codes.iter().filter(|code| **code == 201).count() as u64;
    assert!(allowed <= 4 + begun.elapsed().as_secs() && codes.contains(&429), "{codes:?}");
    for index in 0..20 {
        ok(&proxy, &green(), post("/api/v1/namespaces/green-l/configmaps", &config_map(&format!("m{index}"))));
    }
}

#[test]
fn a_webhook_that_hangs_for_one_tenant_hangs_for_no_other() {
    let tenants = Folder::blue_and_green();
    let mut spec = of("team-blue", &json!({"namespaces": {"names": ["blue-*"]}}));
    spec["limits"] = json!({"webhookCallsInFlight": 1});
    tenants.write("blue", &spec);
    let pink = json!({"namespaces": {"names": ["pink-*"]}, "admission": {"fromAPI": {"webhooks": "None"}}});
    tenants.write("pink", &of("team-pink", &pink));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let webhook = Webhook::start();
    let users = [("blue-w", blue()), ("green-w", green()), ("pink-w", User::named("pia", "team-pink"))];
    for (name, user) in &users {
        ok(&proxy, user, post("/api/v1/namespaces", &namespace(name)));
        let mut configuration = webhook.configuration("Validating", name, name, &["/held"]);
        configuration["webhooks"][0]["failurePolicy"] = json!("Ignore");
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        ok(&proxy, &operator(), post(path, &configuration));
    }
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    for (name, user) in &users[..2] {
        eventually("a webhook that is known", || {
            proxy.send(user, post(&format!("{}?dryRun=All", path(name)), &config_map("one")));
            (!webhook.take().is_empty()).then_some(())
        });
    }
    let (api, first) = (Api::clone(&proxy), path("blue-w"));
    let waiting = std::thread::spawn(move || api.send(&blue(), post(&first, &config_map("held"))).status);
    webhook.asked();
    webhook.take();
    // The only place is taken. The failurePolicy Ignore does not let the write pass, and no other request waits.
    let refused = proxy.send(&blue(), post(&format!("{}?timeout=1s", path("blue-w")), &config_map("second")));
    for (name, user) in &users[1..] {
        ok(&proxy, user, post(&path(name), &config_map("one")));
    }
    assert_eq!(refused.status, 504, "{}", refused.text());
    assert_eq!(proxy.send(&blue(), get(&format!("{}/second", path("blue-w")))).status, 404);
    assert_eq!(webhook.take().len(), 1, "only green's webhook is called");
    webhook.release();
    assert_eq!(waiting.join().unwrap(), 201);
}

#[test]
fn a_tenant_has_its_own_audit_log() {
    let tenants = Folder::blue_and_green();
    let policy = tenants.path().join("policy.yaml");
    fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n").unwrap();
    tenants.write(
        "blue",
        &of(
            "team-blue",
            &json!({"namespaces": {"names": ["blue-*"]},
        "audit": {"policyFile": "policy.yaml", "logPath": "logs/blue.log"}}),
        ),
    );
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-audit")));
    ok(&proxy, &green(), post("/api/v1/namespaces", &namespace("green-audit")));
    let line = eventually("an event", || {
        let text = fs::read_to_string(tenants.path().join("logs/blue.log")).ok()?;
        assert!(!text.contains("green"), "{text}");
        text.lines().find(|line| line.contains("ResponseComplete")).map(str::to_owned)
    });
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["annotations"]["kube-admission-proxy.dev/tenant"], "blue");
    assert_eq!(event["requestURI"], "/api/v1/namespaces");
}

#[test]
fn the_folder_is_followed_and_a_bad_file_changes_nothing() {
    let tenants = Folder::blue_and_green();
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-r")));
    fs::write(tenants.path().join("pink.yaml"), "kind: Tenant\nmetadata: {name: pink}\nspec: {colour: red}\n").unwrap();
    tenants.write("green", &of("team-nobody", &json!({})));
    eventually("a reload that failed", || {
        let (code, text) = proxy.health("/readyz?verbose").unwrap();
        (code == 200 && text.contains("warning: not reloaded:") && text.contains("pink.yaml:")).then_some(())
    });
    eventually("a line of the log", || proxy.output().contains("pink.yaml").then_some(()));
    assert!(
        proxy.health("/metrics").unwrap().1.contains("kube_admission_proxy_config_reloads_total{status=\"failure\"}")
    );
    // Neither file counts.
    ok(&proxy, &green(), post("/tenants/green/api/v1/namespaces", &namespace("green-r")));
    fs::remove_file(tenants.path().join("pink.yaml")).unwrap();
    tenants.write("pink", &of("team-pink", &json!({"namespaces": {"names": ["pink-*"]}})));
    let pink = User::named("pia", "team-pink");
    eventually("a new tenant", || {
        let request = post("/tenants/pink/api/v1/namespaces", &namespace(&unique("pink")));
        (proxy.send(&pink, request).status == 201).then_some(())
    });
    assert_eq!(proxy.send(&green(), get("/tenants/green/api/v1/namespaces/green-r")).status, 403);
    ok(&proxy, &blue(), delete("/api/v1/namespaces/blue-r"));
}

#[test]
fn a_token_counts_only_at_its_api_server() {
    let tenants = Folder::new();
    let kubeconfig = upstream().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let ci = upstream().namespace("ci");
    let member = json!([{"kind": "ServiceAccount", "namespace": ci, "name": "*"}]);
    tenants.write("blue", &json!({"members": member, "namespaces": {"names": ["blue-*", ci]}}));
    tenants.write(
        "red",
        &json!({"members": member, "namespaces": {"names": [ci]}, "upstream": {"kubeconfig": kubeconfig}}),
    );
    tenants.write("pink", &of("team-pink", &json!({"upstream": {"kubeconfig": kubeconfig}})));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let accounts = format!("/api/v1/namespaces/{ci}/serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
    upstream().send(&User::admin(), post(&accounts, &account));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = upstream().send(&User::admin(), post(&format!("{accounts}/bot/token"), &request)).json();
    let bot = User::Token(token["status"]["token"].as_str().unwrap().to_owned());
    let whoami = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let review = "apis/authentication.k8s.io/v1/selfsubjectreviews";
    ok(&proxy, &bot, post(&format!("/tenants/red/{review}"), &whoami));
    for (tenant, code) in [("blue", 401), ("pink", 403), ("operators", 401)] {
        assert_eq!(proxy.send(&bot, post(&format!("/tenants/{tenant}/{review}"), &whoami)).status, code, "{tenant}");
    }
    assert_eq!(proxy.send(&bot, post(&format!("/{review}"), &whoami)).status, 401);
}

#[test]
fn an_authority_of_a_tenant_names_users_of_that_tenant_alone() {
    let tenants = Folder::blue_and_green();
    let (pair, authority) = pki().stranger("bea");
    tenants.write(
        "blue",
        &json!({"members": [{"kind": "User", "name": "bea"}], "namespaces": {"names": ["blue-*"]},
        "tls": {"clientCAFile": authority}}),
    );
    let (boss, bosses) = pki().stranger("system:admin");
    tenants.write(
        "green",
        &json!({"members": [{"kind": "User", "name": "bea"}, {"kind": "User", "name": "system:admin"}],
        "namespaces": {"names": ["green-*"]}, "tls": {"clientCAFile": bosses}}),
    );
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let (bea, boss) = (User::Certificate(Arc::new(pair)), User::Certificate(Arc::new(boss)));
    ok(&proxy, &bea, post("/tenants/blue/api/v1/namespaces", &namespace("blue-ca")));
    for path in ["/tenants/green/api", "/tenants/operators/api", "/api"] {
        assert_eq!(proxy.send(&bea, get(path)).status, 401, "{path}");
    }
    assert_eq!(proxy.send(&boss, get("/tenants/green/api")).status, 401);
}

#[test]
fn an_authority_of_a_tenant_gives_no_names_of_others() {
    let tenants = Folder::blue_and_green();
    let (pair, authority) = pki().stranger_of("olga", "team-blue");
    tenants.write(
        "blue",
        &json!({"members": [{"kind": "Group", "name": "team-blue"}], "namespaces": {"names": ["blue-*"]},
        "tls": {"clientCAFile": authority}}),
    );
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let olga = User::Certificate(Arc::new(pair));
    let whoami = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/tenants/blue/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = proxy.send(&olga, post(path, &whoami));
    let user = &answer.json()["status"]["userInfo"];
    assert_eq!(user["username"], "tenant:blue:olga", "{}", answer.text());
    assert_eq!(user["groups"], json!(["team-blue", "system:authenticated"]));
}

#[test]
fn a_folder_is_checked_without_a_server() {
    let tenants = Folder::blue_and_green();
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"));
        let output = command.args(["check", "--tenants-dir"]).arg(tenants.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = check();
    assert_eq!((code, text.contains("tenants: 4")), (Some(0), true), "{text}");
    tenants.write("blue", &of("team-blue", &json!({"admission": {"enablePlugins": ["EventRateLimit"]}})));
    let (code, text) = check();
    assert!(code == Some(1) && text.contains("blue.yaml") && text.contains("EventRateLimit"), "{text}");
    let refused = Proxy::refusal(&[&tenants.flag()]);
    assert!(refused.contains("blue.yaml") && refused.contains("spec.admission"), "{refused}");
}

#[test]
fn webhooks_of_a_tenants_api_server_are_called_at_allowed_addresses_only() {
    let tenants = Folder::new();
    let (webhook, confined) = (Webhook::start(), upstream().namespace("confined"));
    let kubeconfig = upstream().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let write = |targets: Value| {
        let spec = json!({"namespaces": {"names": [confined]}, "admission": {"base": "none", "enablePlugins": ["ValidatingAdmissionWebhook"]},
            "upstream": {"kubeconfig": kubeconfig, "webhookTargets": targets}});
        tenants.write("red", &of("developers", &spec));
    };
    write(json!(["10.0.0.0/8", "127.0.0.1.nip.io"]));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    let configuration = webhook.configuration("Validating", &confined, &confined, &["/allow"]);
    upstream().accepts(post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &configuration));
    let create = post(&format!("/tenants/red/api/v1/namespaces/{confined}/configmaps?dryRun=All"), &config_map("one"));
    let refused = eventually("a webhook that is known", || {
        let answer = proxy.send(&User::developer(), create.clone());
        (answer.status != 201).then_some(answer)
    });
    let why = "dial tcp: lookup 127.0.0.1: no address that upstream.webhookTargets allows";
    assert!(refused.status == 500 && refused.message().ends_with(why), "{}", refused.text());
    assert_eq!(webhook.take(), []);
    write(json!(["127.0.0.0/8"]));
    eventually("an allowed webhook", || (proxy.send(&User::developer(), create.clone()).status == 201).then_some(()));
    assert!(!webhook.take().is_empty());
}
