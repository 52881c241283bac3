//! The plugins that Kubernetes removed, in front of a real API server, which does not have their APIs.

mod hooks;
mod initializers;
mod policies;

use crate::harness::{
    Api, ControlPlane, Kubectl, Proxy, Request, User, delete, eventually, folder, get, only, patch, post, put, upstream,
};
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

/// Writes the configuration of a plugin whose source is a file of the folder, and returns the flag that names it.
fn configured(folder: &Path, plugin: &str, source: &str) -> String {
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": plugin, "configuration": {
            "apiVersion": "config.kube-admission-proxy.dev/v1alpha1", "kind": format!("{plugin}Configuration"),
            "source": "File", "file": source,
        }}],
    });
    let file = folder.join("admission.json");
    std::fs::write(&file, configuration.to_string()).unwrap();
    format!("--admission-control-config-file={}", file.display())
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
    an_object_that_the_last_release_refuses_is_refused(&proxy, &control_plane, &namespace);
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

/// Through the proxy with the texts of the last release; past it by the rules of the definitions.
fn an_object_that_the_last_release_refuses_is_refused(proxy: &Proxy, past: &Api, namespace: &str) {
    let preset = |spec: Value| json!({"apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset", "metadata": {"name": "bad", "namespace": namespace}, "spec": spec});
    let policy = |fields: Value| {
        let any = json!({"rule": "RunAsAny"});
        let mut spec = json!({"seLinux": any, "runAsUser": any, "supplementalGroups": any, "fsGroup": any});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"apiVersion": "policy.kube-admission-proxy.dev/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "bad"}, "spec": spec})
    };
    let hooks = |name: &str, hook: Value| {
        json!({"apiVersion": "admissionregistration.kube-admission-proxy.dev/v1alpha1", "kind": "ExternalAdmissionHookConfiguration",
            "metadata": {"name": name}, "externalAdmissionHooks": [hook]})
    };
    let presets = format!("/apis/settings.k8s.io/v1alpha1/namespaces/{namespace}/podpresets");
    let policies = "/apis/policy.kube-admission-proxy.dev/v1beta1/podsecuritypolicies";
    let configurations =
        "/apis/admissionregistration.kube-admission-proxy.dev/v1alpha1/externaladmissionhookconfigurations";
    for (at, object, why, is_known_past) in [
        (
            &*presets,
            preset(json!({"selector": {}})),
            "spec.volumes.env.envFrom.volumeMounts: Required value: must specify at least one",
            true,
        ),
        (
            &presets,
            preset(json!({"env": [{"name": "a b", "value": "c"}]})),
            "spec.env[0].name: Invalid value: \"a b\"",
            true,
        ),
        (
            &presets,
            preset(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            "spec.volumeMounts[0].name: Not found: \"v\"",
            false,
        ),
        (
            &presets,
            preset(json!({"env": [{"name": "A"}], "selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})),
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Is\"",
            true,
        ),
        (
            policies,
            policy(json!({"fsGroup": {"rule": "Nope"}})),
            "spec.fsGroup.rule: Unsupported value: \"Nope\"",
            true,
        ),
        (policies, policy(json!({"volumes": ["nope"]})), "spec.volumes: Unsupported value: \"nope\"", false),
        (
            configurations,
            hooks("bad", json!({"name": "a.e2e.test", "failurePolicy": "Fail"})),
            "externalAdmissionHooks[0].failurePolicy: Unsupported value: \"Fail\": supported values: Ignore",
            true,
        ),
        (
            configurations,
            hooks("bad", json!({"name": "test"})),
            "externalAdmissionHooks[0].name: Invalid value: \"test\"",
            false,
        ),
    ] {
        let answer = proxy.send(&User::admin(), post(at, &object));
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.message().contains(why), "{}", answer.message());
        let answer = past.send(&User::admin(), post(&format!("{at}?dryRun=All"), &object));
        assert_eq!(answer.status == 422, is_known_past, "{}", answer.text());
    }
    for (name, client_config) in [
        ("no-client", Value::Null),
        ("no-service", json!({})),
        ("no-name", json!({"service": {}})),
        ("no-bundle", json!({"service": {"name": "s", "namespace": "n"}})),
    ] {
        let mut hook = json!({"name": "a.e2e.test"});
        if !client_config.is_null() {
            hook["clientConfig"] = client_config;
        }
        proxy.accepts(post(configurations, &hooks(name, hook)));
    }
    let stored = proxy.accepts(post(&presets, &preset(json!({"env": [{"name": "A", "value": "1"}]}))));
    let mut changed = stored.clone();
    changed["spec"]["env"][0]["value"] = json!("2");
    let changed = proxy.accepts(put(&format!("{presets}/bad"), &changed));
    assert_eq!(changed["spec"]["env"][0]["value"], "2");
    proxy.accepts(delete(&format!("{presets}/bad")));
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

#[test]
fn plugins_complete_the_pods_of_initializers() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=Initializers,PodNodeSelector"]);
    let annotated = json!({"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/node-selector": "pool=web"}}});
    proxy.accepts(patch("/api/v1/namespaces/default", "merge", &annotated));
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota =
        proxy.accepts(post(quotas, &json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}})));
    let mut counted = quota;
    counted["status"] = json!({"hard": {"requests.cpu": "1"}, "used": {"requests.cpu": "0"}});
    proxy.accepts(put(&format!("{quotas}/q/status"), &counted));
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "InitializerConfiguration", "metadata": {"name": "sidecar"},
        "initializers": [{
            "name": "sidecar.example.com",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        }],
    });
    proxy.accepts(post("/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations", &configuration));
    let pods = "/api/v1/namespaces/default/pods";
    let asking =
        |name: &str, cpu: &str| json!({"name": name, "image": "nginx", "resources": {"requests": {"cpu": cpu}}});
    let mut website = pod("website", "default");
    website["spec"]["containers"][0] = asking("website", "300m");
    let waits = format!("{pods}?includeUninitialized=true");
    eventually("an initializer of pods, and a node selector", || {
        let answer = proxy.send(&User::admin(), post(&format!("{waits}&dryRun=All"), &website));
        (answer.status == 202 && answer.json()["spec"]["nodeSelector"]["pool"] == "web").then_some(())
    });
    let waiting = proxy.accepts(post(&waits, &website));
    let used = || proxy.accepts(get(&format!("{quotas}/q")))["status"]["used"]["requests.cpu"].clone();
    assert_eq!(used(), "300m");
    let complete = |cpu: &str| {
        let mut complete = waiting.clone();
        complete["metadata"]["initializers"] = Value::Null;
        complete["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        complete["spec"]["containers"].as_array_mut().unwrap().push(asking("sidecar", cpu));
        put(&format!("{pods}/website"), &complete)
    };
    let why = "exceeded quota: q, requested: requests.cpu=5, used: requests.cpu=300m, limited: requests.cpu=1";
    proxy.rejects(complete("5"), 403, &format!("pods \"website\" is forbidden: {why}"));
    let done = proxy.accepts(complete("100m"));
    assert_eq!(done["spec"]["nodeSelector"], json!({"disk": "ssd", "pool": "web"}));
    let mounts = |index: usize| &done["spec"]["containers"][index]["volumeMounts"];
    assert_eq!((mounts(0), mounts(0).is_array()), (mounts(1), true), "{done}");
    assert_eq!(used(), "400m");
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const PRIVILEGED: &str = "--allow-privileged=true";

#[test]
fn exec_is_refused_before_anything_else_about_the_pod() {
    let plugins = "--enable-admission-plugins=DenyExecOnPrivileged,DenyEscalatingExec";
    let proxy = Proxy::embedded(&[plugins, PRIVILEGED]);
    let mut privileged = pod("priv", "default");
    privileged["spec"]["hostPID"] = json!(true);
    privileged["spec"]["initContainers"] =
        json!([{"name": "i", "image": "nginx", "securityContext": {"privileged": true}}]);
    proxy.accepts(post(PODS, &privileged));
    proxy.accepts(post(PODS, &pod("plain", "default")));
    let ask = |method: &str, path: &str| {
        let answer = proxy.send(&User::admin(), Request::new(method, &format!("/api/v1/namespaces/{path}")));
        (answer.status, answer.message())
    };
    // DenyEscalatingExec is first, whatever the order of the flag.
    let refused =
        (403, "pods \"priv\" is forbidden: cannot exec into or attach to a container using host pid".to_owned());
    for (method, subresource) in [("POST", "exec"), ("GET", "exec"), ("POST", "attach"), ("GET", "attach")] {
        assert_eq!(
            ask(method, &format!("default/pods/priv/{subresource}?command=ls")),
            refused,
            "{method} {subresource}"
        );
    }
    assert_eq!(ask("POST", "default/pods/priv/exec"), refused);
    assert_eq!(ask("POST", "default/pods/priv/exec?dryRun=All"), (400, "dryRun is not supported".to_owned()));
    let missing = (403, "pods \"nope\" is forbidden: pods \"nope\" not found".to_owned());
    assert_eq!(ask("POST", "default/pods/nope/exec"), missing);
    assert_eq!(ask("POST", "nowhere/pods/nope/exec"), missing);
    // Both are allowed. The pods are on no node.
    for (pod, subresource) in [("priv", "portforward"), ("plain", "exec?command=ls")] {
        let why = format!("pod {pod} does not have a host assigned");
        assert_eq!(ask("POST", &format!("default/pods/{pod}/{subresource}")), (400, why));
    }
}

#[test]
fn security_contexts_are_refused_after_validation() {
    let data = format!("--data-dir={}", folder("security-contexts").display());
    let with = |name: &str| {
        let mut pod = pod(name, "default");
        pod["spec"]["securityContext"] = json!({"fsGroup": 1});
        pod
    };
    let before = Proxy::embedded(&[&data]);
    let mut held = with("held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    for pod in [held, with("old"), pod("plain", "default")] {
        before.accepts(post(PODS, &pod));
    }
    before.accepts(delete(&format!("{PODS}/held?gracePeriodSeconds=0")));
    drop(before);
    let proxy = Proxy::embedded(&[&data, "--enable-admission-plugins=SecurityContextDeny"]);
    let why = |name: &str| format!("pods \"{name}\" is forbidden: pod.Spec.SecurityContext.FSGroup is forbidden");
    let mut mirror = with("mirror");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["spec"]["nodeName"] = json!("n");
    proxy.rejects(post(PODS, &mirror), 403, &why("mirror"));
    proxy.rejects(post(&format!("{PODS}?dryRun=All"), &with("dry")), 403, &why("dry"));
    let applied = patch(&format!("{PODS}/applied?fieldManager=m"), "apply", &with("applied"));
    proxy.rejects(applied, 403, &why("applied"));
    let mut generated = with("");
    generated["metadata"] = json!({"generateName": "gen-"});
    let message = proxy.send(&User::admin(), post(PODS, &generated)).message();
    assert!(message.starts_with("pods \"gen-") && message.len() == why("gen-12345").len(), "{message}");
    let mut invalid = with("invalid");
    invalid["spec"]["containers"][0]["name"] = json!("C_");
    assert_eq!(proxy.send(&User::admin(), post(PODS, &invalid)).status, 422);
    let merge = |path: &str, body: Value| patch(&format!("{PODS}/{path}"), "merge", &body);
    // An update that the API server finds invalid.
    let immutable = merge("plain", json!({"spec": {"securityContext": {"fsGroup": 1}}}));
    assert_eq!(proxy.send(&User::admin(), immutable).status, 422);
    proxy.rejects(merge("old", json!({"metadata": {"labels": {"a": "b"}}})), 403, &why("old"));
    proxy.rejects(merge("held", json!({"metadata": {"finalizers": null}})), 403, &why("held"));
    proxy.accepts(merge("old/status", json!({"status": {"phase": "Running"}})));
    proxy.accepts(delete(&format!("{PODS}/old?gracePeriodSeconds=0")));
}

#[test]
fn presets_apply_to_every_create_of_a_pod_and_to_nothing_else() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=PodPreset"]);
    let preset = json!({
        "apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset", "metadata": {"name": "p"},
        "spec": {"selector": {"matchLabels": {"role": "frontend"}}, "env": [{"name": "A", "value": "1"}]},
    });
    proxy.accepts(post("/apis/settings.k8s.io/v1alpha1/namespaces/default/podpresets", &preset));
    let env = |pod: &Value| pod["spec"]["containers"][0]["env"].clone();
    let applied = json!([{"name": "A", "value": "1"}]);
    eventually("a dry run with the preset", || {
        let dry = proxy.accepts(post(&format!("{PODS}?dryRun=All"), &pod("dry", "default")));
        (env(&dry) == applied).then_some(())
    });
    let path = format!("{PODS}/applied?fieldManager=m");
    assert_eq!(env(&proxy.accepts(patch(&path, "apply", &pod("applied", "default")))), applied);
    let mut other = pod("other", "default");
    other["metadata"]["labels"] = json!({"role": "backend"});
    proxy.accepts(post(PODS, &other));
    let label = json!({"metadata": {"labels": {"role": "frontend"}}});
    assert_eq!(env(&proxy.accepts(patch(&format!("{PODS}/other"), "merge", &label))), Value::Null);
    let mut invalid = pod("invalid", "default");
    invalid["spec"]["containers"][0]["name"] = json!("C_");
    assert_eq!(proxy.send(&User::admin(), post(PODS, &invalid)).status, 422);
}

