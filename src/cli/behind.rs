//! A real kube-apiserver behind the program under the name `kube-apiserver`: [`VARIABLE`] names the binary. The program is the admission proxy
//! in front of it, at the address of the flags.
//!
//! The kube-apiserver gets the flags of the command line, but for those of its address, its certificate, admission and audit, which are the
//! proxy's. It listens at a free port of 127.0.0.1, and accepts client certificates of an authority that exists in memory only: the proxy's
//! own.

use super::apiserver::{Given, NAME};
use crate::config::written_kubeconfig::{self, WrittenKubeconfig};
use crate::server::certificates::Authority;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use socket2::{Domain, Socket, Type};
use std::fs::{self, DirBuilder};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// The environment variable with the path of the binary.
pub(super) const VARIABLE: &str = "KUBE_ADMISSION_PROXY_APISERVER";
/// The name of the program that becomes the kube-apiserver: see [`become_server`].
pub(super) const STARTER: &str = "kube-admission-proxy-starts-kube-apiserver";
/// The user of the proxy, in the group [`GROUP`].
const USER: &str = "kube-admission-proxy";
const GROUP: &str = "system:masters";
/// The folder in `--cert-dir`.
const FOLDER: &str = "behind";
/// `ServerRunOptions.CertDirectory`
const CERT_DIR: &str = "/var/run/kubernetes";
/// The time of the kube-apiserver after SIGTERM, before SIGKILL. kube-apiserver gives its requests a minute.
const STOP_TIMEOUT: Duration = Duration::from_secs(70);

/// The plugin that stays on behind the proxy. The hook of kube-apiserver 1.36 that creates the namespaces `default` and `kube-node-lease` asks for
/// the informer of namespaces only when the informers may have been started already (`systemnamespaces.NewController`), and waits for ever if no
/// other part has asked before. The plugin has asked. What it checks, the proxy's plugin of the same name has checked before.
const LIFECYCLE: &str = "NamespaceLifecycle";

/// The flags that the kube-apiserver gets from the proxy instead of the command line.
const REPLACED: [&str; 11] = [
    "secure-port",
    "bind-address",
    "permit-address-sharing",
    "permit-port-sharing",
    "admission-control",
    "tls-cert-file",
    "tls-private-key-file",
    "client-ca-file",
    "enable-admission-plugins",
    "disable-admission-plugins",
    "endpoint-reconciler-type",
];
/// The flags that only the proxy gets; and those that begin with `audit-`.
const OF_PROXY: [&str; 4] =
    ["admission-control-config-file", "tls-sni-cert-key", "shutdown-delay-duration", "enable-aggregator-routing"];
/// The flags of `serve` that the API server behind alone gets.
const OF_SERVER: [&str; 14] = [
    "advertise-address",
    "allow-privileged",
    "api-audiences",
    "authorization-mode",
    "event-ttl",
    "service-account-max-token-expiration",
    "runtime-config",
    "service-account-issuer",
    "service-account-jwks-uri",
    "service-account-key-file",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "controllers",
    "token-auth-file",
];

/// The command line of the kube-apiserver behind the program, and its address and credentials.
pub(super) struct Behind {
    binary: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    /// The kubeconfig of the proxy.
    pub(super) kubeconfig: PathBuf,
    port: Port,
}

/// A kube-apiserver that runs.
pub(super) struct Running {
    child: tokio::process::Child,
    folder: PathBuf,
    _port: Port,
}

/// A port of 127.0.0.1 that Linux gives to no client: this socket is bound to it, but does not listen. The kube-apiserver shares the port.
struct Port {
    _socket: Socket,
    number: u16,
}

impl Port {
    fn reserve() -> std::io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_port(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?;
        let number = address.as_socket_ipv4().ok_or(std::io::ErrorKind::AddrNotAvailable)?.port();
        Ok(Self { _socket: socket, number })
    }
}

/// Whether a flag of the command line has its meaning for the proxy.
pub(super) fn is_of_proxy(name: &str) -> bool {
    !OF_SERVER.contains(&name)
}

