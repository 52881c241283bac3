//! The programs of lightweight clusters: kine below the API server, and kwok's controllers and clusters.

use crate::harness::{
    ControlPlane, Program, Proxy, User, binary, eventually, folder, free_port, get, only, patch, patient, post,
    program, put, seconds, upstream,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// No controller makes the service account of a new namespace.
const WITHOUT_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// The effects of kwok on nodes and pods: they are ready at once, and a deleted pod disappears.
const STAGES: &str = "
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: node-ready
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.phase', operator: NotIn, values: [Running]}
  next:
    statusTemplate: |
      phase: Running
      conditions:
      - {type: Ready, status: \"True\", reason: KubeletReady}
      allocatable: {cpu: 4, memory: 8Gi, pods: 110}
      capacity: {cpu: 4, memory: 8Gi, pods: 110}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-ready
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      conditions:
      - {type: Ready, status: \"True\"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-delete
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: Exists}
  next:
    delete: true
";

/// A flag of kubectl and kwokctl that bounds a wait.
fn minutes(flag: &str) -> String {
    format!("--{flag}={}", seconds(patient(Duration::from_secs(300))))
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "imagePullPolicy": "IfNotPresent"}]}})
}

#[test]
fn kine_takes_the_place_of_etcd() {
    let (folder, port) = (folder("kine"), free_port());
    let database = format!(
        "sqlite://{}/state.db?_journal=WAL&cache=shared&_busy_timeout={}&_txlock=immediate",
        folder.display(),
        patient(Duration::from_secs(30)).as_millis()
    );
    let flags = [
        format!("--endpoint={database}"),
        format!("--listen-address=127.0.0.1:{port}"),
        "--metrics-bind-address=0".to_owned(),
    ];
    let _kine = Program::start("kine", &flags);
    eventually("a kine that listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let api_server = ControlPlane::on(&format!("http://127.0.0.1:{port}"), "on-kine", &only(&[]));
    let proxy = Proxy::before(&api_server, &["--enable-admission-plugins=AlwaysPullImages", WITHOUT_SERVICE_ACCOUNTS]);
    let (admin, namespace) = (User::admin(), proxy.namespace("kine"));
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let quotas = format!("/api/v1/namespaces/{namespace}/resourcequotas");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"},
        "spec": {"hard": {"pods": "2"}}, "status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}});
    proxy.accepts(post(&quotas, &quota));
    // No controller fills in the status.
    proxy.accepts(put(&format!("{quotas}/two/status"), &quota));

    let mut watch = proxy.stream(&admin, get(&format!("{pods}?watch=1")));
    for name in ["a", "b"] {
        let created = eventually("a pod within the quota", || {
            let answer = proxy.send(&admin, post(&pods, &pod(name)));
            (answer.status == 201).then(|| answer.json())
        });
        assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "Always", "{created}");
        let event = watch.next_json().unwrap();
        assert_eq!(event["object"], created, "{event}");
    }
    let third = proxy.send(&admin, post(&pods, &pod("c")));
    assert_eq!(third.status, 403, "{}", third.text());
    assert!(third.message().contains("exceeded quota: two"), "{}", third.text());
    let used = proxy.accepts(get(&format!("{quotas}/two")));
    assert_eq!(used["status"]["used"]["pods"], "2", "{used}");

    // Pages, a conflict and a patch need resourceVersions as etcd's.
    let first = proxy.accepts(get(&format!("{pods}?limit=1")));
    let second =
        proxy.accepts(get(&format!("{pods}?limit=1&continue={}", first["metadata"]["continue"].as_str().unwrap())));
    assert_eq!(second["items"][0]["metadata"]["name"], "b", "{second}");
    let stale = first["items"][0].clone();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    proxy.accepts(patch(&format!("{pods}/a"), "merge", &label));
    let conflict = proxy.send(&admin, put(&format!("{pods}/a"), &stale));
    assert_eq!(conflict.status, 409, "{}", conflict.text());
}

