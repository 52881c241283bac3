//! The plugins that Kubernetes removed, in front of a real API server, which does not have their APIs.

use crate::harness::{ControlPlane, Kubectl, Proxy, User, eventually, folder, get, only, post, upstream};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// No controller creates service accounts behind the real API server.
const WITHOUT_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

fn pod(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": {"role": "frontend"}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    })
}

/// The output of `print crds`.
fn definitions() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy")).args(["print", "crds"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_plugin_without_its_api_is_not_ready_and_custom_resources_are_its_api() {
    let control_plane = ControlPlane::start("removed", &only(&[]));
    let admin = User::named("admission-proxy", "system:masters");
    let plugins = "--enable-admission-plugins=PodPreset,PodSecurityPolicy,GenericAdmissionWebhook";
    let proxy = Proxy::starting(&control_plane.kubeconfig(&admin), &[plugins, WITHOUT_SERVICE_ACCOUNTS]);
    eventually("the reason why the proxy is not ready", || {
        let (code, text) = proxy.health("/readyz?verbose")?;
        assert_eq!(code, 500, "{text}");
        let log = proxy.output();
        let kinds = ["podpresets", "podsecuritypolicies", "externaladmissionhookconfigurations"];
        let why = |kind: &&str| log.contains(&format!("the API server serves no {kind} in "));
        (kinds.iter().all(why) && log.contains("print crds")).then_some(())
    });
    let kubectl = Kubectl::new(control_plane.kubeconfig(&admin));
    kubectl.ok_with_input(&["create", "-f", "-"], &definitions());
    let proxy = proxy.ready();
    let namespace = proxy.namespace("removed");
    let preset = json!({
        "apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset", "metadata": {"name": "p", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"role": "frontend"}}, "env": [{"name": "A", "value": "1"}]},
    });
    proxy.accepts(post(&format!("/apis/settings.k8s.io/v1alpha1/namespaces/{namespace}/podpresets"), &preset));
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let why = "PodSecurityPolicy: no providers available to validate pod request";
    proxy.rejects(post(&pods, &pod("early", &namespace)), 403, &format!("pods \"early\" is forbidden: {why}"));
    let any = json!({"rule": "RunAsAny"});
    let policy = json!({
        "apiVersion": "policy.kube-admission-proxy.dev/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "open"},
        "spec": {"volumes": ["*"], "seLinux": any, "runAsUser": any, "supplementalGroups": any, "fsGroup": any},
    });
    proxy.accepts(post("/apis/policy.kube-admission-proxy.dev/v1beta1/podsecuritypolicies", &policy));
    eventually("a pod that the policy allows and the preset changes", || {
        let created = proxy.send(&User::admin(), post(&format!("{pods}?dryRun=All"), &pod("late", &namespace))).json();
        (created["metadata"]["annotations"]["kubernetes.io/psp"] == "open"
            && created["spec"]["containers"][0]["env"] == json!([{"name": "A", "value": "1"}]))
        .then_some(())
    });
}

#[test]
fn policies_come_from_files() {
    let folder = folder("policies");
    let any = json!({"rule": "RunAsAny"});
    let policy = |name: &str, host_network: bool| {
        json!({
            "apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": name},
            "spec": {
                "hostNetwork": host_network, "volumes": ["*"], "seLinux": any, "runAsUser": any, "supplementalGroups": any,
                "fsGroup": any,
            },
        })
    };
    std::fs::create_dir(folder.join("policies")).unwrap();
    std::fs::write(folder.join("policies/policy.yaml"), policy("closed", false).to_string()).unwrap();
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurityPolicy", "configuration": {
            "apiVersion": "config.kube-admission-proxy.dev/v1alpha1", "kind": "PodSecurityPolicyConfiguration",
            "staticManifestsDir": "policies",
        }}],
    });
    let file = folder.join("admission.json");
    std::fs::write(&file, configuration.to_string()).unwrap();
    let file = format!("--admission-control-config-file={}", file.display());
    let proxy =
        Proxy::before(upstream(), &["--enable-admission-plugins=PodSecurityPolicy", WITHOUT_SERVICE_ACCOUNTS, &file]);
    let namespace = proxy.namespace("files");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let mut of_host = pod("host", &namespace);
    of_host["spec"]["hostNetwork"] = json!(true);
    let why = "spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used";
    let why = format!("pods \"host\" is forbidden: PodSecurityPolicy: unable to admit pod: [{why}]");
    let refused = proxy.send(&User::admin(), post(&pods, &of_host));
    assert_eq!((refused.status, refused.message()), (403, why));
    // A developer may create pods, but use no policy.
    let refused = proxy.send(&User::developer(), post(&pods, &pod("other", &namespace)));
    assert_eq!(
        (refused.status, refused.message().ends_with("unable to admit pod: []")),
        (403, true),
        "{}",
        refused.text()
    );
    std::fs::write(folder.join("policies/policy.yaml"), policy("open", true).to_string()).unwrap();
    let created = eventually("a pod that the new file allows", || {
        let answer = proxy.send(&User::admin(), post(&pods, &of_host));
        (answer.status == 201).then(|| answer.json())
    });
    assert_eq!(created["metadata"]["annotations"]["kubernetes.io/psp"], "open");
}

