//! The webhook front end, asked by a kube-apiserver with the configurations of `print webhooks`.
//!
//! With `E2E_FRONT_END`, the tests in `plugins/` compare kube-apiserver's plugins with the front end instead of the proxy.

use crate::harness::differential::as_of_plugin;
use crate::harness::{
    Api, Proxy, Request, Reviewed, User, delete, eventually, folder, get, patch, pki, post, proxy_only, unique,
    upstream,
};
use serde_json::{Value, json};
use std::process::Command;

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "a", "image": "a", "imagePullPolicy": "IfNotPresent"}]}})
}

fn policy(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["imagePullPolicy"].as_str().unwrap()
}

#[test]
fn pods_of_the_api_server_are_admitted_unless_the_proxy_admitted_them() {
    let mark = "kube-admission-proxy/main";
    let printed = format!("--admitted-mark={mark}");
    let reviewed = Reviewed::with(&["AlwaysPullImages"], &[], &[], &[], &[&printed]);
    let namespace = reviewed.namespace("front-end");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    assert_eq!(policy(&reviewed.accepts(post(&pods, &pod("direct")))), "Always");
    // The proxy impersonates with the mark; another value is none.
    for (value, expected) in [(mark, "IfNotPresent"), ("other/mark", "Always")] {
        let request = post(&pods, &pod(&unique("marked")))
            .header("impersonate-user", "alice")
            .header("impersonate-group", "developers")
            .header("impersonate-extra-kube-admission-proxy.dev%2fadmitted", value);
        let answer = reviewed.send(&User::admin(), request);
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(policy(&answer.json()), expected, "{value}");
    }
    // kube-system is excluded by default, so that the cluster can heal while the front end is down.
    eventually("kube-system", || {
        (reviewed.send(&User::admin(), get("/api/v1/namespaces/kube-system")).status == 200).then_some(())
    });
    let answer = reviewed.send(&User::admin(), post("/api/v1/namespaces/kube-system/pods", &pod("system")));
    assert_eq!((answer.status, policy(&answer.json())), (201, "IfNotPresent"), "{}", answer.text());
}

#[test]
fn a_front_end_that_denies_everything_does_not_block_its_own_removal() {
    let reviewed = Reviewed::start(&["AlwaysDeny"], &[], &[], &[]);
    let refusal = reviewed.send(&User::admin(), post("/api/v1/namespaces/default/pods", &pod("a")));
    let message = "admission webhook \"mutate.kube-admission-proxy.dev\" denied the request: pods \"a\" is forbidden: \
                   admission control is denying all modifications";
    assert_eq!((refusal.status, &refusal.json()["message"]), (403, &json!(message)));
    let resource = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kube-admission-proxy";
    let failing = json!({"webhooks": [{"name": "mutate.kube-admission-proxy.dev", "timeoutSeconds": 1}]});
    let changed = reviewed.send(&User::admin(), patch(resource, "strategic", &failing));
    assert_eq!(changed.status, 200, "{}", changed.text());
    for kind in ["mutating", "validating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/kube-admission-proxy");
        assert_eq!(reviewed.send(&User::admin(), delete(&path)).status, 200);
    }
    eventually("a write without webhooks", || {
        let created = reviewed.send(&User::admin(), post("/api/v1/namespaces/default/pods", &pod("a")));
        (created.status == 201).then_some(())
    });
}

/// The code of a POST to the front end with this client certificate.
fn code(reviewed: &Reviewed, path: &str, name: Option<&str>, body: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Content-Type: application/json", "-d", body]);
    curl.arg("--cacert").arg(pki().ca());
    if let Some(name) = name {
        let pair = pki().client(name, "");
        curl.arg("--cert").arg(&pair.certificate).arg("--key").arg(&pair.key);
    }
    let output = curl.arg(format!("https://127.0.0.1:{}{path}", reviewed.port)).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn only_the_api_server_is_answered() {
    let reviewed = Reviewed::start(&["AlwaysPullImages"], &[], &[], &[]);
    for (path, name, body, expected) in [
        ("/validate", None, "{}", "401"),
        ("/validate", Some("alice"), "{}", "403"),
        ("/validate", Some("kube-apiserver"), "{}", "400"),
        ("/", Some("kube-apiserver"), "{}", "404"),
    ] {
        assert_eq!(code(&reviewed, path, name, body), expected, "{path} {name:?}");
    }
    let metrics = reviewed.front_end().health("/metrics").unwrap().1;
    assert!(
        metrics.contains(r#"kube_admission_proxy_reviews_total{allowed="",code="403",path="/validate"} 1"#),
        "{metrics}"
    );
    let (code, checks) = reviewed.front_end().health("/readyz?verbose").unwrap();
    assert_eq!(code, 200);
    for check in ["[+]webhook-front-end ok\n", "[+]webhook-own-user ok\n"] {
        assert!(checks.contains(check), "{check} is missing in\n{checks}");
    }
    // No client has a port.
    assert!(reviewed.front_end().try_send(&User::admin(), get("/version")).is_err());
}

/// The configuration of the removed plugins, all of whose objects are files.
fn of_removed_plugins() -> String {
    let folder = folder("removed-plugins");
    let any = json!({"rule": "RunAsAny"});
    let files = [
        (
            "policies/open.json",
            json!({"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "open"},
                "spec": {"volumes": ["*"], "hostPID": true, "seLinux": any, "runAsUser": any, "supplementalGroups": any, "fsGroup": any}}),
        ),
        (
            "presets/preset.json",
            json!({"apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset", "metadata": {"name": "p", "namespace": "removed-plugins"},
                "spec": {"selector": {"matchLabels": {"role": "frontend"}}, "env": [{"name": "A", "value": "1"}]}}),
        ),
        (
            "usage.json",
            json!({"percentiles": [{"image": "used", "namespace": "removed-plugins", "days": 7, "cpu": {"value": "250m", "samples": 30}}]}),
        ),
        ("volumes.json", json!({"csi": {"ebs.csi.aws.com": {"vol-1": {"zone": "z", "region": "r"}}}})),
    ];
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
    let own = |name: &str, mut fields: Value| {
        fields["apiVersion"] = json!("config.kube-admission-proxy.dev/v1alpha1");
        fields["kind"] = json!(format!("{name}Configuration"));
        json!({"name": name, "configuration": fields})
    };
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [
        own("PodSecurityPolicy", json!({"staticManifestsDir": "policies"})),
        own("PodPreset", json!({"staticManifestsDir": "presets"})),
        own("PersistentVolumeLabel", json!({"source": "File", "file": "volumes.json"})),
        own("InitialResources", json!({"source": "File", "file": "usage.json"})),
    ]});
    let file = folder.join("admission.json");
    std::fs::write(&file, configuration.to_string()).unwrap();
    format!("--admission-control-config-file={}", file.display())
}