#[test]
fn kwok_runs_pods_through_the_proxy() {
    let real = Proxy::before(upstream(), &["--enable-admission-plugins=AlwaysPullImages", WITHOUT_SERVICE_ACCOUNTS]);
    let embedded = Proxy::embedded(&["--enable-admission-plugins=AlwaysPullImages", WITHOUT_SERVICE_ACCOUNTS]);
    for (name, proxy) in [("real", &real), ("embedded", &embedded)] {
        let folder = folder(&format!("kwok-{name}"));
        let config = folder.join("kwok.yaml");
        std::fs::write(&config, STAGES).unwrap();
        let node = format!("kwok-{name}");
        let flags = [
            format!("--kubeconfig={}", proxy.kubeconfig(&User::admin()).display()),
            format!("--config={}", config.display()),
            format!("--manage-single-node={node}"),
        ];
        let kwok = Program::start("kwok", &flags);
        proxy.accepts(post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})));
        let namespace = proxy.namespace("kwok");
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let mut bound = pod("web");
        bound["spec"]["nodeName"] = json!(node);
        proxy.accepts(post(&pods, &bound));
        let running = eventually(&format!("a pod that runs, of {}", kwok.output()), || {
            let pod = proxy.accepts(get(&format!("{pods}/web")));
            (pod["status"]["phase"] == "Running").then_some(pod)
        });
        assert_eq!(running["spec"]["containers"][0]["imagePullPolicy"], "Always", "{running}");
        eventually(&format!("a node that is ready, of {}", kwok.output()), || {
            let stored = proxy.accepts(get(&format!("/api/v1/nodes/{node}")));
            (stored["status"]["conditions"][0]["status"] == "True").then_some(())
        });
        proxy.kubectl(&User::admin()).ok(&["delete", "pod", "web", "--namespace", &namespace, &minutes("timeout")]);
    }
}

/// A cluster of kwokctl, which is deleted with this value.
struct Cluster {
    home: PathBuf,
}

impl Cluster {
    fn kwokctl(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", binary("kubectl").parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program("kwokctl"));
        command.arg("--name=e2e").args(arguments).env("HOME", &self.home).env("PATH", path);
        command.env("KWOK_WORKDIR", self.home.join("kwok")).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.kwokctl(arguments);
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(output.status.success(), "kwokctl {arguments:?}: {text}\n{}", logs(&self.home));
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kwokctl(&["delete", "cluster"]);
    }
}

/// The ends of the logs of a cluster's parts.
fn logs(home: &Path) -> String {
    let folder = home.join("kwok/clusters/e2e/logs");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .map(|file| {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}\n", file.path().display(), lines[lines.len().saturating_sub(20)..].join("\n"))
        })
        .collect()
}

#[test]
fn kwokctl_takes_the_program_for_kube_apiserver() {
    let cluster = Cluster { home: folder("kwokctl") };
    let links = cluster.home.join("links");
    let made = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy")).arg("envtest").arg(&links).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let flag = |name: &str, path: PathBuf| format!("--{name}-binary={}", path.display());
    let flags = [
        flag("kube-apiserver", links.join("kube-apiserver")),
        flag("etcd", links.join("etcd")),
        flag("kube-controller-manager", program("kube-controller-manager")),
        flag("kube-scheduler", program("kube-scheduler")),
        flag("kwok-controller", program("kwok")),
    ];
    let wait = minutes("wait");
    let mut arguments = vec!["create", "cluster", "--runtime=binary", &wait];
    arguments.extend(flags.iter().map(String::as_str));
    cluster.ok(&arguments);
    cluster.ok(&["scale", "node", "--replicas=2"]);
    cluster.ok(&["kubectl", "create", "deployment", "web", "--image=i", "--replicas=3"]);
    cluster.ok(&["kubectl", "rollout", "status", "deployment/web", &minutes("timeout")]);
    let nodes = cluster.ok(&["kubectl", "get", "pods", "--output=jsonpath={.items[*].status.phase}"]);
    assert_eq!(nodes, "Running Running Running");
}
