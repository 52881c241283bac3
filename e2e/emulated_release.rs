//! `--emulated-version`: the texts of wrong values, the release of the API server behind, and a kube-apiserver of a release that the proxy
//! emulates.

use crate::harness::{ControlPlane, Pair, Proxy, Request, User, delete, eventually, get, patch, post, put, upstream};
use serde_json::{Value, json};

#[test]
fn releases_and_gates_are_refused_as_by_kube_apiserver() {
    for (flags, why) in [
        (&["--emulated-version=1.99"][..], "emulation version 1.99 is not between [1.3"),
        (&["--emulated-version=wardle=1.2"], "component not registered: wardle"),
        (&["--emulated-version=1.36.3"], "patch version not allowed, got: kube=1.36.3"),
        (&["--emulated-version=newest"], "as version"),
        (
            &["--emulated-version=1.36", "--emulated-version=kube=1.35"],
            "duplicate version flag, kube=1.36 and kube=1.35",
        ),
        (
            &["--emulated-version=1.35", "--min-compatibility-version=1.36"],
            "minCompatibilityVersion version 1.36 is not between [1.",
        ),
        (
            &["--emulated-version=1.35", "--feature-gates=NativeHistograms=true"],
            "cannot set feature gate NativeHistograms to true, feature is PreAlpha at emulated version 1.35, min compatibility version 1.34",
        ),
        (
            &["--feature-gates=WorkloadWithJob=true"],
            "WorkloadWithJob is enabled, but depends on features that are disabled: [",
        ),
        (&["--feature-gates=wardle:A=true"], "component not registered: wardle"),
        (
            &["--feature-gates=kube:JobManagedBy=true,GenericWorkload=true"],
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
    ] {
        let owned: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        for said in [ControlPlane::refusal(&owned), Proxy::refusal(flags)] {
            assert!(said.contains(why), "{flags:?}: {why}\n{said}");
        }
    }
}

#[test]
fn the_release_of_the_api_server_is_emulated() {
    let version = upstream().send(&User::admin(), get("/version")).json();
    let minor = version["minor"].as_str().unwrap().to_owned();
    let proxy = Proxy::before(upstream(), &["--emulated-version=upstream"]);
    let line = format!(r#"kube_admission_proxy_upstream_release{{emulated="1.{minor}",release="1.{minor}"}} 1"#);
    eventually("the releases in the metrics", || proxy.health("/metrics")?.1.contains(&line).then_some(()));
    let refusal = Proxy::refusal(&["--emulated-version=upstream"]);
    assert!(refusal.contains("--emulated-version=upstream: needs --upstream-kubeconfig"), "{refusal}");
}

/// The plugins with rules that differ between this release and the one before.
const PLUGINS: [&str; 5] = [
    "NamespaceLifecycle",
    "PodSecurity",
    "ClusterTrustBundleAttest",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionWebhook",
];

#[test]
#[ignore = "needs a kube-apiserver of that release: `make e2e-newer`"]
fn a_release_one_minor_newer_is_admitted_for_as_by_itself() {
    let object = |api_version: &str, kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let map = |name: &str, value: &str| object("v1", "ConfigMap", name, json!({"data": {"a": value}}));
    let gone = "/api/v1/namespaces/gone/configmaps";
    // Without admission, an object is created in a namespace that does not exist.
    let pair = Pair::alone(&PLUGINS, &[], &[post(gone, &map("left", "1"))], &[]);
    let namespace = |name: &str, version: &str| {
        let labels = json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": version});
        let mut namespace = object("v1", "Namespace", name, json!({}));
        namespace["metadata"]["labels"] = labels;
        post("/api/v1/namespaces", &namespace)
    };
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let hook = |name: &str, groups: &[&str], resources: &[&str]| {
        let rules = json!([{"apiGroups": groups, "apiVersions": ["*"], "operations": ["*"], "resources": resources}]);
        let hook = json!({"name": "a.lab.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": rules});
        let kind = "ValidatingWebhookConfiguration";
        object("admissionregistration.k8s.io/v1", kind, name, json!({ "webhooks": [hook] }))
    };
    let hooks = format!("{admission}/validatingwebhookconfigurations");
    pair.set_up(&[namespace("latest", "latest"), namespace("before", "v1.36")]);
    let pod = json!({"spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}],
        "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat", "value": "1"}]}}});
    let pod = |namespace: &str| {
        post(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), &object("v1", "Pod", "p", pod.clone()))
    };
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = post(reviews, &object("authorization.k8s.io/v1", "SelfSubjectAccessReview", "", review));
    let token = object("authentication.k8s.io/v1", "TokenReview", "", json!({"spec": {"token": "x"}}));
    let policy = object(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "p.static.k8s.io",
        json!({"spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["secrets"]}]}, "validations": [{"expression": "true"}]}}),
    );
    let steps: Vec<Request> = vec![
        // The namespace is gone.
        put(&format!("{gone}/left"), &map("left", "2")),
        patch(&format!("{gone}/left"), "merge", &json!({"data": {"b": "3"}})),
        post(gone, &map("new", "1")),
        delete(&format!("{gone}/left")),
        pod("latest"),
        pod("before"),
        // Webhooks that cannot be reached.
        post(&hooks, &hook("named", &["authorization.k8s.io"], &["selfsubjectaccessreviews", "pods"])),
        post(&hooks, &hook("any-group", &["*"], &["tokenreviews", "selfsubjectaccessreviews"])),
        review,
        post("/apis/authentication.k8s.io/v1/tokenreviews", &token),
        post(&hooks, &hook("a.static.k8s.io", &["lab.dev"], &["things"])),
        post(&format!("{admission}/validatingadmissionpolicies"), &policy),
    ];
    pair.compare(steps.into_iter().map(|step| (User::admin(), step)).collect());
    for plugin in ["JobValidation", "PodGroupWorkloadExists"] {
        for flag in ["enable-admission-plugins", "disable-admission-plugins"] {
            let given = format!("--{flag}={plugin}");
            let why = format!("{flag} plugin {plugin:?} is unknown");
            for said in [ControlPlane::refusal(std::slice::from_ref(&given)), Proxy::refusal(&[&given])] {
                // The log of kube-apiserver quotes the text.
                assert!(said.replace('\\', "").contains(&why), "{given}: {said}");
            }
        }
    }
}