#[test]
fn policies_refuse_pods_before_validation() {
    let plugins = "--enable-admission-plugins=PodSecurityPolicy";
    let proxy = Proxy::embedded(&[plugins, PRIVILEGED]);
    let why = "PodSecurityPolicy: no providers available to validate pod request";
    let mut invalid = pod("invalid", "default");
    invalid["spec"]["containers"][0]["name"] = json!("C_");
    invalid["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    proxy.rejects(post(PODS, &invalid), 403, &format!("pods \"invalid\" is forbidden: {why}"));
    let missing = "/api/v1/namespaces/nowhere/pods";
    proxy.rejects(post(missing, &pod("p", "nowhere")), 404, "namespaces \"nowhere\" not found");
    let any = json!({"rule": "RunAsAny"});
    let policy = json!({
        "apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "strict"},
        "spec": {"volumes": ["*"], "seLinux": any, "runAsUser": any, "supplementalGroups": any, "fsGroup": any},
    });
    let policies = "/apis/policy/v1beta1/podsecuritypolicies";
    proxy.accepts(post(policies, &policy));
    eventually("a dry run with the name of the policy", || {
        let answer = proxy.send(&User::admin(), post(&format!("{PODS}?dryRun=All"), &pod("dry", "default")));
        (answer.status == 201 && answer.json()["metadata"]["annotations"]["kubernetes.io/psp"] == "strict")
            .then_some(())
    });
    let refused = proxy.send(&User::admin(), post(PODS, &invalid));
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.message().contains("Privileged containers are not allowed"), "{}", refused.message());
    proxy.accepts(post(PODS, &pod("p", "default")));
    // Without a policy, the status and deletions are still free.
    proxy.accepts(delete(&format!("{policies}/strict")));
    let label = |value: &str| patch(&format!("{PODS}/p"), "merge", &json!({"metadata": {"labels": {"a": value}}}));
    let refusal = format!("pods \"p\" is forbidden: {why}");
    eventually("a refused label", || (proxy.send(&User::admin(), label("b")).message() == refusal).then_some(()));
    proxy.accepts(patch(&format!("{PODS}/p/status"), "merge", &json!({"status": {"phase": "Running"}})));
    proxy.accepts(delete(&format!("{PODS}/p?gracePeriodSeconds=0")));
}