impl Behind {
    /// Prepares a kube-apiserver with these flags; `None` without the variable.
    ///
    /// # Errors
    /// If the binary cannot be run, or the files cannot be written.
    pub(super) fn prepare(given: &Given) -> Result<Option<Self>> {
        let Some(binary) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) else {
            return Ok(None);
        };
        if fs::canonicalize(&binary).ok() == std::env::current_exe().and_then(fs::canonicalize).ok() {
            bail!("{VARIABLE}={}: is kube-admission-proxy itself; name a real kube-apiserver", binary.display());
        }
        let folder = PathBuf::from(given.value("cert-dir").unwrap_or(CERT_DIR)).join(FOLDER);
        let prepared = Self::with(given, &binary, folder);
        prepared.with_context(|| format!("{VARIABLE}={}", binary.display())).map(Some)
    }

    fn with(given: &Given, binary: &Path, folder: PathBuf) -> Result<Self> {
        let mut plugins = plugins_of(binary)?;
        plugins.retain(|plugin| plugin != LIFECYCLE || is_off(given, plugin));
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).context("the folder of its certificates")?;
        let authority = Authority::generate(USER)?;
        let serving = authority.serving(&["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        let client = authority.client(USER, GROUP)?;
        let clients = match given.value("client-ca-file") {
            Some(path) => fs::read_to_string(path).with_context(|| format!("--client-ca-file={path}"))?,
            None => String::new(),
        };
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            written_kubeconfig::write(&path, text).map(|()| path).context("the files of its certificates")
        };
        let certificate = file("apiserver.crt", &serving.certificate_pem)?;
        let key = file("apiserver.key", &serving.key_pem)?;
        let authorities = file("client-ca.crt", &format!("{}\n{clients}", authority.pem()))?;
        let port = Port::reserve().context("a port of 127.0.0.1")?;
        let kubeconfig = WrittenKubeconfig {
            server: &format!("https://127.0.0.1:{}", port.number),
            certificate_authority: &authority.pem(),
            client_certificate: &client.certificate_pem,
            client_key: &client.key_pem,
        };
        let kubeconfig = file("kubeconfig", &kubeconfig.text())?;
        let own = [
            format!("--secure-port={}", port.number),
            "--bind-address=127.0.0.1".to_owned(),
            "--permit-port-sharing=true".to_owned(),
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
            format!("--client-ca-file={}", authorities.display()),
            format!("--disable-admission-plugins={}", plugins.join(",")),
            // Clients must not be sent to the address behind the proxy.
            "--endpoint-reconciler-type=none".to_owned(),
        ];
        let arguments = given.all.iter().filter(|(name, _)| is_passed_on(name)).map(|(name, value)| match value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        });
        let arguments = arguments.chain(own).collect();
        Ok(Self { binary: binary.to_owned(), arguments, folder, kubeconfig, port })
    }

    /// Starts the kube-apiserver, which ends with the thread of the caller.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub(super) fn start(self) -> Result<Running> {
        let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
        command.arg0(STARTER).arg(std::process::id().to_string()).arg(&self.binary).args(&self.arguments);
        command.env_remove(VARIABLE);
        let child = tokio::process::Command::from(command).spawn().context("the kube-apiserver behind")?;
        Ok(Running { child, folder: self.folder, _port: self.port })
    }
}

fn is_passed_on(name: &str) -> bool {
    !REPLACED.contains(&name) && !OF_PROXY.contains(&name) && !name.starts_with("audit-")
}

/// Whether the command line disables a plugin that is on by default.
fn is_off(given: &Given, plugin: &str) -> bool {
    let named_by = |flag: &str| {
        let values = given.all.iter().filter(|(name, _)| *name == flag).filter_map(|(_, value)| value.as_deref());
        let lists: Vec<&str> = values.collect();
        let is_named = lists.iter().any(|list| list.split(',').any(|name| name == plugin));
        (!lists.is_empty()).then_some(is_named)
    };
    named_by("disable-admission-plugins") == Some(true) || named_by("admission-control") == Some(false)
}

/// The admission plugins that the help of a kube-apiserver names. Another release has others, and refuses names that it does not know.
fn plugins_of(binary: &Path) -> Result<Vec<String>> {
    let output = Command::new(binary).arg("--help").env_remove(VARIABLE).output().context("cannot be run")?;
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let plugins = plugins_in(&help);
    if plugins.is_empty() {
        bail!("is no kube-apiserver: its help names no admission plugins");
    }
    Ok(plugins)
}

fn plugins_in(help: &str) -> Vec<String> {
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let list = words.split_once("--disable-admission-plugins").and_then(|(_, rest)| {
        let (_, list) = rest.split_once("Comma-delimited list of admission plugins: ")?;
        Some(list.split_once('.')?.0.to_owned())
    });
    list.map(|list| list.split(',').map(|name| name.trim().to_owned()).collect()).unwrap_or_default()
}

