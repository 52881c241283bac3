//! A real kube-apiserver on etcd.

use super::api::Api;
use super::client::{get, post};
use super::pki::pki;
use super::process::{Process, binary};
use super::user::User;
use super::{eventually, folder, free_port, unique};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The upstream of most tests' proxies: a kube-apiserver without admission plugins.
pub fn upstream() -> &'static ControlPlane {
    static UPSTREAM: OnceLock<ControlPlane> = OnceLock::new();
    UPSTREAM.get_or_init(|| ControlPlane::start("upstream", &only(&[])))
}

/// A kube-apiserver with these plugins and no others: the tests expect its behaviour from the proxy.
pub fn admitting() -> &'static ControlPlane {
    static ADMITTING: OnceLock<ControlPlane> = OnceLock::new();
    let on = ["NamespaceLifecycle", "AlwaysPullImages", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
    ADMITTING.get_or_init(|| ControlPlane::start("admitting", &only(&on)))
}

/// Every admission plugin of the kube-apiserver of this run, which may be of another release (`make e2e-older`).
pub fn every_plugin() -> impl Iterator<Item = &'static str> {
    static HELP: OnceLock<String> = OnceLock::new();
    let help = HELP.get_or_init(|| {
        let output = Command::new(binary("kube-apiserver")).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    let (_, list) = help.split_once("Comma-delimited list of admission plugins: ").unwrap();
    list.split_once('.').unwrap().0.split(", ")
}

/// The flags that enable these plugins of a kube-apiserver and no others.
pub fn only(on: &[&str]) -> Vec<String> {
    let off: Vec<&str> = every_plugin().filter(|plugin| !on.contains(plugin)).collect();
    vec![
        format!("--enable-admission-plugins={}", on.join(",")),
        format!("--disable-admission-plugins={}", off.join(",")),
    ]
}

/// A kube-apiserver with a store of its own.
pub struct ControlPlane {
    api: Api,
    name: String,
    _process: Process,
}

impl Deref for ControlPlane {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl ControlPlane {
    /// Starts a kube-apiserver whose store has what a new one creates without admission plugins, and waits until it is ready.
    ///
    /// The copy of the store saves most of the time of a start. And AlwaysDeny and other plugins reject the server's own objects.
    pub fn start(name: &str, flags: &[String]) -> Self {
        static NEW: OnceLock<Vec<(String, String)>> = OnceLock::new();
        let new = NEW.get_or_init(|| {
            let first = Self::with_store(etcd(), unique("first"), &only(&[]));
            first.let_developers_in();
            // The last object that a new server creates, after its namespaces.
            let last = get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication");
            eventually("the objects of a new server", || {
                (first.send(&User::admin(), last.clone()).status == 200).then_some(())
            });
            first.stored()
        });
        let name = unique(name);
        for pairs in new.chunks(PUTS) {
            let puts: Vec<Value> = pairs
                .iter()
                .map(|(key, value)| json!({"requestPut": {"key": STANDARD.encode(format!("/{name}{key}")), "value": value}}))
                .collect();
            ask_etcd("txn", &json!({"success": puts}));
        }
        let control_plane = Self::with_store(etcd(), name, flags);
        control_plane.await_developers();
        control_plane
    }

    /// Starts a kube-apiserver on the etcd, or what takes its place, at this URL, and waits until it is ready.
    pub fn on(etcd: &str, name: &str, flags: &[String]) -> Self {
        let control_plane = Self::with_store(etcd, unique(name), flags);
        control_plane.let_developers_in();
        control_plane
    }

    /// Stops the kube-apiserver and starts another one on its store.
    pub fn restarted(self, flags: &[String]) -> Self {
        let name = self.name.clone();
        drop(self);
        Self::with_store(etcd(), name, flags)
    }

    /// Starts a kube-apiserver that must fail to start; returns its output.
    pub fn refusal(flags: &[String]) -> String {
        let (_, mut process) = Self::spawn(etcd(), &unique("refusal"), free_port(), flags);
        assert!(!process.wait().success(), "it runs with {flags:?}");
        process.output()
    }

    /// Puts an object into the store below the prefix, bypassing all validation.
    pub fn store(&self, key: &str, object: &Value) {
        let (key, value) = (STANDARD.encode(format!("/{}/{key}", self.name)), STANDARD.encode(object.to_string()));
        ask_etcd("put", &json!({"key": key, "value": value}));
    }

    /// The keys below the prefix and the encoded values, without the objects that the server renews.
    fn stored(&self) -> Vec<(String, String)> {
        const RENEWED: [&str; 3] = ["/leases/", "/masterleases/", "/events/"];
        let prefix = format!("/{}", self.name);
        let range =
            json!({"key": STANDARD.encode(format!("{prefix}/")), "range_end": STANDARD.encode(format!("{prefix}0"))});
        let pairs = ask_etcd("range", &range)["kvs"].take();
        let pairs = pairs.as_array().unwrap().iter().map(|pair| {
            let key = String::from_utf8(STANDARD.decode(pair["key"].as_str().unwrap()).unwrap()).unwrap();
            (key.strip_prefix(&prefix).unwrap().to_owned(), pair["value"].as_str().unwrap().to_owned())
        });
        pairs.filter(|(key, _)| !RENEWED.iter().any(|renewed| key.starts_with(renewed))).collect()
    }

    fn with_store(etcd: &str, name: String, flags: &[String]) -> Self {
        let (api, mut process) = Self::spawn(etcd, &name, free_port(), flags);
        eventually("a kube-apiserver that is ready", || {
            process.must_run();
            api.try_send(&User::admin(), get("/readyz")).ok().filter(|answer| answer.status == 200)
        });
        Self { api, name, _process: process }
    }

    fn spawn(etcd: &str, name: &str, port: u16, flags: &[String]) -> (Api, Process) {
        let folder = folder(name);
        let api = Api { port };
        let pki = pki();
        let path = |path: &PathBuf| path.display().to_string();
        let mut command = Command::new(binary("kube-apiserver"));
        command.args([
            format!("--etcd-servers={etcd}"),
            // All kube-apiservers share one etcd.
            format!("--etcd-prefix=/{name}"),
            format!("--secure-port={}", api.port),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--cert-dir={}", folder.display()),
            format!("--tls-cert-file={}", path(&pki.server.certificate)),
            format!("--tls-private-key-file={}", path(&pki.server.key)),
            format!("--client-ca-file={}", path(pki.ca())),
            format!("--requestheader-client-ca-file={}", path(pki.front_proxy_ca())),
            "--requestheader-allowed-names=front-proxy".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--service-account-key-file={}", path(&pki.service_accounts.certificate)),
            format!("--service-account-signing-key-file={}", path(&pki.service_accounts.key)),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
        ]);
        // A fifth of the CPU time of a start less, for a fifth more memory: 300 MiB.
        command.env("GOGC", "200");
        let process = Process::start(command.args(flags), folder.join("kube-apiserver.log"));
        (api, process)
    }

    /// Lets the group `developers` do everything but escalate.
    fn let_developers_in(&self) {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "developers"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"],
                       "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]}]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "developers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "developers"},
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "developers"}]});
        for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{resource}");
            let answer = self.send(&User::admin(), post(&path, &object));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        // The server creates this namespace too, but only after it reports that it is ready.
        let default = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        let answer = self.send(&User::admin(), post("/api/v1/namespaces", &default));
        assert!(matches!(answer.status, 201 | 409), "{}", answer.text());
        self.await_developers();
    }

    /// Waits until the authorizer, which reads from a cache, knows the developers.
    fn await_developers(&self) {
        eventually("that developers may list namespaces", || {
            (self.send(&User::developer(), get("/api/v1/namespaces")).status == 200).then_some(())
        });
    }
}