#[test]
fn an_estimate_before_the_default_limits_may_exceed_them() {
    let folder = folder("usage");
    let usage = json!({"percentiles": [{"image": "nginx", "namespace": "default", "days": 7, "cpu": {"value": "5", "samples": 30}}]});
    std::fs::write(folder.join("usage.yaml"), usage.to_string()).unwrap();
    let file = configured(&folder, "InitialResources", "usage.yaml");
    for (order, code) in [("InitialResources,LimitRanger", 422), ("LimitRanger,InitialResources", 201)] {
        let proxy = Proxy::embedded(&[&format!("--admission-control={order}"), &file]);
        let limits =
            json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
        proxy.accepts(post("/api/v1/namespaces/default/limitranges", &limits));
        let answer = proxy.send(&User::admin(), post(PODS, &pod("p", "default")));
        assert_eq!(answer.status, code, "{order}: {}", answer.text());
        let why =
            "spec.containers[0].resources.requests: Invalid value: \"5\": must be less than or equal to cpu limit";
        assert_eq!(answer.message().contains(why), code == 422, "{order}: {}", answer.text());
    }
}

#[test]
fn a_new_volume_gets_its_place_and_an_update_is_free() {
    let folder = folder("volumes");
    std::fs::write(folder.join("volumes.yaml"), "cinder:\n  known: {zone: a, region: r}\n").unwrap();
    let file = configured(&folder, "PersistentVolumeLabel", "volumes.yaml");
    let proxy = Proxy::embedded(&["--enable-admission-plugins=PersistentVolumeLabel", &file]);
    let volumes = "/api/v1/persistentvolumes";
    let volume = |name: &str, id: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "cinder": {"volumeID": id}},
        })
    };
    let labels = json!({"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"});
    for path in [format!("{volumes}?dryRun=All"), volumes.to_owned()] {
        let created = proxy.accepts(post(&path, &volume("v", "known")));
        assert_eq!(created["metadata"]["labels"], labels, "{path}");
        let why =
            "error querying Cinder volume other: the volume is not in volumes.yaml: add its zone and region there";
        let refusal = format!("persistentvolumes \"w\" is forbidden: {why}");
        let status = proxy.rejects(post(&path, &volume("w", "other")), 403, &refusal);
        assert_eq!(status["details"], json!({"name": "w", "kind": "persistentvolumes"}), "{path}");
    }
    let without = patch(&format!("{volumes}/v"), "merge", &json!({"metadata": {"labels": null}}));
    assert_eq!(proxy.accepts(without)["metadata"].get("labels"), None);
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