#[test]
fn initializers_need_the_embedded_api_server() {
    let admin = User::named("admission-proxy", "system:masters");
    let kubeconfig = format!("--upstream-kubeconfig={}", upstream().kubeconfig(&admin).display());
    let output = Proxy::refusal(&["--enable-admission-plugins=Initializers", &kubeconfig]);
    assert!(output.contains("Initializers") && output.contains("MutatingAdmissionWebhook"), "{output}");
}

#[test]
fn an_old_list_of_plugins_keeps_its_order() {
    let proxy = Proxy::embedded(&["--admission-control=NamespaceLifecycle,SecurityContextDeny,AlwaysPullImages"]);
    let mut other = pod("p", "default");
    other["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 1});
    let why = "pods \"p\" is forbidden: SecurityContext.RunAsUser is forbidden";
    proxy.rejects(post("/api/v1/namespaces/default/pods", &other), 403, why);
    let created = proxy.accepts(post("/api/v1/namespaces/default/pods", &pod("q", "default")));
    assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "Always");
    // ServiceAccount is not in the list.
    assert!(created["spec"].get("serviceAccountName").is_none(), "{created}");
    proxy.accepts(get("/api/v1/namespaces/default/pods/q"));
    let refusal = Proxy::refusal(&["--admission-control=Nothing"]);
    assert!(refusal.contains("admission-control plugin \"Nothing\" is unknown"), "{refusal}");
}

/// A program of the documentation, which runs until it is dropped.
struct Program(std::process::Child);

impl Program {
    fn start(script: &str, arguments: &[&str], kubeconfig: &Path, path: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/removed").join(script);
        let mut command = Command::new("python3");
        Self(command.arg(script).args(arguments).env("KUBECONFIG", kubeconfig).env("PATH", path).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_sessions_about_removed_plugins_are_what_kubectl_prints() {
    let page = "docs/src/removed-plugins.md";
    let plugins = "--enable-admission-plugins=PodPreset";
    crate::documentation::plays_section(&Proxy::embedded(&[plugins]), page, "PodPreset");
    let plugins = "--enable-admission-plugins=PodSecurityPolicy";
    let proxy = Proxy::embedded(&[plugins, "--authorization-mode=RBAC"]);
    crate::documentation::plays_section(&proxy, page, "PodSecurityPolicy");
    let proxy = Proxy::embedded(&["--enable-admission-plugins=Initializers"]);
    let kubectl = crate::harness::binary("kubectl");
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let _initializer = Program::start("sidecar-initializer.py", &[], &proxy.kubeconfig(&User::admin()), &path);
    crate::documentation::plays_section(&proxy, page, "Initializers");
    let plugins = "--enable-admission-plugins=GenericAdmissionWebhook";
    let proxy = Proxy::embedded(&[plugins, "--enable-aggregator-routing"]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/hook");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let _hook = Program::start("hook.py", &[folder.to_str().unwrap()], &proxy.kubeconfig(&User::admin()), &path);
    eventually("the configuration of the hook", || folder.join("hook.yaml").exists().then_some(()));
    crate::documentation::plays_section(&proxy, page, "External admission hooks");
}

#[test]
fn a_policy_about_one_group_of_pod_security_policies_counts_for_the_other() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=PodSecurityPolicy"]);
    let registration = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({
        "apiGroups": ["policy"], "apiVersions": ["v1beta1"], "resources": ["podsecuritypolicies"], "operations": ["CREATE"],
    });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "none"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.apiVersion != 'policy/v1beta1'", "message": "no policies"}],
        },
    });
    proxy.accepts(post(&format!("{registration}/validatingadmissionpolicies"), &policy));
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "none"},
        "spec": {"policyName": "none", "validationActions": ["Deny"]},
    });
    proxy.accepts(post(&format!("{registration}/validatingadmissionpolicybindings"), &binding));
    let any = json!({"rule": "RunAsAny"});
    for group in ["policy", "extensions"] {
        let object = json!({
            "apiVersion": format!("{group}/v1beta1"), "kind": "PodSecurityPolicy", "metadata": {"name": "open"},
            "spec": {"volumes": ["*"], "seLinux": any, "runAsUser": any, "supplementalGroups": any, "fsGroup": any},
        });
        let path = format!("/apis/{group}/v1beta1/podsecuritypolicies?dryRun=All");
        eventually(&format!("a refusal in {group}"), || {
            let answer = proxy.send(&User::admin(), post(&path, &object));
            (answer.status == 422 && answer.message().contains("no policies")).then_some(())
        });
    }
}
