//! A kube-apiserver that asks the webhook front end, with the configurations that `print webhooks` prints.

use super::api::Api;
use super::client::post;
use super::control_plane::{ControlPlane, only};
use super::pki::pki;
use super::proxy::{Proxy, proxy_only};
use super::user::User;
use super::{Request, eventually, folder, free_port};
use kubernetes_object::decode;
use serde_json::{Value, json};
use std::fs;
use std::ops::Deref;
use std::process::Command;

/// The plugins of the API server.
const WEBHOOKS: [&str; 2] = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
/// The name in the API server's client certificate for webhooks.
pub const CALLER: &str = "kube-apiserver";

/// A kube-apiserver with webhooks, and the front end.
pub struct Reviewed {
    api: ControlPlane,
    front_end: Proxy,
    /// The port of the front end.
    pub port: u16,
}

impl Deref for Reviewed {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Reviewed {
    /// Starts both with these plugins in the front end, and no others. The front end has the `flags`, the API server has `of_server`. The
    /// requests in `before` create objects without admission.
    pub fn start(plugins: &[&str], flags: &[String], of_server: &[String], before: &[Request]) -> Self {
        Self::with(plugins, flags, of_server, before, &["--exclude-namespaces=", "--exclude-resources="])
    }

    /// As [`Self::start`], with these flags of `print webhooks`.
    pub fn with(
        plugins: &[&str],
        flags: &[String],
        of_server: &[String],
        before: &[Request],
        printed: &[&str],
    ) -> Self {
        let port = free_port();
        let servers = [&only(&WEBHOOKS)[..], &[credentials(port)], of_server].concat();
        let api = if before.is_empty() {
            ControlPlane::start("reviewed", &servers)
        } else {
            let bare = ControlPlane::start("reviewed", &[&only(&[])[..], of_server].concat());
            bare.set_up(before);
            bare.restarted(&servers)
        };
        let named = proxy_only(plugins);
        let own = [
            format!("--webhook-bind-address=127.0.0.1:{port}"),
            "--webhook-only".to_owned(),
            format!("--webhook-client-ca-file={}", pki().ca().display()),
            format!("--webhook-allowed-names={CALLER}"),
        ];
        let all: Vec<&str> = named.iter().chain(&own).chain(flags).map(String::as_str).collect();
        let front_end = Proxy::before(&api, &all);
        let reviewed = Self { api, front_end, port };
        let printed: Vec<&str> = named.iter().map(String::as_str).chain(printed.iter().copied()).collect();
        reviewed.configure(&reviewed.configurations(&printed));
        reviewed
    }

    /// The process of the front end.
    pub fn front_end(&self) -> &Proxy {
        &self.front_end
    }

    /// The webhook configurations that the program prints.
    fn configurations(&self, flags: &[&str]) -> Vec<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"));
        command.args(["print", "webhooks", "--proxy-user=admission-proxy"]).args(flags);
        command.arg(format!("--url=https://127.0.0.1:{}", self.port));
        command.arg(format!("--ca-bundle-file={}", pki().ca().display()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.split("---\n").map(|text| decode::yaml(text.as_bytes()).unwrap().value).collect()
    }

    /// Creates the configurations, and waits until the API server uses them.
    fn configure(&self, configurations: &[Value]) {
        let paths = configurations.iter().map(|configuration| {
            let mut configuration = configuration.clone();
            let hook = &mut configuration["webhooks"][0];
            // A review of a ConfigMap shows that the API server knows the configuration.
            let probe = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"],
                "scope": "*"});
            hook["rules"].as_array_mut().unwrap().push(probe);
            let path = if configuration["kind"] == "MutatingWebhookConfiguration" { "mutat" } else { "validat" };
            let resource = format!("/apis/admissionregistration.k8s.io/v1/{path}ingwebhookconfigurations");
            let answer = self.api.send(&User::admin(), post(&resource, &configuration));
            assert_eq!(answer.status, 201, "{}", answer.text());
            format!("path=\"/{path}e\"")
        });
        let paths: Vec<String> = paths.collect();
        let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "probe-"}});
        eventually("reviews", || {
            self.api.send(&User::admin(), post("/api/v1/namespaces/default/configmaps?dryRun=All", &probe));
            let metrics = self.front_end.health("/metrics")?.1;
            // A refusal of the mutating webhook keeps the request from the validating one.
            let is_known = |path: &String| metrics.contains(path.as_str()) || metrics.contains("allowed=\"false\"");
            paths.iter().all(is_known).then_some(())
        });
    }
}

/// The flag with which the API server presents a client certificate to the front end on this port.
fn credentials(port: u16) -> String {
    let folder = folder("reviewed");
    let pair = pki().client(CALLER, "");
    let user = json!({"client-certificate": pair.certificate, "client-key": pair.key});
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config",
        "users": [{"name": format!("127.0.0.1:{port}"), "user": user}]});
    let path = folder.join("kubeconfig");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    let plugins = WEBHOOKS.map(|name| {
        json!({"name": name, "configuration": {"apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": path}})
    });
    let configuration =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins});
    let path = folder.join("admission.json");
    fs::write(&path, configuration.to_string()).unwrap();
    format!("--admission-control-config-file={}", path.display())
}

/// The side of a comparison that has the program's plugins: the proxy, or, with `E2E_FRONT_END`, a kube-apiserver that asks the front end.
pub enum Side {
    Proxy(Proxy),
    Reviewed(Box<Reviewed>),
}

impl Deref for Side {
    type Target = Api;

    fn deref(&self) -> &Api {
        match self {
            Self::Proxy(proxy) => proxy,
            Self::Reviewed(reviewed) => reviewed,
        }
    }
}

impl Side {
    /// Whether the tests compare with the front end.
    pub fn is_front_end() -> bool {
        std::env::var_os("E2E_FRONT_END").is_some()
    }

    /// The process with the plugins.
    pub fn process(&self) -> &Proxy {
        match self {
            Self::Proxy(proxy) => proxy,
            Self::Reviewed(reviewed) => reviewed.front_end(),
        }
    }
}
