//! A server of the Kubernetes API.

use super::client::{self, Answer, Kept, Request, Stream};
use super::kubectl::Kubectl;
use super::pki::pki;
use super::user::User;
use super::{folder, unique};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A server of the Kubernetes API on this machine.
#[derive(Clone, Debug)]
pub struct Api {
    /// The port.
    pub port: u16,
}

impl Api {
    /// `https://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Sends a request.
    ///
    /// # Panics
    /// If there is no response.
    pub fn send(&self, user: &User, request: Request) -> Answer {
        let what = format!("{} {}", request.method, request.path);
        self.try_send(user, request).unwrap_or_else(|error| panic!("{what}: no answer: {error}"))
    }

    /// A client that keeps its connections.
    pub fn kept(&self) -> Kept {
        Kept::to(self.port)
    }

    /// Sends a request that may get no response.
    pub fn try_send(&self, user: &User, request: Request) -> Result<Answer, client::Error> {
        super::block_on(client::send(self.port, user, request))
    }

    /// Sends requests as admin and checks that they succeed.
    ///
    /// # Panics
    /// If one of them does not succeed.
    pub fn set_up(&self, requests: &[Request]) {
        let client = self.kept();
        for request in requests {
            let answer = client.send(&User::admin(), request.clone());
            assert!(answer.status < 300, "setup: {} {}: {}", request.method, request.path, answer.text());
        }
    }

    /// Sends requests one after another on one HTTP/2 connection with this TLS server name.
    pub fn send_together(&self, user: &User, server_name: Option<String>, requests: Vec<Request>) -> Vec<Answer> {
        super::block_on(client::send_together(self.port, user, server_name, requests)).unwrap()
    }

    /// The server's certificate.
    pub fn certificate(&self) -> Vec<u8> {
        let connection = super::block_on(client::connect(self.port, &User::Anonymous, b"http/1.1")).unwrap();
        let certificates = connection.get_ref().1.peer_certificates();
        certificates.and_then(<[_]>::first).map(|certificate| certificate.to_vec()).unwrap_or_default()
    }

    /// Starts a request whose response is a stream.
    pub fn stream(&self, user: &User, request: Request) -> Stream {
        super::block_on(client::stream(self.port, user, request)).unwrap()
    }

    /// Sends a request as the developer, checks that it succeeds, and returns the object.
    pub fn accepts(&self, request: Request) -> Value {
        let what = format!("{} {}", request.method, request.path);
        let answer = self.send(&User::developer(), request);
        assert!(answer.status < 300, "{what}: {} {}", answer.status, answer.text());
        answer.json()
    }

    /// Sends a request as the developer, and checks that it fails with this code and this message.
    pub fn rejects(&self, request: Request, code: u16, message: &str) -> Value {
        let what = format!("{} {}", request.method, request.path);
        let answer = self.send(&User::developer(), request);
        assert_eq!(answer.status, code, "{what}: {}", answer.text());
        let status = answer.json();
        assert_eq!(status["message"], message, "{what}");
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)), "{what}: {status}");
        status
    }

    /// Creates a namespace with a unique name.
    pub fn namespace(&self, prefix: &str) -> String {
        let name = unique(prefix);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let answer = self.send(&User::admin(), client::post("/api/v1/namespaces", &object));
        assert_eq!(answer.status, 201, "{}", answer.text());
        name
    }

    /// A kubeconfig for this user.
    pub fn kubeconfig(&self, user: &User) -> PathBuf {
        self.kubeconfig_at(user, "", None)
    }

    /// A kubeconfig for this user, with a path after the server's address, and a TLS server name.
    pub fn kubeconfig_at(&self, user: &User, path: &str, server_name: Option<&str>) -> PathBuf {
        let credentials = match user {
            User::Certificate(pair) => json!({"client-certificate": pair.certificate, "client-key": pair.key}),
            User::Token(token) => json!({ "token": token }),
            User::Anonymous => json!({}),
        };
        let mut cluster = json!({"server": format!("{}{path}", self.url()), "certificate-authority": pki().ca()});
        if let Some(name) = server_name {
            cluster["tls-server-name"] = json!(name);
        }
        let path = folder("kubeconfig").join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "e2e", "user": credentials}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        });
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// kubectl as this user.
    pub fn kubectl(&self, user: &User) -> Kubectl {
        Kubectl::new(self.kubeconfig(user))
    }

    /// The `kube` crate's client as this user.
    pub fn kube(&self, user: &User) -> kube::Client {
        kube_client(&self.kubeconfig(user))
    }
}

/// The `kube` crate's client of a kubeconfig, on the runtime of all clients.
pub fn kube_client(kubeconfig: &Path) -> kube::Client {
    super::block_on(kube_client_here(kubeconfig))
}

/// The `kube` crate's client of a kubeconfig, on the runtime of the caller.
pub async fn kube_client_here(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}