/// Becomes the kube-apiserver, in the process that [`Behind::start`] made: asks the kernel to end it with its parent before it starts, since
/// only a process itself can ask that. The arguments are the parent's process ID, the binary, and the arguments of the binary.
pub(super) fn become_server(arguments: &[String]) -> anyhow::Error {
    let [parent, binary, arguments @ ..] = arguments else {
        return anyhow::anyhow!("{STARTER} is started by kube-admission-proxy");
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return anyhow::Error::from(error).context("the kube-apiserver cannot be bound to its parent");
    }
    // The parent may have ended before.
    if getppid().map(|parent| parent.as_raw_nonzero().get().to_string()).as_deref() != Some(parent) {
        return anyhow::anyhow!("the parent has ended");
    }
    let error = Command::new(binary).arg0(NAME).args(arguments).exec();
    anyhow::Error::from(error).context(binary.clone())
}

impl Running {
    /// Waits until the kube-apiserver ends. Returns its exit code.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub(super) async fn ended(&mut self) -> Result<u8> {
        Ok(exit_code(self.child.wait().await?))
    }

    /// Ends the kube-apiserver as SIGTERM does, and waits for its end. Returns its exit code.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub(super) async fn stop(&mut self) -> Result<u8> {
        let process = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(process) = process {
            let _ = kill_process(process, Signal::TERM);
        }
        let ended = tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await;
        if ended.is_err() {
            tracing::warn!("the kube-apiserver behind does not end, and is killed");
            self.child.kill().await?;
        }
        self.ended().await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The exit code, as a shell has it: 128 and the signal for a process that a signal has ended.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::apiserver::{Asked, sort};
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn given(arguments: &[&str]) -> Given {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        match sort(&arguments) {
            Ok(Asked::Serve(given)) => given,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_server_behind_has_the_flags_but_for_those_of_the_proxy() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("apiserver");
        let help = "      --disable-admission-plugins strings   plugins\n that (A). Comma-delimited list of admission plugins: A, B,\n \
            NamespaceLifecycle, C. The order";
        fs::write(&binary, format!("#!/bin/sh\ncat <<'E'\n{help}\nE\n")).unwrap();
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        let given = given(&[
            "--etcd-servers=http://127.0.0.1:1",
            "--secure-port=1",
            "--bind-address",
            "0.0.0.0",
            "--allow-privileged",
            "--enable-admission-plugins=X",
            "--audit-log-path=-",
            "--feature-gates=A=true",
            "--feature-gates=B=true",
        ]);
        let behind = Behind::with(&given, &binary, folder.path().join("behind")).unwrap();
        let passed_on = [
            "--etcd-servers=http://127.0.0.1:1",
            "--allow-privileged",
            "--feature-gates=A=true",
            "--feature-gates=B=true",
        ];
        assert_eq!(behind.arguments[..4], passed_on);
        let own = behind.arguments[4..].join(" ");
        assert!(own.contains("--disable-admission-plugins=A,B,C") && own.contains("--bind-address=127.0.0.1"), "{own}");
        assert_eq!(fs::metadata(folder.path().join("behind/kubeconfig")).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&binary, "#!/bin/sh\n").unwrap();
        assert!(Behind::with(&given, &binary, folder.path().join("behind")).is_err());
    }

    #[test]
    fn a_plugin_is_off_where_the_command_line_has_it_off() {
        for (flags, is_off) in [
            (&[][..], false),
            (&["--disable-admission-plugins=A,B"], true),
            (&["--disable-admission-plugins=B", "--disable-admission-plugins=A"], true),
            (&["--disable-admission-plugins=B", "--enable-admission-plugins=A"], false),
            (&["--admission-control=A,B"], false),
            (&["--admission-control=B"], true),
        ] {
            assert_eq!(super::is_off(&given(flags), "A"), is_off, "{flags:?}");
        }
    }

    #[test]
    fn no_client_gets_a_reserved_port_and_a_server_can_share_it() {
        let port = Port::reserve().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number));
        assert!(std::net::TcpListener::bind(address).is_err());
        let server = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        server.set_reuse_port(true).unwrap();
        server.bind(&address.into()).unwrap();
        server.listen(1).unwrap();
        std::net::TcpStream::connect(address).unwrap();
    }

    #[test]
    fn the_exit_code_is_that_of_a_shell() {
        let codes = [0, 3 << 8, 15].map(|raw| exit_code(ExitStatus::from_raw(raw)));
        assert_eq!(codes, [0, 3, 143]);
    }
}
