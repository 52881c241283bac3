//! The program in the place of kube-apiserver, with a real kube-apiserver behind it.

use crate::drop_in::envtest;
use crate::harness::{Api, Process, User, binary, etcd, eventually, folder, free_port, get, pki, post, unique};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-admission-proxy");
const VARIABLE: &str = "KUBE_ADMISSION_PROXY_APISERVER";

/// Starts the program as kube-apiserver, with these flags in addition. Returns its folder of certificates too.
fn start(flags: &[&str]) -> (Api, Process, PathBuf) {
    let (api, folder, pki) = (Api { port: free_port() }, folder("behind"), pki());
    let mut command = Command::new(PROGRAM);
    command.arg0("kube-apiserver").env(VARIABLE, binary("kube-apiserver")).args([
        format!("--etcd-servers={}", etcd()),
        format!("--etcd-prefix=/{}", unique("behind")),
        format!("--secure-port={}", api.port),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", folder.display()),
        format!("--tls-cert-file={}", pki.server.certificate.display()),
        format!("--tls-private-key-file={}", pki.server.key.display()),
        format!("--client-ca-file={}", pki.ca().display()),
        format!("--service-account-key-file={}", pki.service_accounts.certificate.display()),
        format!("--service-account-signing-key-file={}", pki.service_accounts.key.display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
    ]);
    let process = Process::start(command.args(flags), folder.join("log"));
    (api, process, folder)
}

/// Waits until `/healthz` answers without credentials, as envtest does.
fn ready(api: &Api, process: &mut Process) {
    eventually("a kube-apiserver that is healthy", || {
        process.must_run();
        api.try_send(&User::Anonymous, get("/healthz")).ok().filter(|answer| answer.status == 200)
    });
}

/// The process ID of the only child.
fn child(process: &Process) -> String {
    let id = process.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let children: Vec<&str> = children.split_whitespace().collect();
    assert_eq!(children.len(), 1, "{}", process.output());
    children[0].to_owned()
}

fn is_over(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    // Nobody may wait for an orphan in a container.
    status.is_ok_and(|status| status.contains("State:\tZ")) || !Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn envtest_runs_on_the_proxy_before_a_real_kube_apiserver() {
    let assets = folder("behind-envtest");
    symlink(PROGRAM, assets.join("kube-apiserver")).unwrap();
    symlink(binary("etcd"), assets.join("etcd")).unwrap();
    let output = envtest(&[("KUBEBUILDER_ASSETS", assets.as_path()), (VARIABLE, binary("kube-apiserver").as_path())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_proxy_admits_before_a_real_kube_apiserver_and_both_end_together() {
    // kube-apiserver knows no such plugin any more.
    let (api, mut process, folder) = start(&["--enable-admission-plugins=SecurityContextDeny"]);
    ready(&api, &mut process);
    let version = api.send(&User::admin(), get("/version")).json();
    assert_eq!(version["compiler"], "gc", "{version}");
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        eventually(&format!("the namespace {namespace}"), || {
            let answer = api.send(&User::admin(), get(&format!("/api/v1/namespaces/{namespace}")));
            (answer.status == 200).then_some(())
        });
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    eventually("the service account default", || {
        let answer = api.send(&User::admin(), post("/api/v1/namespaces/default/serviceaccounts", &account));
        matches!(answer.status, 201 | 409).then_some(())
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
        "securityContext": {"runAsUser": 1}, "containers": [{"name": "c", "image": "i"}]}});
    let answer = api.send(&User::admin(), post("/api/v1/namespaces/default/pods", &pod));
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(answer.message().contains("SecurityContext.RunAsUser is forbidden"), "{}", answer.text());
    let behind = child(&process);
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0), "{}", process.output());
    assert!(is_over(&behind) && !folder.join("behind").exists());
}

#[test]
fn a_real_kube_apiserver_ends_with_the_proxy_and_the_proxy_with_it() {
    let (api, mut process, _folder) = start(&[]);
    ready(&api, &mut process);
    let behind = child(&process);
    process.signal("KILL");
    process.wait();
    eventually("the end of the kube-apiserver", || is_over(&behind).then_some(()));
    let (api, mut process, _folder) = start(&[]);
    ready(&api, &mut process);
    assert!(Command::new("kill").args(["-KILL", &child(&process)]).status().unwrap().success());
    assert_eq!(process.wait().code(), Some(137), "{}", process.output());
    // The exit code of a kube-apiserver that refuses its flags.
    let (_, mut process, _folder) = start(&["--service-cluster-ip-range=x"]);
    assert_eq!(process.wait().code(), Some(1), "{}", process.output());
}
