//! Helm installs, upgrades, rolls back and uninstalls public charts in the embedded API server.

use crate::harness::{Kubectl, Proxy, User, eventually, folder, go_module, program};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A public chart with CustomResourceDefinitions.
struct Chart {
    /// Name of the release and of its namespace.
    name: &'static str,
    /// Go module of the project, with its version.
    module: &'static str,
    /// Folder of the chart in the module.
    path: &'static str,
    /// Flags of every command that renders the chart.
    flags: &'static [&'static str],
    /// Flag of the upgrade, the changed field, and its values before and after.
    upgrade: [&'static str; 5],
    /// A custom resource, and a change that its schema forbids with a part of the refusal.
    object: &'static str,
    forbidden: [&'static str; 3],
}

/// Jobs of the charts do not run: no kubelet runs here.
const CHARTS: [Chart; 3] = [
    Chart {
        name: "cert-manager",
        module: "github.com/cert-manager/cert-manager@v1.21.2",
        path: "deploy/charts/cert-manager",
        flags: &["--set=crds.enabled=true", "--set=startupapicheck.enabled=false"],
        upgrade: ["--set=replicaCount=3", "deployment/cert-manager", "{.spec.replicas}", "1", "3"],
        object: "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: web},
                  spec: {secretName: web, dnsNames: [example.com], issuerRef: {name: own}}}",
        forbidden: ["certificate/web", r#"{"spec": {"issuerRef": null}}"#, "spec.issuerRef: Required value"],
    },
    Chart {
        name: "gatekeeper",
        module: "github.com/open-policy-agent/gatekeeper/v3@v3.23.1",
        path: "charts/gatekeeper",
        flags: &["--no-hooks"],
        upgrade: ["--set=replicas=2", "deployment/gatekeeper-controller-manager", "{.spec.replicas}", "3", "2"],
        object: "{apiVersion: config.gatekeeper.sh/v1alpha1, kind: Config, metadata: {name: config},
                  spec: {match: [{processes: [audit], excludedNamespaces: [kube-system]}]}}",
        forbidden: ["config.config.gatekeeper.sh/config", r#"{"spec": {"match": "all"}}"#, "spec.match: Invalid value"],
    },
    Chart {
        name: "external-dns",
        module: "sigs.k8s.io/external-dns@v0.21.0",
        path: "charts/external-dns",
        flags: &["--set=policy=sync"],
        upgrade: ["--set=revisionHistoryLimit=7", "deployment/external-dns", "{.spec.revisionHistoryLimit}", "10", "7"],
        object: "{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint, metadata: {name: web},
                  spec: {endpoints: [{dnsName: example.com, recordTTL: 180, recordType: A, targets: [192.0.2.1]}]}}",
        forbidden: [
            "dnsendpoint/web",
            r#"{"spec": {"endpoints": [{"recordTTL": "long"}]}}"#,
            "recordTTL: Invalid value",
        ],
    },
];

struct Helm<'a> {
    folder: &'a Path,
    kubeconfig: &'a Path,
    namespace: &'a str,
}

impl Helm<'_> {
    fn ok(&self, arguments: &[&str]) -> String {
        let helm = program("helm");
        let mut command = Command::new(helm);
        command.arg("--kubeconfig").arg(self.kubeconfig).arg("--namespace").arg(self.namespace).args(arguments);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(home, self.folder.join(home));
        }
        let output = command.output().unwrap();
        let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "helm {arguments:?}: {error}");
        out
    }
}

/// The value of a JSONPath of an object.
fn value(kubectl: &Kubectl, chart: &Chart) -> String {
    let [_, object, path, ..] = chart.upgrade;
    kubectl.ok(&["get", object, "--namespace", chart.name, "--output", &format!("jsonpath={path}")])
}

#[test]
fn helm_installs_upgrades_rolls_back_and_uninstalls_public_charts() {
    // The webhooks of the charts have no pods that answer.
    let proxy = Proxy::embedded(&["--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook"]);
    let (folder, kubeconfig) = (folder("public-charts"), proxy.kubeconfig(&User::admin()));
    let kubectl = proxy.kubectl(&User::admin());
    for chart in &CHARTS {
        let path = go_module(chart.module).join(chart.path);
        let path = path.to_str().unwrap();
        let helm = Helm { folder: &folder, kubeconfig: &kubeconfig, namespace: chart.name };
        let [flag, _, _, before, after] = chart.upgrade;
        let hooks: Vec<&str> = chart.flags.iter().copied().filter(|flag| *flag == "--no-hooks").collect();
        helm.ok(&[&["install", chart.name, path, "--create-namespace"], chart.flags].concat());
        assert_eq!(value(&kubectl, chart), before, "{}", chart.name);
        let scope = ["--namespace", chart.name];
        eventually("a custom resource of the chart", || {
            let done = kubectl.run_with_input(&[&["apply", "-f", "-"][..], &scope].concat(), chart.object);
            done.success.then_some(())
        });
        let [object, change, why] = chart.forbidden;
        let refused = kubectl.run(&[&["patch", object, "--type=merge", "--patch", change][..], &scope].concat());
        assert!(!refused.success && refused.stderr.contains(why), "{}: {}", chart.name, refused.stderr);

        helm.ok(&[&["upgrade", chart.name, path, flag], chart.flags].concat());
        assert_eq!(value(&kubectl, chart), after, "{}", chart.name);
        helm.ok(&[&["rollback", chart.name, "1"], &hooks[..]].concat());
        assert_eq!(value(&kubectl, chart), before, "{}", chart.name);
        let history = helm.ok(&["history", chart.name, "--output=json"]);
        let history: Value = serde_json::from_str(&history).unwrap();
        assert_eq!(history.as_array().unwrap().len(), 3, "{history}");
        helm.ok(&[&["uninstall", chart.name], &hooks[..]].concat());
        let left = kubectl.ok(&[&["get", "deployments,services,roles", "--output=name"][..], &scope].concat());
        assert_eq!(left, "", "{}", chart.name);
    }
}
