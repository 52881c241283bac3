//! The built binary.

use super::api::Api;
use super::pki::pki;
use super::process::Process;
use super::user::User;
use super::{eventually, folder, free_port, patience};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

/// The flag with the release of the kube-apiserver of this run, which `make e2e-newer` names.
fn emulated_version(flags: &[&str]) -> Option<String> {
    let version = std::env::var("E2E_EMULATED_VERSION").ok()?;
    let is_given = flags.iter().any(|flag| flag.starts_with("--emulated-version="));
    (!is_given).then(|| format!("--emulated-version={version}"))
}

/// The binary: that of this build, or the one that `E2E_PROXY` names, for figures of an optimised build.
fn program() -> PathBuf {
    let other = std::env::var_os("E2E_PROXY").map(PathBuf::from);
    other.unwrap_or_else(|| env!("CARGO_BIN_EXE_kube-admission-proxy").into())
}

/// A running `kube-admission-proxy serve`.
pub struct Proxy {
    api: Api,
    health: u16,
    folder: PathBuf,
    process: Process,
}

impl Deref for Proxy {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Proxy {
    /// Starts a proxy in front of a real API server, as `admission-proxy`, and waits until it is ready.
    pub fn before(upstream: &Api, flags: &[&str]) -> Self {
        let kubeconfig = upstream.kubeconfig(&User::named("admission-proxy", "system:masters"));
        Self::before_kubeconfig(&kubeconfig, flags)
    }

    /// Starts a proxy in front of the API server of this kubeconfig, and waits until it is ready.
    pub fn before_kubeconfig(kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::start(&[format!("--upstream-kubeconfig={}", kubeconfig.display())], flags).ready()
    }

    /// Starts a proxy with the embedded API server, and waits until it is ready.
    pub fn embedded(flags: &[&str]) -> Self {
        Self::start(&[], flags).ready()
    }

    /// Starts a proxy with the embedded API server and these authorities of clients, and waits until it is ready.
    pub fn embedded_for(authorities: &Path, flags: &[&str]) -> Self {
        let server = &pki().server;
        Self::with_files(&[], [&server.certificate, &server.key, authorities], flags).ready()
    }

    /// Starts a proxy with the embedded API server and self-made certificates, and waits until it is ready.
    pub fn alone(flags: &[&str]) -> Self {
        Self::bare(&[], flags).ready()
    }

    /// Runs `doctor` with these flags; returns its exit code and its findings.
    pub fn examined(flags: &[&str]) -> (i32, Vec<Value>) {
        let mut command = Command::new(program());
        let output =
            command.current_dir(folder("doctor")).args(["doctor", "--output=json"]).args(flags).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{output:?}"));
        (output.status.code().unwrap(), answer["findings"].as_array().unwrap().clone())
    }

    /// Starts a proxy that must fail to start; returns its output.
    pub fn refusal(flags: &[&str]) -> String {
        let mut proxy = Self::start(&[], flags);
        assert_eq!(proxy.wait().code(), Some(1), "{}", proxy.output());
        proxy.output()
    }

    /// Starts a proxy in front of the API server of this kubeconfig, without waiting until it is ready.
    pub fn starting(kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::start(&[format!("--upstream-kubeconfig={}", kubeconfig.display())], flags)
    }

    /// Starts a proxy in front of a real API server with these files: certificate, key and the clients' authorities.
    pub fn serving(upstream: &Api, certificate: &Path, key: &Path, authorities: &Path, flags: &[&str]) -> Self {
        let kubeconfig = upstream.kubeconfig(&User::named("admission-proxy", "system:masters"));
        let upstream = format!("--upstream-kubeconfig={}", kubeconfig.display());
        Self::with_files(&[upstream], [certificate, key, authorities], flags).ready()
    }

    fn start(upstream: &[String], flags: &[&str]) -> Self {
        let pki = pki();
        Self::with_files(upstream, [&pki.server.certificate, &pki.server.key, pki.ca()], flags)
    }

    fn with_files(upstream: &[String], [certificate, key, authorities]: [&Path; 3], flags: &[&str]) -> Self {
        let files = [
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
            format!("--client-ca-file={}", authorities.display()),
        ];
        Self::bare(&[upstream, &files].concat(), flags)
    }

    fn bare(first: &[String], flags: &[&str]) -> Self {
        let folder = folder("proxy");
        let (api, health) = (Api { port: free_port() }, free_port());
        let mut command = Command::new(program());
        command.current_dir(&folder).arg("serve").args(emulated_version(flags)).args(first).args([
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", api.port),
            format!("--health-bind-address=127.0.0.1:{health}"),
        ]);
        let process = Process::start(command.args(flags), folder.join("proxy.log"));
        Self { api, health, folder, process }
    }

    /// Starts a proxy with exactly these arguments, without waiting until it is ready. They have to name the ports.
    pub fn with_arguments(port: u16, health: u16, arguments: &[String]) -> Self {
        let folder = folder("proxy");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"));
        let process = Process::start(command.current_dir(&folder).args(arguments), folder.join("proxy.log"));
        Self { api: Api { port }, health, folder, process }
    }

    /// Waits until the proxy is ready.
    pub fn ready(mut self) -> Self {
        eventually("a proxy that is ready", || {
            self.process.must_run();
            self.health("/readyz").filter(|(code, _)| *code == 200)
        });
        self
    }

    /// Code and text of a path of the health address; `None` if there is no response.
    pub fn health(&self, path: &str) -> Option<(u16, String)> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.health)).ok()?;
        connection.set_read_timeout(Some(patience())).ok()?;
        write!(connection, "GET {path} HTTP/1.0\r\nHost: health\r\n\r\n").ok()?;
        let mut text = String::new();
        connection.read_to_string(&mut text).ok()?;
        let code = text.split_whitespace().nth(1)?.parse().ok()?;
        Some((code, text.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// The port of the probes and metrics.
    pub fn health_port(&self) -> u16 {
        self.health
    }

    /// The working directory of the proxy; relative paths in flags start here.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The output of the proxy.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.process.signal("TERM");
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.process.signal("HUP");
    }

    /// The resident size of the proxy, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.process.resident_bytes()
    }

    /// Waits for the end of the proxy.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }
}

/// The flags that enable these plugins of the proxy and no others.
pub fn proxy_only(on: &[&str]) -> [String; 2] {
    let known = known_plugins();
    let off: Vec<&str> = known.iter().map(String::as_str).filter(|plugin| !on.contains(plugin)).collect();
    [format!("--enable-admission-plugins={}", on.join(",")), format!("--disable-admission-plugins={}", off.join(","))]
}

/// The names in the table that the binary prints.
pub fn known_plugins() -> &'static [String] {
    static KNOWN: OnceLock<Vec<String>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"));
        let output = command.arg("plugins").args(emulated_version(&[])).current_dir(folder("plugins")).output();
        let table = String::from_utf8(output.unwrap().stdout).unwrap();
        table.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    })
}