/// A kube-apiserver with an empty store, on an address that only the flags name.
pub struct Hidden {
    _process: Process,
}

impl Hidden {
    /// Starts the kube-apiserver; clients reach it through a proxy.
    pub fn start(port: u16, flags: &[String]) -> Self {
        Self { _process: ControlPlane::spawn(etcd(), &unique("hidden"), port, flags).1 }
    }
}

/// The operations of one transaction of etcd, below its bound of 128.
const PUTS: usize = 100;

/// Sends a request to the etcd of this run; returns the answer.
fn ask_etcd(what: &str, body: &Value) -> Value {
    let (body, address) = (body.to_string(), etcd().strip_prefix("http://").unwrap());
    let mut connection = eventually("an etcd that listens", || TcpStream::connect(address).ok());
    let head = format!("POST /v3/kv/{what} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n", body.len());
    connection.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.split_whitespace().nth(1) == Some("200"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The etcd of this run.
pub fn etcd() -> &'static str {
    static ETCD: OnceLock<(String, Process)> = OnceLock::new();
    let (url, _) = ETCD.get_or_init(|| {
        let folder = folder("etcd");
        let (client, peer) = (format!("http://127.0.0.1:{}", free_port()), format!("http://127.0.0.1:{}", free_port()));
        let mut command = Command::new(binary("etcd"));
        command.arg("--data-dir").arg(folder.join("data")).args([
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=error".to_owned(),
        ]);
        (client, Process::start(&mut command, folder.join("etcd.log")))
    });
    url
}