/// Code, message and what the plugins write into objects.
fn verdicts(api: &Api, steps: &[(Request, u16)]) -> Vec<Value> {
    let verdict = |(request, code): &(Request, u16)| {
        let answer = api.send(&User::admin(), request.clone());
        let step = format!("{} {} {}", request.method, request.path, String::from_utf8_lossy(&request.body));
        assert_eq!(answer.status, *code, "{step}: {}", answer.text());
        let body = as_of_plugin(serde_json::from_slice(&answer.body).unwrap_or_default());
        json!({"step": step, "reason": body["reason"], "message": body["message"], "labels": body["metadata"]["labels"],
            "annotations": body["metadata"]["annotations"], "containers": body["spec"]["containers"],
            "affinity": body["spec"]["nodeAffinity"]})
    };
    steps.iter().map(verdict).collect()
}

/// kube-apiserver has these plugins no more: the two front ends are compared with one another.
#[test]
fn the_removed_plugins_answer_as_those_of_the_proxy() {
    let plugins = [
        "SecurityContextDeny",
        "InitialResources",
        "PodPreset",
        "PodSecurityPolicy",
        "DenyEscalatingExec",
        "DenyExecOnPrivileged",
        "PersistentVolumeLabel",
    ];
    let pods = "/api/v1/namespaces/removed-plugins/pods";
    let with = |name: &str, spec: Value| {
        let mut pod = pod(name);
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let privileged = json!({"initContainers": [{"name": "i", "image": "i", "securityContext": {"privileged": true}}]});
    let mut selected = pod("selected");
    selected["metadata"]["labels"] = json!({"role": "frontend"});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": unique("volume")},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}});
    let mut unknown = volume.clone();
    unknown["spec"]["csi"]["volumeHandle"] = json!("vol-2");
    let dry = format!("{pods}?dryRun=All");
    let steps = [
        (post("/api/v1/namespaces", &json!({"metadata": {"name": "removed-plugins"}})), 201),
        (post(pods, &pod("plain")), 201),
        (post(pods, &selected), 201),
        (post(pods, &with("host", json!({"hostPID": true}))), 201),
        (post(&dry, &with("used", json!({"containers": [{"name": "c", "image": "used"}]}))), 201),
        (post(&dry, &with("group", json!({"securityContext": {"fsGroup": 1}}))), 403),
        (post(&dry, &with("network", json!({"hostNetwork": true}))), 403),
        (post(&dry, &with("privileged", privileged)), 403),
        (Request::new("POST", &format!("{pods}/host/exec?command=ls&container=a")), 403),
        (Request::new("POST", &format!("{pods}/host/attach?container=a")), 403),
        (patch(&format!("{pods}/plain"), "merge", &json!({"metadata": {"labels": {"role": "frontend"}}})), 200),
        (post("/api/v1/persistentvolumes?dryRun=All", &volume), 201),
        (post("/api/v1/persistentvolumes?dryRun=All", &unknown), 403),
    ];
    let configuration = of_removed_plugins();
    let [on, off] = proxy_only(&plugins);
    let expected = verdicts(&Proxy::before(upstream(), &[&configuration, &on, &off]), &steps);
    let got = verdicts(&Reviewed::start(&plugins, &[configuration], &[], &[]), &steps);
    for (expected, got) in expected.iter().zip(&got) {
        assert_eq!(got, expected);
    }
    assert_eq!(expected[2]["containers"][0]["env"], json!([{"name": "A", "value": "1"}]), "{}", expected[2]);
    assert_eq!(expected[4]["containers"][0]["resources"], json!({"requests": {"cpu": "250m"}}), "{}", expected[4]);
    assert_eq!(expected[1]["annotations"]["kubernetes.io/psp"], "open", "{}", expected[1]);
    assert_eq!(expected[11]["labels"]["topology.kubernetes.io/zone"], "z", "{}", expected[11]);
    for (step, why) in
        [(5, "SecurityContext.FSGroup is forbidden"), (6, "Host network is not allowed"), (8, "host pid")]
    {
        assert!(expected[step]["message"].as_str().unwrap().contains(why), "{}", expected[step]);
    }
}
